"""The pane of a plot, whose points stand for rows of the tree or for devices at a batch."""

from __future__ import annotations

from hwexplorer.plots import is_over_batches
from hwexplorer.state import PLOTS, State, node
from hwexplorer.tui.panes.view_pane import ViewPane
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.framed_pane import FramedPane
from hwexplorer.tui.widgets.plot_area import PlotArea


class PlotPane(ViewPane):
    """One of the plots, its cursor linked to the tree."""

    content: PlotArea
    double_click = "to_tree"

    def make_content(self) -> PlotArea:
        """Create what draws the view."""
        return PlotArea()

    def fill(self, views: Views) -> None:
        """Take the view and the title."""
        self.content.update(views.plot, point_of(self.state), views.marked_points)
        place = f"{PLOTS.index(self.state.plot) + 1}/{len(PLOTS)}"  # its name is in the title
        self.set_title(f"{self.state.plot} · {views.device_name(self.state.on)}", place)

    def put_cursor(self, key: str) -> None:
        """Put the cursor of the state on a key."""
        if not self.session.move_to_point(key):
            self.redraw()

    def pick(self, at: FramedPane.Clicked) -> bool:
        """Go to what the point stands for."""
        self.session.move_to_point(self.content.key_at(at.x, at.y))
        return True


def point_of(state: State) -> str:
    """Return the key of the point that the cursor stands for: a node, or a device at its batch."""
    return f"{state.on}@b{state.batch}" if is_over_batches(state.plot) else node(state.at)
