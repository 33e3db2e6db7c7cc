"""The devices of a state in one comparison: figures, rank, evidence and phrase of each, shown by the cards, the Compare
pane, its text and HTML; and which of them keep the limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from math import inf, log
from typing import TYPE_CHECKING

import msgspec

from analysis import wording
from analysis.document import Column
from analysis.estimate.causes import shares
from analysis.estimate.estimate import Estimate
from analysis.estimate.measured_runs import measured_runs
from analysis.estimate.metrics import METRICS
from analysis.explore.outcome import Outcome, figure_band, parse_limits
from hardware.base.text import Unit, decimals_for, fixed, prefix_for, quantity
from hardware.device import ON_PAPER
from hardware.what_if import split_changes, with_unchanged
from hwexplorer import engine
from hwexplorer.state import RANKS, State, replace
from hwexplorer.text.number_format import header, scale_for
from hwexplorer.views import plain
from hwexplorer.views.captions import band_words

if TYPE_CHECKING:
    from analysis.explore.comparison import Compared


class DeviceRow(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """A device: `value` is the metric of the state, `rank` its place among the devices that compete, 0 for another
    device, `rank_word` that place in words. `phrase` compares it with the `reference`."""

    key: str
    outcome: Outcome
    reference: Estimate
    metric: str
    value: float
    rank: int
    rank_word: str
    phrase: str

    @property
    def run(self) -> Estimate:
        """The estimate of the device."""
        return self.outcome.estimate

    @property
    def evidence(self) -> str:
        """The word for the evidence of its figures; `what if` for a device whose facts were changed."""
        return "what if" if self.run.device.changes else wording.EVIDENCE[self.run.trust.level]

    @property
    def measured(self) -> str:
        """The newest measured run of the same, with its source; '' without one."""
        run = next(iter(measured_runs(self.run)), None)
        return f"{run.figures} ({run.cited})" if run else ""

    @cached_property
    def figures(self) -> Compared:
        """The figures of the device with their ratios to those of the reference."""
        from analysis.explore.comparison import device_figures  # not needed to start the screen

        return device_figures(self.run, self.reference, self.phrase)

    @property
    def order(self) -> tuple[bool, bool, float]:
        """The sort key of devices by rank."""
        return _order(self.outcome, self.metric)

    @property
    def place(self) -> str:
        """The rank: `1st`, `design`, `does not fit`."""
        return self.rank_word if self.run.fits else "does not fit"

    @property
    def ratio(self) -> float | None:
        """The metric over that of the reference; None if the model does not fit."""
        figure = METRICS[self.metric].figure
        return figure(self.run) / (figure(self.reference) or 1.0) if self.run.fits else None


def device_rows(state: State, reference: str) -> tuple[DeviceRow, ...]:
    """Return the devices of a state in their order, compared with the device `reference`."""
    outcomes = [engine.outcome(state, name) for name in state.devices]
    results, reference_run = [outcome.estimate for outcome in outcomes], engine.result(state, reference)
    values = [outcome.aim(state.metric) for outcome in outcomes]
    ranks = wording.rank_values(values, [outcome.competes for outcome in outcomes])
    words = wording.rank_words(results, state.metric)
    lines = wording.headlines(results, reference_run, words, state.metric)
    return tuple(
        DeviceRow(
            key=outcome.key, outcome=outcome, reference=reference_run, metric=state.metric, value=value, rank=rank,
            rank_word=word, phrase=outcome.verdict(line),
        )
        for outcome, value, rank, word, line in zip(outcomes, values, ranks, words, lines, strict=True)
    )  # fmt: skip


def _order(outcome: Outcome, metric: str) -> tuple[bool, bool, float]:
    """Return the sort key of devices by rank: the best first, designs on paper last."""
    return not outcome.estimate.device.silicon, not outcome.competes, outcome.aim(metric)


def rank_devices(state: State) -> tuple[str, ...]:
    """Return the devices of a state by rank, each with changed facts before the unchanged device, whose rank it
    takes."""
    bases = {name: split_changes(name)[0] for name in state.devices}
    order = {name: (*_order(engine.outcome(state, base), state.metric), name == base) for name, base in bases.items()}
    return with_unchanged(sorted(state.devices, key=order.__getitem__))


def sort_rows(rows: Sequence[DeviceRow], state: State) -> list[DeviceRow]:
    """Sort rows by `state.rank`, the best first unless `rank_reverse`; the rank `rank` keeps their order. Designs on
    paper come last."""
    ordered = list(rows)
    if state.rank == "name":
        ordered.sort(key=lambda row: row.run.device.label.casefold())
    elif state.rank != RANKS[0]:
        metric = METRICS[state.rank]
        ordered.sort(key=lambda row: metric.figure(row.run), reverse=metric.more_is_better)
    return sorted(ordered[::-1] if state.rank_reverse else ordered, key=lambda row: not row.run.device.silicon)


class DeviceFigure(msgspec.Struct, frozen=True):
    """A figure of each device: the key of its column, the field of its records, and its unit. `label` and `per` write
    it on a card, where `per` may name what is counted. `title` heads its column, '' if tables lack it. `band` is the
    figure whose band it has."""

    key: str
    field: str
    unit: Unit
    label: str = ""
    per: str = ""
    title: str = ""
    keep: int = 0
    band: str = ""


def _of_phase(time: str, what: str) -> tuple[DeviceFigure, ...]:
    """Return the figures of a phase that processes prompts or makes tokens; `what` is one of them."""
    return (
        DeviceFigure("latency", "latency_s", "s", time, title=time, band="latency"),
        DeviceFigure("throughput", "throughput_per_s", "1/s", per=f"{what}s/s", title=f"{what.title()}s/s", keep=4),
        DeviceFigure("energy", "energy_j_per_inference", "J", "", f"/{what}", f"Energy/{what}", 1, band="energy"),
        _EDP,
    )  # fmt: skip


_EDP = DeviceFigure("edp", "edp_js", "Js", "EDP", title="EDP")
# The figures by the unit of work: users of a language model judge a request, a prompt and a step of decoding by their
# tokens; under a load, the slowest requests and the cost per token count.
FIGURES = {
    "inference": (
        DeviceFigure("latency", "latency_s", "s", "latency", title="Latency", band="latency"),
        DeviceFigure("throughput", "throughput_per_s", "1/s", "rate", title="Rate", keep=4),
        DeviceFigure("energy", "energy_j_per_inference", "J", "energy", "/inf", "Energy/inf", keep=1, band="energy"),
        _EDP,
    ),
    "request": (
        DeviceFigure("time_to_first_token_s", "time_to_first_token_s", "s", "TTFT", title="TTFT"),
        DeviceFigure("time_per_output_token_s", "time_per_output_token_s", "s", "TPOT", title="TPOT"),
        DeviceFigure("tokens_per_s", "tokens_per_s", "SI", per="tokens/s", title="Tokens/s"),
        DeviceFigure("energy", "energy_j_per_inference", "J", per="/request", title="Energy/request", band="energy"),
        msgspec.structs.replace(_EDP, keep=5),
    ),
    "sample": _of_phase("Step", "sample"),
    "prompt": _of_phase("TTFT", "prompt"),
    "token": _of_phase("TPOT", "token"),
    "output token": (
        DeviceFigure("ttft", "ttft_p99_s", "s", "TTFT p99"),
        DeviceFigure("tpot", "tpot_p99_s", "s", "TPOT p99"),
        DeviceFigure("tokens_per_s", "tokens_per_s", "SI", per="tokens/s"),
        DeviceFigure("energy", "energy_j_per_token", "J", per="/token"),
        DeviceFigure("edp", "edp_js", "Js", "EDP", "/token"),
    ),
}
_LATENCY = DeviceFigure("latency", "latency_s", "s", title="Latency", keep=4, band="latency")


def figure_columns(rows: Sequence[DeviceRow]) -> tuple[Column, ...]:
    """Return a column for each figure of the devices, with its band if it has one; of a request also its latency."""
    work = rows[0].outcome.work
    figures = [figure for figure in FIGURES[work] if figure.title] + [_LATENCY] * (work == "request")
    return tuple(_column(figure, rows) for figure in sorted(figures, key=lambda figure: max(figure.keep, 1)))


def _figure(figure: DeviceFigure, row: DeviceRow) -> float:
    return row.outcome.figure(figure.field)


def _column(figure: DeviceFigure, rows: Sequence[DeviceRow]) -> Column:
    """Return the column of a figure. With its band it is text: `0.44 -33/+52 %`."""
    if not figure.band:
        read = partial(_figure, figure)
        return Column(figure.key, figure.title, figure.unit, keep=figure.keep, of=read)
    scale = scale_for((_figure(figure, row) for row in rows), figure.unit)

    def cell(row: DeviceRow) -> str:
        """Return the figure of a device and its band."""
        run, value = row.run, _figure(figure, row)
        bands = {"latency": (run.latency_band_s, run.latency_s), "energy": (run.energy_band_j, run.energy_j)}
        return f"{scale.cell(value):>{scale.width}} {band_words(*bands[figure.band])}"

    title = header(figure.title, scale.label)
    return Column(figure.key, title, role="text", keep=figure.keep, of=cell)


_EXCESS = {
    "latency": "too slow",
    "ttft": "TTFT",
    "tpot": "TPOT",
    "energy": "too hungry",
    "power": "too much power",
    "memory": "too large",
}


def cards(state: State) -> tuple[plain.Card, ...]:
    """Return the cards in the order of the state, usually by rank; designs on paper come last."""
    reference = split_changes(state.baseline)[0]  # the baseline without its changes
    by_key = {row.key: row for row in device_rows(replace(state, devices=with_unchanged(state.devices)), reference)}
    rows = [by_key[name] for name in rank_devices(state)]
    if (state.rank, state.rank_reverse) != (RANKS[0], False):
        rows = sort_rows(rows, state)
    names = wording.distinct_names([row.run.device for row in rows])
    is_mixed = {row.run.precision_run for row in rows} != {state.precision}
    figures = zip(*(_figures(figure, rows) for figure in FIGURES[rows[0].outcome.work]), strict=True)
    return tuple(
        _card(state, row, own_figures, name, is_mixed)
        for row, own_figures, name in zip(rows, figures, names, strict=True)
    )


def _card(state: State, row: DeviceRow, figures: tuple[plain.CardFigure, ...], name: str, is_mixed: bool) -> plain.Card:
    outcome, result = row.outcome, row.run
    run = next(iter(measured_runs(result)), None)
    exceeded_limits = _exceeded_limits(state, outcome)
    is_behind = bool(exceeded_limits and outcome.figure("lag_per_s"))  # which comes before what it exceeds
    over = ("falls behind", *exceeded_limits[:-1]) if is_behind else exceeded_limits
    phrase = exceeded_limits[-1] if is_behind else row.phrase
    count = f" x {outcome.devices}" * (outcome.devices > 1)
    return plain.Card(
        key=row.key,
        name=f"{wording.short_name(result.device).removesuffix(ON_PAPER)}{count}",
        short=f"{name}{count}",
        evidence=f"measured {run.figures}" + f", {run.year}" * bool(run.year) if run else row.evidence,
        runs=f"{result.runtime.name} {result.precision_run * is_mixed}".rstrip(),
        format=result.precision_run,
        rank=row.rank,
        on_paper=not result.device.silicon,
        figures=figures,
        rate_per_s=result.throughput_per_s,
        latency_s=result.latency_s,
        energy_j=result.energy_j_per_inference,
        bar=plain.Stack(shares(result, state.metric).sum(axis=1).tolist()),
        value=row.value,
        band=_band(result, state.metric, row.value),
        is_unchanged=row.key not in state.devices,
        fits=outcome.fits,
        over=over,
        note=" · ".join((*over, *[phrase] * (is_behind or outcome.is_simulated or not outcome.fits))),
        phrase=phrase,
    )


def device_table(cards: Sequence[plain.Card], metric: str) -> plain.Table:
    """Return the cards as a table: software, figures, the metric by cause and with its band, and evidence."""
    heads = [(place, figure) for place, figure in enumerate(cards[0].figures) if figure.label != "rate"]
    has_notes = any(card.note for card in cards)
    values = [value for card in cards for value in (*card.band, card.value) if 0.0 < value < inf] or [1.0]
    least, most = min(values), max(values)

    def place_on_axis(value: float) -> float:
        """Return the place of a value between the ends of a logarithmic axis, a fraction."""
        return log(min(max(value, least), most) / least) / (log(most / least) or 1.0)

    axis = " to ".join(quantity(end, METRICS[metric].unit, 2) for end in (least, most))
    columns = (
        Column("device", "  Device", role="text", keep=0),
        Column("runs", "Runs", role="text", keep=3, help="software and the format most multiply-accumulates run in"),
        *(
            Column(figure.key, f"{figure.label[:1].upper()}{figure.label[1:]} {figure.unit}".strip(),
                   keep=0 if place in (0, len(cards[0].figures) - 1) or figure.key == metric else place + 4)
            for place, figure in heads
        ),
        *[Column("note", "", role="text", keep=2)] * has_notes,
        Column("causes", "by cause", role="bar", keep=8, help=f"{METRICS[metric].title} by cause: {plain.HELP}"),
        Column("band", axis, role="bar", keep=9, help=f"{METRICS[metric].title} and its band, on a logarithmic scale"),
        Column("evidence", "Evidence", role="text", keep=4,
               help="what the figures rest on; a design on paper is not ranked with chips"),
    )  # fmt: skip
    rows = [
        plain.Row(
            card.key,
            (
                f"{card.rank or ' '} {card.short}",
                card.runs,
                *(card.figures[place].text for place, _ in heads),
                *[card.note] * has_notes,
                card.bar,
                plain.Span(*map(place_on_axis, (card.band[0], card.value, card.band[1]))),
                f"{card.evidence.removeprefix('on ')}, unranked" if card.on_paper else card.evidence,
            ),
            dim=card.on_paper or card.is_unchanged or not card.fits or bool(card.over),
        )
        for card in cards
    ]
    return plain.Table(metric, "", columns, tuple(rows))


def _figures(figure: DeviceFigure, rows: Sequence[DeviceRow]) -> list[plain.CardFigure]:
    """Return a figure of every device with three digits, all in the unit that takes the fewest cells."""
    values = [row.outcome.figure(figure.field) for row in rows]
    unit = "" if figure.per and figure.per[0] != "/" else figure.unit  # before `per`: none if that counts something
    candidates = [(1.0, "")] if not unit else [prefix_for(value * up, unit) for value in values for up in (1.0, 1e3)]
    forms = [
        (factor, label, [fixed(value / factor, decimals_for(value / factor, 3)) if value else "-" for value in values])
        for factor, label in sorted(set(candidates), reverse=True)
    ]
    _, label, texts = min(forms, key=lambda form: max(map(len, form[2])))
    return [plain.CardFigure(figure.key, figure.label, text, f"{label}{figure.per}") for text in texts]


def _exceeded_limits(state: State, outcome: Outcome) -> tuple[str, ...]:
    """Write each exceeded limit: `too slow (7.35 ms > 5 ms)`."""
    if not state.limits:
        return ()
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


def _band(result: Estimate, metric: str, value: float) -> tuple[float, float]:
    """Return the ends of the band of a metric, scaled to its value under a load."""
    low, high = figure_band(result, metric) or (0.0, 0.0)
    scale = value / (METRICS[metric].figure(result) or 1.0)
    return low * scale, high * scale


class LimitsCheck(msgspec.Struct, frozen=True):
    """The devices of a state that pass its limits, and the broken limits of each that fails."""

    asked: str
    passing: tuple[str, ...]
    failing: dict[str, tuple[str, ...]]

    def __str__(self) -> str:
        total = len(self.passing) + len(self.failing)
        names = f": {', '.join(self.passing)}" if self.passing else ""
        return f"limits {self.asked}: {len(self.passing)} of {total} devices pass{names}"


def check_limits(state: State) -> LimitsCheck | None:
    """Check the devices of a state against its limits. Return None if the state has no limits."""
    if not state.limits:
        return None
    limits = parse_limits(state.limits)
    broken_limits = {name: engine.outcome(state, name).broken_limits(limits) for name in state.devices}
    failing = {name: why for name, why in broken_limits.items() if why}
    return LimitsCheck(state.limits, tuple(name for name in state.devices if name not in failing), failing)
