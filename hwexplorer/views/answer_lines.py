"""Verdicts in a line: the best device; and the state against the pin, `h100_sxm vs tpu_v4: EDP +29 %`."""

from analysis.estimate.metrics import METRICS
from hwexplorer import engine
from hwexplorer.settings import labels
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
    """Return the change of the metric against the pin, with what differs: model, device, settings. Return '' without a
    pin."""
    pinned_state = pinned(state)
    if pinned_state is None:
        return ""
    sides = (state, pinned_state)
    here, there = (METRICS[state.metric].figure(engine.result(side)) for side in sides)
    texts = [(side.model, engine.device(side.on).key, *(text for text, _ in labels(side))) for side in sides]
    names = [" ".join(word for word in texts[i] if word not in texts[1 - i]) or "default" for i in range(2)]
    if names[0] == names[1]:
        return "nothing differs from the pin"
    return f"{' vs '.join(names)}: {metric_word(state.metric)} {delta(here / (there or 1.0) - 1)}"
