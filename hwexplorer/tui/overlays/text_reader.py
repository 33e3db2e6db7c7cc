"""An overlay with text to be read and searched: terms and keys, a device sheet, the text of a report."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from textual.binding import Binding, BindingType

from hwexplorer.text import terms
from hwexplorer.tui.keys import key_table
from hwexplorer.tui.keys.keymap import Keymap
from hwexplorer.tui.overlays.overlay_screen import CLOSE, Host, OverlayScreen
from hwexplorer.tui.prompts.prompt import Prompt
from hwexplorer.tui.widgets.framed_pane import Content
from hwexplorer.tui.widgets.prose import Prose
from hwexplorer.tui.widgets.table_columns import TableHeads
from hwexplorer.views.plain import Text


class TextReader(OverlayScreen):
    """A text under its own keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        CLOSE,
        Binding("slash", "search", "searches"),
        Binding("question_mark,f1,i", "close", ""),  # as it was opened
        Binding("colon", "command", "command"),
    ]

    def __init__(self, host: Host, name: str, heading: str, text: Text) -> None:
        self.content = Prose()
        super().__init__(host, name, self.content)
        self.pane.heading = heading
        self._all = text  # of which some lines may be searched for
        self.lines = 0  # that were found
        self.search("")

    def search(self, text: str) -> None:
        """Show only the lines with these words, under their headings."""
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
        """Open a line that searches the text."""
        self.host.ask(SearchPrompt(self))

    def action_command(self) -> None:
        """Close this and open the `:` line."""
        self.close()
        self.session.request("command")


class SearchPrompt(Prompt):
    """Words of the text."""

    label = "search"

    def __init__(self, reader: TextReader) -> None:
        super().__init__(reader.session)
        self._reader = reader

    def note(self) -> str:
        """Return how many lines hold the words."""
        count = self._reader.lines
        return f"{count} line{'s' * (count != 1)} · enter keeps them, esc shows all"

    def follow(self, text: str) -> None:
        """Narrow what is shown to the text."""
        self._reader.search(text)


def help_text(pane: str, keymap: Keymap, content: Content) -> Text:
    """Return the keys and the columns of the pane in focus, then all keys, then all terms."""
    columns = content.table.columns if isinstance(content, TableHeads) else ()
    meanings = tuple(
        f"{column.title}\t{terms.column_meaning(column)}" for column in columns if terms.column_meaning(column)
    )
    first, *others = ((name, key_table.help_lines(group, pane)) for name, group in keymap.groups(pane))
    own = [(f"Columns of {pane}", meanings)] if meanings else []
    return Text("help", f"help {pane}", (first, *others, *own, *terms.sections()))
