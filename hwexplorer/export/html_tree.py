"""A tree as nested `<details>`, which unfold without a script. Also bars by cause, cards and steps.

Columns are aligned because every row is a grid with the same widths.
"""

from collections.abc import Iterator
from html import escape
from math import inf, log
from zlib import crc32

from analysis.document import Cell
from hwexplorer.text.number_format import quantity, safe
from hwexplorer.text.terms import column_meaning
from hwexplorer.views.cause_looks import LOOKS
from hwexplorer.views.layout import LEFT, fit_places
from hwexplorer.views.plain import Card, Row, Stack, Table, WaterfallStep

WIDEST = 40  # most characters of a column
BAR, BAR_CELLS = 14, 22  # width of a bar in em, and in characters
PAGES = (1300, 1200, 1000, 800, 600, 400)  # pixels: a page narrower than one of these has the columns that fit the next
MARGINS, CELL = 50, 8.8  # pixels of a tree's margins, and of a digit


def colours(dark: bool) -> str:
    """Return the colours of the causes as CSS variables."""
    return "".join(f"--c{place}:{look.dark if dark else look.light};" for place, look in enumerate(LOOKS))


def text(value: object) -> str:
    """Return a value as escaped text."""
    return escape(safe(value))


def is_tree(view: Table) -> bool:
    """Return True if rows have children."""
    return any(row.has_children for row in view.rows)


def legend() -> str:
    """Return the legend of the colours of bars."""
    samples = "".join(f'<span class="bar" style="background:var(--c{i})"></span>{x.name}' for i, x in enumerate(LOOKS))
    return f'<p class="legend">time and energy by cause:{samples}</p>'


def bar(value: Cell, full: float = 8.0, unit: str = "em") -> str:
    """Return a bar, by cause for a `Stack`. `full` is the length of the value 1."""
    if isinstance(value, Stack):
        return "".join(
            f'<span class="bar" style="width:{part * full:.2f}{unit};background:var(--c{place})" '
            f'title="{LOOKS[place].name}"></span>'
            for place, part in enumerate(value.parts)
            if part > 0
        )
    wide = min(max(float(value), 0.0), 1.0) if isinstance(value, int | float) else 0.0
    return f'<span class="bar" style="width:{wide * full:.2f}{unit}"></span>'


def tree(view: Table, shown: list[list[str]]) -> str:
    """Return a tree, open where half of the model is. `shown` are the columns as text, each with its head first."""
    heads = "".join(
        f'<span class="{_class(view, c)}" title="{text(column_meaning(column))}">{text(shown[c][0])}</span>'
        for c, column in enumerate(view.columns)
    )
    name, style = fit_page(view, shown, ".row", CELL, indent=6)
    head = f'{style}<div class="tree {name}"><div class="row head">{heads}</div>\n'
    return "".join([head, *_nested(view, shown), "</div>"])


def fit_page(
    view: Table, shown: list[list[str]], row: str, cell: float, indent: int = 0, widest: int = WIDEST
) -> tuple[str, str]:
    """Return the name of a class and its style: for each page width, the widths of the columns that fit and the names
    of the others. `row` selects the rows, and `cell` is the width of a digit in pixels."""
    cells = [
        BAR_CELLS
        if column.role == "bar"
        else min(
            max([*map(len, texts[1:]), *(len(word) + 2 for word in texts[0].split())], default=0), widest
        )  # heads wrap
        for column, texts in zip(view.columns, shown, strict=True)
    ]
    cells[0] = min(cells[0] + indent, WIDEST)
    name = f"t{crc32(repr((cells, shown)).encode()):x}"
    rules = []
    for above, page in zip((0, *PAGES), PAGES, strict=False):
        fitting_columns = fit_places(view.columns, cells, int((page - MARGINS) / cell))
        widths = [f"min({BAR}em,16vw)" if view.columns[c].role == "bar" else f"{cells[c]}ch" for c in fitting_columns]
        widths[0] = f"min({cells[0]}ch,36vw)"  # leaves room for the figures on a phone
        rest = [c for c in range(len(view.columns)) if c not in fitting_columns]
        hidden = ",".join(f".{name} {row}>:nth-child({c + 1})" for c in rest)
        rule = f".{name}{{--w:{' '.join(widths)}}}" + (hidden and f"{hidden}{{display:none}}")
        if rest:
            hidden_titles = ", ".join(view.columns[c].title for c in rest)
            rule += f'.{name}:after{{content:"on a wider page: {hidden_titles}"}}'
        rules.append(f"@media(max-width:{above - 1}px){{{rule}}}" if above else rule)
    return name, f"<style>{''.join(rules)}</style>"


def _class(view: Table, c: int) -> str:
    return "text" if view.columns[c].role in LEFT else "number"


def _nested(view: Table, shown: list[list[str]]) -> Iterator[str]:
    has_one_root = sum(row.depth == 0 for row in view.rows) == 1
    open_depths: list[int] = []
    bars = [i for i, column in enumerate(view.columns) if column.role == "bar"]
    for r, row in enumerate(view.rows):
        while open_depths and open_depths[-1] >= row.depth:
            open_depths.pop()
            yield "</details>\n"
        cells = _cells(view, row, [column[r + 1] for column in shown])
        dim = " dim" if row.dim else ""
        if row.has_children:
            open_depths.append(row.depth)
            is_open = has_one_root and (not row.depth or any(float(row.cells[i] or 0) >= 0.5 for i in bars))
            yield f'<details{" open" * is_open}><summary class="row{dim}">{cells}</summary>\n'
        else:
            yield f'<div class="row{dim}">{cells}</div>\n'
    yield "</details>" * len(open_depths)


def _cells(view: Table, row: Row, texts: list[str]) -> str:
    cells = [f'<span class="text name" style="--depth:{row.depth}">{text(texts[0].strip())}</span>']
    for c, (column, value) in enumerate(zip(view.columns, row.cells, strict=True)):
        if c:
            if column.role == "bar":
                cells.append(f'<span class="text stack">{bar(value, 100.0, "%")}</span>')
            else:
                cells.append(f'<span class="{_class(view, c)}">{text(texts[c].strip())}</span>')
    return "".join(cells)


def cards(devices: tuple[Card, ...]) -> str:
    """Return a card for each device: its cost, the main figure first. Designs on paper are dimmed. Of several, the
    ranked figures stand on one log scale, with their bands."""
    ends = [value for card in devices for value in (*card.band, card.value) if 0.0 < value < inf]
    if len(devices) < 2 or not ends:
        return f'<div class="cards">{"".join(_card(card, "") for card in devices)}</div>' * bool(devices)
    least, factor = min(ends), max(ends) / min(ends)

    def scale(card: Card) -> str:
        """Return the ranked figure of a device as a dot on the line of its band."""
        values = (*card.band, card.value)
        left, right, dot = (100 * log(min(max(value / least, 1.0), factor)) / (log(factor) or 1.0) for value in values)
        line = f'<i style="left:{left:.1f}%;width:{right - left:.1f}%"></i>'
        return f'<div class="scale">{line}<b style="left:{dot:.1f}%"></b></div>'

    note = "bar: cost by cause, of one length; dot and line: the ranked cost and its band, on one log scale whose ends "
    note += f"differ {factor:,.0f}x"
    listed = "".join(_card(card, scale(card)) for card in devices)
    return f'<div class="cards">{listed}</div><p class="note">{note}</p>'


def _card(card: Card, scale: str) -> str:
    main_figure, *rest = (text(str(figure)) for figure in card.figures)
    figures = f"<b>{main_figure}</b>" + "".join(f"<span>{figure}</span>" for figure in rest)
    kind = " paper" * card.on_paper if card.fits and not card.over else " out"
    return (
        f'<div class="card{kind}"><b class="name">{text(card.name)}</b> '
        f'{text(card.evidence)} · {text(card.runtime)} {text(card.format)}<div class="figures">{figures}</div>'
        f'<div class="track" title="the whole by cause">{bar(card.bar, 100, "%")}</div>{scale}'
        f"{text(' · '.join((*card.over, card.phrase)))}</div>"
    )


def steps(waterfall: tuple[WaterfallStep, ...]) -> str:
    """Return a waterfall as a table of bars."""
    rows = ""
    for step in waterfall:
        start = f'<span style="padding-left:{step.start * 2 * BAR:.2f}em"></span>'
        cells = (text(step.name), text(quantity(step.seconds, "s")), start + bar(step.bar, 2 * BAR))
        rows += "<tr>" + "".join(f'<td class="text">{cell}</td>' for cell in cells) + "</tr>"
    return f"<table><tbody>{rows}</tbody></table>" if waterfall else ""
