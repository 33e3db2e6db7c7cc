"""Verdicts in a line: the best device; and the state against the pin, `h100_sxm b8 vs tpu_v4 b8: EDP +29 %`."""

from analysis.estimate.metrics import METRICS
from analysis.explore.attribution import is_comparable
from hwexplorer import engine
from hwexplorer.state import State, pinned
from hwexplorer.text.number_format import delta
from hwexplorer.views.captions import metric_word
from hwexplorer.views.tree_view import trace_warning


def answer(state: State, on_paper: bool = False) -> tuple[str, ...]:
    """Return a warning about the state's trace, if any, and the verdict on its devices if at least two compare."""
    outcomes = [engine.outcome(state, name) for name in state.devices]
    devices = [outcome.estimate.device for outcome in outcomes]
    changed_keys = {device.key.removesuffix(device.changes) for device in devices if device.changes}
    base_runs = [engine.result(state, name) for name in sorted(changed_keys)]
    warning = trace_warning(state, engine.result(state))
    return (*([f"{warning}."] if warning else ()), *outcomes[0].best(outcomes, state.metric, on_paper, base_runs))


def verdict(state: State) -> str:
    """Return the change of the metric against the pin, with both sides by batch, and by device, precision or model if
    these differ. Return '' without a pin."""
    pinned_state = pinned(state)
    if pinned_state is None:
        return ""
    sides, metric = (engine.result(state), engine.result(pinned_state)), METRICS[state.metric]
    here, there = sides
    marks = [(s.device.key, f"b{s.scenario.batch}", s.scenario.precision, s.runtime.name) for s in sides]
    differ = [place for place, (mine, its) in enumerate(zip(*marks, strict=True)) if mine != its]
    if 0 in differ:  # software of its own is no other setting of another device
        differ = [0, 1, *[2] * (2 in differ)]
    names = (" ".join(mark[place] for place in differ or [1]) for mark in marks)
    change = delta(metric.figure(here) / (metric.figure(there) or 1.0) - 1)
    other = f" ({there.workload.name})" * (not is_comparable(here, there))
    return f"{' vs '.join(names)}: {metric_word(state.metric)} {change}{other}"
