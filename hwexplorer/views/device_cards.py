"""Cards, one per device, with the figures of the model there, a bar of its costs by cause, and a phrase."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analysis.estimate.causes import shares
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import METRICS
from analysis.explore.outcome import Outcome
from analysis.text.evidence import EVIDENCE
from analysis.text.headline import headlines
from hardware.quantity import Unit, decimals_for, fixed, prefix_for, quantity
from hardware.what_if import split_changes
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.plain import Card, CardFigure, Stack

_EXCESS = {
    "latency": "too slow",
    "ttft": "TTFT",
    "tpot": "TPOT",
    "energy": "too hungry",
    "power": "too much power",
    "memory": "too large",
}
FAR = 4.0  # times the least value; longer bars exceed the common scale


class _Column(msgspec.Struct, frozen=True):
    """A figure of each card: label, unit, field of the load, request or estimate, and what it is counted per."""

    label: str
    unit: Unit
    field: str
    per: str = ""
    more_is_better: bool = False


_EDP = _Column("EDP", "Js", "edp_js")
_USUAL = (
    _Column("latency", "s", "latency_s"),
    _Column("rate", "1/s", "throughput_per_s", more_is_better=True),
    _Column("energy", "J", "energy_j_per_inference", "/inf"),
    _EDP,
)
# Under a load, the slowest requests and the cost per token count.
_LOAD = (
    _Column("TTFT p99", "s", "ttft_p99_s"),
    _Column("TPOT p99", "s", "tpot_p99_s"),
    _Column("", "", "tokens_per_s", "tokens/s", more_is_better=True),
    _Column("", "J", "energy_j_per_token", "/token"),
    _Column("EDP", "Js", "edp_js", "/token"),
)
# Users of a language model judge a request, a prompt and a step of decoding by their tokens.
_REQUEST = (
    _Column("TTFT", "s", "time_to_first_token_s"),
    _Column("TPOT", "s", "time_per_output_token_s"),
    _Column("", "", "tokens_per_s", "tokens/s", more_is_better=True),
    _Column("", "J", "energy_j_per_token", "/token"),
    _EDP,
)


def _phase_columns(latency: str, what: str) -> tuple[_Column, ...]:
    """Return the figures of a phase that processes prompts or makes tokens; `what` is one of them."""
    return (
        _Column(latency, "s", "latency_s"),
        _Column("", "", "throughput_per_s", f"{what}s/s", more_is_better=True),
        _Column("", "J", "energy_j_per_inference", f"/{what}"),
        _EDP,
    )


_COLUMNS = {
    "inference": _USUAL,
    "request": _REQUEST,
    "prompt": _phase_columns("TTFT", "prompt"),
    "token": _phase_columns("TPOT", "token"),
    "output token": _LOAD,
}


def cards(state: State) -> tuple[Card, ...]:
    """Return the cards in the order of the state's devices."""
    outcomes = [engine.outcome(state, name) for name in state.devices]
    results = [outcome.estimate for outcome in outcomes]
    values = [outcome.aim(state.metric) for outcome in outcomes]
    near = [value for value in values if value <= FAR * min(values)]
    full = max(near) or 1.0
    reference = split_changes(state.baseline)[0]  # the baseline without its changes
    phrases = headlines(results, engine.result(state, reference), state.metric, leads_by=state.metric)
    figures = zip(*(_figures(column, outcomes) for column in _COLUMNS[outcomes[0].work]), strict=True)
    ranks = _rank(outcomes, values)
    said = [_words(state, outcome, phrase) for outcome, phrase in zip(outcomes, phrases, strict=True)]
    return tuple(
        Card(
            key=outcome.key,
            name=_name(outcome),
            evidence=EVIDENCE[result.trust.level],
            runtime=result.runtime.name,
            rank=rank,
            on_paper=not result.device.silicon,
            figures=own_figures,
            rate_per_s=result.throughput_per_s,
            latency_s=result.latency_s,
            energy_j=result.energy_j_per_inference,
            bar=Stack((shares(result, state.metric).sum(axis=1) * value / full).tolist()),
            most=_high(result, state.metric) / METRICS[state.metric].figure(result) * value / full,
            fits=outcome.fits,
            over=words[:-1],
            phrase=words[-1],
            reference="" if outcome.is_simulated else reference,
            unchanged_bar=_base_metric(state, outcome) / full,
        )
        for outcome, result, value, rank, own_figures, words in zip(
            outcomes, results, values, ranks, figures, said, strict=True
        )
    )


def _figures(column: _Column, outcomes: Sequence[Outcome]) -> list[CardFigure]:
    """Return a figure of every device with three digits, all in the unit that takes the fewest cells."""
    values = [outcome.figure(column.field) for outcome in outcomes]
    candidates = [(1.0, "")] if not column.unit else [prefix_for(value, column.unit) for value in values]
    written = [
        (factor, label, [fixed(value / factor, decimals_for(value / factor, 3)) for value in values])
        for factor, label in sorted(set(candidates), reverse=True)
    ]
    _, label, texts = min(written, key=lambda form: max(map(len, form[2])))
    rivals = [value for value, outcome in zip(values, outcomes, strict=True) if outcome.competes]
    best = (max if column.more_is_better else min)(rivals, default=0.0) if len(rivals) > 1 else None
    return [
        CardFigure(column.label, text, f"{label}{column.per}", is_best=value == best and outcome.competes)
        for value, text, outcome in zip(values, texts, outcomes, strict=True)
    ]


def _rank(outcomes: Sequence[Outcome], values: Sequence[float]) -> list[int]:
    """Return the rank of each device that competes, from 1; 0 for a device that does not compete."""
    rivals = sorted(value for value, outcome in zip(values, outcomes, strict=True) if outcome.competes)
    return [rivals.index(value) + 1 if outcome.competes else 0 for value, outcome in zip(values, outcomes, strict=True)]


def _words(state: State, outcome: Outcome, phrase: str) -> tuple[str, ...]:
    """Return the exceeded limits, then the verdict. If a server falls behind and exceeds limits, that comes first."""
    over = _exceeded_limits(state, outcome)
    if over and outcome.figure("lag_per_s"):
        return ("falls behind", *over)
    return (*over, outcome.verdict(phrase))


def _exceeded_limits(state: State, outcome: Outcome) -> tuple[str, ...]:
    """Write each exceeded limit: `too slow (7.35 ms > 5 ms)`."""
    if not state.limits:
        return ()
    from analysis.explore.constraint import parse_limits  # not needed to start the screen

    return tuple(
        f"{_EXCESS.get(limit.figure, 'not')} ({quantity(value, limit.unit)} {'<' if '>' in limit.sign else '>'} "
        f"{_as_stated(limit.amount, limit.unit)})"
        for limit in parse_limits(state.limits)
        if not limit.holds(value := outcome.figure(METRICS[limit.figure].key))
    )


def _as_stated(amount: float, unit: Unit) -> str:
    """Write a limit with the digits that the user gave: `5 ms`."""
    factor, label = prefix_for(amount, unit)
    return f"{amount / factor:g} {label}"


def _base_metric(state: State, outcome: Outcome) -> float:
    """Return the metric of a what-if device without its changes; 0 for any other device."""
    base = split_changes(outcome.key)[0]
    return 0.0 if outcome.is_simulated or base == outcome.key else engine.outcome(state, base).aim(state.metric)


def _name(outcome: Outcome) -> str:
    """Return the name of a device without its vendor, which is long and says little, and with its changes and count."""
    device = outcome.estimate.device
    name = device.name_in_mode.removeprefix(device.vendor).strip()
    count = f" x {outcome.devices}" * (outcome.devices > 1)
    return f"{name or device.id} {device.changes}".strip() + count


def _high(result: Estimate, metric: str) -> float:
    slow, hungry = result.latency_band_s[1], result.energy_band_j[1] / result.scenario.batch
    return {"latency": slow, "energy": hungry}.get(metric, slow * hungry)
