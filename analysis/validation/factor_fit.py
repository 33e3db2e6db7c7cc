"""Linear fits: rates or factors that minimise absolute logarithms of predicted over measured, and fits without rows."""

from collections.abc import Callable, Collection, Sequence

import msgspec
import numpy as np

from analysis.model.ir.workload import Bools, Floats

SMALL_ERROR = 0.05  # about the noise of repeated measurements; smaller errors count as squares
Progress = Callable[[str], None]
Key = tuple[str, str]  # the owner of a number (a library, a runtime), and the number's name
Factors = dict[Key, float]


class FittedRate(msgspec.Struct, frozen=True):
    """One fitted rate: its table or owner, and the operator classes that share it. The fit begins at `start`, or in the
    middle of the range (of logarithms) if it is None."""

    table: str
    name: str
    classes: tuple[int, ...]
    low: float
    high: float
    start: float | None = None


class LinearFit(msgspec.Struct, frozen=True):
    """Fitted `values` (rates,) and, at these values, the `error` of each row (log of predicted over measured) and its
    derivatives `slope` (rows, rates) by the logarithms of the rates. `pull` is the weight of a distance of one, in
    logarithms, from the start."""

    rates: tuple[FittedRate, ...]
    weight: Floats
    values: Floats
    error: Floats
    slope: Floats
    pull: float

    def values_at(self, rows: Bools) -> Floats:
        """Return the values (rates,) that one step leads to which is fitted to `rows` alone."""
        values: Floats = self.values * np.exp(least_absolute_step(self, rows))
        return values


def log_range(rates: Sequence[FittedRate]) -> tuple[Floats, Floats, Floats]:
    """Return logarithms of the ends of the ranges and of the starts."""
    low, high = np.log([rate.low for rate in rates]), np.log([rate.high for rate in rates])
    return low, high, np.log([rate.start or np.sqrt(rate.low * rate.high) for rate in rates])


def mean_error(error: Floats, weight: Floats) -> float:
    """Return the weighted mean of the absolute errors, 0 without rows."""
    return float((weight * np.abs(error)).sum() / weight.sum()) if weight.size else 0.0


def least_absolute_step(fit: LinearFit, rows: Bools | slice) -> Floats:
    """Return the step (rates,) within the ranges that minimises the cost of `rows` with linear errors, by iteratively
    reweighted least squares. Rates that no row depends on go to their start."""
    at, error, slope, weight = np.log(fit.values), fit.error[rows], fit.slope[rows], fit.weight[rows]
    low, high, start = (each - at for each in log_range(fit.rates))
    step, prior = np.zeros(len(at)), np.full(len(at), fit.pull * weight.sum())
    for _ in range(30 if len(error) else 0):
        w = weight / np.maximum(np.abs(error + slope @ step), SMALL_ERROR)
        normal = (slope.T * w) @ slope + np.diag(prior)
        step = np.clip(np.linalg.solve(normal, prior * start - (slope.T * w) @ error), low, high)
    return step if len(error) else start


class FactorFit:
    """Errors of rows with the shipped numbers, and their derivatives by the logarithms of factors on these.
    `owned` are the numbers of each row. Each row has one owner of a name, so that all owners change at once."""

    def __init__(
        self,
        owned: Sequence[Collection[Key]],
        errors: Callable[[Factors], Floats],
        step: float,
        progress: Progress,
    ) -> None:
        self.keys = sorted({key for keys in owned for key in keys})
        self.errors, slopes = errors({}), dict[str, Floats]()
        for name in dict.fromkeys(name for _, name in self.keys):
            progress(f"fitting {name}")
            factors = {key: float(np.exp(step)) for key in self.keys if key[1] == name}
            slopes[name] = (errors(factors) - self.errors) / step
        self.slopes = np.array([slopes[key[1]] * [key in keys for keys in owned] for key in self.keys]).T

    def solve(self, rows: Bools, rates: Sequence[FittedRate], pull: float, is_known: Bools | float = 1.0) -> Factors:
        """Return the factors that are fitted to some rows. A number that is not known depends on no row."""
        ones = np.ones(len(self.keys))
        fit = LinearFit(tuple(rates), np.ones(len(self.errors)), ones, self.errors, self.slopes * is_known, pull)
        return dict(zip(self.keys, fit.values_at(rows).tolist(), strict=True))
