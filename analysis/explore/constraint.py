"""Constraints: a figure, where it is taken, a comparison and an amount, as `energy(h100_sxm) < 50mJ`.

The limits of a screen (`L<5ms`), the rules of CI, and the limits of searches are constraints on METRICS.

    constraint := figure "(" argument { "," argument } ")" comparison amount
    comparison := < | <= | > | >=
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from analysis.estimate.metrics import CHANGING, METRICS, RULED
from hardware.amount import parse_amount
from hardware.errors import RequestError
from hardware.quantity import Unit, quantity

_CLOSE = 1e-9  # relative: figures nearer than that are equal
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: abs(a - b) <= _CLOSE * max(abs(a), abs(b)),
    "!=": lambda a, b: abs(a - b) > _CLOSE * max(abs(a), abs(b)),
}
LETTERS = {"L": "latency", "E": "energy", "P": "power", "M": "memory", "ttft": "ttft", "tpot": "tpot"}
_LIMIT = re.compile(r"([A-Za-z]+)(<=|>=|<|>)([^<>=\s]+)")
_FORMS = {  # figures with arguments of their own: how many, and how they are written
    "share": (1, 2, "a path and, if need be, a device: share(layer4.*, gpu)"),
    "ratio": (3, 3, "a figure and two devices: ratio(energy, cpu, gpu)"),
    "change": (1, 2, "a figure and, if need be, a path: change(energy, layer4.*)"),
}


class Constraint(msgspec.Struct, frozen=True):
    """`amount` is in the SI unit of the figure; `where` are the arguments, devices or patterns; `text` as typed."""

    figure: str
    sign: str
    amount: float
    where: tuple[str, ...] = ()
    text: str = ""

    @property
    def unit(self) -> Unit:
        """The unit of the figure: of a ratio a factor, of shares and changes per cent."""
        if self.figure in METRICS:
            return METRICS[self.figure].unit
        return "x" if self.figure == "ratio" else "%"

    def holds(self, value: float) -> bool:
        """Return whether a figure in its SI unit satisfies the constraint."""
        return COMPARISONS[self.sign](value, self.amount)

    def excess(self, value: float) -> float:
        """Return by what factor a figure misses the amount; at most 1 where it does not."""
        if self.sign.startswith(">"):
            return self.amount / value if value else float("inf")
        return value / self.amount if self.amount else (float("inf") if value else 1.0)

    def __str__(self) -> str:
        return self.text or f"{self.figure} {self.sign} {quantity(self.amount, self.unit)}"


# --- limits of a screen -------------------------------------------------------------------------------------


def parse_limit(word: str) -> Constraint | None:
    """Return the limit that a word states (`L<5ms`), None for any other word. Raises RequestError for its amount."""
    match = _LIMIT.fullmatch(word)
    name = match[1].casefold() if match is not None else ""
    letter = next((letter for letter, figure in LETTERS.items() if name in (letter.casefold(), figure)), "")
    if match is None or not letter:
        return None
    figure, (_, sign, amount) = LETTERS[letter], match.groups()
    return Constraint(figure, sign, parse_amount(amount, METRICS[figure].unit), text=f"{letter}{sign}{amount}")


def parse_limits(text: str) -> tuple[Constraint, ...]:
    """Return the limits in a text, separated by spaces or commas. Raises RequestError for anything else."""
    limits = []
    for word in text.replace(",", " ").split():
        if (limit := parse_limit(word)) is None:
            raise RequestError(
                f"limit {word[:40]!r}: one of L<5ms, E<1J, P<30W, M<8GB, under a load ttft<1s or tpot<30ms, is expected"
            )
        limits.append(limit)
    return tuple(limits)


def broken_limits(text: str, *results: object) -> tuple[str, ...]:
    """Return the limits of a text that an estimate, or else the load that it serves, does not satisfy."""
    return tuple(str(limit) for limit in parse_limits(text) if not _holds(limit, results))


def _holds(limit: Constraint, results: tuple[object, ...]) -> bool:
    """Return whether the first result that has the figure is within a limit; False where none has it."""
    metric = METRICS[limit.figure]
    having = next((result for result in results if hasattr(result, metric.key)), None)
    return having is not None and limit.holds(metric.figure(having))


# --- rules of CI ----------------------------------------------------------------------------------------------


class RuleError(RequestError):
    """A rule that cannot be read: what is wrong, and a caret under the column."""

    def __init__(self, text: str, column: int, message: str) -> None:
        self.text, self.column = text, column
        super().__init__(f"rule {text[:120]!r}, column {column + 1}: {message}")

    def picture(self) -> tuple[str, str]:
        """Return the rule in one line, and a caret under the column."""
        return " ".join(self.text.splitlines()), f"{' ' * self.column}^"


class _Reader:
    """The text of a rule and the place up to which it is read."""

    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0

    def fail(self, message: str, place: int | None = None) -> RuleError:
        """Return an error at a place, where reading stands unless given."""
        return RuleError(self.text, self.place if place is None else place, message)

    def take(self, pattern: str) -> str | None:
        """Read what matches after spaces; None where nothing does."""
        self.place += len(self.text[self.place :]) - len(self.text[self.place :].lstrip())
        match = re.compile(pattern).match(self.text, self.place)
        self.place = match.end() if match else self.place
        return match[0] if match else None


def parse_rule(text: str) -> Constraint:
    """Return the constraint that a text states. Raises RuleError with the column of what is wrong."""
    reader, figures = _Reader(text), (*RULED, *_FORMS)
    figure = reader.take(r"[A-Za-z_]+")
    if figure is None:
        raise reader.fail(f"a figure is expected ({', '.join(figures)})")
    if figure not in figures:
        raise reader.fail(f"unknown figure {figure!r} (allowed: {', '.join(figures)})", reader.place - len(figure))
    arguments = _read_arguments(reader)
    sign = reader.take(r"<=|>=|<|>")
    if sign is None:
        reader.take(r"")
        raise reader.fail("a comparison is expected (<, <=, >, >=)")
    _check_arguments(reader, figure, arguments)
    reader.take(r"")
    where = tuple(argument for argument, _ in arguments)
    unit = METRICS[figure].unit if figure in METRICS else ("" if figure == "ratio" else "%")
    try:
        amount = parse_amount(text[reader.place :], "fraction" if unit == "%" else unit)
    except RequestError as error:
        raise reader.fail(str(error)) from None
    return Constraint(figure, sign, amount, where, text)


def _read_arguments(reader: _Reader) -> list[tuple[str, int]]:
    """Read the arguments in parentheses, each with the column it begins at; none where there are none."""
    if reader.take(r"\(") is None or reader.take(r"\)") is not None:
        return []
    arguments: list[tuple[str, int]] = []
    while True:
        reader.take(r"")
        place, word = reader.place, reader.take(r"[^,()\s<>]+")
        if word is None:
            raise reader.fail("an argument is expected: a device or a path")
        arguments.append((word, place))
        if reader.take(r"\)") is not None:
            return arguments
        if reader.take(r",") is None:
            raise reader.fail("',' or ')' is expected")


def _check_arguments(reader: _Reader, figure: str, arguments: list[tuple[str, int]]) -> None:
    """Raise RuleError for a wrong number of arguments, or a figure among them that there is not."""
    if figure not in _FORMS:
        if len(arguments) > 1:
            raise reader.fail(f"{figure} takes one device", arguments[1][1])
        return
    least, most, form = _FORMS[figure]
    if not least <= len(arguments) <= most:
        raise reader.fail(f"{figure} takes {form}", 0)
    allowed = {"ratio": RULED, "change": tuple(CHANGING)}.get(figure)
    name, place = arguments[0]
    if allowed is not None and name not in allowed:
        raise reader.fail(f"unknown figure {name!r} (allowed: {', '.join(allowed)})", place)
