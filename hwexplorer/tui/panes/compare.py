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
        state = self.state
        self.content.mark = state.on
        self.content.update(views.compare, hide=self.hidden())
        self.content.go(state.on)
        order = f"by {state.rank}{' reversed' if state.rank_reverse else ''}"
        self.entitle(views.verdict, order if state.rank != "given" else "")

    def depends(self, views: Views) -> object:
        return (views.compare, self.state.on, self.hidden())
