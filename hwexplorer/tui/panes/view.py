"""A pane that shows a view of the session: what the keys and the mouse do in it unless it knows better."""

from __future__ import annotations

from typing import Any, ClassVar

from hwexplorer.state import PANES, State, replace
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.session import Session
from hwexplorer.tui.views import Views
from hwexplorer.tui.widgets.heads import Headed
from hwexplorer.tui.widgets.pane import Content, Pane
from hwexplorer.tui.widgets.table import TreeTable

# Columns that are sorted by another name than their own.
_ORDERS = {"device": "name", "bar": "share", "energy_per_inference": "energy"}


class ViewPane(Pane):
    """A method `do_NAME` is what the action of that effect (hwexplorer/tui/actions.py) does in it."""

    content: Any
    cursor: ClassVar[str] = ""  # the field of the state that is its cursor
    opens: ClassVar[str] = ""  # the action of a double click, where no key tells it
    orders: ClassVar[tuple[str, ...]] = ()  # what a click on a head may sort by
    order: ClassVar[tuple[str, str, bool]] = ("", "", False)  # fields of the state: by what, which way; the way first

    def __init__(self, session: Session, name: str, palette: Palette) -> None:
        super().__init__(name, PANES.index(name) + 1 if name in PANES else 0, self.made(), palette)
        self.session = session

    def made(self) -> Content:
        """What draws its view."""
        return TreeTable(tree=False)

    @property
    def state(self) -> State:
        return self.session.state

    # --- showing ------------------------------------------------------------------------------------------

    def fill(self, views: Views) -> None:
        """Take its view and its title; asked only while it is in sight."""
        raise NotImplementedError

    def entitle(self, about: str = "", remark: str = "") -> None:
        """What it shows, short, for the line above the panes has told the rest; on the right a remark."""
        self.heading = f"{self.pane.title()} · {about}" if about else self.pane.title()
        self.remark = remark

    def depends(self, views: Views) -> object:
        """What its drawing depends on, where that seldom changes; None: it is drawn anew."""
        return None

    def stamp(self, views: Views) -> object:
        on = self.depends(views)
        return None if on is None else (on, self.active, id(self.palette), self.heading, self.remark)

    def hidden(self) -> tuple[str, ...]:
        """Columns that say nothing now."""
        return () if self.state.diff and self.state.pin else ("delta",)

    # --- keys ---------------------------------------------------------------------------------------------

    def do_move(self, by: int) -> None:
        """By rows; a cursor that is the state's moves in all panes."""
        self.moved_to(self.content.move(by))

    def moved_to(self, key: str) -> None:
        if not self.cursor or not key:
            self.redraw()
        else:
            self.put_cursor(key)

    def put_cursor(self, key: str) -> None:
        if not self.session.apply(replace(self.state, **{self.cursor: key})):
            self.session.stage.show()  # refused, or at the end: the cursor goes back to where the state has it

    def do_page(self, direction: int) -> None:
        self.do_move(direction * self.content.page())

    def do_column(self, by: int) -> None:
        """The column cursor; the foot says what its column is."""
        if isinstance(self.content, Headed):
            self.content.move_column(by)
            self.redraw()
            self.session.say(self.content.told_of_column() or "no columns here", "text")
        else:
            self.session.say("no columns here", "dim")

    def leave_column(self) -> bool:
        """False where no column has the cursor."""
        if not isinstance(self.content, Headed) or self.content.column < 0:
            return False
        self.content.column = -1
        self.redraw()
        return True

    # --- the mouse ----------------------------------------------------------------------------------------

    def click(self, at: Pane.Clicked) -> None:
        """A click goes to the pane and its row, which stays under the pointer; a double click opens it."""
        self.session.apply(replace(self.state, pane=self.pane))
        if at.y < 0 or not self.pick(at):
            return
        if at.times == 2 and self.opens:
            self.session.stage.perform(self.opens)
        self.session.stage.show()

    def pick(self, at: Pane.Clicked) -> bool:
        """To the row that was clicked; False where there is none."""
        content = self.content
        if not isinstance(content, TreeTable):
            return True
        if (column := content.head_at(at.x, at.y)) is not None:
            self._sort(column)
            return False
        key = content.at(at.y)
        if key is None:
            return False
        content.go(key, still=True)
        if self.cursor:
            self.session.apply(replace(self.state, **{self.cursor: key}))
        if at.times == 1 and content.is_sign(at.x):
            self.session.stage.perform("toggle")
        return True

    def _sort(self, column: str) -> None:
        """By the column that was clicked; clicked again, the other way round."""
        by = _ORDERS.get(column, column)
        if by in self.orders:
            field, way, first = self.order
            first = not getattr(self.state, way) if getattr(self.state, field) == by else first
            self.session.apply(replace(self.state, **{field: by, way: first}))
        else:
            known = f"{self.pane} can be sorted by: {', '.join(self.orders)}"
            self.session.say(known if self.orders else f"{self.pane} has one order", "dim")

    def wheel(self, at: Pane.Wheeled) -> bool:
        """False where the wheel scrolls."""
        return False
