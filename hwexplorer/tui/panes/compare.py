"""The devices side by side."""

from __future__ import annotations

from hwexplorer.state import RANKS, State, replace
from hwexplorer.tui.panes.view import ViewPane
from hwexplorer.tui.views import Views
from hwexplorer.tui.widgets.table import TreeTable


class Compare(ViewPane):
    content: TreeTable
    cursor, opens, orders = "on", "to_tree", RANKS

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

    def sorted_by(self, by: str) -> State:
        return replace(
            self.state, rank=by, rank_reverse=not self.state.rank_reverse if self.state.rank == by else False
        )
