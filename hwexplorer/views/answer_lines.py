"""Verdicts in a line: the best device; and the state against the pin, `h100_sxm b8 vs tpu_v4 b8: EDP +29 %`."""

from analysis.estimate.estimate import Estimate
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
    """Return the change of the metric against the pin, '' without a pin."""
    pinned_state = pinned(state)
    if pinned_state is None:
        return ""
    result, base = engine.result(state), engine.result(pinned_state)
    metric = METRICS[state.metric]
    change = metric.figure(result) / (metric.figure(base) or 1.0) - 1
    other = f" ({base.workload.name})" * (not is_comparable(result, base))
    return _head(state, result, base, change) + other


def _head(state: State, here: Estimate, there: Estimate, change: float) -> str:
    """Name both sides by device and batch, and by precision if it differs; then write the change of the metric."""
    differs = here.scenario.precision != there.scenario.precision
    names = (
        f"{side.device.key} b{side.scenario.batch}{f' {side.scenario.precision}' * differs}" for side in (here, there)
    )
    return f"{' vs '.join(names)}: {metric_word(state.metric)} {delta(change)}"
