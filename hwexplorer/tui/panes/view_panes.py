"""The panes but those of models and tree, which have modules of their own: a class NamePane for each name."""

from __future__ import annotations

from analysis.estimate.metrics import METRICS
from hwexplorer.plots import is_over_batches
from hwexplorer.state import PLOTS, RANKS, State, node, replace
from hwexplorer.tui.panes.view_pane import ViewPane
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.framed_pane import CAPTION, FramedPane
from hwexplorer.tui.widgets.knob_content import KnobContent
from hwexplorer.tui.widgets.plot_area import PlotArea
from hwexplorer.tui.widgets.prose import Prose
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views.plain import Table

BAR_WIDTH = 100  # cells of a pane that has room for bars beside a column for each device


class ComparePane(ViewPane):
    """The devices side by side; their order is the state's."""

    content: TreeTable
    _table_key: object = None
    _row_table: Table
    cursor, double_click = "on", "to_tree"
    sort_keys, sort_fields = RANKS, ("rank", "rank_reverse", False)

    def fill(self, views: Views) -> None:
        """Take the view and the title."""
        state = self.state
        self.content.mark = state.on
        self.content.update(self._table(views), hide=self.hidden_roles())
        self.content.go(state.on)
        order = f"by {state.rank}{' reversed' if state.rank_reverse else ''}"
        self.set_title(views.verdict, order if state.rank != "given" else "")

    def _table(self, views: Views) -> Table:
        """Below the devices the answer, and of the lines on each that of the row under the cursor."""
        table = views.compare
        key = (table, views.answer, self.state.on)
        if key != self._table_key:
            names = tuple(card.name for card in views.cards)
            here = views.device_name(self.state.on)
            lines = [line for line in (*table.footer, *table.notes) if line.startswith(here)]
            lines += [line for line in (*table.footer, *views.answer, *table.notes) if not line.startswith(names)]
            self._table_key, self._row_table = key, replace(table, footer=tuple(lines), notes=())
        return self._row_table

    def drawing_key(self, views: Views) -> object:
        """Return the view and the cursor that the drawing follows from."""
        return (views.compare, views.answer, self.state.on, self.hidden_roles())


class EventsPane(ViewPane):
    """The events of the node under the cursor; its open branches are no part of the state."""

    content: TreeTable
    double_click = "toggle"
    make_content = staticmethod(lambda: TreeTable(fold=True))

    def fill(self, views: Views) -> None:
        """Take the view and the title."""
        self.content.update(views.events, hide=self.hidden_roles())
        self.set_title(self.state.at or self.state.model)

    def do_toggle(self, is_open: bool | None = None) -> None:
        """Open or close what the cursor is on."""
        self.content.toggle(is_open)
        self.redraw()

    def do_open(self) -> None:
        """Open the branch."""
        self.do_toggle(True)

    def do_close(self) -> None:
        """Close the branch, or go to its parent."""
        self.do_toggle(False)

    def do_subtree(self, opened: int) -> None:
        """Open or close everything below the cursor."""
        self.content.unfold(frozenset(r.key for r in self.content.table.rows if r.has_children and opened))
        self.redraw()


class HeatPane(ViewPane):
    """The blocks of the model with the metric on every device, visible where there is room."""

    content: TreeTable

    def fill(self, views: Views) -> None:
        """Take the view and the title."""
        self.content.update(views.heat, hide=("bar", "delta") if self.size.width < BAR_WIDTH else ("delta",))
        self.content.go(self.state.at)
        self.heading = f"Blocks x devices · {METRICS[self.state.metric].title}"
        self.remark = "◂ least · yellow 2x · red 10x as much"

    def click(self, at: FramedPane.Clicked) -> None:
        """Go to the node of the block that was clicked."""
        if (key := self.content.key_at(at.y)) is not None:
            self.session.move_to(key)


class KnobsPane(ViewPane):
    """The facts of the device under the cursor to be turned, the curve of one, and what the device costs by them."""

    content: KnobContent
    cursor = "fact"
    make_content = KnobContent

    def fill(self, views: Views) -> None:
        """Take the view and the title."""
        self.content.show(views.knobs, self.state.metric, bool(self.state.fact))
        self.content.go(self.state.fact or self.content.curve.title.removesuffix(" turned"))  # what a key turns
        self.set_title(views.device_name(self.state.on))

    def pick(self, at: FramedPane.Clicked) -> bool:
        """Turn the knob under the cursor: down on the left half of its row, up on the right."""
        if self.content.head_at(at.x, at.y) is None and self.content.key_at(at.y) == self.state.fact:
            self.session.request("turn_up" if at.x >= self.content.width // 2 else "turn_down")
        return super().pick(at)

    def wheel(self, at: FramedPane.Wheeled) -> bool:
        """Turn the knob under the cursor where the wheel is over its row."""
        is_over_knob = self.content.row is not None and self.content.key_at(at.y) == self.content.key
        if is_over_knob:
            self.session.request("turn_down" if at.by > 0 else "turn_up")
        return is_over_knob


class PlotPane(ViewPane):
    """One of the plots, whose points stand for rows of the tree or for devices at a batch."""

    finds_rows = False
    content: PlotArea
    double_click = "to_tree"
    make_content = PlotArea

    def fill(self, views: Views) -> None:
        """Take the view and the title."""
        self.content.update(views.plot, point_of(self.state), views.marked_points)
        place = f"{PLOTS.index(self.state.plot) + 1}/{len(PLOTS)}"  # its name is in the title
        self.set_title(f"{self.state.plot.replace('_', ' ')} · {views.device_name(self.state.on)}", place)

    def put_cursor(self, key: str) -> None:
        """Put the cursor of the state on a key."""
        if not self._move_to_point(key):
            self.redraw()

    def _move_to_point(self, key: str) -> bool:
        """Go to what a point stands for: a row of the tree, or a device at a batch. False where neither."""
        device, _, batch = key.rpartition("@b")
        if key in self.session.unfolded.place:
            self.session.move_to(key)
        elif device in self.state.devices:
            self.session.apply(replace(self.state, on=device, batch=int(batch)))
        else:
            return False
        return True

    def pick(self, at: FramedPane.Clicked) -> bool:
        """Go to what the point stands for."""
        return self._move_to_point(self.content.key_at(at.x, at.y)) and super().pick(at)


def point_of(state: State) -> str:
    """Return the key of the point that the cursor stands for: a node, or a device at its batch."""
    return f"{state.on}@b{state.batch}" if is_over_batches(state.plot) else node(state.at)


class WhyPane(ViewPane):
    """The causes of the cost of the node under the cursor."""

    finds_rows = False
    content: Prose
    make_content = Prose

    def click(self, at: FramedPane.Clicked) -> None:
        """Try the setting that the frame offers where that was clicked."""
        super().click(at)
        if at.y == CAPTION:
            self.session.do_lift()

    def fill(self, views: Views) -> None:
        """Take the view and the title."""
        self.content.update(views.why, self.state.zoom)
        self.set_title(self.state.at or self.state.model)

    def do_toggle(self) -> None:
        """Open or close what the cursor is on."""
        self.content.toggle()
        self.redraw()
