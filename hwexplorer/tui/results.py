"""Results that act: a report's rows over the screen, of which one is applied or pinned."""

from __future__ import annotations

from collections.abc import Callable

from rich.segment import Segment
from textual import events
from textual.app import ComposeResult
from textual.screen import ModalScreen

from hardware.errors import RequestError
from hwexplorer.export.sheet import Sheet
from hwexplorer.format import safe
from hwexplorer.state import State, pin_string, replace
from hwexplorer.tui import lines
from hwexplorer.tui.cell_text import shorten
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.session import Session
from hwexplorer.tui.widgets.heads import in_order
from hwexplorer.tui.widgets.pane import Line, Pane
from hwexplorer.tui.widgets.table import TreeTable
from hwexplorer.views.plain import Row, Table

# What the last line says, and the key that a click there is.
KEYS = (("enter", "applies", "enter"), ("space", "pins", "space"), ("←", "", "left"), ("→", "column", "right"),
        ("s", "sorts", "s"), ("t", "all of it as text", "t"), ("esc", "closes", "escape"))  # fmt: skip
Go = Callable[[str], State]


class Results(ModalScreen[None]):
    """A table with a cursor; what is chosen is a step of the state, which undo takes back."""

    DEFAULT_CSS = """
    Results { layout: vertical; background: $background; overflow: hidden; }
    Results Pane { height: 1fr; }
    Results Line { height: 1; }
    """

    def __init__(self, session: Session, colours: Palette, name: str, sheet: Sheet, table: Table, go: Go) -> None:
        super().__init__()
        self.session, self._colours = session, colours
        self._sheet, self._table, self._go = sheet, table, go
        self._heading = name
        self.content = TreeTable(tree=False)
        self.content.column = 0

    def compose(self) -> ComposeResult:
        pane = Pane("results", 0, self.content, self._colours)
        pane.heading, pane.active = f"{self._heading.title()} · {self._sheet.title}", True
        self.content.update(self._table)
        first = next((row.key for row in self._table.rows if row.leads), "")
        self.content.go(first)
        yield pane
        yield Line("told", self._colours)
        yield Line("keys", self._colours)

    def on_mount(self) -> None:
        segments, self._places = lines.offers(KEYS, self._colours)
        self.query_one("#keys", Line).show(segments)
        self._tell()

    def _tell(self, text: str = "", role: str = "good") -> None:
        """A line below: what was done, else what the column under the cursor is."""
        said = text or self.content.told_of_column()
        told = Segment(" " + shorten(safe(said), self.size.width - 2), self._colours.get(role if text else "dim"))
        self.query_one("#told", Line).show([told])
        self.query_one(Pane).redraw()

    # --- keys and mouse ---------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        event.stop()
        event.prevent_default()
        self._press(event.key, event.character)

    def on_line_clicked(self, message: Line.Clicked) -> None:
        message.stop()
        if message.line == "keys" and (key := lines.at(self._places, message.x)):
            self._press(key, key)

    def _press(self, key: str, character: str | None) -> None:
        action = self.session.keymap.of(key, character, "")
        id = action.id if action is not None else ""
        if key in ("escape", "q", "ctrl+c"):
            self.dismiss()
        elif key == "enter":
            self._apply()
        elif key == "space":
            self._pin()
        elif key == "t":
            self.dismiss()
            self.session.stage.present(self._heading, Sheet(self._sheet.title, self._sheet.text))
        elif key in ("left", "right"):
            self.content.move_column(1 if key == "right" else -1)
            self._tell()
        elif id == "sort":
            self._sort()
            self._tell()
        elif self.query_one(Pane).step(id):
            self._tell()

    def on_pane_clicked(self, message: Pane.Clicked) -> None:
        """A row is chosen, by a double click applied; the head of a column sorts."""
        message.stop()
        if (column := self.content.head_at(message.x, message.y)) is not None:
            self.content.column = [each.key for each in self.content.table.columns].index(column)
            self._sort()
        elif (key := self.content.at(message.y)) is not None:
            self.content.go(key, still=True)
            if message.times == 2:
                self._apply()
                return
        self._tell()

    def on_pane_wheeled(self, message: Pane.Wheeled) -> None:
        self.query_one(Pane).scroll_content(message.by)

    def _sort(self) -> None:
        """By the column of the cursor, numbers from the least; again, the other way round."""
        ordered = in_order(self._table, self.content.column, True)
        if ordered.rows == self._table.rows:
            ordered = in_order(self._table, self.content.column, False)
        self._table = ordered
        self.content.update(ordered)

    # --- what a row does --------------------------------------------------------------------------------------

    def _chosen(self) -> tuple[Row, State] | None:
        """The row of the cursor and the state it leads to; None where it leads nowhere, which is said."""
        row = self.content.row
        if row is None or not row.leads:
            self._tell("this row is what is on screen already", "warn")
            return None
        try:
            return row, self._go(row.leads)
        except RequestError as error:
            self._tell(str(error), "bad")
            return None

    def _apply(self) -> None:
        session = self.session
        if (chosen := self._chosen()) is None:
            return
        if chosen[1] == session.state:
            self._tell("this row is what is on screen already", "warn")
            return
        self.dismiss()
        if session.apply(chosen[1]):
            session.say(f"applied {chosen[0].cells[0]}: {chosen[1].on} {lines.settings(chosen[1])}; u undoes", "good")

    def _pin(self) -> None:
        if (chosen := self._chosen()) is None:
            return
        pin = pin_string(chosen[1])
        if self.session.apply(replace(self.session.state, pin=pin, diff=True)) or self.session.state.pin == pin:
            self._tell(f"pinned {pin}: deltas are against it")
