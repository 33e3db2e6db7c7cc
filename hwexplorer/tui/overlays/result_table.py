"""An overlay with the rows of a report. The user applies or pins one."""

from collections.abc import Callable
from functools import partialmethod
from typing import ClassVar

from textual.binding import Binding, BindingType

from hardware.base.errors import RequestError
from hwexplorer.export.sheet import Sheet
from hwexplorer.state import State, pin_string, replace
from hwexplorer.tui.overlays.overlay_screen import CLOSE, EXPORT, Host, OverlayScreen
from hwexplorer.tui.prompts.prompt_kinds import FindPrompt
from hwexplorer.tui.session import state_changes
from hwexplorer.tui.session.session_events import SheetOpened
from hwexplorer.tui.widgets.framed_pane import FramedPane
from hwexplorer.tui.widgets.status_lines import settings_text
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views.plain import Row, Table
from hwexplorer.views.tables import sort_by_column


class ResultTable(OverlayScreen):
    """Shows rows with a cursor. Applying or pinning a row is a step of the state that undo takes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        CLOSE,
        Binding("enter", "apply", "applies"),
        Binding("space", "pin", "pins"),
        Binding("left", "column_before", "column", key_display="← →"),
        Binding("right", "column_after", ""),
        Binding("s", "sort", "sorts"),
        Binding("slash", "find", "finds"),
        Binding("n", "find_next", ""),
        Binding("t", "text", "all of it as text"),
        EXPORT,
    ]

    def __init__(
        self, host: Host, name: str, sheet: Sheet, table: Table, state_of: Callable[[str], State],
        words: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.content, self.words = TreeTable(tree=False), words
        super().__init__(host, "results", self.content)
        self._sheet, self._table, self._state_of = sheet, table, state_of
        self._heading, self._clicked = name, ""
        self.content.column = 0
        self.pane.heading = " · ".join(dict.fromkeys((name.title(), sheet.title)))
        self.content.update(table)
        self.content.go(next((row.key for row in table.rows if row.leads), ""))

    def on_resize(self) -> None:
        """Draw for the new size, and name the columns that it leaves out."""
        super().on_resize()
        self.call_after_refresh(self._say_hidden)

    def _say_hidden(self) -> None:
        if hidden := self.content.hidden_columns():
            self.session.say(f"a wider screen also shows: {', '.join(hidden)}", "dim")

    def action_find(self) -> None:
        """Open a line that finds rows."""
        self.host.ask(FindPrompt(self.session, self))

    def do_find(self, step: int) -> None:
        """Go to the next match of the words that are searched for; with step 0 the row under the cursor counts."""
        if self.content.find and (
            key := state_changes.next_match(self._table, self.content.find, self.content.key, step)
        ):
            self.content.go(key)
        self.pane.redraw()

    action_find_next = partialmethod(do_find, 1)

    def _to_column(self, by: int) -> None:
        self.content.move_column(by)
        self.pane.redraw()
        self.session.say(self.content.column_help(), "text")

    action_column_before, action_column_after = partialmethod(_to_column, -1), partialmethod(_to_column, 1)

    def action_text(self) -> None:
        """Show the report as text."""
        self.close()
        self.session.emit(SheetOpened(self._heading, Sheet(self._sheet.title, self._sheet.text), words=self.words))

    def action_sort(self) -> None:
        """Sort by the column under the cursor, ascending; if it is sorted so, descending."""
        ordered = sort_by_column(self._table, self.content.column)
        if ordered.rows == self._table.rows:
            ordered = sort_by_column(self._table, self.content.column, is_falling=True)
        self._table = ordered
        self.content.update(ordered)
        self._to_column(0)

    def click(self, at: FramedPane.Clicked) -> None:
        """Choose a row, apply it by another click, or sort by the column whose head was clicked."""
        if (column := self.content.head_at(at.x, at.y)) is not None:
            self.content.column = [each.key for each in self.content.table.columns].index(column)
            self.action_sort()
        elif (key := self.content.key_at(at.y)) is not None:
            self.content.go(key, still=True)
            self.pane.redraw()
            if key == self._clicked:
                self.action_apply()
            else:
                self.session.say("enter or another click applies this row", "text")
            self._clicked = key

    def _target(self) -> tuple[Row, State] | None:
        """Return the row of the cursor and the state it leads to. If it leads nowhere, say so and return None."""
        row = self.content.row
        try:
            if row is not None and row.leads:
                return row, self._state_of(row.leads)
            self.session.say("this row is already on screen", "warn")
        except RequestError as error:
            self.session.say(str(error), "bad")
        return None

    def action_apply(self) -> None:
        """Go to the state that the row leads to."""
        session = self.session
        if (chosen := self._target()) is None:
            return
        if chosen[1] == session.state:
            session.say("this row is already on screen", "warn")
            return
        self.close()
        if session.apply(chosen[1]):
            session.say(f"applied {chosen[0].cells[0]}: {chosen[1].on} {settings_text(chosen[1])}; u undoes", "good")

    def action_pin(self) -> None:
        """Pin the state that the row leads to."""
        if (chosen := self._target()) is None:
            return
        pin = pin_string(chosen[1])
        if self.session.apply(replace(self.session.state, pin=pin, diff=True)) or self.session.state.pin == pin:
            self.session.say(f"pinned {pin}: deltas are against it", "good")
