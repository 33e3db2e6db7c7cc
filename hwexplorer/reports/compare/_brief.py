"""A comparison in brief: a row and a line for each device, or a page for each device."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import msgspec

from analysis.document import Column
from analysis.estimate.deviations import describe_deviations
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import serving
from analysis.estimate.metrics import METRICS
from analysis.explore.attribution import software_words
from analysis.text.evidence import EVIDENCE
from analysis.text.headline import headlines, phase_words, rank_words, short_name
from analysis.text.insight import fitting_format, setting_hint
from hardware.quantity import Unit, quantity
from hwexplorer.export.text import columns_as_text
from hwexplorer.text.number_format import header, scale_for
from hwexplorer.views.captions import band_words, metric_word
from hwexplorer.views.plain import Table, Text
from hwexplorer.views.tables import rows

FITS_NOT = ": does not fit: "  # marks a note that the line of its device repeats
MORE = "More: --all (memory, power, utilisation, causes, all sentences), --level detailed, --format csv"


def brief_table(results: Sequence[Estimate], reference: Estimate, metric: str) -> Table:
    """Return a row for each device with its bands, the best first and designs on paper last. Footers describe each."""
    ranks = dict(zip(map(id, results), rank_words(results, metric), strict=True))
    says = dict(zip(map(id, results), headlines(results, reference, metric), strict=True))
    figure, word = METRICS[metric].figure, metric_word(metric)
    title = f"{word[0].upper()}{word[1:]} rank"
    ordered = sorted(results, key=lambda one: (not one.device.silicon, not one.can_win, figure(one)))

    def verdict(one: Estimate) -> str:
        """Return the rank of a device, and the ratio of its metric to the metric of the reference."""
        if not one.fits:
            return "does not fit"
        ratio = "1x" if one is reference else quantity(figure(one) / (figure(reference) or 1.0), "x", digits=2)
        return " ".join(filter(None, (ranks[id(one)].removeprefix("on "), ratio)))

    shown = (
        Column("device", "Device", role="text", keep=0, of="device.key"),
        Column("verdict", title, role="text", keep=0, of=verdict),
        *_figure_columns(ordered),
        Column("software", "Software", role="text", keep=3,
               of=lambda one: f"{one.runtime.name.removesuffix(' compiler')} ({one.precision_run})"),
        Column("evidence", "Evidence", role="text", keep=2,
               of=lambda one: "none" if one.device.changes else EVIDENCE[one.trust.level]),
    )  # fmt: skip
    lines = tuple(_device_line(one, reference, says[id(one)]) for one in ordered)
    notes = tuple(re.sub(r" \([^()]*\)$", "", note) for note in deviation_notes(ordered) if FITS_NOT not in note)
    made = rows(shown, ordered, key=lambda one: one.device.key)
    legend = (
        f"{title}: rank by {METRICS[metric].noun}, and {METRICS[metric].noun} over that of {reference.device.key} (1x)"
    )
    return Table("compare", "Devices", shown, made, (legend, *lines, MORE), notes, is_stacked=True)


def _figure_columns(results: Sequence[Estimate]) -> tuple[Column, ...]:
    """Return the figures of devices: of a request those by which users judge it, else time, energy, EDP and rate."""
    name, what = phase_words(results[0])
    latency = _with_band(name or "Latency", "s", results, lambda one: (one.latency_s, one.latency_band_s))
    edp = Column("edp", "EDP", "Js", keep=1, of="edp_js")
    if (first := serving(results[0])) is None:
        energy = _with_band(f"Energy/{what or 'inf'}", "J", results, lambda one: _per(one, one.scenario.batch))
        rate = f"{what.title()}s/s" if what else "Rate"
        return latency, energy, edp, Column("throughput", rate, "1/s", keep=4, of="throughput_per_s")
    tokens = first.output_tokens

    def serving_column(unit: Unit, title: str, field: str) -> Column:
        """Return a column of a field of Serving."""
        return Column(field, title, unit, keep=0, of=lambda one: getattr(serving(one), field))

    return (
        serving_column("s", "TTFT", "time_to_first_token_s"),
        serving_column("s", "TPOT", "time_per_output_token_s"),
        serving_column("SI", "Tokens/s", "tokens_per_s"),
        _with_band("Energy/token", "J", results, lambda one: _per(one, one.scenario.batch * tokens)),
        msgspec.structs.replace(latency, keep=4),
        msgspec.structs.replace(edp, keep=5),
    )


def _per(one: Estimate, count: int) -> tuple[float, tuple[float, float]]:
    """Return the energy of a device divided by a count, and its band."""
    low, high = one.energy_band_j
    return one.energy_j / count, (low / count, high / count)


def _with_band(
    title: str, unit: Unit, results: Sequence[Estimate], figure: Callable[[Estimate], tuple[float, tuple[float, float]]]
) -> Column:
    """Return a column of a figure with its band: `0.44 -33/+52 %`."""
    scale = scale_for((figure(one)[0] for one in results), unit)

    def cell(one: Estimate) -> str:
        """Return the text of a cell."""
        value, band = figure(one)
        return f"{scale.cell(value):>{scale.width}} {band_words(band, value)}"

    return Column({"J": "energy"}.get(unit, "latency"), header(title, scale.label), role="text", keep=0, of=cell)


def _device_line(one: Estimate, reference: Estimate, headline: str) -> str:
    """Say how a device ranks, and how much of its ratio is software, or which setting helps most."""
    said = [headline.removeprefix("on paper: ").removeprefix("hypothetical: ").replace(" · ", ", ")]
    if (served := serving(one)) is not None and one.fits:
        said.append(f"{served.largest_batch} such requests fit at once")
    elif not one.fits:
        said.append(f"does not fit {fitting_format(one)}".rstrip())
    elif one is not reference and reference.fits:
        said.append(re.sub(r"software: [^)]*", "software", software_words(reference, one)))  # a column has it
    else:
        said.append(setting_hint(one))
    return f"{short_name(one.device)}: {'; '.join(filter(None, said))}"


def deviation_notes(results: Sequence[Estimate]) -> tuple[str, ...]:
    """Return each deviation from the request, once with all devices that have it, and the notes of the model."""
    names: dict[str, list[str]] = {}
    for result in results:
        for mark in describe_deviations(result):
            names.setdefault(mark, []).append(short_name(result.device))
    return (*(f"{', '.join(each)}: {mark}" for mark, each in names.items()), *results[0].workload.notes)


def device_pages(table: Table, steps: tuple[str, ...]) -> Text:
    """Return a paragraph per device, with a figure in each line, and the next commands."""
    names, *columns = columns_as_text(table)
    width = max(len(column[0]) for column in columns)
    pages = [
        (name, tuple(f"{column[0]:<{width}}  {column[place].strip()}" for column in columns if column[place].strip()))
        for place, name in enumerate(names[1:], 1)
    ]
    return Text("devices", "Device by device", (*pages, ("", steps)))
