"""Verdicts in a line: the best device; and the state against the pin, with the change, its largest cause, and the
subgraph that changed most.

`h100_sxm b8 vs tpu_v4 b8: EDP +29 %, 81 % of it DRAM energy, largest change in layer3.0.conv1`.
"""

from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import METRICS
from analysis.explore.attribution import attribute, is_comparable
from hardware.base.text import percent
from hwexplorer import engine
from hwexplorer.state import State, pinned
from hwexplorer.text.number_format import delta
from hwexplorer.views.captions import metric_word
from hwexplorer.views.tree_view import trace_warning

LEAST = 5e-4  # fraction of the pinned figure; smaller changes are left out


def answer(state: State, on_paper: bool = False) -> tuple[str, ...]:
    """Return a warning about the state's trace, if any, and the verdict on its devices if at least two compare."""
    outcomes = [engine.outcome(state, name) for name in state.devices]
    devices = [outcome.estimate.device for outcome in outcomes]
    changed_keys = {device.key.removesuffix(device.changes) for device in devices if device.changes}
    base_runs = [engine.result(state, name) for name in sorted(changed_keys)]
    warning = trace_warning(state, engine.result(state))
    return (*([f"{warning}."] if warning else ()), *outcomes[0].best(outcomes, state.metric, on_paper, base_runs))


def verdict(state: State) -> str:
    """Return the change of the metric against the pin, with its largest parts. Return '' without a pin or deltas."""
    pinned_state = pinned(state)
    if pinned_state is None:
        return ""
    result, base = engine.result(state), engine.result(pinned_state)
    metric = METRICS[state.metric]
    change = metric.figure(result) / (metric.figure(base) or 1.0) - 1
    head = _head(state, result, base, change)
    if not is_comparable(result, base):
        return f"{head} ({base.workload.name})"
    if abs(change) < LEAST:
        return head
    return head + _largest_parts(result, base, state.metric, change)


def _head(state: State, here: Estimate, there: Estimate, change: float) -> str:
    """Name both sides by device and batch, and by precision if it differs; then write the change of the metric."""
    differs = here.scenario.precision != there.scenario.precision
    names = (
        f"{side.device.key} b{side.scenario.batch}{f' {side.scenario.precision}' * differs}" for side in (here, there)
    )
    return f"{' vs '.join(names)}: {metric_word(state.metric)} {delta(change)}"


def _largest_parts(here: Estimate, there: Estimate, metric: str, change: float) -> str:
    """Write the cause and the subgraph that have the largest parts of the difference."""
    groups = attribute(here, there, metric)
    cause = max(groups["family" if metric == "energy" else "cause"], key=lambda part: part.fraction)
    name = " ".join(reversed(cause.name.split(": ")))  # `DRAM energy`
    is_part = cause.fraction <= 1.005  # else other causes offset a part of it
    words = f"{percent(cause.fraction)} of it {name}" if is_part else f"{name} alone {delta(cause.fraction * change)}"
    return f", {words}, largest change in {max(groups['subgraph'], key=lambda part: part.fraction).name}"
