"""Cards, one per device, with the figures of the model there, a bar of its costs by cause, and a phrase."""

from collections.abc import Sequence

from analysis.estimate.causes import shares
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import METRICS
from analysis.explore.outcome import Outcome, figure_band
from hardware.base.text import Unit, decimals_for, fixed, prefix_for, quantity
from hardware.what_if import split_changes
from hwexplorer.state import State
from hwexplorer.views.device_rows import FIGURES, DeviceFigure, DeviceRow, rank_rows
from hwexplorer.views.plain import Card, CardFigure, Stack

_EXCESS = {
    "latency": "too slow",
    "ttft": "TTFT",
    "tpot": "TPOT",
    "energy": "too hungry",
    "power": "too much power",
    "memory": "too large",
}


def cards(state: State) -> tuple[Card, ...]:
    """Return the cards by rank, then cards without a rank, then designs on paper."""
    reference = split_changes(state.baseline)[0]  # the baseline without its changes
    rows = rank_rows(state, reference)
    figures = zip(*(_figures(figure, rows) for figure in FIGURES[rows[0].outcome.work]), strict=True)
    return tuple(_card(state, row, own_figures, reference) for row, own_figures in zip(rows, figures, strict=True))


def _card(state: State, row: DeviceRow, figures: tuple[CardFigure, ...], reference: str) -> Card:
    outcome, result = row.outcome, row.run
    exceeded_limits = _exceeded_limits(state, outcome)
    is_behind = bool(exceeded_limits and outcome.figure("lag_per_s"))  # which comes before what it exceeds
    return Card(
        key=row.key,
        name=_name(outcome),
        evidence=row.evidence,
        runtime=result.runtime.name,
        format=result.precision_run,
        rank=row.rank,
        on_paper=not result.device.silicon,
        figures=figures,
        rate_per_s=result.throughput_per_s,
        latency_s=result.latency_s,
        energy_j=result.energy_j_per_inference,
        bar=Stack(shares(result, state.metric).sum(axis=1).tolist()),
        value=row.value,
        band=_band(result, state.metric, row.value),
        is_unchanged=row.key not in state.devices,
        fits=outcome.fits,
        over=("falls behind", *exceeded_limits[:-1]) if is_behind else exceeded_limits,
        phrase=exceeded_limits[-1] if is_behind else row.phrase,
        reference="" if outcome.is_simulated else reference,
    )


def _figures(figure: DeviceFigure, rows: Sequence[DeviceRow]) -> list[CardFigure]:
    """Return a figure of every device with three digits, all in the unit that takes the fewest cells."""
    values, unit = [row.outcome.figure(figure.field) for row in rows], figure.card_unit
    candidates = [(1.0, "")] if not unit else [prefix_for(value, unit) for value in values]
    forms = [
        (factor, label, [fixed(value / factor, decimals_for(value / factor, 3)) if value else "-" for value in values])
        for factor, label in sorted(set(candidates), reverse=True)
    ]
    _, label, texts = min(forms, key=lambda form: max(map(len, form[2])))
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


def _name(outcome: Outcome) -> str:
    """Return the name of a device without its vendor, which is long and says little, and with its changes and count."""
    device = outcome.estimate.device
    name = device.name_in_mode.removeprefix(f"{device.vendor} ")
    count = f" x {outcome.devices}" * (outcome.devices > 1)
    return f"{name or device.id} {device.changes}".strip() + count


def _band(result: Estimate, metric: str, value: float) -> tuple[float, float]:
    """Return the ends of the band of a metric, scaled to its value under a load."""
    low, high = figure_band(result, metric) or (0.0, 0.0)
    scale = value / (METRICS[metric].figure(result) or 1.0)
    return low * scale, high * scale
