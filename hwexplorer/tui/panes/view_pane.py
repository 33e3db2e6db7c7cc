"""A pane that shows a view of the session: what the keys and the mouse do in it unless its own class says otherwise."""

from __future__ import annotations

from typing import Any, ClassVar

from hwexplorer.state import PANES, State, replace
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.session import tree_index
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.framed_pane import FramedPane
from hwexplorer.tui.widgets.table_heads import TableHeads
from hwexplorer.tui.widgets.tree_table import TreeTable

# Columns that are sorted by another name than their own.
_SORT_NAMES = {"device": "name", "bar": "share", "energy_per_inference": "energy"}


class ViewPane(FramedPane):
    """A method `do_NAME` is what the action of that effect (keys/actions.py) does in it."""

    content: Any
    make_content: ClassVar[Any] = staticmethod(lambda: TreeTable(tree=False))
    cursor: ClassVar[str] = ""  # the field of the state that is its cursor
    double_click: ClassVar[str] = ""  # the action of a double click
    finds_rows: ClassVar[bool] = True  # of its own; elsewhere those of the tree are meant
    sort_keys: ClassVar[tuple[str, ...]] = ()  # what a click on a column head may sort by
    sort_fields: ClassVar[tuple[str, str, bool]] = ("", "", False)  # of the state: by what, which way; the way first

    def __init__(self, session: Session, name: str, palette: Palette) -> None:
        super().__init__(name, PANES.index(name) + 1 if name in PANES else 0, self.make_content(), palette)
        self.session = session

    @property
    def state(self) -> State:
        """The present state."""
        return self.session.state

    def fill(self, views: Views) -> None:
        """Take the view and the title; called only while the pane is visible."""
        raise NotImplementedError

    def refill(self) -> None:
        """Draw the pane as the session has it: what moved in the content only goes back."""
        if self.session.views is not None:
            self.fill(self.session.views)
        self.redraw()

    def set_title(self, about: str = "", remark: str = "") -> None:
        """Set what the frame says: the pane and what it shows, and on the right a remark."""
        self.heading = f"{self.pane.title()} · {about}" if about else self.pane.title()
        self.remark = remark

    def drawing_key(self, views: Views) -> object:
        """Return what the drawing follows from where that seldom changes, None where it is always drawn anew."""
        return None

    def stamp(self, views: Views) -> object:
        """Return what the drawing and its frame follow from, None where they are always drawn anew."""
        key = self.drawing_key(views)
        return None if key is None else (key, self.active, id(self.palette), self.heading, self.remark)

    def hidden_roles(self) -> tuple[str, ...]:
        """Return the roles of columns that say nothing now."""
        return () if self.state.diff and self.state.pin else ("delta",)

    def do_move(self, by: int) -> None:
        """Move by rows; a cursor that is a field of the state moves in all panes."""
        self.put_cursor(self.content.move(by))

    def put_cursor(self, key: str) -> None:
        """Put the cursor of the state on a row; without one the content has moved already."""
        if not self.cursor or not key:
            self.redraw()
        elif not self.session.apply(replace(self.state, **{self.cursor: key})):
            self.refill()  # refused, or at the end

    def do_page(self, direction: int) -> None:
        """Move by pages."""
        self.do_move(direction * self.content.page())

    def do_find(self, step: int) -> None:
        """Go to the next row with the words that were looked for here (0 may stay); without any, look in the tree."""
        if not self.finds_rows or not self.content.find:
            self.session.do_find(step)
            return
        key = tree_index.next_match(self.content.table, self.content.find, self.content.key, step)
        if key is None:
            self.redraw()
        else:
            self.content.go(key)
            self.put_cursor(key)

    def do_column(self, by: int) -> None:
        """Move the column cursor and say what its column is."""
        if isinstance(self.content, TableHeads):
            self.content.move_column(by)
            self.redraw()
            self.session.say(self.content.column_help() or "no columns here", "text")
        else:
            self.session.say("no columns here", "dim")

    def leave_column(self) -> bool:
        """Remove the column cursor; return False where there is none."""
        if not isinstance(self.content, TableHeads) or self.content.column < 0:
            return False
        self.content.column = -1
        self.redraw()
        return True

    def click(self, at: FramedPane.Clicked) -> None:
        """Go to the pane and the row that was clicked, which stays under the pointer; a double click opens it."""
        if at.y < 0 or not self.pick(at):
            self.session.apply(replace(self.state, pane=self.pane))
        elif at.times == 2 and self.double_click:
            self.session.request(self.double_click)

    def pick(self, at: FramedPane.Clicked) -> bool:
        """Go to the row that was clicked, in one step with its pane; return False where there is none."""
        content = self.content
        if not isinstance(content, TreeTable):
            return False
        if (column := content.head_at(at.x, at.y)) is not None:
            self._sort(column)
            return False
        key = content.key_at(at.y)
        if key is None:
            return False
        content.go(key, still=True)
        if not self.session.apply(replace(self.state, pane=self.pane, **({self.cursor: key} if self.cursor else {}))):
            self.refill()
        if at.times == 1 and content.is_sign(at.x):
            self.session.request("toggle")
        return True

    def _sort(self, column: str) -> None:
        key = _SORT_NAMES.get(column, column)
        if key in self.sort_keys:
            field, way, first = self.sort_fields
            first = not getattr(self.state, way) if getattr(self.state, field) == key else first
            self.session.apply(replace(self.state, **{field: key, way: first}))
        else:
            known = f"{self.pane} can be sorted by: {', '.join(self.sort_keys)}"
            self.session.say(known if self.sort_keys else f"{self.pane} has one order", "dim")

    def wheel(self, at: FramedPane.Wheeled) -> bool:
        """Do what the wheel means; return False where it scrolls."""
        return False
