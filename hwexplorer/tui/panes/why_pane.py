"""The pane that says why the node under the cursor costs what it costs."""

from __future__ import annotations

from hwexplorer.tui.panes.view_pane import ViewPane
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.prose import Prose


class WhyPane(ViewPane):
    content: Prose

    def make_content(self) -> Prose:
        return Prose()

    def fill(self, views: Views) -> None:
        self.content.update(views.why)
        self.set_title(self.state.at or self.state.model)

    def do_toggle(self) -> None:
        self.content.toggle()
        self.redraw()
