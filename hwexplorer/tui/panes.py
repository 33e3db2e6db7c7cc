"""The panes: the base class of those that show a view of the session, and a class NamePane for each name of PANES."""

import re
from functools import partialmethod
from math import log
from typing import Any, ClassVar

import msgspec
from rich.segment import Segment
from textual import events

from analysis.estimate.metrics import METRICS
from analysis.estimate.tree_figures import HOST
from hardware.base.errors import RequestError
from hardware.what_if import split_changes
from hwexplorer import state as states
from hwexplorer.tui import palette as palettes
from hwexplorer.tui.keys import PANE_KEYS
from hwexplorer.tui.session import state_changes
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.session.state_changes import open_branches
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.framed_pane import CAPTION, FramedPane
from hwexplorer.tui.widgets.plot_area import PlotArea
from hwexplorer.tui.widgets.prose import Prose
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views import layout, plain
from hwexplorer.views.captions import fact_words, metric_word

# Columns whose sort key has another name.
_SORT_NAMES = {"device": "name", "bar": "share", "energy_per_inference": "energy"}


class ViewPane(FramedPane):
    """Shows a view. A method `do_NAME` does the effect NAME of an action (keys.py) in this pane."""

    content: Any
    make_content: ClassVar[Any] = staticmethod(lambda: TreeTable(tree=False))
    cursor: ClassVar[str] = ""  # the field of the state that is its cursor
    double_click: ClassVar[str] = ""  # the action of a double click
    finds_rows: ClassVar[bool] = True  # True if a search is in its own rows, False if it is in the tree's
    sort_keys: ClassVar[tuple[str, ...]] = ()  # what a click on a column head may sort by
    sort_fields: ClassVar[tuple[str, str, bool]] = ("", "", False)  # state's key, direction; first direction

    def __init__(self, session: Session, name: str, palette: palettes.Palette) -> None:
        super().__init__(name, int(PANE_KEYS[name]), self.make_content(), palette)
        self.session = session

    @property
    def state(self) -> states.State:
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
        return () if self.state.pin else ("delta",)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Hold the border between panes that is under the pointer."""
        self.border = self.session.border_at(*event.screen_offset)
        self.held, self.is_dragged = event.screen_offset, False
        if self.border:
            self.capture_mouse()

    def do_move(self, by: int) -> None:
        """Move by rows; a cursor that is a field of the state moves in all panes."""
        self.put_cursor(self.content.move(by))

    def put_cursor(self, key: str) -> None:
        """Put the state's cursor on a row. A pane without one only redraws, since its content has moved already."""
        if not self.cursor or not key:
            self.redraw()
        elif not self.session.apply(states.replace(self.state, **{self.cursor: key})):
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
        """Go to the next match of this pane's search (step 0 may stay). Without a search, a step is one in the tree."""
        if not self.finds_rows or (step and not self.content.find):
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
            self.session.apply(states.replace(self.state, pane=self.pane))
        elif at.times == 2 and self.double_click:
            self.session.request(self.double_click)

    def pick(self, at: FramedPane.Clicked) -> bool:
        """Go to the clicked row and its pane in one step. Return False if no row was clicked."""
        content = self.content
        if not isinstance(content, TreeTable):
            return False
        if (column := content.head_at(at.x, at.y)) is not None:
            self.sort_by(column)
            return False
        key = content.key_at(at.y)
        if key is None:
            return False
        content.go(key, still=True)
        if not self.session.apply(
            states.replace(self.state, pane=self.pane, **({self.cursor: key} if self.cursor else {}))
        ):
            self.refill()
        if at.times == 1 and content.is_sign(at.x):
            self.session.request("toggle")
        return True

    def sort_by(self, column: str) -> None:
        """Sort by the column with a key, in reverse if it is sorted so; say what sorts if this one does not."""
        key = _SORT_NAMES.get(column, column)
        if key in self.sort_keys:
            field, way, first = self.sort_fields
            first = not getattr(self.state, way) if getattr(self.state, field) == key else first
            self.session.apply(states.replace(self.state, **{field: key, way: first}))
        else:
            known = f"{self.pane} can be sorted by {', '.join(self.sort_keys)}"
            self.session.say(known if self.sort_keys else f"{self.pane} cannot be sorted", "dim")

    def wheel(self, at: FramedPane.Wheeled) -> bool:
        """Handle the wheel. Return False if the pane should scroll."""
        return False


class ComparePane(ViewPane):
    """The devices side by side; their order is the state's."""

    content: TreeTable
    _table_key: object = None
    _row_table: plain.Table
    cursor, double_click = "on", "to_tree"
    sort_keys, sort_fields = states.RANKS, ("rank", "rank_reverse", False)

    def fill(self, views: Views) -> None:
        """Take the comparison, with a mark on the device under the cursor."""
        state = self.state
        self.content.mark = state.on
        self.content.update(self._table(views), hide=self.hidden_roles())
        self.content.go(state.on)
        order = f"by {state.rank}{' reversed' if state.rank_reverse else ''}"
        self.set_title(
            views.pin_sentence.removesuffix(".") or views.verdict, order if state.rank != states.RANKS[0] else ""
        )

    def _table(self, views: Views) -> plain.Table:
        """Return the table with a footer: the lines about the device under the cursor, then those about all devices."""
        table = views.compare
        key = (table, views.answer, self.state.on)
        if key != self._table_key:
            names = tuple(card.name for card in views.cards)
            here = next(card.name for card in views.cards if card.key == self.state.on)
            lines = [line for line in (*table.footer, *table.notes) if line.startswith(here)]
            lines += [line for line in table.footer if not line.startswith(names)]
            lines += [*views.answer, *(line for line in table.notes if not line.startswith(names))]
            self._table_key, self._row_table = key, states.replace(table, footer=tuple(lines), notes=())
        return self._row_table


class EventsPane(ViewPane):
    """The events of the node under the cursor; its open branches are not part of the state."""

    content: TreeTable
    double_click = "toggle"
    make_content = staticmethod(lambda: TreeTable(fold=True))

    def fill(self, views: Views) -> None:
        """Take the events of the node; the title names it."""
        self.content.update(views.events, hide=self.hidden_roles())
        self.set_title(place_of(self.state))

    def do_toggle(self, is_open: bool | None = None) -> None:
        """Open or close the branch under the cursor, or the one that the row belongs to."""
        self.content.toggle(is_open)
        self.redraw()

    do_open, do_close = partialmethod(do_toggle, True), partialmethod(do_toggle, False)

    def do_subtree(self, opened: int) -> None:
        """Open or close everything below the cursor."""
        self.content.unfold(frozenset(r.key for r in self.content.table.rows if r.has_children and opened))
        self.redraw()


SPARKS, SPARKS_ASCII = "▁▂▃▄▅▆▇█", ".:-=+*#@"
ABOVE = 3  # lines over the table: the range, the curve, the marks
LEAST = 5  # lines of the table; if it has fewer, nothing is drawn above it
WIDEST = 3  # cells at most for each value of the curve
SIGNS = {"now": "▲^", "knee": "△v"}  # below the curve, in Unicode and in ASCII
_MEANINGS = {"now": "now", "knee": "knee: past it a step gains less"}


def sparkline(values: list[float], ascii: bool) -> str:
    """Return one sign per value, by its logarithm between the least and the greatest value."""
    signs = SPARKS_ASCII if ascii else SPARKS
    least, most = min(values), max(values)
    size = log(most / least) if least > 0 else 0.0
    return "".join(signs[round(log(value / least) / size * (len(signs) - 1)) if size else 0] for value in values)


class KnobContent(TreeTable):
    """The table of knobs, with the curve of the selected knob above it."""

    def __init__(self) -> None:
        super().__init__(tree=False)
        self.curve, self.metric = plain.EMPTY_TABLE, ""
        self._above = 0
        self._device = ""

    def show(self, page: plain.Page, metric: str, device: str) -> None:
        """Take the page. Rows keep their order until another metric or device sorts the knobs."""
        tables = [part for part in page.parts if isinstance(part, plain.Table)]
        _, self.curve, knobs = tables
        if (metric, device) == (self.metric, self._device) and self.table.rows:
            rows = {row.key: row for row in knobs.rows}
            knobs = msgspec.structs.replace(knobs, rows=tuple(rows.get(row.key, row) for row in self.table.rows))
        self.metric, self._device = metric, device
        self.update(knobs)

    def resize(self, width: int, height: int) -> None:
        self._above = ABOVE if height >= ABOVE + LEAST else 0
        super().resize(width, height - self._above)

    def key_at(self, y: int) -> str | None:
        return super().key_at(y - self._above) if y >= self._above else None

    def head_at(self, x: int, y: int) -> str | None:
        return super().head_at(x, y - self._above)

    def line(self, y: int, palette: palettes.Palette, focused: bool) -> list[Segment]:
        if y >= self._above:
            return super().line(y - self._above, palette, focused)
        return self._knob_line(y, palette)

    def _knob_line(self, line: int, palette: palettes.Palette) -> list[Segment]:
        """Return a line on the selected knob: its metric and range (0), the curve (1), or the marks below the curve."""
        rows, place = self.curve.rows, [column.key for column in self.curve.columns]
        if not rows:
            return []
        if line == 0:
            ends = f"{rows[0].cells[0]} to {rows[-1].cells[0]}"
            title = f"{METRICS[self.metric].noun} by {fact_words(self.curve.title.removesuffix(' turned'))}, {ends}"
            return [Segment(layout.shorten(palettes.plain(title, palette), self.width), palette.get("header"))]
        wide = max(1, min(WIDEST, (self.width - 8) // len(rows)))
        if line == 1:
            values = [float(row.cells[place.index(self.metric)] or 0.0) for row in rows]
            drawn = "".join(sign * wide for sign in sparkline(values, palette.ascii))
            return [Segment(drawn[: self.width], palette.get("bar"))]
        return self._marks(rows, wide, palette)

    def _marks(self, rows: tuple[plain.Row, ...], wide: int, palette: palettes.Palette) -> list[Segment]:
        """Return the line under the curve: a sign at the knob's value and at the knee, then what they mean."""
        line, meanings = "", list[str]()
        for place, row in enumerate(rows):
            if marks := str(row.cells[-1]).split():
                sign = SIGNS[marks[0]][palette.ascii]
                line = line.ljust(place * wide) + sign
                words = " and ".join(_MEANINGS[mark] for mark in marks)
                meanings.insert(0 if marks[0] == "now" else 1, f"{sign} {row.cells[0]} {words}")
        legend = palettes.plain("  ".join(["", *meanings]), palette)
        return [
            Segment(line, palette.get("accent")),
            Segment(layout.whole(legend, self.width - layout.width_of(line), "  "), palette.get("dim")),
        ]


class KnobsPane(ViewPane):
    """The knobs: facts of the device that the user can change, the curve of one, and the cost of the device."""

    content: KnobContent
    cursor = "fact"
    make_content = KnobContent

    def fill(self, views: Views) -> None:
        """Take the knobs, with the cursor on the one that a key turns."""
        self.content.show(views.knobs, self.state.metric, split_changes(self.state.on)[0])
        self.content.go(self.state.fact or self.content.curve.title.removesuffix(" turned"))  # the one a key turns
        self.set_title(views.device_name(split_changes(self.state.on)[0]), "change for +1 %")

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


def place_of(state: states.State) -> str:
    """Return the node under the cursor for a title: `layer3.conv2` for `layer3.0-5.conv2`."""
    if state.at == HOST:
        return "start of the run"
    return re.sub(r"[._]\d+-\d+(?=\.|$)", "", state.at) or state.model


def point_of(state: states.State) -> str:
    """Return the key of the point that the cursor stands for: a node, or a device at its batch."""
    return f"{state.on}@b{state.batch}" if states.shown_plot(state) == "batch" else state.at


class WhyPane(ViewPane):
    """The causes of the cost of the node under the cursor, or a plot, whose points stand for nodes or devices."""

    finds_rows = False
    content: Prose | PlotArea
    make_content = Prose

    def __init__(self, session: Session, name: str, palette: palettes.Palette) -> None:
        super().__init__(session, name, palette)
        self._prose, self._plot = Prose(), PlotArea()

    def click(self, at: FramedPane.Clicked) -> None:
        """Go to the pane. A click on the caption of the frame applies the setting that it offers, one on the line that
        names what is folded shows it, one on a point goes to what it stands for."""
        super().click(at)
        if at.y == CAPTION:
            self.session.do_try_it()
        elif self.content is self._plot:
            self._move_to_point(self._plot.key_at(at.x, at.y))
        elif self._prose.names_folded(at.y):
            self.do_toggle()

    def fill(self, views: Views) -> None:
        """Take the plot with the cursor on its point, or the causes of the node, all of them if the pane is alone."""
        name, place = states.shown_plot(self.state), place_of(self.state)
        content = self._plot if name else self._prose
        if content is not self.content:
            content.forget()
            self.content = content
        if name:
            self._plot.update(views.plot, point_of(self.state), views.marked_points)
            place = f"{name} · {views.device_name(self.state.on) if name == 'batch' or not self.state.at else place}"
        else:
            self._prose.update(views.why, self.state.zoom)
        self.set_title(place)

    def put_cursor(self, key: str) -> None:
        """Go to what the point stands for."""
        if not self._move_to_point(key):
            self.redraw()

    def _move_to_point(self, key: str) -> bool:
        """Go to what a point stands for: a row of the tree, or a device at a batch. Return False if it is neither."""
        device, _, batch = key.rpartition("@b")
        if key and key in self.session.index.place:
            self.session.move_to(key)
        elif device in self.state.devices:
            self.session.apply(states.replace(self.state, on=device, batch=int(batch)))
        else:
            return False
        return True

    def do_toggle(self) -> None:
        """Show what is folded, or fold it."""
        self._prose.toggle()
        self.redraw()


class TreePane(ViewPane):
    """Shows the tree. Its open branches and its cursor are fields of the state."""

    content: TreeTable
    cursor, double_click = "at", "toggle"
    sort_keys, sort_fields = states.SORTS, ("sort", "descending", True)
    make_content = TreeTable
    finds_rows = False  # the session searches the tree, since matches may be in closed branches

    def fill(self, views: Views) -> None:
        """Take the tree with the open branches and the cursor of the state."""
        state = self.state
        sought = state_changes.plain_words(state.find)
        self.content.find = sought[0] if sought else ""
        table, counted = self._narrow_rows(views.tree)
        opened = None if counted else open_branches(self.session.index, state.open, state.at)
        self.content.update(table, opened, hide=self.hidden_roles())
        self.content.go(state.at)
        order = f"sorted by {state.order}" if (state.sort, state.descending) != ("share", True) else ""
        device = f"{views.device_name(state.on)}{' and others' * state.heat}"
        subject = f"by {state.by} · " * (state.by != "module")
        found = f"{state.find.strip()!r}: {counted} of {metric_word(state.metric)}"  # the first line names the device
        self.set_title(found if counted else f"{subject}{device}", order)

    def _narrow_rows(self, tree: plain.Table) -> tuple[plain.Table, str]:
        """Return the rows that the search finds, and their number in words; the whole tree if it finds none."""
        try:
            table, counted = state_changes.narrow_tree(tree, self.state.find) if self.state.find else (tree, "")
        except RequestError:  # a condition is half typed
            return tree, ""
        return (table, counted) if table.rows else (tree, "")

    def put_cursor(self, key: str) -> None:
        """Put the cursor on a key, '' for the root."""
        if not self.session.apply(states.replace(self.state, at=key)):
            self.refill()

    def _apply_branches(self, at: str, opened: tuple[str, ...]) -> None:
        self.session.apply(states.replace(self.state, at=at, open=opened))

    def _open_except(self, key: str) -> tuple[str, ...]:
        return tuple(k for k in self.state.open if k != key)

    def do_open(self) -> None:
        """Open the branch, or go to its first child if it is open."""
        state, index = self.state, self.session.index
        if not (below := index.children(state.at)):
            return
        if state.at and state.at not in open_branches(index, state.open, state.at):
            self._apply_branches(state.at, (*state.open, state.at))
        else:
            self._apply_branches(below[0], state.open)

    def do_close(self) -> None:
        """Close the branch, or go to its parent."""
        state = self.state
        if state.at in state.open:
            self._apply_branches(state.at, self._open_except(state.at))
        elif not state.at:
            self._apply_branches("", ())
        else:
            self._apply_branches(self.session.index.parent.get(state.at) or "", state.open)

    def do_toggle(self) -> None:
        """Open or close the branch under the cursor; on a leaf, close its parent."""
        state, index = self.state, self.session.index
        if state.at in state.open or (not state.at and state.open):
            self.do_close()
        elif not state.at:
            self.do_subtree(1)
        elif index.children(state.at):
            self._apply_branches(state.at, (*state.open, state.at))
        else:  # on a leaf, close its parent and go there
            parent = index.parent.get(state.at) or ""
            self._apply_branches(parent, self._open_except(parent))

    def do_subtree(self, opened: int) -> None:
        """Open or close everything below the cursor."""
        state, index = self.state, self.session.index
        branches = index.branches([state.at, *index.descendants(state.at)]) - {""}
        rest = tuple(k for k in state.open if k not in branches)
        self._apply_branches(state.at, (*rest, *sorted(branches)) if opened else rest)


def load_panes(session: Session, palette: palettes.Palette) -> dict[str, ViewPane]:
    """Create all panes, by name."""
    return {name: globals()[f"{name.title()}Pane"](session, name, palette) for name in states.PANES}
