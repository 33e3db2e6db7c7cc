"""The grid of configurations: its points and axes, one walk over them, and what is asked of points.

Batches are evaluated together, and points are in the order of the axes: model, precision, device, batch. Nothing else
walks over configurations of a model. What takes several estimates (a design, the units of a mission, a server under a
load) is tried by `try_each`, and ordered and selected like points.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, pairwise, product
from operator import attrgetter
from typing import Annotated, Any, Protocol, Self, TypeVar

import msgspec
import numpy as np

from analysis.document import Column, column, columns, record
from analysis.estimate.estimate import Estimate, estimate, estimate_batches
from analysis.estimate.figures import Figures, figures
from analysis.estimate.metrics import METRICS
from analysis.estimate.scenario import Scenario
from analysis.explore.cost import Cost, CostSettings, find_cost, settings
from analysis.explore.odds import odds_below
from analysis.explore.outcome import Constraint
from analysis.model.ir.workload import Workload
from analysis.model.names import zoo
from analysis.wording import EVIDENCE, is_backed
from hardware.base.errors import RequestError
from hardware.base.records import group_by
from hardware.device import Device

TOGETHER = 8  # batches evaluated together, so that memory does not grow with the request
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
Tick = Callable[[int, int], None]  # called with the number of estimates done, and of all


class Ranked(Protocol):
    """A configuration that can be ordered."""

    def sort_key(self, metric: str) -> float:
        """Return a figure so that less is better."""


Case = TypeVar("Case")
Found = TypeVar("Found", bound=Ranked)
Result = TypeVar("Result")


class Ranking(tuple[Found, ...]):
    """Configurations in an order. Each method returns others, and changes none."""

    __slots__ = ()

    def where(self, has: Callable[[Found], bool]) -> Self:
        """Select those with a property."""
        return type(self)(filter(has, self))

    def first(self, has: Callable[[Found], bool]) -> Self:
        """Move those with a property to the beginning, and keep the order otherwise."""
        return type(self)(sorted(self, key=lambda one: not has(one)))

    def order(self, *metrics: str) -> Self:
        """Sort by a metric, the best first, then by the others."""
        return type(self)(sorted(self, key=lambda one: tuple(map(one.sort_key, metrics))))

    def front(self, objectives: Sequence[str]) -> Self:
        """Select those that no other beats in one objective without being worse in another."""
        rows = np.array([[one.sort_key(name) for name in objectives] for one in self], dtype=np.float64)
        is_kept = np.ones(len(self), dtype=np.bool_)
        for i, row in enumerate(rows):
            if is_kept[i]:
                is_kept &= ~((rows >= row).all(axis=1) & (rows > row).any(axis=1))
        return type(self)(one for one, kept in zip(self, is_kept.tolist(), strict=True) if kept)


def try_each(
    cases: Iterable[Case],
    run: Callable[[Case], Result],
    tick: Tick | None = None,
    until: Callable[[Result], bool] = lambda found: False,
    error: type[RequestError] = RequestError,
) -> tuple[list[Result], Counter[str]]:
    """Return what `run` makes of each case, up to the first for which `until` holds, and how often each reason excludes
    a case, by raising `error`."""
    found, reasons, cases = list[Result](), Counter[str](), list(cases)
    for done, case in enumerate(cases, 1):
        try:
            found.append(run(case))
        except error as reason:
            reasons[str(reason)] += 1
        else:
            if until(found[-1]):
                break
        if tick is not None:
            tick(done, len(cases))
    return found, reasons


class Point(Figures, frozen=True, kw_only=True):
    """The figures of a configuration, the cost of a million inferences, the published accuracy of the model, and the
    odds that a measurement would satisfy the limits of a search."""

    cost: Cost
    accuracy: Annotated[
        float | None, column("Accuracy fp32", keep=3, help="published, for the default weights in fp32")
    ]
    accuracy_metric: Annotated[str, column("Metric", key="metric", keep=4)]
    odds: Annotated[
        float | msgspec.UnsetType,
        column("Odds", "%", keep=2, help="odds that a measurement keeps the limits of time and energy"),
    ] = msgspec.UNSET

    @property
    def cost_usd_per_million(self) -> float:
        """The electricity of a million inferences, USD."""
        return self.cost.electricity_usd

    @property
    def is_measured(self) -> bool:
        """True if this device or similar ones were measured at such work."""
        return is_backed(self.trust)

    def figure(self, metric: str) -> float:
        """Return a figure by the name of its metric, or the accuracy (0 if none is published)."""
        return self.accuracy or 0.0 if metric == "accuracy" else METRICS[metric].figure(self)

    def sort_key(self, metric: str) -> float:
        """Return the figure so that less is better: infinity for an unknown accuracy."""
        if metric == "accuracy":
            return float("inf") if self.accuracy is None else -self.accuracy
        return -self.figure(metric) if METRICS[metric].more_is_better else self.figure(metric)

    def excess(self, limit: Constraint) -> float:
        """Return the factor by which the figure exceeds a limit, at most 1 if it keeps it."""
        return limit.excess(self.figure(limit.figure))

    def odds_of_keeping(self, limit: Constraint) -> float:
        """Return the probability that a measurement would satisfy a limit; 0 or 1 for a figure without a band."""
        figure, excess = self.figure(limit.figure), self.excess(limit)
        bands = {"latency": (self.latency_s, self.latency_band_s), "energy": (self.energy_j, self.energy_band_j)}
        value, band = bands.get(METRICS[limit.figure].band, (0.0, (0.0, 0.0)))
        if value <= 0 or figure <= 0:
            return float(excess <= 1.0)
        return odds_below(value, band, value / excess)


def make_point(result: Estimate, by: CostSettings) -> Point:
    """Return an estimate as a point."""
    info = zoo.table().get(result.workload.name)
    accuracy, metric = (info.value, info.metric) if info is not None and info.value is not None else (None, "")
    return record(Point, figures(result), cost=find_cost(result, by), accuracy=accuracy, accuracy_metric=metric)


def point_columns(keys: str, **changes: Any) -> tuple[Column, ...]:
    """Return columns of points, in the order of their keys; `changes` are those of `analysis.document.columns`."""
    known = Column("known", "Evidence", role="text", keep=1, of="trust.level", shown=EVIDENCE)
    return columns(Point, keys, *columns(Cost, within="cost"), known, **{"edp": 0, **changes})


class Axes(msgspec.Struct, frozen=True):
    """Name what is varied: models (or sizes of one), devices (power modes, caps and changed facts are devices of their
    own), batches and precisions; `base` is the rest of the scenario. Raises RequestError if one of them is empty."""

    workloads: tuple[Workload, ...]
    devices: tuple[Device, ...]
    batches: tuple[int, ...]
    precisions: tuple[str, ...]
    base: Scenario = Scenario()

    def __post_init__(self) -> None:
        names = {"model": self.workloads, "device": self.devices, "batch": self.batches, "precision": self.precisions}
        check_axes(**names)

    def __len__(self) -> int:
        return len(self.workloads) * len(self.devices) * len(self.batches) * len(self.precisions)

    def walk(self, tick: Tick | None = None) -> Iterator[Estimate]:
        """Estimate every configuration, batches innermost. Raises RequestError for an invalid batch or precision."""
        groups, done = [self.batches[i : i + TOGETHER] for i in range(0, len(self.batches), TOGETHER)], 0
        for workload, precision, device, group in product(self.workloads, self.precisions, self.devices, groups):
            scenario = msgspec.structs.replace(self.base, precision=precision)
            for result in estimate_batches(workload, device, scenario, group):
                yield result
                done += 1
                if tick is not None:
                    tick(done, len(self))


def check_axes(**axes: Sequence[object]) -> None:
    """Raise RequestError if an axis has no value."""
    for name, values in axes.items():
        if not values:
            raise RequestError(f"nothing to evaluate: no {name} is given")


def evaluate(
    axes: Axes,
    tick: Tick | None = None,
    prices: CostSettings | None = None,
    keeps: Callable[[Estimate], bool] = lambda result: True,
) -> "Points":
    """Return the points of a grid, at given or usual `prices`; `keeps` returns False for one to leave out."""
    by = settings() if prices is None else prices
    return Points(make_point(result, by) for result in axes.walk(tick) if keeps(result))


class Best(msgspec.Struct, frozen=True):
    """The best batch of one device for one aim, among those that fit; `value` in the aim's SI unit."""

    device: Annotated[str, column("Device")]
    precision: Annotated[str, column("Precision", keep=1)]
    precision_run: Annotated[str, column("Format used", keep=2)]
    image_size: Annotated[int | None, column("Pixels", "count", keep=4)]
    aim: str
    batch: int
    value: float


class Crossing(msgspec.Struct, frozen=True):
    """From `batch` on, `after` has the lower metric; if it is None, `before` wins throughout. `changes` counts how
    often the winner changes over the batches."""

    metric: Annotated[str, column("Metric")]
    precision: Annotated[str, column("Precision", keep=1)]
    image_size: Annotated[int | None, column("Pixels", "count", keep=4)]
    before: Annotated[str, column("Ahead at first")]
    after: Annotated[str, column("Against")]
    batch: Annotated[int | None, column("Crossover batch", "count")]
    changes: int


class Points(Ranking[Point]):
    """Points in an order."""

    __slots__ = ()

    def distinct(self) -> "Points":
        """Drop equal runs: of formats that a device runs alike, keep the one that it runs."""
        runs: dict[tuple[object, ...], Point] = {}
        for point in self:
            key = (point.model, point.device, point.batch, point.precision_run, point.latency_s, point.energy_j)
            if key not in runs or point.precision == point.precision_run:
                runs[key] = point
        return Points(runs.values())

    def keep(self, limits: Sequence[Constraint]) -> "Points":
        """Select the points that may win and keep all limits, each with the odds that a measurement keeps them."""
        within = (point for point in self if point.can_win and all(point.excess(limit) <= 1.0 for limit in limits))
        if not limits:
            return Points(within)
        return Points(msgspec.structs.replace(point, odds=min(map(point.odds_of_keeping, limits))) for point in within)

    def lines(self) -> list["Points"]:
        """Divide into the points of one model, size, device and precision over the batches."""
        return list(map(Points, group_by(self, attrgetter("model", "image_size", "device", "precision")).values()))

    def best_by(self, aims: Sequence[str]) -> tuple[Best, ...]:
        """Return the best batch of each line for each aim, the smallest of equals; none of a line that does not fit."""
        best = []
        for line in self.lines():
            running = line.where(lambda point: point.can_win)
            for aim in aims if running else ():
                top = min(running, key=lambda point: point.sort_key(aim))
                best.append(Best(top.device, top.precision, top.precision_run, top.image_size, aim, top.batch,
                                 top.figure(aim)))  # fmt: skip
        return tuple(best)

    def crossings(self, axes: Axes, metrics: Sequence[str]) -> tuple[Crossing, ...]:
        """Return, for each pair of devices in the same precision and size, the batch from which the other wins. Batches
        between those of the points are estimated on the `axes`, not interpolated."""
        return tuple(
            _crossing(axes, name, first, second)
            for first, second in combinations(self.lines(), 2)
            if (first[0].precision, first[0].image_size) == (second[0].precision, second[0].image_size)
            and first[0].device != second[0].device
            for name in metrics
        )


def _crossing(axes: Axes, metric: str, first: Points, second: Points) -> Crossing:
    wins = [_metric(p, metric) <= _metric(q, metric) for p, q in zip(first, second, strict=True)]
    changes = [k for k, (now, after_it) in enumerate(pairwise(wins)) if now != after_it]
    names = (first[0].device, second[0].device) if wins[0] else (second[0].device, first[0].device)
    k = changes[0] if changes else 0
    batch = _bisect_batch(axes, metric, first[k], second[k], first[k + 1].batch) if changes else None
    return Crossing(metric, first[0].precision, first[0].image_size, *names, batch, len(changes))


def _metric(run: Point | Estimate, metric: str) -> float:
    """Return the metric; infinity if the device may not be recommended, so that it never wins."""
    return METRICS[metric].figure(run) if run.can_win else float("inf")


def _bisect_batch(axes: Axes, metric: str, one: Point, other: Point, high: int) -> int:
    """Find the batch in (that of the points, high] at which the winner changes."""
    workload = next(workload for workload in axes.workloads if workload.image_size == one.image_size)
    devices = [next(device for device in axes.devices if device.key == point.device) for point in (one, other)]

    def wins(batch: int) -> bool:
        """Return True if the first device has the lower metric at a batch."""
        scenario = msgspec.structs.replace(axes.base, batch=batch, precision=one.precision)
        first, second = (estimate(workload, device, scenario) for device in devices)
        return _metric(first, metric) <= _metric(second, metric)

    low = one.batch
    is_ahead = wins(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wins(middle) == is_ahead else (low, middle)
    return high
