"""The base class of panes that show a view of the session, and all panes except models and tree."""

from functools import partialmethod
from typing import Any, ClassVar

from analysis.estimate.metrics import METRICS
from hardware.what_if import split_changes
from hwexplorer.plots import is_over_batches
from hwexplorer.state import PANES, PLOTS, RANKS, State, replace
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.session import state_changes
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.framed_pane import CAPTION, FramedPane
from hwexplorer.tui.widgets.knob_content import KnobContent
from hwexplorer.tui.widgets.plot_area import PlotArea
from hwexplorer.tui.widgets.prose import Prose
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views.plain import Table

# Columns whose sort key has another name.
_SORT_NAMES = {"device": "name", "bar": "share", "energy_per_inference": "energy"}


class ViewPane(FramedPane):
    """Shows a view. A method `do_NAME` does the effect NAME of an action (keys/key_table.py) in this pane."""

    content: Any
    make_content: ClassVar[Any] = staticmethod(lambda: TreeTable(tree=False))
    cursor: ClassVar[str] = ""  # the field of the state that is its cursor
    double_click: ClassVar[str] = ""  # the action of a double click
    finds_rows: ClassVar[bool] = True  # True if a search is in its own rows, False if it is in the tree's
    sort_keys: ClassVar[tuple[str, ...]] = ()  # what a click on a column head may sort by
    sort_fields: ClassVar[tuple[str, str, bool]] = ("", "", False)  # state's key, direction; first direction

    def __init__(self, session: Session, name: str, palette: Palette) -> None:
        super().__init__(name, PANES.index(name) + 1 if name in PANES else 0, self.make_content(), palette)
        self.session = session

    @property
    def state(self) -> State:
        """The present state."""
        return self.session.state

    def fill(self, views: Views) -> None:
        """Take the content from `views` and set the title. Called only while the pane is visible."""
        raise NotImplementedError

    def refill(self) -> None:
        """Draw the pane as the session has it. This undoes a move that happened in the content only."""
        if self.session.views is not None:
            self.fill(self.session.views)
        self.redraw()

    def set_title(self, about: str = "", remark: str = "") -> None:
        """Set the text of the frame: the pane and its subject, and a remark on the right."""
        self.heading = f"{self.pane.title()} · {about}" if about else self.pane.title()
        self.remark = remark

    def hidden_roles(self) -> tuple[str, ...]:
        """Return the roles of columns to hide: deltas, unless the state compares with a pin."""
        return () if self.state.diff and self.state.pin else ("delta",)

    def do_move(self, by: int) -> None:
        """Move by rows; a cursor that is a field of the state moves in all panes."""
        self.put_cursor(self.content.move(by))

    def put_cursor(self, key: str) -> None:
        """Put the state's cursor on a row. A pane without one only redraws, since its content has moved already."""
        if not self.cursor or not key:
            self.redraw()
        elif not self.session.apply(replace(self.state, **{self.cursor: key})):
            self.refill()  # refused, or at the end

    def do_page(self, direction: int) -> None:
        """Move by pages."""
        self.do_move(direction * self.content.page())

    def do_column(self, by: int) -> None:
        """Move the column cursor and explain the column that it is on."""
        self.content.move_column(by)
        self.redraw()
        self.session.say(self.content.column_help())

    def do_find(self, step: int) -> None:
        """Go to the next match of this pane's search (step 0 may stay). Without a search, search in the tree."""
        if not self.finds_rows or not self.content.find:
            self.session.do_find(step)
            return
        key = state_changes.next_match(self.content.table, self.content.find, self.content.key, step)
        if key is None:
            self.redraw()
        else:
            self.content.go(key)
            self.put_cursor(key)

    def click(self, at: FramedPane.Clicked) -> None:
        """Go to the pane and to the clicked row, which stays under the pointer. A double click opens the row."""
        if at.y < 0 or not self.pick(at):
            self.session.apply(replace(self.state, pane=self.pane))
        elif at.times == 2 and self.double_click:
            self.session.request(self.double_click)

    def pick(self, at: FramedPane.Clicked) -> bool:
        """Go to the clicked row and its pane in one step. Return False if no row was clicked."""
        content = self.content
        if not isinstance(content, TreeTable):
            return False
        if (column := content.head_at(at.x, at.y)) is not None:
            self._sort(column)
            return False
        key = content.key_at(at.y)
        if key is None:
            return False
        content.go(key, still=True)
        if not self.session.apply(replace(self.state, pane=self.pane, **({self.cursor: key} if self.cursor else {}))):
            self.refill()
        if at.times == 1 and content.is_sign(at.x):
            self.session.request("toggle")
        return True

    def _sort(self, column: str) -> None:
        key = _SORT_NAMES.get(column, column)
        if key in self.sort_keys:
            field, way, first = self.sort_fields
            first = not getattr(self.state, way) if getattr(self.state, field) == key else first
            self.session.apply(replace(self.state, **{field: key, way: first}))
        else:
            known = f"{self.pane} can be sorted by {', '.join(self.sort_keys)}"
            self.session.say(known if self.sort_keys else f"{self.pane} cannot be sorted", "dim")

    def wheel(self, at: FramedPane.Wheeled) -> bool:
        """Handle the wheel. Return False if the pane should scroll."""
        return False


BAR_WIDTH = 100  # cells: a pane this wide has room for bars next to a column for each device


class ComparePane(ViewPane):
    """The devices side by side; their order is the state's."""

    content: TreeTable
    _table_key: object = None
    _row_table: Table
    cursor, double_click = "on", "to_tree"
    sort_keys, sort_fields = RANKS, ("rank", "rank_reverse", False)

    def fill(self, views: Views) -> None:
        """Take the comparison, with a mark on the device under the cursor."""
        state = self.state
        self.content.mark = state.on
        self.content.update(self._table(views), hide=self.hidden_roles())
        self.content.go(state.on)
        order = f"by {state.rank}{' reversed' if state.rank_reverse else ''}"
        self.set_title(views.pin_sentence.removesuffix(".") or views.verdict, order if state.rank != RANKS[0] else "")

    def _table(self, views: Views) -> Table:
        """Return the table with a footer: the lines about the device under the cursor, then those about all devices."""
        table = views.compare
        key = (table, views.answer, self.state.on)
        if key != self._table_key:
            names = tuple(card.name for card in views.cards)
            here = views.device_name(self.state.on)
            lines = [line for line in (*table.footer, *table.notes) if line.startswith(here)]
            lines += [line for line in table.footer if not line.startswith(names)]
            lines += [*views.answer, *(line for line in table.notes if not line.startswith(names))]
            self._table_key, self._row_table = key, replace(table, footer=tuple(lines), notes=())
        return self._row_table


class EventsPane(ViewPane):
    """The events of the node under the cursor; its open branches are not part of the state."""

    content: TreeTable
    double_click = "toggle"
    make_content = staticmethod(lambda: TreeTable(fold=True))

    def fill(self, views: Views) -> None:
        """Take the events of the node; the title names it."""
        self.content.update(views.events, hide=self.hidden_roles())
        self.set_title(self.state.at or self.state.model)

    def do_toggle(self, is_open: bool | None = None) -> None:
        """Open or close the branch under the cursor, or the one that the row belongs to."""
        self.content.toggle(is_open)
        self.redraw()

    do_open, do_close = partialmethod(do_toggle, True), partialmethod(do_toggle, False)

    def do_subtree(self, opened: int) -> None:
        """Open or close everything below the cursor."""
        self.content.unfold(frozenset(r.key for r in self.content.table.rows if r.has_children and opened))
        self.redraw()


class HeatPane(ViewPane):
    """The blocks of the model with the metric on every device, visible if there is room."""

    content: TreeTable

    def fill(self, views: Views) -> None:
        """Take the blocks, without bars in a narrow pane."""
        self.content.update(views.heat, hide=("bar", "delta") if self.size.width < BAR_WIDTH else ("delta",))
        self.content.go(self.state.at)
        figure = "energy x time" if self.state.metric == "edp" else METRICS[self.state.metric].title
        self.heading = f"Blocks x devices · {figure}"
        signs = ("+ 2x", "! 10x") if self.palette.textured else ("yellow 2x", "red 10x")
        self.remark = f"◂ least · {' · '.join(signs)} as much"

    def click(self, at: FramedPane.Clicked) -> None:
        """Go to the node of the block that was clicked."""
        if (key := self.content.key_at(at.y)) is not None:
            self.session.move_to(key)


class KnobsPane(ViewPane):
    """The knobs: facts of the device that the user can change, the curve of one, and the cost of the device."""

    content: KnobContent
    cursor = "fact"
    make_content = KnobContent

    def fill(self, views: Views) -> None:
        """Take the knobs, with the cursor on the one that a key turns."""
        self.content.show(views.knobs, self.state.metric, split_changes(self.state.on)[0])
        self.content.go(self.state.fact or self.content.curve.title.removesuffix(" turned"))  # the one a key turns
        self.set_title(views.device_name(self.state.on))

    def _evaluate(self) -> None:
        """Evaluate the effects of the knobs now, if they are not sorted by them yet."""
        while not self.content.table.rows and self.session.provider.evaluate_knob(self.state) is not None:
            self.session.refresh_view("knobs")

    def do_move(self, by: int) -> None:
        """Move by rows."""
        self._evaluate()
        super().do_move(by)

    def do_find(self, step: int) -> None:
        """Go to the next match."""
        self._evaluate()
        super().do_find(step)

    def pick(self, at: FramedPane.Clicked) -> bool:
        """Turn the knob under the cursor if its row is clicked: down on the left half, up on the right."""
        if self.content.head_at(at.x, at.y) is None and self.content.key_at(at.y) == self.state.fact:
            self.session.request("turn_up" if at.x >= self.content.width // 2 else "turn_down")
        return super().pick(at)

    def wheel(self, at: FramedPane.Wheeled) -> bool:
        """Turn the knob under the cursor if the wheel is over its row. Return True if it is."""
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
        """Take the plot, with the cursor on the point of the state."""
        self.content.update(views.plot, point_of(self.state), views.marked_points)
        place = f"{PLOTS.index(self.state.plot) + 1}/{len(PLOTS)}"  # the title has the name
        node = "" if is_over_batches(self.state.plot) else self.state.at  # the node under the cursor
        self.set_title(f"{self.state.plot.replace('_', ' ')} · {node or views.device_name(self.state.on)}", place)

    def put_cursor(self, key: str) -> None:
        """Go to what the point stands for."""
        if not self._move_to_point(key):
            self.redraw()

    def _move_to_point(self, key: str) -> bool:
        """Go to what a point stands for: a row of the tree, or a device at a batch. Return False if it is neither."""
        device, _, batch = key.rpartition("@b")
        if key in self.session.index.place:
            self.session.move_to(key)
        elif device in self.state.devices:
            self.session.apply(replace(self.state, on=device, batch=int(batch)))
        else:
            return False
        return True

    def pick(self, at: FramedPane.Clicked) -> bool:
        """Go to what the clicked point stands for. Return False, so that `click` goes to this pane as well."""
        return self._move_to_point(self.content.key_at(at.x, at.y)) and super().pick(at)


def point_of(state: State) -> str:
    """Return the key of the point that the cursor stands for: a node, or a device at its batch."""
    return f"{state.on}@b{state.batch}" if is_over_batches(state.plot) else state.at


class WhyPane(ViewPane):
    """The causes of the cost of the node under the cursor."""

    finds_rows = False
    content: Prose
    make_content = Prose

    def click(self, at: FramedPane.Clicked) -> None:
        """Go to the pane. A click on the caption of the frame applies the setting that it offers, a click on the line
        that names what is folded shows it."""
        super().click(at)
        if at.y == CAPTION:
            self.session.do_try_it()
        elif self.content.names_folded(at.y):
            self.do_toggle()

    def fill(self, views: Views) -> None:
        """Take the causes of the node, all of them if the pane has the whole screen."""
        self.content.update(views.why, self.state.zoom)
        self.set_title(self.state.at or self.state.model)

    def do_toggle(self) -> None:
        """Show what is folded, or fold it."""
        self.content.toggle()
        self.redraw()
