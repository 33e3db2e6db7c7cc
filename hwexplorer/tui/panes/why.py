"""Why the node under the cursor costs what it costs."""

from __future__ import annotations

from hwexplorer.tui.panes.view import ViewPane
from hwexplorer.tui.views import Views
from hwexplorer.tui.widgets.prose import Prose


class Why(ViewPane):
    content: Prose

    def made(self) -> Prose:
        return Prose()

    def fill(self, views: Views) -> None:
        self.content.update(views.why)
        self.entitle(self.state.at or self.state.model)

    def do_toggle(self) -> None:
        self.content.toggle()
        self.redraw()
