"""The pane that says why the node under the cursor costs what it costs."""

from __future__ import annotations

from hwexplorer.tui.panes.view_pane import ViewPane
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.prose import Prose


class WhyPane(ViewPane):
    """The causes of a node's cost."""

    content: Prose

    def make_content(self) -> Prose:
        """Create what draws the view."""
        return Prose()

    def fill(self, views: Views) -> None:
        """Take the view and the title."""
        self.content.update(views.why)
        self.set_title(self.state.at or self.state.model)

    def do_toggle(self) -> None:
        """Open or close what the cursor is on."""
        self.content.toggle()
        self.redraw()
