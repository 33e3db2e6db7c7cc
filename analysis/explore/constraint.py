"""Constraints: a figure, its device or path, a comparison and an amount, as `energy(h100_sxm) < 50mJ`.

The limits of a screen (`L<5ms`), the rules of CI, and the limits of searches are constraints on METRICS.

    constraint := figure "(" argument { "," argument } ")" comparison amount
    comparison := < | <= | > | >=
"""

import re
from collections.abc import Callable

import msgspec

from analysis.estimate.figures import METRICS, select_metrics
from hardware.base.errors import RequestError, unknown
from hardware.base.text import Unit, amount_example, parse_amount, quantity

_CLOSE = 1e-9  # relative: figures nearer than that are equal
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "=": lambda a, b: abs(a - b) <= _CLOSE * max(abs(a), abs(b)),
    "!=": lambda a, b: abs(a - b) > _CLOSE * max(abs(a), abs(b)),
}
_LIMIT = re.compile(r"([A-Za-z]+)(<=|>=|<|>)([^<>=\s]+)")
_RULE = re.compile(r"([A-Za-z_]+)\s*(?:\(([^()<>]*)\))?\s*(<=|>=|<|>)\s*([^<>]+)")
_BARE = ("", "%", "1/s")  # units whose amounts may be bare numbers
_FORMS = {  # figures with special arguments: least and most, and how they are written
    "share": (1, 2, "a path and optionally a device: share(layer4.*, gpu)"),
    "ratio": (3, 3, "a figure and two devices: ratio(energy, cpu, gpu)"),
    "change": (1, 2, "a figure and optionally a path: change(energy, layer4.*)"),
}


class Constraint(msgspec.Struct, frozen=True):
    """`amount` is in the SI unit of the figure; `where` are the arguments, devices or patterns; `text` is as typed."""

    figure: str
    sign: str
    amount: float
    where: tuple[str, ...] = ()
    text: str = ""

    @property
    def unit(self) -> Unit:
        """The unit of the figure: a factor for a ratio, per cent for shares and changes."""
        if self.figure in METRICS:
            return METRICS[self.figure].unit
        return "x" if self.figure == "ratio" else "%"

    def holds(self, value: float) -> bool:
        """Return whether a figure in its SI unit satisfies the constraint."""
        return COMPARISONS[self.sign](value, self.amount)

    def excess(self, value: float) -> float:
        """Return the factor by which a figure misses the amount; at most 1 if it does not."""
        if self.sign.startswith(">"):
            return self.amount / value if value else float("inf")
        return value / self.amount if self.amount else (float("inf") if value else 1.0)

    def __str__(self) -> str:
        return self.text or f"{self.figure} {self.sign} {quantity(self.amount, self.unit)}"


# --- limits of a screen -------------------------------------------------------------------------------------


def parse_limit(word: str) -> Constraint | None:
    """Return the limit in a word (`L<5ms`), None for any other word. Raises RequestError for an invalid amount."""
    match = _LIMIT.fullmatch(word)
    name = match[1].casefold() if match is not None else ""
    limitable = ((figure, metric) for figure, metric in METRICS.items() if metric.letter)
    found = next(((f, metric) for f, metric in limitable if name in (metric.letter.casefold(), f)), None)
    if match is None or found is None:
        return None
    (figure, metric), (_, sign, amount) = found, match.groups()
    return Constraint(figure, sign, parse_amount(amount, metric.unit), text=f"{metric.letter}{sign}{amount}")


def parse_limits(text: str) -> tuple[Constraint, ...]:
    """Return the limits in a text, separated by spaces or commas. Raises RequestError for anything else."""
    limits = []
    for word in text.replace(",", " ").split():
        if (limit := parse_limit(word)) is None:
            raise RequestError(
                f"limit {word[:40]!r}: expected one of L<5ms, E<1J, P<30W, M<8GB, or under a load ttft<1s or tpot<30ms"
            )
        limits.append(limit)
    return tuple(limits)


# --- rules of CI ----------------------------------------------------------------------------------------------


def parse_rule(text: str) -> Constraint:
    """Return the constraint in a text. Raises RequestError in one line."""
    try:
        match = _RULE.fullmatch(text.strip())
        if match is None:
            raise RequestError("expected a figure, a comparison (<, <=, >, >=) and an amount, e.g. energy(gpu) < 50mJ")
        figure, arguments, sign, amount = match.groups()
        where = tuple(word.strip() for word in arguments.split(",")) if arguments and arguments.strip() else ()
        _check_figure(figure, where)
        unit = METRICS[figure].unit if figure in METRICS else ("" if figure == "ratio" else "%")
        if unit not in _BARE and not re.search(r"[A-DF-Za-df-z/]", amount):  # e is that of an exponent
            raise RequestError(f"{amount.strip()!r} has no unit: write {figure} {sign} {amount_example(unit)}")
        value = parse_amount(amount, "fraction" if unit == "%" else unit)
        return Constraint(figure, sign, value, where, text)
    except RequestError as error:
        raise RequestError(f"rule {text[:120]!r}: {error}") from None


def _check_figure(figure: str, where: tuple[str, ...]) -> None:
    """Raise RequestError for an unknown figure, or for arguments that it does not take."""
    known = (*select_metrics(lambda metric: metric.is_ruled), *_FORMS)
    if figure not in known:
        raise unknown("figure", figure, known)
    least, most, form = _FORMS.get(figure, (0, 1, "one device"))
    if not least <= len(where) <= most:
        raise RequestError(f"{figure} takes {form}")
    if not all(re.fullmatch(r"\S+", word) for word in where):
        raise RequestError(f"an argument is a device or a path, not {', '.join(map(repr, where))[:60]}")
    allowed = {
        "ratio": select_metrics(lambda metric: metric.is_ruled and not metric.is_of_load),
        "change": select_metrics(lambda metric: metric.is_compared),
    }.get(figure)
    if allowed is not None and where[0] not in allowed:
        raise unknown("figure", where[0], allowed)
