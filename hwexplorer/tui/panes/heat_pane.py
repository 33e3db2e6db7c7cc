"""The pane of the blocks of the model on every device, visible where there is room."""

from __future__ import annotations

from analysis.estimate.metrics import METRICS
from hwexplorer.tui.panes.view_pane import ViewPane
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.framed_pane import FramedPane
from hwexplorer.tui.widgets.tree_table import TreeTable


class HeatPane(ViewPane):
    """The blocks of the model, with the metric on every device."""

    content: TreeTable

    def fill(self, views: Views) -> None:
        """Take the view and the title."""
        self.content.update(views.heat)
        self.content.go(self.state.at)
        self.heading = f"Blocks x devices · {METRICS[self.state.metric].title}"

    def click(self, at: FramedPane.Clicked) -> None:
        """Go to the node of the block that was clicked."""
        if (key := self.content.key_at(at.y)) is not None:
            self.session.move_to(key)
