"""The devices side by side."""

from __future__ import annotations

from hwexplorer.state import RANKS
from hwexplorer.tui.panes.view import ViewPane
from hwexplorer.tui.views import Views
from hwexplorer.tui.widgets.table import TreeTable


class Compare(ViewPane):
    content: TreeTable
    cursor, opens = "on", "to_tree"
    orders, order = RANKS, ("rank", "rank_reverse", False)

    def fill(self, views: Views) -> None:
        self.content.mark = self.state.on
        self.content.update(views.compare, hide=self.hidden())
        self.content.go(self.state.on)

    def about(self, views: Views) -> str:
        return views.verdict

    def told(self) -> str:
        state = self.state
        return f"by {state.rank}{' reversed' if state.rank_reverse else ''}" if state.rank != "given" else ""

    def depends(self, views: Views) -> object:
        return (views.compare, self.state.on, self.hidden())
