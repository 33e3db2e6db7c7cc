"""The pane of the devices side by side."""

from __future__ import annotations

from hwexplorer.state import RANKS
from hwexplorer.tui.panes.view_pane import ViewPane
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.tree_table import TreeTable


class ComparePane(ViewPane):
    """The devices of the state; their order is the state's."""

    content: TreeTable
    cursor, double_click = "on", "to_tree"
    sort_keys, sort_fields = RANKS, ("rank", "rank_reverse", False)

    def fill(self, views: Views) -> None:
        """Take the view and the title."""
        state = self.state
        self.content.mark = state.on
        self.content.update(views.compare, hide=self.hidden_roles())
        self.content.go(state.on)
        order = f"by {state.rank}{' reversed' if state.rank_reverse else ''}"
        self.set_title(views.verdict, order if state.rank != "given" else "")

    def drawing_key(self, views: Views) -> object:
        """Return the view and the cursor that the drawing follows from."""
        return (views.compare, self.state.on, self.hidden_roles())
