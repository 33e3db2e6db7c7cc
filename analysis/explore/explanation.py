"""Why A costs more than B: the difference in parts that add up, and in words each cause that explains a tenth of it."""

from __future__ import annotations

import msgspec

from analysis.document import record
from analysis.estimate.estimate import Estimate
from analysis.estimate.families import static_power_w
from analysis.estimate.figures import Figures, figures
from analysis.estimate.metrics import ADDITIVE, METRICS
from analysis.explore.attribution import Groups, Part, attribute, attribute_to_software, parts_cancel
from analysis.text.difference_sentences import difference_sentence, name_side, under_utilisation
from analysis.text.headline import short_name
from hardware.errors import RequestError, unknown
from hardware.quantity import Unit, percent, quantity

EXPLAINED = (*ADDITIVE, "memory")
SAME_COST = 0.001  # a smaller difference, as a fraction, is none
WORTH_NAMING = 0.1  # share of the difference from which a cause is named


class ExplainedSide(Figures, frozen=True, kw_only=True):
    """One side: its figures, and the `value` that is explained, in the unit of the metric."""

    value: float
    static_power_w: float


class Explanation(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer explain`. Each of `groups` adds up to the difference. Energy and EDP are per
    inference; so is memory if the batches differ (`per_inference`)."""

    model: str
    metric: str
    unit: Unit
    per_inference: bool
    a: ExplainedSide
    b: ExplainedSide
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
    per_inference = metric in ("edp", "energy") or a.scenario.batch != b.scenario.batch
    groups = attribute(a, b, metric, per_inference)
    values = _value(a, metric, per_inference), _value(b, metric, per_inference)
    sides = [
        record(ExplainedSide, figures(side), value=value, static_power_w=static_power_w(side))
        for side, value in zip((a, b), values, strict=True)
    ]
    return Explanation(
        model=a.workload.name,
        metric=metric,
        unit=METRICS[metric].unit,
        per_inference=per_inference and metric != "latency",
        a=sides[0],
        b=sides[1],
        difference=values[0] - values[1],
        ratio=values[0] / values[1] if values[1] else 1.0,
        reasons=reasons(a, b, metric, groups, values),
        groups=groups,
    )


def _value(result: Estimate, metric: str, per_inference: bool) -> float:
    return result.energy_j if metric == "energy" and not per_inference else METRICS[metric].figure(result)


def reasons(a: Estimate, b: Estimate, metric: str, groups: Groups, values: tuple[float, float]) -> tuple[str, ...]:
    """Return sentences about the costlier side against the cheaper one, whichever of them is A."""
    if a.device.key == b.device.key and a.scenario == b.scenario:
        return ("both sides are the same",)
    swapped = (values[0], b.device.key) < (values[1], a.device.key)
    more, less = (b, a) if swapped else (a, b)
    high, low = max(values), min(values)
    what = {"energy": "energy", "latency": "time", "memory": "memory", "edp": "energy-delay product"}[metric]
    unit = METRICS[metric].unit
    ratio = high / low if low else float("inf")
    names = name_side(more, less), name_side(less, more)
    amounts = f"{quantity(high, unit)} against {quantity(low, unit)}"
    lines = [f"{names[0]} takes {quantity(ratio, 'x')} the {what} of {names[1]}: {amounts}"]
    if ratio < 1.0 + SAME_COST:
        lines = [f"{names[0]} and {names[1]} take the same {what}, {quantity(high, unit)}"]
    if metric == "memory":
        return (*lines, *_memory_sentences(groups, swapped))
    main = groups["family"] if metric == "energy" else groups["cause"]
    sign, cancel = -1.0 if swapped else 1.0, parts_cancel(main)
    # If parts cancel, their sum is no measure of them, and the largest part is.
    whole = max(abs(p.difference) for p in main) if cancel else abs(values[1] - values[0])

    def size(part: Part) -> str:
        """Return a part as a share of the difference, or as an amount if the parts cancel."""
        return quantity(abs(part.difference), unit) if cancel else f"{percent(abs(part.fraction))}"

    for part in sorted(main, key=lambda p: -sign * p.difference):
        if sign * part.difference < WORTH_NAMING * whole or ratio < 1.0 + SAME_COST:
            break
        timed = metric == "latency" or part.name.startswith("time: ")
        name = part.name.removeprefix("energy: ").removeprefix("time: ")
        if sentence := difference_sentence(more, less, name, "time" if timed else "energy"):
            lines.append(f"{size(part)}: {sentence}")
    against = [p for p in main if -sign * p.difference > WORTH_NAMING * whole]
    lines.extend(
        f"against it, {part.name} favours {names[0]} by {size(part)}{'' if cancel else ' of the difference'}"
        for part in sorted(against, key=lambda p: p.fraction)
    )
    if metric in ("latency", "edp") and (software := attribute_to_software(more, less)):
        lines.append(f"{short_name(more.device)} takes {quantity(software.ratio, 'x')} the time: {software.describe()}")
    lines.extend(under_utilisation(more, less) if metric in ("latency", "edp") else ())
    lines.extend(_paper_band(each) for each in (more, less) if metric != "latency" and not each.device.silicon)
    return tuple(lines)


def _paper_band(side: Estimate) -> str:
    low, high = (quantity(end / side.energy_j, "x") for end in side.energy_band_j)
    return f"prices of {short_name(side.device)} are bottom-up: its energy may be {low} to {high} of that"


def _memory_sentences(groups: Groups, swapped: bool) -> list[str]:
    def describe(part: Part) -> str:
        """Write the bytes of a part on both sides, the larger side first."""
        high, low = (part.b, part.a) if swapped else (part.a, part.b)
        return f"{part.name}: {quantity(high, 'byte')} against {quantity(low, 'byte')}"

    lines = [describe(part) for part in groups["kind"] if part.a or part.b]
    largest = groups["live at the peak"][0]
    return [*lines, f"the largest difference is {describe(largest)}"] if largest.difference else lines
