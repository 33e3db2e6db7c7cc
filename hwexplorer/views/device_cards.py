"""Cards, one per device, with the figures of the model there, a bar of its costs by cause, and a phrase."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from analysis.estimate.causes import shares
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import serving
from analysis.estimate.metrics import METRICS
from analysis.text.evidence import EVIDENCE
from analysis.text.headline import headlines
from hardware.quantity import Unit, decimals_for, fixed, prefix_for, quantity
from hardware.what_if import split_changes
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.captions import phase_words
from hwexplorer.views.plain import Card, CardFigure, Stack

if TYPE_CHECKING:
    from analysis.serving.served_load import ServedLoad

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


class _Subject(msgspec.Struct, frozen=True):
    """The subject of a card: a device as the state spells it, its estimate, and the load that it serves, if any."""

    key: str
    result: Estimate
    row: ServedLoad | None
    is_load: bool

    @property
    def fits(self) -> bool:
        """True if the model, and the caches of a load, fit into the memory."""
        return self.result.fits and (self.row is not None or not self.is_load)

    @property
    def competes(self) -> bool:
        """True if the device may be the best of the devices that exist."""
        keeps_up = self.row is None or not self.row.lag_per_s
        return self.fits and keeps_up and self.result.can_win and self.result.device.silicon

    def metric(self, name: str) -> float:
        """Return the figure that devices are compared by."""
        return METRICS[name].figure(self.result) if self.row is None else self.row.figure(name)

    def value(self, column: _Column) -> float:
        """Return the figure of a column in SI units; 0 if neither load, request nor estimate has it."""
        for source in (self.row, serving(self.result), self.result):
            if hasattr(source, column.field):
                return float(getattr(source, column.field) or 0.0)
        return 0.0


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


def cards(state: State) -> tuple[Card, ...]:
    """Return the cards in the order of the state's devices."""
    is_load = engine.request_under_load(state) is not None
    subjects = []
    for name in state.devices:
        served = engine.find_served(state, name)
        subjects.append(_Subject(name, engine.result(state, name), served.row if served else None, is_load))
    results = [subject.result for subject in subjects]
    values = [subject.metric(state.metric) for subject in subjects]
    near = [value for value in values if value <= FAR * min(values)]
    full = max(near) or 1.0
    reference = split_changes(state.baseline)[0]  # the baseline without its changes
    phrases = headlines(results, engine.result(state, reference), state.metric, leads_by=state.metric)
    figures = zip(*(_figures(column, subjects) for column in _columns(subjects[0])), strict=True)
    ranks = _rank(subjects, values)
    said = [_words(state, subject, phrase, is_load) for subject, phrase in zip(subjects, phrases, strict=True)]
    return tuple(
        Card(
            key=subject.key,
            name=_name(subject),
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
            fits=subject.fits,
            over=words[:-1],
            phrase=words[-1],
            reference="" if is_load else reference,
            unchanged_bar=0.0 if is_load else _base_metric(state, subject.key) / full,
        )
        for subject, result, value, rank, own_figures, words in zip(
            subjects, results, values, ranks, figures, said, strict=True
        )
    )


def _columns(subject: _Subject) -> tuple[_Column, ...]:
    if subject.is_load:
        return _LOAD
    result = subject.result
    if serving(result) is not None:
        return _REQUEST
    latency, what = phase_words(result)
    return _phase_columns(latency, what) if what else _USUAL


def _figures(column: _Column, subjects: Sequence[_Subject]) -> list[CardFigure]:
    """Return a figure of every device with three digits, all in the unit that takes the fewest cells."""
    values = [subject.value(column) for subject in subjects]
    candidates = [(1.0, "")] if not column.unit else [prefix_for(value, column.unit) for value in values]
    written = [
        (factor, label, [fixed(value / factor, decimals_for(value / factor, 3)) for value in values])
        for factor, label in sorted(set(candidates), reverse=True)
    ]
    _, label, texts = min(written, key=lambda form: max(map(len, form[2])))
    rivals = [value for value, subject in zip(values, subjects, strict=True) if subject.competes]
    best = (max if column.more_is_better else min)(rivals, default=0.0) if len(rivals) > 1 else None
    return [
        CardFigure(column.label, text, f"{label}{column.per}", is_best=value == best and subject.competes)
        for value, text, subject in zip(values, texts, subjects, strict=True)
    ]


def _rank(subjects: Sequence[_Subject], values: Sequence[float]) -> list[int]:
    """Return the rank of each device that competes, from 1; 0 for a device that does not compete."""
    rivals = sorted(value for value, subject in zip(values, subjects, strict=True) if subject.competes)
    return [rivals.index(value) + 1 if subject.competes else 0 for value, subject in zip(values, subjects, strict=True)]


def _words(state: State, subject: _Subject, phrase: str, is_load: bool) -> tuple[str, ...]:
    """Return the exceeded limits, then the verdict. If a server falls behind and exceeds limits, that comes first."""
    over, row = _exceeded_limits(state, subject), subject.row
    if row is not None and row.lag_per_s and over:
        return ("falls behind", *over)
    return (*over, row.state if row else "does not fit" if is_load else phrase)


def _exceeded_limits(state: State, subject: _Subject) -> tuple[str, ...]:
    """Write each exceeded limit: `too slow (7.35 ms > 5 ms)`."""
    if not state.limits:
        return ()
    from analysis.explore.constraint import parse_limits  # not needed to start the screen

    return tuple(
        f"{_EXCESS.get(limit.figure, 'not')} ({quantity(value, limit.unit)} {'<' if '>' in limit.sign else '>'} "
        f"{_as_stated(limit.amount, limit.unit)})"
        for limit in parse_limits(state.limits)
        if not limit.holds(value := subject.value(_Column("", "", METRICS[limit.figure].key)))
    )


def _as_stated(amount: float, unit: Unit) -> str:
    """Write a limit with the digits that the user gave: `5 ms`."""
    factor, label = prefix_for(amount, unit)
    return f"{amount / factor:g} {label}"


def _base_metric(state: State, device: str) -> float:
    """Return the metric of a what-if device without its changes; 0 for any other device."""
    base = split_changes(device)[0]
    return 0.0 if base == device else METRICS[state.metric].figure(engine.result(state, base))


def _name(subject: _Subject) -> str:
    """Return the name of a device without its vendor, which is long and says little, and with its changes and count."""
    device = subject.result.device
    name = device.name_in_mode.removeprefix(device.vendor).strip()
    count = f" x {subject.row.devices}" if subject.row and subject.row.devices > 1 else ""
    return f"{name or device.id} {device.changes}".strip() + count


def _high(result: Estimate, metric: str) -> float:
    slow, hungry = result.latency_band_s[1], result.energy_band_j[1] / result.scenario.batch
    return {"latency": slow, "energy": hungry}.get(metric, slow * hungry)
