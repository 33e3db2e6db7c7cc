"""The answer first: one card per device, of what it costs there, what that goes into, and a phrase."""

from __future__ import annotations

from analysis.estimate.causes import shares
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import METRICS
from analysis.estimate.serving import serving
from analysis.text.headline import headlines
from hardware.quantity import quantity
from hardware.what_if import split_changes
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.plain import Card, Stack

MARKS = {"measured": "✓", "siblings": "≈", "engineering": "≈", "design_target": "◌"}
MARKS_HELP = "✓ measured on it, ≈ engineering, ◌ design target"
FAR = 4.0  # times the least: what is further off runs out of the common scale


def cards(state: State) -> tuple[Card, ...]:
    """In the order of the state's devices."""
    results = [engine.result(state, name) for name in state.devices]
    values = [METRICS[state.metric].figure(result) for result in results]
    near = [value for value in values if value <= FAR * min(values)]
    full = max(near) or 1.0
    told = headlines(results, engine.result(state, state.baseline))
    return tuple(
        Card(
            key=key,
            name=_name(result),
            mark=MARKS[result.trust.level],
            runtime=result.runtime.name,
            figures=_figures(result),
            rate_per_s=result.throughput_per_s,
            energy_j=result.energy_j_per_inference,
            bar=Stack((shares(result, state.metric).sum(axis=1) * value / full).tolist()),
            most=_high(result, state.metric) / full,
            fits=result.fits,
            over=_exceeded_limits(state, result),
            phrase=phrase,
            ghost=_base_metric(state, key) / full,
        )
        for key, result, value, phrase in zip(state.devices, results, values, told, strict=True)
    )


def _exceeded_limits(state: State, result: Estimate) -> tuple[str, ...]:
    if not state.limits:
        return ()
    from analysis.explore.constraint import broken_limits  # not needed to start the screen

    return broken_limits(state.limits, result)


def _base_metric(state: State, device: str) -> float:
    """The metric of a what-if device without its changes; 0 for any other."""
    base = split_changes(device)[0]
    return 0.0 if base == device else METRICS[state.metric].figure(engine.result(state, base))


def _name(result: Estimate) -> str:
    """Without its maker, whose name is long and says little; with what was changed of it."""
    device = result.device
    name = f"{device.file.name.removeprefix(device.vendor)} {device.power_mode}".strip()
    return f"{name or device.id} {device.changes}".strip()


def _figures(result: Estimate) -> tuple[str, ...]:
    request = serving(result)
    if request is not None:
        return (
            f"first {quantity(request.time_to_first_token_s, 's')}",
            f"{quantity(request.time_per_output_token_s, 's')}/tok",
            f"{quantity(request.tokens_per_s, 'SI').rstrip()} tok/s",
        )
    return (
        quantity(result.latency_s, "s"),
        quantity(result.throughput_per_s, "1/s"),
        f"{quantity(result.energy_j_per_inference, 'J')}/inf",
    )


def _high(result: Estimate, metric: str) -> float:
    slow, hungry = result.latency_band_s[1], result.energy_band_j[1] / result.scenario.batch
    return {"latency": slow, "energy": hungry}.get(metric, slow * hungry)
