"""Views as one self-contained HTML page: no network, light and dark, tables that sort or fold.

All text is escaped; the only script is page.js, without which all rows show. A table that is wider than the page
scrolls, and its names stay.
"""

import math
import re
from collections.abc import Callable
from html import escape
from pathlib import Path

from msgspec.structs import replace

from analysis.document import Cell, Column
from hardware.base.text import quantity, safe
from hwexplorer.export.text import columns_as_text
from hwexplorer.text.terms import column_meaning
from hwexplorer.version import VERSION
from hwexplorer.views import layout, plain
from hwexplorer.views.plot_axis import Axis, axis, titled

BAR = 14  # width of a bar in em
_TURNS = ("device", "batch", "precision", "image_size")  # columns of a grid by which page.js chooses rows


def _text(value: object) -> str:
    """Return a value as escaped text."""
    return escape(safe(value))


def _colours(dark: bool) -> str:
    """Return the colours of the causes as CSS variables."""
    return "".join(f"--c{place}:{look.dark if dark else look.light};" for place, look in enumerate(plain.LOOKS))


_PAGE_STYLE = f"""
:root{{color-scheme:light dark;--ink:#1b1f24;--paper:#fff;--line:#d5d9de;--soft:#f3f5f7;--bar:#4c8bd6;--dim:#6a737d;
{_colours(dark=False)}}}
@media(prefers-color-scheme:dark){{:root{{--ink:#e3e6ea;--paper:#15181c;--line:#343a41;--soft:#1f242a;--bar:#4f86c6;
--dim:#98a1ab;{_colours(dark=True)}}}}}
body{{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);margin:2rem auto;max-width:90rem;
padding:0 1.2rem;overflow-wrap:break-word}}
"""
_STYLE, _SCRIPT = (
    f"\n{Path(__file__).with_name(name).read_text(encoding='utf-8')}" for name in ("page.css", "page.js")
)


def as_html(view: plain.View | plain.Page, command: str = "") -> str:
    """Return the view as a complete page, which shows the version and the `command` that made it."""
    footer = f'<p class="note">hwexplorer {_text(VERSION)}: <code>{_text(command)}</code></p>\n' if command else ""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{_text(view.title or view.name)}</title><style>{_PAGE_STYLE}{_STYLE}</style></head>\n<body>\n"
        f"{_part(view, 1)}\n{footer}<script>{_SCRIPT}</script>\n</body></html>\n"
    )


def as_fragment(view: plain.View | plain.Page) -> str:
    """Return the view for embedding in another page, such as a notebook: its style is scoped and it has no script."""
    rule = "--ink:currentColor;--line:#8886;--soft:transparent;--bar:#4c8bd6;--dim:#8a939c;" + _colours(dark=False)
    return f'<div class="hwexplorer"><style>.hwexplorer{{{rule}{_STYLE}}}</style>\n{_part(view, 3)}</div>'


def _part(view: plain.View | plain.Page, level: int) -> str:
    name, _, subtitle = view.title.partition(": ") if level == 1 else (view.title, "", "")
    title = f"<h{level}>{_text(name)}</h{level}>\n" if name else ""
    title += f"<p>{_text(subtitle)}</p>\n" if subtitle else ""
    if isinstance(view, plain.Page):
        return title + _parts(view, min(level + 1, 3))
    if isinstance(view, plain.Table):
        return title + _table(view)
    return title + (_prose(view, level) if isinstance(view, plain.Text) else _plot(view))


def _parts(page: plain.Page, level: int) -> str:
    """Return the parts one below the other, the cards below an answer in words, else first. If some parts are brief,
    or a grid of settings, they come before the others, which are folded."""
    brief = [part for name in page.brief for part in page.parts if part.name == name]
    brief = brief or [part for part in page.parts if _is_grid(part)]
    rest = [part for part in page.parts if not any(part is chosen_part for chosen_part in brief)]
    pieces = [_part(part, level) for part in brief or rest]
    cards = f'<div class="cards">{"".join(map(_card, page.cards))}</div>' if page.cards else ""
    pieces.insert(int(not brief and isinstance(rest[0], plain.Text)), cards)
    for part in rest if brief else ():
        inner = _part(replace(part, title=""), level)
        pieces.append(f'<details class="part"><summary>{_text(part.title or part.name)}</summary>{inner}</details>')
    return "\n".join(pieces)


def _lines(lines: tuple[str, ...], kind: str = "plain") -> str:
    items = "".join(f"<li>{_breakable(_text(line))}</li>" for line in lines)
    return f'<ul class="plain {kind}">{items}</ul>' if lines else ""


def _breakable(line: str) -> str:
    """Let a long list such as `device,model,batch` break after a comma, and no option after its hyphens."""
    line = re.sub(r"(?<!\S)--[\w-]+", r'<span class="option">\g<0></span>', line)
    return re.sub(r"\w+(?:,\w+){2,}", lambda words: words[0].replace(",", ",<wbr>"), line)


def _prose(view: plain.Text, level: int) -> str:
    inner = min(level + 1, 4)
    kind = "drawing" if view.is_drawing else "plain"
    first, *others = [f"<h{inner}>{_text(head)}</h{inner}>{_lines(lines, kind)}" for head, lines in view.sections]
    return "\n".join((first, _steps(view.steps), *others))


def _table(view: plain.Table) -> str:
    """Return a table that scrolls if it is wider than the page. Rows with children fold the rows below them, those of
    less than half of the model at first; other tables sort by a column. A grid of settings has controls above it."""
    texts = columns_as_text(view)
    footers = f"{_lines(view.footer)}{_lines(view.notes, 'note')}"
    if any(isinstance(cell, plain.Stack) for row in view.rows[:1] for cell in row.cells):
        footers += _legend()
    is_tree = any(row.has_children for row in view.rows)
    heads = "".join(
        f'<th scope="col"{_class(column)} title="{_text(column_meaning(column))}">'
        f"{_text(cells[0]) if is_tree else f'<button>{_text(cells[0])}</button>'}</th>"
        for column, cells in zip(view.columns, texts, strict=True)
    )
    turns = "".join(f"{c} " for c, column in enumerate(view.columns) if column.key in _TURNS)
    has_one_root = sum(row.depth == 0 for row in view.rows) == 1
    rows = "".join(_row(view, row, texts, r, has_one_root) for r, row in enumerate(view.rows, 1))
    grid = f' data-turns="{turns.strip()}"' if _is_grid(view) else ""
    stack = ' class="tree"' * is_tree or ' class="stack"' * (sum(map(layout.is_amount, view.columns)) > 1)
    table = f"<table{grid}{stack}><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table>"
    return f'<div class="scroll">{table}</div>{footers}'


def _is_grid(view: plain.View | plain.Page) -> bool:
    """Return True for a table of settings, each with its figures, by which page.js chooses rows."""
    return isinstance(view, plain.Table) and {*_TURNS[:3]} <= {column.key for column in view.columns}


def _class(column: Column) -> str:
    return ' class="text"' if column.role in layout.LEFT else ""


def _row(view: plain.Table, row: plain.Row, texts: list[list[str]], place: int, has_one_root: bool) -> str:
    cells = []
    for c, (column, value, column_texts) in enumerate(zip(view.columns, row.cells, texts, strict=True)):
        text = column_texts[place]
        inside = _bar(value) if column.role == "bar" else _text(text.strip())
        if layout.is_amount(column):
            inside = f"<i>{_text(column_texts[0])}</i>{inside} {_text(text.split()[0])}"
        if row.has_children and not c:
            inside = f"<button>{inside}</button>"
        if row.depth and not c:
            inside = f'<span style="padding-left:{row.depth * 1.2:.1f}em">{inside}</span>'
        key = repr(float(value)) if isinstance(value, int | float) else ("" if value is None else str(value))
        kind = ' class="text bars"' if column.role == "bar" else _class(column)
        cells.append(f'<td{kind} data-v="{_text(key)}">{inside}</td>')
    bars = [float(value or 0) for column, value in zip(view.columns, row.cells, strict=True) if column.role == "bar"]
    is_open = has_one_root and (not row.depth or max(bars, default=0.0) >= 0.5)
    kinds = "dim " * row.dim + "shut" * (row.has_children and not is_open)
    return f'<tr data-depth="{row.depth}" class="{kinds}">{"".join(cells)}</tr>\n'


# --- bars -------------------------------------------------------------------------------------------------


def _legend() -> str:
    """Return the legend of the colours of bars."""
    samples = "".join(
        f'<span class="bar" style="background:var(--c{i})"></span>{x.name}' for i, x in enumerate(plain.LOOKS)
    )
    return f'<p class="legend">time and energy by cause:{samples}</p>'


def _bar(value: Cell, full: str = "var(--full)") -> str:
    """Return a bar, by cause for a `Stack`. `full` is the length of the value 1, by default that of page.css."""
    if isinstance(value, plain.Stack):
        return "".join(
            f'<span class="bar" style="width:calc({part:.4f}*{full});background:var(--c{place})" '
            f'title="{plain.LOOKS[place].name}"></span>'
            for place, part in enumerate(value.parts)
            if part > 0
        )
    wide = min(max(float(value), 0.0), 1.0) if isinstance(value, int | float) else 0.0
    return f'<span class="bar" style="width:calc({wide:.4f}*{full})"></span>'


# --- cards and steps --------------------------------------------------------------------------------------


def _card(card: plain.Card) -> str:
    """Return a device with its cost, the main figure first. Designs on paper are dimmed."""
    main_figure, *rest = (_text(str(figure)) for figure in card.figures)
    figures = f"<b>{main_figure}</b>" + "".join(f"<span>{figure}</span>" for figure in rest)
    kind = " paper" * card.on_paper if card.fits and not card.over else " out"
    return (
        f'<div class="card{kind}"><b class="name">{_text(card.name)}</b> '
        f'{_text(card.evidence)} · {_text(card.runs)}<div class="figures">{figures}</div>'
        f'<div class="track" title="the whole by cause">{_bar(card.bar, "100%")}</div>'
        f"{_text(' · '.join((*card.over, card.phrase)))}</div>"
    )


def _steps(waterfall: tuple[plain.WaterfallStep, ...]) -> str:
    """Return a waterfall as a table of bars."""
    rows = ""
    for step in waterfall:
        start = f'<span style="padding-left:{step.start * 2 * BAR:.2f}em"></span>'
        cells = (_text(step.name), _text(quantity(step.seconds, "s")), start + _bar(step.bar, f"{2 * BAR}em"))
        rows += "<tr>" + "".join(f'<td class="text">{cell}</td>' for cell in cells) + "</tr>"
    return f"<table><tbody>{rows}</tbody></table>" if waterfall else ""


# --- plots ------------------------------------------------------------------------------------------------

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _RIGHT = 900, 420, 80, 64, 24
_FOOT, _TICKS = _HEIGHT - _BOTTOM, 8
_COLOURS = ("#4c8bd6", "#d9822b", "#3d9970", "#a05cc5", "#c0505a", "#7a7f35")


_Pixels = Callable[[float], float]


def _pixels(scale: Axis, first: int, last: int) -> _Pixels:
    """Return the function from values to positions between two ends; a value outside the axis maps to the first."""
    return lambda value: first + (scale.place(value) or 0.0) * (last - first)


def _plot(view: plain.Plot) -> str:
    x_axis = axis([v for s in view.series for v in s.x], view.x_unit)
    y_axis = axis([v for s in view.series for v in s.y], view.y_unit)
    x, y = _pixels(x_axis, _LEFT, _WIDTH - _RIGHT), _pixels(y_axis, _FOOT, 12)
    grid = [
        f'<line class="grid" x1="{x(t):.1f}" x2="{x(t):.1f}" y1="12" y2="{_FOOT}"/>'
        f'<text x="{x(t):.1f}" y="{_FOOT + 22}" text-anchor="middle">{_text(label)}</text>'
        for t, label in x_axis.ticks(_TICKS)
    ]
    grid += [
        f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(t):.1f}" y2="{y(t):.1f}"/>'
        f'<text x="{_LEFT - 6}" y="{y(t) + 4:.1f}" text-anchor="end">{_text(label)}</text>'
        for t, label in y_axis.ticks(_TICKS)
    ]
    marks = [_series(view, series, i, x, y) for i, series in enumerate(view.series)]
    legend = "".join(
        f'<li><span style="color:{_colour(s, i)}">{"○" if s.mark else "●"}</span> {_text(s.name)}</li>'
        for i, s in enumerate(view.series)
        if not s.line
    )
    titles = (_text(titled(*each)) for each in ((view.x_title, view.x_unit), (view.y_title, view.y_unit)))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{_text(view.title)}">{"".join(grid)}'
        f'{"".join(marks)}<text x="{_WIDTH / 2}" y="{_HEIGHT - 8}" text-anchor="middle">{next(titles)}</text>'
        f'<text x="{_LEFT + 6}" y="30">{next(titles)}</text></svg>'
        f'<ul class="plain legend">{legend}</ul>{_lines(view.notes, "note")}'
    )


def _colour(series: plain.Series, index: int) -> str:
    """Return the colour of a series: one per device in all plots, and the text colour for a marked series."""
    if series.mark:
        return "var(--ink)"
    return _COLOURS[(series.device if series.device >= 0 else index) % len(_COLOURS)]


def _series(view: plain.Plot, series: plain.Series, index: int, x: _Pixels, y: _Pixels) -> str:
    colour = _colour(series, index)
    names = series.labels or series.keys or (series.name,) * len(series.x)
    sizes = series.sizes or (0.0,) * len(series.x)
    points = [
        (a, b, label, 3.5 + 3 * series.mark + 16 * math.sqrt(size))
        for a, b, label, size in zip(series.x, series.y, names, sizes, strict=True)
        if math.isfinite(a) and math.isfinite(b)
    ]
    if series.line and points:
        path = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b, *_ in points)
        end = points[-1]
        stroke = f' style="stroke:{colour}"' if series.device >= 0 else ""
        label = f'<text x="{x(end[0]):.1f}" y="{y(end[1]) - 6:.1f}" text-anchor="end">{_text(series.name)}</text>'
        return f'<polyline class="roof"{stroke} points="{path}"><title>{_text(series.name)}</title></polyline>{label}'
    style = f'fill="none" stroke="{colour}"' if series.mark else f'fill="{colour}" fill-opacity=".75"'
    return "".join(
        f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="{radius:.1f}" {style}><title>'
        f"{_text(label)}: {_text(quantity(a, view.x_unit))}, {_text(quantity(b, view.y_unit))}</title></circle>"
        for a, b, label, radius in points
    )
