"""Fit of rates of software to measured latencies, by least absolute errors of logarithms.

The error of a row is the logarithm of predicted over measured. Rates stay within their ranges; a small pull towards
their starts decides what rows of few kinds of operators leave open."""

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from hwexplorer.extend import Efficiency, Setup, demand, document, execute, predictions, workload

Floats = workload.Floats
Bools = workload.Bools
STEP = 0.05  # of the logarithm of a rate, for derivatives
ROUNDS = 8
PULL = 0.03  # of the weight of all rows, to the middles of ranges: what rows of few kinds of operators leave open
SMALL_ERROR = 0.05  # about the noise of repeated measurements; smaller errors count as squares
TARGET = 0.82  # share of left-out rows that a band must hold; the aim is 80 to 90 %
LEAST = float(np.log(1.05))  # least half-width of a band: the repeatability of measurements
Progress = Callable[[str], None]


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


class FitRow(msgspec.Struct, frozen=True, kw_only=True):
    """One measured latency and the request that predicts it. `least_s` (kernels,) is the least time under the power
    limit. The input adds `adds_s` and takes at least `floor_s`. `identity` is MeasuredRow.identity."""

    measured_s: float
    demand: demand.Demand
    setup: Setup
    least_s: Floats
    adds_s: float = 0.0
    floor_s: float = 0.0
    group: tuple[str, ...]
    family: str
    identity: tuple[object, ...] = ()


class RateFit(LinearFit, frozen=True, kw_only=True):
    """A fit of efficiencies. `shipped` has the rates that are not fitted."""

    shipped: Efficiency


def make_fit_row(row: predictions.MeasuredRow) -> FitRow:
    """Return the row in the form of the fit. Raises Unpredictable if its model must be captured first."""
    result = predictions.estimate_row(row)
    run = result.run
    (adds_s, *_), (floor_s, *_) = predictions.input_s(row, result)
    least_s = np.where(run.kernel_s > run.unthrottled_s, run.kernel_s, 0.0)
    return document.record(
        FitRow, row, result, measured_s=row.latency_s or 0.0, least_s=least_s, adds_s=adds_s, floor_s=floor_s
    )


def predict_latency(rows: Sequence[FitRow], shipped: Efficiency, rates: Sequence[FittedRate], values: Floats) -> Floats:
    """Return the latency of each row, (s, rows), with the fitted rates at `values` (s, rates) and others as shipped."""
    tables = {name: np.repeat(getattr(shipped, name)[:1], len(values), axis=0) for name in Efficiency.__struct_fields__}
    for j, rate in enumerate(rates):
        if rate.table == "nchw":
            tables["nchw"] = values[:, j]
        else:
            tables[rate.table][:, rate.classes] = values[:, j : j + 1]
    efficiency = Efficiency(**tables)
    latency = np.empty((len(values), len(rows)))
    for i, row in enumerate(rows):
        kernels = execute.kernel_seconds(row.demand, row.setup, efficiency)
        latency[:, i] = np.maximum(np.maximum(kernels, row.least_s).sum(axis=1) + row.adds_s, row.floor_s)
    return latency


def fit_rates(
    name: str,
    rows: Sequence[FitRow],
    rates: tuple[FittedRate, ...],
    shipped: Efficiency,
    weight: Floats,
    progress: Progress,
    pull: float = PULL,
) -> RateFit:
    """Return the rates within their ranges that minimise the weighted absolute log error, searched from their start."""
    measured, start = np.array([row.measured_s for row in rows]), log_range(rates)[2]
    best, least, damping, x = None, np.inf, 1.0, start
    for round_ in range(ROUNDS):
        progress(f"fitting {name}, round {round_ + 1} of {ROUNDS}")
        points = np.exp(np.vstack([x, x + STEP * np.eye(len(rates))]))
        logs = np.log(predict_latency(rows, shipped, rates, points) / measured)
        now = RateFit(rates, weight, points[0], logs[0], (logs[1:] - logs[0]).T / STEP, pull, shipped=shipped)
        cost = mean_error(now.error, weight) + pull / 2.0 * float(np.square(x - start).sum())
        if best is None or cost < least:
            best, least = now, cost
        else:
            damping *= 0.5
        x = np.log(best.values) + damping * least_absolute_step(best, slice(None))
    assert best is not None
    return best
