"""A plot, whose points stand for rows of the tree or for devices at a batch."""

from __future__ import annotations

from hwexplorer.state import PLOTS
from hwexplorer.tui.panes.view import ViewPane
from hwexplorer.tui.views import Views, linked
from hwexplorer.tui.widgets.pane import Pane
from hwexplorer.tui.widgets.plot_area import PlotArea


class Plot(ViewPane):
    content: PlotArea
    opens = "to_tree"

    def made(self) -> PlotArea:
        return PlotArea()

    def fill(self, views: Views) -> None:
        self.content.update(views.plot, linked(self.state), views.below)
        place = f"{PLOTS.index(self.state.plot) + 1}/{len(PLOTS)}"  # its name is in the title
        self.entitle(f"{self.state.plot} · {views.device(self.state.on)}", place)

    def moved_to(self, key: str) -> None:
        if not self.session.to_point(key):
            self.redraw()

    def pick(self, at: Pane.Clicked) -> bool:
        self.session.to_point(self.content.at(at.x, at.y))
        return True
