"""The blocks of the model on every device: in sight where there is room."""

from __future__ import annotations

from analysis.estimate.metrics import METRICS
from hwexplorer.tui.panes.view import ViewPane
from hwexplorer.tui.views import Views
from hwexplorer.tui.widgets.pane import Pane
from hwexplorer.tui.widgets.table import TreeTable


class Heat(ViewPane):
    content: TreeTable

    def fill(self, views: Views) -> None:
        self.content.update(views.heat)
        self.content.go(self.state.at)
        self.heading = f"Blocks x devices · {METRICS[self.state.metric].title}"

    def click(self, at: Pane.Clicked) -> None:
        if (key := self.content.at(at.y)) is not None:
            self.session.move_to(key)
