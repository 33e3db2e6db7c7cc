"""What lies over the panes: text to be read, and the devices to choose from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from hardware.errors import RequestError
from hwexplorer import terms
from hwexplorer.state import replace
from hwexplorer.tui import actions, query
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.widgets.heads import Headed
from hwexplorer.tui.widgets.pane import FAR, Content, Pane
from hwexplorer.tui.widgets.prose import EMPTY, Prose
from hwexplorer.tui.widgets.table import TreeTable
from hwexplorer.views.plain import Section, Text

if TYPE_CHECKING:
    from hwexplorer.tui.session import Session


LIMITS = ("L<5ms", "E<1J", "P<30W", "M<8GB")  # what may be asked of a device, as one would write it


class Overlay(Pane):
    """Covers the panes until it is left."""

    def __init__(self, session: Session, name: str, content: Content, palette: Palette) -> None:
        super().__init__(name, 0, content, palette)
        self.session = session


class Reading(Overlay):
    """Prose: terms and keys, a device sheet, the text of a report."""

    content: Prose

    def __init__(self, session: Session, palette: Palette) -> None:
        super().__init__(session, "help", Prose(), palette)
        self._all = EMPTY  # of which some may be searched for
        self._turns: Sequence[Sequence[Section]] = ()  # what is still to be shown, a part at a time

    def open(self, heading: str, text: Text, turns: Sequence[Sequence[Section]] = ()) -> None:
        self._all, self._turns = text, turns
        self.heading = heading
        self._go_on()
        self.content.top = 0

    def _go_on(self) -> None:
        """Show the next part, if any; what was guessed is answered by it."""
        shown = (*self._all.sections, *(section for turn in self._turns[:1] for section in turn))
        self._turns = self._turns[1:]
        self._all = msgspec.structs.replace(self._all, sections=shown)
        self.remark = "space goes on · " * bool(self._turns) + "/ searches · esc closes"
        self.search("")
        self.content.move(FAR)
        self.redraw()

    def click(self, at: Pane.Clicked) -> None:
        if self._turns:
            self._go_on()

    def open_help(self, content: Content) -> None:
        """What is in the focused pane, then all terms, then all keys."""
        pane = self.session.state.pane
        columns = content.table.columns if isinstance(content, Headed) else ()
        here = tuple(f"{column.title}\t{terms.help_of(column)}" for column in columns if terms.help_of(column))
        sections = [(f"Columns of {pane}", here)] if here else []
        keys = [(name, actions.help_lines(group, pane)) for name, group in self.session.keymap.groups(pane)]
        self.open("Terms and keys", Text("help", f"help {pane}", (*sections, *terms.sections(), *keys)))

    def search(self, text: str) -> None:
        """Only the lines with these words, under their headings."""
        words = text.casefold().split()
        sections = (
            (head, tuple(s for s in said if all(w in s.casefold() for w in words))) for head, said in self._all.sections
        )
        kept = tuple((head, said) for head, said in sections if said) if words else self._all.sections
        self.content.update(msgspec.structs.replace(self._all, sections=kept))

    @property
    def lines(self) -> int:
        return sum(len(said) for _, said in self.content.text.sections)

    def press(self, key: str, character: str | None) -> bool:
        action = self.session.keymap.of(key, character, self.session.state.pane)
        id = action.id if action is not None else ""
        if key == "space" and self._turns:
            self._go_on()
        elif self.step(id):
            return True
        elif key == "escape" or id in ("help", "back", "quit", "sheet"):
            self.session.stage.cover("")
        elif id in ("find", "filter"):
            self.session.stage.do_prompt("search")
        elif id == "command":
            self.session.stage.cover("")
            self.session.stage.perform("command")
        else:
            return False
        return True


class Picker(Overlay):
    """The catalogue; typing narrows it, space adds a device or takes it away."""

    content: TreeTable

    def __init__(self, session: Session, palette: Palette) -> None:
        super().__init__(session, "picker", TreeTable(tree=False), palette)
        self._typed = ""
        self._is_picked = False  # a device with space, since it was opened

    def open(self, typed: str) -> None:
        self._is_picked = False
        self.fill(typed)
        self.content.go(self.session.state.on)

    def fill(self, typed: str) -> None:
        """The devices with these words; limits among them grey the rest out."""
        session, self._typed = self.session, typed
        table = session.cache.view("devices", session.state)
        words = [word.casefold() for word in query.words(typed)]
        is_limited = self.has_limits
        if is_limited:
            try:
                table = session.limits.applied(session, table, typed)
            except RequestError:
                is_limited = False  # half typed; the note says what is missing
        rows = tuple(
            row
            for row in table.rows
            if all(word in " ".join([row.key, *map(str, row.cells)]).casefold() for word in words)
        )
        before = self.content.key
        self.content.update(msgspec.structs.replace(table, rows=rows))
        keys = [row.key for row in rows]
        self.content.go(next((key for key in (*words, before) if key in keys), keys[0] if keys else ""))
        self.heading = f"Devices · {len(session.state.devices)} chosen"
        self.remark = f"{len(rows)} of {len(table.rows)}"
        if is_limited and session.limits.more(session, keys):
            self.session.stage.set_timer(0.01, self._again)

    def _again(self) -> None:
        """Some more figures are known."""
        if self.session.stage.overlay == "picker":
            self.fill(self._typed)
            self.redraw()
            self.session.stage.show_lines()

    @property
    def has_limits(self) -> bool:
        return len(query.words(self._typed)) < len(self._typed.split())

    def note(self) -> str:
        told, enter = f"{len(self.content.visible)} devices", "adds it" if self.enter_adds else "done"
        if self.has_limits:
            passing = sum(not row.dim for row in self.content.table.rows)
            told, enter = f"{passing} of {len(self.content.visible)} pass", "keeps the limits"
        return f"{told} · space adds or takes away · enter {enter} · {' '.join(LIMITS)}"

    @property
    def enter_adds(self) -> bool:
        """Whoever types a device and presses enter wants it; whoever has chosen with space is done."""
        row = self.content.row
        is_wanted = bool(query.words(self._typed)) and not self._is_picked
        return is_wanted and row is not None and row.key not in self.session.state.devices

    def move(self, key: str) -> None:
        step = self.content.page() if key.startswith("page") else 1
        self.content.move(step if key.endswith("down") else -step)
        self.redraw()

    def pick(self) -> None:
        """Add the device under the cursor, or take it away."""
        state, row = self.session.state, self.content.row
        self._is_picked = True
        if row is None:
            return
        if row.key in state.devices:
            rest = tuple(name for name in state.devices if name != row.key)
            if not rest:
                self.session.say("one device has to stay", "warn")
                return
            self.session.apply(replace(state, devices=rest))
        else:
            self.session.apply(replace(state, devices=(*state.devices, row.key), on=state.on))
        place = self.content.cursor
        self.fill(self._typed)
        self.content.move(place - self.content.cursor)
        self.redraw()

    def click(self, at: Pane.Clicked) -> None:
        if (key := self.content.at(at.y)) is not None:
            self.content.go(key)
            self.pick()
