"""A logarithmic axis of a plot: the places of figures on it, and its labelled ticks."""

import math
from collections.abc import Sequence

import msgspec

from hardware.base.text import quantity

SYMBOLS = {"byte": "B", "byte/s": "B/s", "Js": "J·s", "FLOP/byte": "FLOP/B", "1/s": "/s", "count": ""}


class Axis(msgspec.Struct, frozen=True):
    """A logarithmic axis that maps data to 0..1."""

    low: float
    high: float
    unit: str

    def place(self, value: float) -> float | None:
        """Return the place of a value. Return None if it is not finite or not above zero."""
        return self.places((value,))[0]

    def places(self, values: Sequence[float]) -> list[float | None]:
        """Return the `place` of each value."""
        log, low, log_range = math.log, self.low, math.log(self.high / self.low)
        return [log(value / low) / log_range if 0 < value < math.inf else None for value in values]

    def ticks(self, most: int) -> list[tuple[float, str]]:
        """Return about `most` ticks (value, label) at powers of ten; also at their multiples if there are few."""
        return [(value, _tick(value, self.unit)) for value in self._decades(most)]

    def _decades(self, most: int) -> list[float]:
        first_power = math.ceil(math.log10(self.low) - 1e-9)
        last_power = math.floor(math.log10(self.high) + 1e-9)
        count = last_power - first_power + 1
        if count < 2 and most > 1:  # fewer than two powers of ten: label also their multiples
            inside = [10.0**e * m for e in range(first_power - 2, last_power + 2) for m in (1, 2, 5)]
            return [v for v in inside if self.low <= v <= self.high][:most]
        every = max(1, math.ceil(count / max(1, most)))
        return [10.0**e for e in range(first_power, last_power + 1, every)]


def _tick(value: float, unit: str) -> str:
    """Return the label of a tick without the unit, which the title of the axis has: `1T` for 1 TFLOP/s."""
    if unit in ("", "x", "count", "FLOP/byte"):
        if 0.001 <= abs(value) < 1000:
            return f"{value:g}"
        unit = "SI"
    number, _, label = quantity(value, unit).partition(" ")
    number = f"{float(number.replace(',', '')):g}" if number[:1].isdigit() else number
    return number + label.removesuffix(SYMBOLS.get(unit, unit))


def titled(title: str, unit: str) -> str:
    """Return the title of an axis with its unit, unless the title names the unit already."""
    symbol = SYMBOLS.get(unit, unit)
    return title if symbol.partition("/")[0] in title else f"{title} {symbol}"


def axis(values: Sequence[float], unit: str) -> Axis:
    """Return an axis that has room for all values above zero."""
    usable = [v for v in values if 0 < v < math.inf]
    low, high = (min(usable) / 1.3, max(usable) * 1.5) if usable else (1 / 1.3, 15.0)
    return Axis(low, high if high > low * 2 else low * 10, unit)
