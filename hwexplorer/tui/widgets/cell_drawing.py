"""Single cells of the table (text, bars, marked matches), and which columns are not shown."""

from collections.abc import Collection, Sequence

from rich.segment import Segment
from rich.style import Style

from analysis.document import Cell
from hwexplorer.text.number_format import safe, to_ascii
from hwexplorer.tui.palette import CAUSE, PLAIN, Palette
from hwexplorer.views.cause_looks import LOOKS, cells
from hwexplorer.views.plain import NUMBERS, Amount, Row, Table
from hwexplorer.views.tables import keep_columns, repeats_bar

EIGHTHS = " ▏▎▍▌▋▊▉█"
TRACE = 0.5  # cells; a shorter bar fills no cell of any cause


def plain(text: Cell, palette: Palette) -> str:
    """Return a cell as text without control characters, in ASCII if the palette is."""
    cleaned = safe(text)
    return to_ascii(cleaned) if palette.ascii else cleaned


def drop_columns(table: Table, hide: Collection[str]) -> Table:
    """Return the table without columns of the hidden roles (a delta while diff is off) and repeated numbers of bars."""
    keep = [i for i, c in enumerate(table.columns) if c.role not in hide and not repeats_bar(table, i)]
    return table if len(keep) == len(table.columns) else keep_columns(table, keep)


def bar(fraction: float, width: int, ascii: bool = False) -> str:
    """Return a bar of eighth blocks in `width` cells; anything above zero leaves a trace."""
    if not fraction > 0:
        return " " * width
    if ascii:
        return ("#" * max(1, round(fraction * width))).ljust(width)
    eighths = min(max(1, round(fraction * width * 8)), width * 8)
    full, part = divmod(eighths, 8)
    return ("█" * full + (EIGHTHS[part] if part else "")).ljust(width)


def stacked(parts: Sequence[float], width: int, palette: Palette, ground: int = PLAIN) -> list[Segment]:
    """Return a bar of `width` cells by cause; `parts` are fractions of the width. In colour, borders are drawn to an
    eighth of a cell; otherwise each cause has its own texture or letter."""
    if palette.textured and sum(parts) * width < TRACE:
        drawn = [Segment(("." if palette.ascii else EIGHTHS[1]) * (sum(parts) > 0), palette.get("dim", ground))]
    elif palette.textured:
        drawn = [
            Segment((look.letter if palette.ascii else look.texture) * count, palette.get(f"{CAUSE}{place}", ground))
            for place, (look, count) in enumerate(zip(LOOKS, cells(parts, width), strict=True))
            if count
        ]
    else:
        drawn = _coloured(parts, width, palette, ground)
    used = sum([len(segment.text) for segment in drawn])
    return [*drawn, Segment(" " * (width - used), palette.get("text", ground))] if used < width else drawn


def _coloured(parts: Sequence[float], width: int, palette: Palette, ground: int) -> list[Segment]:
    """Return cells in the colour of their cause. A cell of several causes shows the two largest: a partial block of one
    on the colour of the other."""
    eighths = cells(parts, width * 8)
    if not sum(eighths):
        return []
    owner = [place for place, count in enumerate(eighths) for _ in range(count)]
    drawn = []
    for start in range(0, len(owner), 8):
        inside = owner[start : start + 8]
        most = sorted(sorted(set(inside), key=inside.count)[-2:])
        style = palette.get(f"{CAUSE}{most[0]}", ground)
        filled = inside.count(most[0])
        if len(most) > 1:
            style += Style(bgcolor=palette.get(f"{CAUSE}{most[1]}", ground).color)
            filled = round(len(inside) * filled / (filled + inside.count(most[1])))
        drawn.append(Segment(EIGHTHS[filled], style))
    return drawn


def device_cell_role(
    table: Table, row: Row, key: str, number: float | None, has_colours: bool = True
) -> tuple[str, str]:
    """Return role and sign of one device's figure. The winner has a sign; the others have a colour, or without colours
    a sign, by their ratio to the least figure of a device in silicon."""
    cells = dict(zip([column.key for column in table.columns], row.cells, strict=True))
    wins = key == f"on:{cells.get('wins')}"
    values = [v for name, v in cells.items() if name[:3] == "on:" and isinstance(v, NUMBERS)]
    least = 0.0 if Amount in map(type, values) else float(min(values, default=0.0))
    ratio = number / least if number is not None and least > 0 else 1.0
    role = "good" if wins else "text" if ratio < 2 else "warn" if ratio < 10 else "bad"
    return role, {"good": "◂", "warn": "+", "bad": "!"}.get(role, " ") if wins or not has_colours else " "


def highlighted(text: str, find: str, palette: Palette, role: str, ground: int) -> list[Segment]:
    """Return a text with the first match of `find` marked."""
    plain = palette.get(role, ground)
    start = text.casefold().find(find.casefold()) if find else -1
    if start < 0:
        return [Segment(text, plain)]
    end = start + len(find)
    return [
        Segment(text[:start], plain),
        Segment(text[start:end], palette.get("find", ground)),
        Segment(text[end:], plain),
    ]
