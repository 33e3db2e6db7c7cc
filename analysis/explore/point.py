"""A point: one configuration (model, device, batch, precision, size) with its outcome, cost, accuracy and odds."""

from typing import Annotated, Any

import msgspec

from analysis.document import Column, column, columns, record
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Figures, figures
from analysis.estimate.metrics import METRICS
from analysis.explore.cost import Cost, CostSettings, find_cost
from analysis.explore.odds import odds_below
from analysis.explore.outcome import Constraint
from analysis.model.names import zoo
from analysis.wording import EVIDENCE, is_backed


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
