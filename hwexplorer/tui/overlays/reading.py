"""Prose to be read and searched: terms and keys, a device sheet, the text of a report."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual.binding import Binding, BindingType

from hwexplorer import terms
from hwexplorer.tui import actions
from hwexplorer.tui.overlays.overlay import CLOSE, Overlay
from hwexplorer.tui.prompts import Prompt
from hwexplorer.tui.session import Session
from hwexplorer.tui.widgets.heads import Headed
from hwexplorer.tui.widgets.pane import Content
from hwexplorer.tui.widgets.prose import Prose
from hwexplorer.views.plain import Text


class Reading(Overlay):
    BINDINGS: ClassVar[list[BindingType]] = [
        CLOSE,
        Binding("slash", "search", "searches"),
        Binding("question_mark,f1,i", "close", ""),  # as it was opened
        Binding("colon", "command", "command"),
    ]

    def __init__(self, session: Session, name: str, heading: str, text: Text) -> None:
        self.content = Prose()
        super().__init__(session, name, self.content)
        self.pane.heading = heading
        self._all = text  # of which some lines may be searched for
        self.lines = 0  # that were found
        self.search("")

    def search(self, text: str) -> None:
        """Only the lines with these words, under their headings."""
        words = text.casefold().split()
        sections = (
            (head, tuple(s for s in said if all(w in s.casefold() for w in words))) for head, said in self._all.sections
        )
        kept = tuple((head, said) for head, said in sections if said) if words else self._all.sections
        self.lines = sum(len(said) for _, said in kept)
        kept = kept or ((f"Nothing here says {' '.join(words)!r}", ("ctrl+p finds models, devices, verbs, terms",)),)
        self.content.update(msgspec.structs.replace(self._all, sections=kept))
        self.pane.redraw()

    def action_search(self) -> None:
        self.session.stage.ask(Search(self))

    def action_command(self) -> None:
        self.close()
        self.session.stage.perform("command")


class Search(Prompt):
    """Words of what is read."""

    label = "search"

    def __init__(self, reading: Reading) -> None:
        super().__init__(reading.session)
        self._reading = reading

    def note(self) -> str:
        count = self._reading.lines
        return f"{count} line{'s' * (count != 1)} · enter keeps them, esc shows all"

    def follow(self, text: str) -> None:
        self._reading.search(text)


def of_help(session: Session, content: Content) -> Text:
    """What is in the focused pane, then all terms, then all keys."""
    pane = session.state.pane
    columns = content.table.columns if isinstance(content, Headed) else ()
    here = tuple(f"{column.title}\t{terms.help_of(column)}" for column in columns if terms.help_of(column))
    sections = [(f"Columns of {pane}", here)] if here else []
    keys = [(name, actions.help_lines(group, pane)) for name, group in session.keymap.groups(pane)]
    return Text("help", f"help {pane}", (*sections, *terms.sections(), *keys))
