"""Results that act: a report's rows over the screen, of which one is applied or pinned."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType

from hardware.errors import RequestError
from hwexplorer.export.sheet import Sheet
from hwexplorer.state import State, pin_string, replace
from hwexplorer.tui import lines
from hwexplorer.tui.overlays.overlay import CLOSE, Overlay
from hwexplorer.tui.session import Session
from hwexplorer.tui.widgets.heads import in_order
from hwexplorer.tui.widgets.pane import Pane
from hwexplorer.tui.widgets.table import TreeTable
from hwexplorer.views.plain import Row, Table

Go = Callable[[str], State]


class Results(Overlay):
    """A table with a cursor; what is chosen is a step of the state, which undo takes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        CLOSE,
        Binding("enter", "apply", "applies"),
        Binding("space", "pin", "pins"),
        Binding("left", "column_before", "column", key_display="← →"),
        Binding("right", "column_after", ""),
        Binding("s", "sort", "sorts"),
        Binding("t", "text", "all of it as text"),
    ]

    def __init__(self, session: Session, name: str, sheet: Sheet, table: Table, go: Go) -> None:
        self.content = TreeTable(tree=False)
        super().__init__(session, "results", self.content)
        self._sheet, self._table, self._go = sheet, table, go
        self._heading = name
        self.content.column = 0
        self.pane.heading = f"{name.title()} · {sheet.title}"
        self.content.update(table)
        self.content.go(next((row.key for row in table.rows if row.leads), ""))

    # --- keys and mouse ---------------------------------------------------------------------------------------

    def action_column_before(self) -> None:
        self._to_column(-1)

    def action_column_after(self) -> None:
        self._to_column(1)

    def _to_column(self, by: int) -> None:
        self.content.move_column(by)
        self.pane.redraw()
        self.session.say(self.content.told_of_column(), "text")

    def action_text(self) -> None:
        self.close()
        self.session.stage.present(self._heading, Sheet(self._sheet.title, self._sheet.text))

    def action_sort(self) -> None:
        """By the column of the cursor, numbers from the least; again, the other way round."""
        ordered = in_order(self._table, self.content.column, True)
        if ordered.rows == self._table.rows:
            ordered = in_order(self._table, self.content.column, False)
        self._table = ordered
        self.content.update(ordered)
        self._to_column(0)

    def click(self, at: Pane.Clicked) -> None:
        """A row is chosen, by a double click applied; the head of a column sorts."""
        if (column := self.content.head_at(at.x, at.y)) is not None:
            self.content.column = [each.key for each in self.content.table.columns].index(column)
            self.action_sort()
        elif (key := self.content.at(at.y)) is not None:
            self.content.go(key, still=True)
            self.pane.redraw()
            if at.times == 2:
                self.action_apply()

    # --- what a row does --------------------------------------------------------------------------------------

    def _chosen(self) -> tuple[Row, State] | None:
        """The row of the cursor and the state it leads to; None where it leads nowhere, which is said."""
        row = self.content.row
        if row is None or not row.leads:
            self.session.say("this row is what is on screen already", "warn")
            return None
        try:
            return row, self._go(row.leads)
        except RequestError as error:
            self.session.say(str(error), "bad")
            return None

    def action_apply(self) -> None:
        session = self.session
        if (chosen := self._chosen()) is None:
            return
        if chosen[1] == session.state:
            session.say("this row is what is on screen already", "warn")
            return
        self.close()
        if session.apply(chosen[1]):
            session.say(f"applied {chosen[0].cells[0]}: {chosen[1].on} {lines.settings(chosen[1])}; u undoes", "good")

    def action_pin(self) -> None:
        if (chosen := self._chosen()) is None:
            return
        pin = pin_string(chosen[1])
        if self.session.apply(replace(self.session.state, pin=pin, diff=True)) or self.session.state.pin == pin:
            self.session.say(f"pinned {pin}: deltas are against it", "good")
