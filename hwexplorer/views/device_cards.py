"""Cards, one per device, with the figures of the model there, a bar of its costs by cause, and a phrase."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.estimate.causes import shares
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import METRICS
from analysis.explore.outcome import Outcome
from hardware.quantity import Unit, decimals_for, fixed, prefix_for, quantity
from hardware.what_if import split_changes
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.device_rows import FIGURES, DeviceFigure, DeviceRow, device_rows
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


<<<<<<< HEAD
=======
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
    _Column("", "J", "energy_j_per_inference", "/request"),
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


>>>>>>> a83d57e4 (Put formats into the verdict; compare with the pin in words)
def cards(state: State) -> tuple[Card, ...]:
    """Return the cards in the order of the state's devices."""
    reference = split_changes(state.baseline)[0]  # the baseline without its changes
    rows = device_rows(state, reference)
    least = min(row.value for row in rows)
    full = max(row.value for row in rows if row.value <= FAR * least) or 1.0
    figures = zip(*(_figures(figure, rows) for figure in FIGURES[rows[0].outcome.work]), strict=True)
    return tuple(
<<<<<<< HEAD
        _card(state, row, own_figures, full, reference) for row, own_figures in zip(rows, figures, strict=True)
=======
        Card(
            key=outcome.key,
            name=_name(outcome),
            evidence=EVIDENCE[result.trust.level],
            runtime=result.runtime.name,
            format=result.precision_run,
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
>>>>>>> a83d57e4 (Put formats into the verdict; compare with the pin in words)
    )


def _card(state: State, row: DeviceRow, figures: tuple[CardFigure, ...], full: float, reference: str) -> Card:
    outcome, result = row.outcome, row.run
    over = _exceeded_limits(state, outcome)
    is_behind = bool(over and outcome.figure("lag_per_s"))  # which comes before what it exceeds
    return Card(
        key=row.key,
        name=_name(outcome),
        evidence=row.evidence,
        runtime=result.runtime.name,
        rank=row.rank,
        on_paper=not result.device.silicon,
        figures=figures,
        rate_per_s=result.throughput_per_s,
        latency_s=result.latency_s,
        energy_j=result.energy_j_per_inference,
        bar=Stack((shares(result, state.metric).sum(axis=1) * row.value / full).tolist()),
        most=_high(result, state.metric) / METRICS[state.metric].figure(result) * row.value / full,
        fits=outcome.fits,
        over=("falls behind", *over[:-1]) if is_behind else over,
        phrase=over[-1] if is_behind else row.phrase,
        reference="" if outcome.is_simulated else reference,
        unchanged_bar=_base_metric(state, outcome) / full,
    )


def _figures(figure: DeviceFigure, rows: Sequence[DeviceRow]) -> list[CardFigure]:
    """Return a figure of every device with three digits, all in the unit that takes the fewest cells."""
    values, unit = [row.outcome.figure(figure.field) for row in rows], figure.card_unit
    candidates = [(1.0, "")] if not unit else [prefix_for(value, unit) for value in values]
    written = [
        (factor, label, [fixed(value / factor, decimals_for(value / factor, 3)) for value in values])
        for factor, label in sorted(set(candidates), reverse=True)
    ]
    _, label, texts = min(written, key=lambda form: max(map(len, form[2])))
    rivals = [value for value, row in zip(values, rows, strict=True) if row.rank]
    best = (max if figure.more_is_better else min)(rivals, default=0.0) if len(rivals) > 1 else None
    return [
        CardFigure(figure.label, text, f"{label}{figure.per}", is_best=value == best and row.rank > 0)
        for value, text, row in zip(values, texts, rows, strict=True)
    ]


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
