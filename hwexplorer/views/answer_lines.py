"""The verdicts: which device is best; and what is on screen against the pin, in one line: how much, and what makes
most of the difference, and where.

`h100_sxm b8 vs tpu_v4 b8: EDP +29 %, 81 % of it DRAM energy, largest change in layer3.0.conv1`.
"""

from __future__ import annotations

from analysis.estimate.causes import shares
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import METRICS
from analysis.estimate.tree import operators_of
from analysis.explore.attribution import attribute, is_comparable
from hwexplorer import engine
from hwexplorer.state import State, pinned
from hwexplorer.text.number_format import delta
from hwexplorer.views.captions import metric_word
from hwexplorer.views.cause_looks import LOOKS
from hwexplorer.views.measured_times import trace_warning

LEAST = 5e-4  # of what is pinned: a cause below is not told


def answer(state: State, on_paper: bool = False) -> tuple[str, ...]:
    """Return the verdict among the devices of a state by its metric, the answer first; nothing of one device alone."""
    if engine.request_under_load(state) is not None:
        return _answer_under_load(state)
    from analysis.explore.verdict import verdict as best_device  # not needed to start the screen

    results = [engine.result(state, name) for name in state.devices]
    changed = {one.device.key.removesuffix(one.device.changes) for one in results if one.device.changes}
    found = best_device(results, state.metric, on_paper, [engine.result(state, name) for name in sorted(changed)])
    warning = trace_warning(state, engine.result(state))
    return (*([f"{warning}."] if warning else ()), *(found.lines if found is not None else ()))


def _answer_under_load(state: State) -> tuple[str, ...]:
    """Return which devices serve the load best, how sure that is, and which measurement would tell more; nothing of
    one device alone."""
    from analysis.serving.serving_report import first_words, order_by_aim
    from analysis.text.evidence import is_backed

    served = [one for name in state.devices if (one := engine.find_served(state, name)) is not None]
    if len(served) < 2:
        return ()
    ordered = order_by_aim(served, state.metric)
    least_known = next((one for one in ordered[:2] if not is_backed(one.server.first.trust)), ordered[1])
    run = f"{state.model.partition(':')[0]} on {least_known.row.key} with {least_known.server.first.runtime.name}"
    return f"{first_words(ordered, state.metric)}.", f"To confirm it: measure this load of {run}."


def verdict(state: State) -> str:
    """'' without a pin, or with deltas off."""
    other = pinned(state) if state.diff else None
    if other is None:
        return ""
    here, there = engine.result(state), engine.result(other)
    metric = METRICS[state.metric]
    change = metric.figure(here) / (metric.figure(there) or 1.0) - 1
    head = _head(state, here, there, change)
    if not is_comparable(here, there):
        return f"{head} ({there.workload.name})"
    if abs(change) < LEAST:
        return head
    return head + _largest_parts(here, there, state.metric, change)


def lines(state: State) -> tuple[str, ...]:
    """The difference of the node against the pin, and by cause, signed, as fractions of what is pinned; of another
    model the verdict. Nothing without a pin."""
    told = verdict(state)
    other = pinned(state)
    if not told or other is None:
        return ()
    here, there = engine.result(state), engine.result(other)
    if not is_comparable(here, there):
        return (told,)
    metric = METRICS[state.metric]
    members = operators_of(here, state.at)
    now, before = (
        shares(result, state.metric)[:, members].sum(axis=1) * metric.figure(result) for result in (here, there)
    )
    base = float(before.sum()) or 1.0
    head = _head(state, here, there, float(now.sum()) / base - 1) if state.at else told
    parts = sorted(zip(((now - before) / base).tolist(), LOOKS, strict=True), key=lambda pair: -abs(pair[0]))
    return (head, *(f"{part * 100:+,.1f} %\t{look.name}" for part, look in parts if abs(part) > LEAST))


def _head(state: State, here: Estimate, there: Estimate, change: float) -> str:
    """Name both sides by device and batch, and by the precision where that differs; then the change of the metric."""
    differs = here.scenario.precision != there.scenario.precision
    names = (f"{one.device.key} b{one.scenario.batch}{f' {one.scenario.precision}' * differs}" for one in (here, there))
    return f"{' vs '.join(names)}: {metric_word(state.metric)} {delta(change)}"


def _largest_parts(here: Estimate, there: Estimate, metric: str, change: float) -> str:
    """Write the largest cause that goes the way of the difference, and the subgraph with most of the difference."""
    groups = attribute(here, there, metric, per_inference=True)
    cause = max(groups["family" if metric == "energy" else "cause"], key=lambda part: part.fraction)
    name = " ".join(reversed(cause.name.split(": ")))  # `DRAM energy`
    is_part = cause.fraction <= 1.005  # else others go the other way
    told = f"{cause.fraction * 100:.0f} % of it {name}" if is_part else f"{name} alone {delta(cause.fraction * change)}"
    return f", {told}, largest change in {max(groups['subgraph'], key=lambda part: part.fraction).name}"
