"""The one table of the screen: a flat list of rows, of which only the rows in sight are ever drawn, under the heads of
columns, of which those that have room are shown.

It holds no terminal and no widget: `line` turns a row of the window into segments. So the cost of a repaint does not
depend on how many rows there are, and a test can print it.
"""

from collections.abc import Collection, Sequence
from typing import ClassVar

from msgspec.structs import replace
from rich.segment import Segment

from analysis.document import Cell, Column
from hardware.base.text import percent, safe
from hwexplorer.text import terms
from hwexplorer.text.number_format import header
from hwexplorer.tui import palette
from hwexplorer.tui.widgets.framed_pane import Content
from hwexplorer.views import layout, plain
from hwexplorer.views.tables import keep_columns, repeats_bar

GAP = 1
FULL_NAMES = 60  # cells; a narrower tree does not count what is fused
BAR_MIN, BAR_MAX = 6, 24
STACK_MIN = 14  # a bar of several causes needs these cells; other columns are dropped first
QUANTITY = 6  # "1.23 G"
PERCENT = 5  # "100.0", "12.3"
WHOLE = 0.9995  # fraction of a tree from which its full bar says enough
TEXT_MAX = 32
NAME_GOOD = 24  # cells; most names fit


def measure_table(table: plain.Table, names: int, total: int) -> list[layout.Measure]:
    """Measure the columns for `total` cells; `names` is the width that the first needs, tree guides included. If the
    column of a device that wins a row has no room, the column that names the winners stays before other devices."""
    good = min(names, max(NAME_GOOD, total // 3))
    measures = [_measure(table, index, names, good) for index in range(len(table.columns))]
    for place, column in enumerate(table.columns):
        if column.key == "wins":
            widths, _ = fit_widths(measures, total)
            hidden = {measure.column.key for measure, width in zip(measures, widths, strict=True) if not width}
            if any(f"on:{row.cells[place]}" in hidden for row in table.rows):
                measures[place] = replace(measures[place], column=replace(column, keep=1))
    return measures


def _measure(table: plain.Table, index: int, names: int, good: int) -> layout.Measure:
    column = table.columns[index]
    if index == 0:
        least, most = (max(need, layout.width_of(column.title)) for need in (good, names))
        return layout.Measure(replace(column, keep=0), header=column.title, least=least, most=most)
    as_written, values = layout.measure(table.columns, index, table.rows), {row.cells[index] for row in table.rows}
    if column.role == "bar":
        title = as_written.header if layout.is_amount(column) else header(column.title, column.unit)
        if not column.unit:  # a bar without its number
            least, is_axis = max(BAR_MIN, layout.width_of(title)), isinstance(next(iter(values), None), plain.Span)
            return replace(as_written, header=title, least=least, most=least if is_axis else max(least, BAR_MAX))
        first = table.rows[0].cells[index] if table.rows else None
        is_stack = isinstance(first, plain.Stack) and sum(part > 0 for part in first.parts) > 1
        number = as_written.scale.width or PERCENT
        least = max(number + 1 + (STACK_MIN if is_stack else BAR_MIN), layout.width_of(title))
        narrow = (number + 1 + BAR_MIN, number)
        return replace(as_written, header=title, least=least, most=number + 1 + BAR_MAX, narrow=narrow)
    if column.role == "text":
        needs = sorted(layout.width_of(str(v)) for v in values if v is not None) or [0]
        most_texts, least, most = (max(cells, layout.width_of(column.title)) for cells in
                                   (needs[len(needs) * 9 // 10], min(needs[-1], TEXT_MAX), needs[-1]))  # fmt: skip
        # A column that always stays is cut before the names are.
        return replace(as_written, least=least, most=most, narrow=(min(most_texts, least),) * (not column.keep))
    if column.role == "delta":
        need = max(
            *(len(as_written.write(v)) for v in values if isinstance(v, plain.NUMBERS)),
            5,
            layout.width_of(column.title),
        )
        return replace(as_written, least=need, most=need)
    short = column.short or as_written.header.removeprefix("Energy " * bool(column.unit))
    forms = as_written, replace(as_written, short=short).at_width(0)
    need = as_written.scale.width if column.role == "number" else _amount_width(as_written, values)
    if not column.unit:  # numbers that are text already
        need = max([need, *(layout.width_of(value) for value in values if isinstance(value, str))])
    with_unit = len(forms[1].write(1e-6)) - len(forms[0].write(1e-6))  # cells have the unit that the short head lacks
    most, least = (
        max(need + unit, layout.width_of(form.header)) for form, unit in zip(forms, (0, with_unit), strict=True)
    )
    return replace(as_written, least=min(least, most), most=most, short=short if least < most else "")


def _amount_width(form: layout.Measure, values: Collection[Cell]) -> int:
    """Return the cells that the amounts of a column need; of a device, one more for the sign of the one that wins."""
    if is_of_device(form.column):
        return len("1.58 µJ·s") - 2 * (form.column.unit != "Js") + 1
    numbers = [value for value in values if isinstance(value, plain.NUMBERS)]
    # Amounts of one power of ten are equally long. `97.8 m` is longer than its extremes.
    by_power = {
        (f"{number:.2e}"[-3:], number < 0, not number, isinstance(number, plain.Amount) and number.unit): number
        for number in numbers
    }
    return max([QUANTITY * bool(numbers), *(len(form.write(number)) for number in by_power.values())])


def is_of_device(column: Column) -> bool:
    """Return True for a column that `heat` has for a device (hwexplorer/views/tree_view.py), in silicon or on paper."""
    return column.key.startswith(("on:", "paper:"))


def fit_widths(
    measures: Sequence[layout.Measure], total: int, empty: Collection[int] = (), least: int = GAP
) -> tuple[list[int], int]:
    """Return the width of each column, 0 if it is dropped or empty, and the gap between columns, at `least` so
    wide, and wider if nothing drops for it."""
    if not measures:
        return [], GAP
    widths = layout.fit(measures, total, GAP + 1, empty)
    wide = sum(map(bool, widths)) + len(empty) == len(widths) and widths[0] >= measures[0].most
    return (widths, GAP + 1) if wide else (layout.fit(measures, total, least, empty), least)


class TableHeads(Content):
    """The columns of a table as they are drawn. `column` is the one under the cursor, -1 before a move to one."""

    def __init__(self, tree: bool) -> None:
        self.tree = tree
        self.table = plain.EMPTY_TABLE
        self.column = -1
        self._measures: list[layout.Measure] = []
        self._drawn: list[layout.Measure] = []  # with the heads that fit
        self._widths: list[int] = []
        self._gap = GAP

    def heads(self, colours: palette.Palette) -> list[Segment]:
        """Return the line of column heads."""
        segments: list[Segment] = []
        for index, width in enumerate(self._widths):
            if not width:
                continue
            measure = self._drawn[index]
            right = measure.column.role in ("number", "quantity", "delta")
            title = "  " * (self.tree and index == 0) + self.head(measure, width)
            space = [Segment(" " * self._gap, colours.get("header"))] if segments else []
            role = "find" if index == self.column else "header"
            segments += [*space, Segment(layout.pad(palette.plain(title, colours), width, right), colours.get(role))]
        return segments

    def head(self, measure: layout.Measure, width: int) -> str:
        """Return the head of a column."""
        return measure.header if layout.width_of(measure.header) <= width else measure.column.title

    def head_at(self, x: int, y: int) -> str | None:
        """Return the key of the column whose head is at a place, or None."""
        end = 0
        for index, width in enumerate(self._widths if y == 0 and self.height > 1 else ()):
            end += width + self._gap if width else 0
            if x < end:
                return self.table.columns[index].key
        return None

    def move_column(self, by: int) -> None:
        """Move the column cursor to the next visible column."""
        shown = [index for index, width in enumerate(self._widths) if width]
        if shown:
            place = shown.index(self.column) + by if self.column in shown else 0
            self.column = shown[max(0, min(len(shown) - 1, place))]

    def hidden_columns(self) -> list[str]:
        """Return the titles of the columns that have no room; none before the first drawing."""
        columns = zip(self.table.columns, self._widths, strict=False)
        return [column.title for column, width in columns if not width]

    def column_help(self) -> str:
        """Return one line that explains the column under the cursor, '' without one."""
        columns = self.table.columns
        return terms.describe_column(columns[self.column]) if 0 <= self.column < len(columns) else ""

    def help_at(self, x: int, y: int) -> str:
        key = self.head_at(x, y)
        return next((terms.describe_column(column) for column in self.table.columns if column.key == key), "")


ON_ROOT_SCALE = 0.25  # if a bar exceeds this share of the root, bars are on the root's scale


class TreeTable(TableHeads):
    """Rows, the open branches, and where the cursor and the window are. At least `gap` cells are between columns."""

    gap: ClassVar = GAP

    def __init__(self, tree: bool = True, fold: bool = False) -> None:
        super().__init__(tree)
        self.fold = fold  # the table opens its branches itself, none at first
        self.unfolded = frozenset[str]()
        self.if_empty = ""  # what stands in place of rows
        self.visible: list[int] = []
        self.cursor = self.top = 0
        self.find = ""
        self.mark = ""
        self._key = ""
        self._open: Collection[str] | None = None
        self._names: dict[bool, int] = {}  # width of the widest name, in a narrow tree and in a wide one
        self._last: list[bool] = []
        self._parent: list[int] = []
        self._bar_full = 1.0
        self._cache: dict[tuple[int, int], list[Segment]] = {}
        self._arguments: tuple[object, ...] = ()
        self._remark_lines: tuple[list[str], list[str]] | None = None
        self._source: tuple[plain.Table, Collection[str]] = (plain.EMPTY_TABLE, ())

    # --- what is shown ------------------------------------------------------------------------------------

    def update(self, table: plain.Table, opened: Collection[str] | None = None, hide: Collection[str] = ()) -> None:
        """Take new data. The cursor stays on its key or goes to the nearest row left. `opened=None` opens all."""
        given = (opened, hide, self.find, self.mark, self.unfolded)
        if table is self._source[0] and given == self._arguments:
            return
        self._arguments = given
        if table is not self._source[0] or hide != self._source[1]:
            self._source = (table, hide)
            # Without columns of hidden roles (a delta while diff is off) and repeated numbers of bars.
            kept = [i for i, c in enumerate(table.columns) if c.role not in hide and not repeats_bar(table, i)]
            self.table = table if len(kept) == len(table.columns) else keep_columns(table, kept)
            self._names, self._measures = {}, []
            self._bar_full = self._fullest_bar()
        self._open = opened
        self._lay_out()

    def _lay_out(self) -> None:
        if self.fold:
            self._open = self.unfolded
        self.visible = self._in_sight()
        if self.fold:  # few rows: rows in closed branches take no room
            self._names, self._measures = {}, []
        self._last, self._parent = self._relations()
        self._widths, self._remark_lines = [], None
        self._cache.clear()
        self.go(self._key)

    def _name_of(self, row: plain.Row) -> str:
        name = safe(row.cells[0] if row.cells[0] is not None else "")
        return name.partition(" (")[0].removesuffix(" ×1") if self.tree and self.width < FULL_NAMES else name

    def toggle(self, want: bool | None = None) -> None:
        """Open or close the branch under the cursor, or the row's parent. `want` True only opens, False only closes."""
        if not self.visible:
            return
        place = self.cursor
        if not self.table.rows[self.visible[place]].has_children:
            place = self._parent[place]
        if place < 0:
            return
        key = self.table.rows[self.visible[place]].key
        is_open = self._open is None or key in self._open
        every = frozenset(r.key for r in self.table.rows if r.has_children)
        now = every if self._open is None else frozenset(self._open)
        self.unfold(now - {key} if is_open and want is not True else now | {key} if want is not False else now, key)

    def unfold(self, keys: frozenset[str], cursor: str = "") -> None:
        """Open exactly these branches."""
        self.unfolded = keys
        self._key = cursor or self._key
        self._lay_out()

    def _in_sight(self) -> list[int]:
        rows = self.table.rows
        if self._open is None:
            return list(range(len(rows)))
        shown, closed_at = [], 1 << 30
        for index, row in enumerate(rows):
            if row.depth > closed_at:
                continue
            shown.append(index)
            closed = row.has_children and row.key and row.key not in self._open
            closed_at = row.depth if closed else 1 << 30
        return shown

    def _relations(self) -> tuple[list[bool], list[int]]:
        """Return for each visible row: is it the last of its siblings, and where is its parent (-1: nowhere)?"""
        depths = [self.table.rows[i].depth for i in self.visible]
        last, parent = [True] * len(depths), [-1] * len(depths)
        deepest = max(depths, default=0)
        followed = [False] * (deepest + 2)  # at each depth: does a sibling follow?
        for position in range(len(depths) - 1, -1, -1):
            depth = depths[position]
            last[position] = not followed[depth]
            followed[depth] = True
            followed[depth + 1 :] = [False] * (deepest + 1 - depth)
        path = [-1] * (deepest + 2)
        for position, depth in enumerate(depths):
            parent[position] = path[depth]
            path[depth + 1] = position
        return last, parent

    def _fullest_bar(self) -> float:
        """Return the value of a full bar: 1 (the root) for bars by cause, unless all of them are short, else the
        longest bar. The head of the column tells which."""
        bars = [i for i, c in enumerate(self.table.columns) if c.role == "bar" and not layout.is_amount(c)]
        rows = [r for r in self.table.rows if r.depth] if self.tree else self.table.rows
        has_root = bool(rows) and self.table.rows[0].key == ""
        rows = rows if has_root else self.table.rows
        values = [r.cells[i] for i in bars for r in rows]
        longest = max((v for v in values if isinstance(v, plain.NUMBERS)), default=1.0) or 1.0
        is_stacked = self.tree and has_root and any(isinstance(v, plain.Stack) for v in values)
        return 1.0 if is_stacked and longest > ON_ROOT_SCALE else longest

    # --- the cursor ---------------------------------------------------------------------------------------

    @property
    def key(self) -> str:
        """The key of the row under the cursor."""
        return self._key

    @property
    def row(self) -> plain.Row | None:
        """The row under the cursor."""
        return self.table.rows[self.visible[self.cursor]] if self.visible else None

    def go(self, key: str, still: bool = False) -> None:
        """Put the cursor on a key or, if it is out of sight, on the nearest ancestor or row left. With `still` the
        window does not scroll, because the row is under the pointer."""
        if not self.visible:
            self.cursor = self.top = 0
            return
        keys = {self.table.rows[i].key: p for p, i in enumerate(self.visible)}
        wanted = key
        while wanted not in keys and wanted:
            wanted = wanted.rpartition("/")[0] if "/" in wanted else wanted.rpartition(".")[0]
        self._place(keys.get(wanted, min(self.cursor, len(self.visible) - 1)), still)

    def move(self, by: int) -> str:
        self._place(max(0, min(len(self.visible) - 1, self.cursor + by)))
        return self._key

    def _place(self, position: int, still: bool = False) -> None:
        still = still or (position == self.cursor and self.top <= position < self.top + self.page())
        self.cursor = position
        if self.visible:
            self._key = self.table.rows[self.visible[position]].key
        if not still:
            self._show_cursor()

    def page(self) -> int:
        return max(1, self.height - self._head_lines() - len(self._remarks()[0]))

    def _head_lines(self) -> int:
        return int(self.height > 1)

    def _remarks(self) -> tuple[list[str], list[str]]:
        """Return the footer and note lines in sight: the first footer line always, the others if rows leave room.
        Each is wrapped if it has room when wrapped, else cut."""
        if self._remark_lines is None:
            free = max(0, self.height - 1 - len(self.visible))
            footer, notes = list[str](), list[str]()
            for shown, lines in ((footer, self.table.footer), (notes, self.table.notes)):
                for line in map(safe, lines):
                    room, wrapped = free - len(footer) - len(notes), layout.wrap(line, self.width, 2)
                    shown.extend(wrapped if len(wrapped) <= room else [line])
            footer = footer[: max(free, 1 if self.height > 4 else 0)]
            self._remark_lines = footer, notes[: max(0, free - len(footer))]
        return self._remark_lines

    def _show_cursor(self) -> None:
        page = self.page()
        margin = min(2, (page - 1) // 2)  # rows of context above and below the cursor
        if not self.top - page < self.cursor < self.top + 2 * page:
            self.top = self.cursor - page // 2  # a long jump lands in the middle
        elif self.cursor - margin < self.top:
            self.top = self.cursor - margin
        elif self.cursor + margin >= self.top + page:
            self.top = self.cursor + margin - page + 1
        self.top = max(0, min(self.top, len(self.visible) - page))

    def scroll(self, by: int) -> None:
        """Scroll the window; the cursor stays where it is."""
        self.top = max(0, min(self.top + by, len(self.visible) - self.page()))

    def key_at(self, y: int) -> str | None:
        """Return the key of the row drawn on line `y`, or None."""
        position = self.top + y - self._head_lines()
        is_row = self._head_lines() <= y < self.height - len(self._remarks()[0]) and position < len(self.visible)
        return self.table.rows[self.visible[position]].key if is_row else None

    def help_at(self, x: int, y: int) -> str:
        key = self.key_at(y)
        if not self.tree or not key:
            return super().help_at(x, y)
        cells = next(row.cells for row in self.table.rows if row.key == key)
        columns = zip(self._measures, self._widths, cells, strict=False)  # none before the first drawing
        hidden = ((column.header, column.write(cell)) for column, width, cell in columns if not width)
        meaning = f"{key}: {says}" if (says := terms.term_of_key(key)) else key
        return " · ".join((meaning, *(f"{head}: {text}" for head, text in hidden if text)))

    def is_sign(self, x: int) -> bool:
        """Return True if the sign that opens and closes the row of the cursor is at `x`."""
        row = self.row
        return self.tree and row is not None and row.has_children and 0 <= x - 2 * row.depth < 2

    def extent(self) -> tuple[int, int, int]:
        return self.top, self.page(), len(self.visible)

    # --- drawing ------------------------------------------------------------------------------------------

    def resize(self, width: int, height: int) -> None:
        if (width, height) != (self.width, self.height):
            if not self.height:
                self.top = 0  # a move before the first size is known does not scroll
            self.width, self.height = width, height
            self._measures, self._widths, self._remark_lines = [], [], None
            self._cache.clear()
            self._show_cursor()

    def line(self, y: int, colours: palette.Palette, focused: bool) -> list[Segment]:
        if not self._widths:
            # Opening a branch changes no measure, so thousands of rows are measured once.
            is_narrow = self.width < FULL_NAMES
            if is_narrow not in self._names:
                rows = [self.table.rows[place] for place in self.visible] if self.fold else self.table.rows
                widths = [layout.width_of(self._name_of(row)) + (2 * row.depth + 2) * self.tree for row in rows]
                self._names[is_narrow] = max(widths, default=0)
            self._measures = self._measures or measure_table(self.table, self._names[is_narrow], self.width)
            self._widths, self._gap = (
                fit_widths(self._measures, self.width, self._empty(), self.gap) if self._measures else ([], GAP)
            )
            self._drawn = [measure.at_width(width) for measure, width in zip(self._measures, self._widths, strict=True)]
        if y == 0 and self.height > 1:
            return self.heads(colours)
        footer, notes = self._remarks()
        below = self.height - len(footer)
        if y >= below:
            return self._remark(footer[y - below], colours, "strong" if self.tree else "text")
        position = self.top + y - self._head_lines()
        if position < len(self.visible):
            ground = palette.PLAIN if position != self.cursor else palette.CURSOR if focused else palette.BLURRED
            cached = self._cache.get((position, ground))
            if cached is None:
                cached = self._cache[position, ground] = self._row(position, colours, ground)
            return cached
        if not self.visible and not position:
            return self._remark(self.if_empty, colours, "dim")
        note = position - len(self.visible)
        return self._remark(notes[note], colours, "dim") if note < len(notes) else []

    def _empty(self) -> list[int]:
        """Return the columns that say nothing in the visible rows: they are empty, or repeat the limit of the model."""
        rows = [self.table.rows[i].cells for i in self.visible]
        if not self.tree or not rows:
            return []
        silent = [(None, "", rows[0][i]) if c.key == "bound" else (None, "") for i, c in enumerate(self.table.columns)]
        checked = [i for i, column in enumerate(self.table.columns) if self.fold or column.key == "bound"]
        return [i for i in checked if all(cells[i] in silent[i] for cells in rows)]

    def forget(self) -> None:
        """Drop the drawn rows, because colours changed."""
        self._cache.clear()

    def _remark(self, text: str, colours: palette.Palette, role: str) -> list[Segment]:
        text = palette.plain(text, colours)
        return [Segment(layout.shorten(text, self.width), colours.get(role))]

    def head(self, measure: layout.Measure, width: int) -> str:
        """Return the head of a column. It tells the scale of bars that are not on the scale of the whole."""
        title = super().head(measure, width)
        if not self.tree or measure.column.role != "bar" or self._bar_full >= 1.0:
            return title
        scale = f"{title}  bar full at {percent(self._bar_full)}"
        return scale if layout.width_of(scale) <= width else title

    def _row(self, position: int, colours: palette.Palette, ground: int) -> list[Segment]:
        row = self.table.rows[self.visible[position]]
        space = Segment(" " * self._gap, colours.get("text", ground))
        segments: list[Segment] = []
        for index, width in enumerate(self._widths):
            if not width:
                continue
            if index == 0:
                segments += self._name(position, row, width, colours, ground)
            else:
                segments.append(space)
                segments += self._cell(index, row, width, colours, ground)
        used = sum(self._widths) + self._gap * (sum(map(bool, self._widths)) - 1)
        if used < self.width:
            segments.append(Segment(" " * (self.width - used), colours.get("text", ground)))
        return segments

    def _name(self, position: int, row: plain.Row, width: int, colours: palette.Palette, ground: int) -> list[Segment]:
        guides = self._guides(position, row) if self.tree else ""
        guides = guides[: max(0, width - 4)]
        name = layout.shorten(self._name_of(row), width - len(guides), middle=True)
        strong = row.key == self.mark or (self.tree and row.depth == 0)
        role = "dim" if row.dim else "strong" if strong else "text"
        segments = [Segment(guides, colours.get("guide", ground))] if guides else []
        segments += palette.highlighted(name, self.find, colours, role, ground)
        rest = width - len(guides) - layout.width_of(name)
        if rest > 0:
            segments.append(Segment(" " * rest, colours.get("text", ground)))
        return segments

    def _guides(self, position: int, row: plain.Row) -> str:
        is_open = self._open is None or not row.key or row.key in self._open
        sign = ("▾ " if is_open else "▸ ") if row.has_children else "  "
        if row.depth == 0:
            return sign
        lines = []
        above = self._parent[position]
        while above >= 0 and self.table.rows[self.visible[above]].depth > 0:
            lines.append("  " if self._last[above] else "│ ")
            above = self._parent[above]
        return "".join(reversed(lines)) + ("└ " if self._last[position] else "├ ") + sign

    def _cell(self, index: int, row: plain.Row, width: int, colours: palette.Palette, ground: int) -> list[Segment]:
        measure, value = self._drawn[index], row.cells[index]
        base = "dim" if row.dim else "text"
        role = measure.column.role
        if role == "bar":
            return self._bar(measure, value, width, colours, ground, base)
        if self.tree and measure.column.key == "bound" and row.depth and value == self.table.rows[0].cells[index]:
            value = ""  # the limit of the model: only others are named
        text, sense, number = (
            palette.plain(measure.write(value), colours),
            base,
            value if isinstance(value, plain.NUMBERS) else None,
        )
        if role == "delta":
            sense = "dim" if not number or abs(number) < 0.0005 else "bad" if number > 0 else "good"
        elif is_of_device(measure.column) and not isinstance(value, str):
            sense, sign = palette.device_cell_role(
                self.table, row, measure.column.key, number, has_colours=not colours.textured
            )
            text += sign
        return [Segment(layout.pad(text, width, role not in layout.LEFT), colours.get(sense, ground))]

    def _bar(
        self, measure: layout.Measure, value: Cell, width: int, colours: palette.Palette, ground: int, base: str
    ) -> list[Segment]:
        """Return the number of a bar and the bar; a bar of a column without a unit has no number."""
        fraction = float(value) if isinstance(value, plain.NUMBERS) else 0.0
        if isinstance(value, plain.Span):
            return _span(value, width, colours, ground, base)
        if not measure.column.unit:
            numbered, room = list[Segment](), width
        else:
            is_amount, digits = layout.is_amount(measure.column), measure.scale.width or PERCENT
            is_whole = self.tree and not is_amount and fraction > WHOLE
            is_said = value is None or isinstance(value, str) or is_whole
            percents = "<.1" if 0 < fraction < 0.0005 else f"{fraction * 100:.1f}"
            text = "" if is_said else measure.scale.cell(fraction) if is_amount else percents
            number = Segment(layout.pad(text, min(width, digits), True), colours.get(base, ground))
            room = width - digits - 1
            if room < 1:
                return [Segment(" " * max(0, width - digits), colours.get(base, ground)), number]
            numbered = [number, Segment(" ", colours.get("text", ground))]
        if isinstance(value, plain.Stack):
            return [*numbered, *palette.stacked([part / self._bar_full for part in value.parts], room, colours, ground)]
        drawn = palette.bar(min(1.0, fraction / self._bar_full), room, colours.ascii)
        return [*numbered, Segment(drawn, colours.get("bar", ground))]


def _span(span: plain.Span, width: int, colours: palette.Palette, ground: int, base: str) -> list[Segment]:
    """Return a place on an axis as a dot between the ends of its band."""
    start, dot, end = (round(place * (width - 1)) for place in (span.low, float(span), span.high))
    line, guide = ("-" if colours.ascii else "─"), colours.get("guide", ground)
    return [
        Segment(" " * start + line * (dot - start), guide),
        Segment("O" if colours.ascii else "○" if base == "dim" else "●", colours.get(base, ground)),
        Segment(line * (end - dot) + " " * (width - 1 - max(end, dot)), guide),
    ]
