"""Why A costs more than B: the difference in parts that add up, and the reason in words chosen by the numbers."""

from __future__ import annotations

import msgspec

from analysis.decide.division import Groups, divisions, static_power
from analysis.decide.explain_words import reasons
from analysis.run.estimate import Estimate
from analysis.run.figures import Figures, figures
from analysis.run.metrics import EXPLAINED, METRICS
from hardware.errors import RequestError, unknown
from hardware.quantity import Unit


class Side(Figures, frozen=True, kw_only=True):
    """One side: its figures, and the `value` that is explained, in the unit of the metric."""

    value: float
    static_power_w: float


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer explain`. `groups` divide the same difference in several ways; each adds up.

    Energy is per inference where the batches differ (`per_inference`), else of the batch; EDP always takes the
    energy per inference, latency always the batch's."""

    model: str
    metric: str
    unit: Unit
    per_inference: bool
    a: Side
    b: Side
    difference: float
    ratio: float
    reasons: tuple[str, ...]
    groups: Groups


def explain(a: Estimate, b: Estimate, metric: str = "edp") -> Explanation:
    """Explain A against B, two estimates of one model. Raises RequestError for an unknown metric."""
    if metric not in EXPLAINED:
        raise unknown("metric", metric, EXPLAINED)
    if a.workload.name != b.workload.name or a.partition.id != b.partition.id:
        raise RequestError(f"explain compares one model: {a.workload.name} and {b.workload.name} are two")
    per_inference = metric == "edp" or a.scenario.batch != b.scenario.batch
    groups = divisions(a, b, metric, per_inference)
    values = _value(a, metric, per_inference), _value(b, metric, per_inference)
    return Explanation(
        model=a.workload.name,
        metric=metric,
        unit=METRICS[metric].unit,
        per_inference=per_inference and metric != "latency",
        a=_side(a, values[0]),
        b=_side(b, values[1]),
        difference=values[0] - values[1],
        ratio=values[0] / values[1] if values[1] else 1.0,
        reasons=reasons(a, b, metric, groups, values),
        groups=groups,
    )


def _value(result: Estimate, metric: str, per_inference: bool) -> float:
    return result.energy_j if metric == "energy" and not per_inference else METRICS[metric].of(result)


def _side(result: Estimate, value: float) -> Side:
    return Side(**msgspec.structs.asdict(figures(result)), value=value, static_power_w=static_power(result))
