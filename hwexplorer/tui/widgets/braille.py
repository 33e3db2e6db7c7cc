"""A canvas of braille dots: two across and four down in every terminal cell."""

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))


class Braille:
    """Dots, and for each cell the series that drew last."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self._dots = [bytearray(width) for _ in range(height)]
        self._owner = [bytearray(width) for _ in range(height)]

    def dot(self, x: int, y: int, owner: int) -> None:
        """Set a dot if it is inside. x grows to the right from 0 to 2*width-1, y upwards from 0 to 4*height-1."""
        if not (0 <= x < 2 * self.width and 0 <= y < 4 * self.height):
            return
        y = 4 * self.height - 1 - y
        self._dots[y >> 2][x >> 1] |= _DOTS[y & 3][x & 1]
        self._owner[y >> 2][x >> 1] = owner + 1

    def segment(self, x0: float, y0: float, x1: float, y1: float, owner: int) -> None:
        """Draw a straight line between two places, which may be outside."""
        clipped = _clip(x0, y0, x1, y1, 2 * self.width - 1, 4 * self.height - 1)
        if clipped is None:
            return
        x0, y0, x1, y1 = clipped
        steps = max(1, round(max(abs(x1 - x0), abs(y1 - y0))))
        for step in range(steps + 1):
            at = step / steps
            self.dot(round(x0 + (x1 - x0) * at), round(y0 + (y1 - y0) * at), owner)

    def owners(self, row: int) -> bytearray:
        """Return the series of each cell of a row, counted from 1 (0: none)."""
        return bytearray(self._owner[row])

    def cell(self, column: int, row: int, ascii: bool = False) -> tuple[str, int]:
        """Return the character of a cell and the cell's series (-1: none)."""
        dots = self._dots[row][column]
        owner = self._owner[row][column] - 1
        if not dots:
            return " ", -1
        return ("*+ox"[owner % 4] if ascii else chr(0x2800 + dots)), owner


def _clip(
    x0: float, y0: float, x1: float, y1: float, right: float, top: float
) -> tuple[float, float, float, float] | None:
    """Return the part of a line inside the canvas, or None (algorithm of Liang and Barsky)."""
    dx, dy = x1 - x0, y1 - y0
    first, last = 0.0, 1.0
    for p, q in ((-dx, x0), (dx, right - x0), (-dy, y0), (dy, top - y0)):
        if p == 0:
            if q < 0:
                return None
            continue
        ratio = q / p
        if p < 0:
            first = max(first, ratio)
        else:
            last = min(last, ratio)
        if first > last:
            return None
    return x0 + first * dx, y0 + first * dy, x0 + last * dx, y0 + last * dy
