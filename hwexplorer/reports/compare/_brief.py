"""A comparison in brief: a row and a line for each device, or a page for each device."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from analysis.document import Column
from analysis.estimate.deviations import describe_deviations
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import METRICS
from analysis.explore.attribution import software_words
from analysis.text.evidence import EVIDENCE
from analysis.text.headline import headlines, rank_words, short_name
from analysis.text.insight import fitting_format, request_sentence, setting_hint
from hardware.quantity import quantity
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
        return ", ".join(filter(None, (ranks[id(one)].removeprefix("on "), ratio)))

    shown = (
        Column("device", "Device", role="text", keep=0, of="device.key"),
        Column("verdict", title, role="text", keep=0, of=verdict),
        _with_band("latency", "Latency", "s", ordered, lambda one: one.latency_s, lambda one: one.latency_band_s),
        _with_band("energy", "Energy/inf", "J", ordered, lambda one: one.energy_j_per_inference,
                   lambda one: (one.energy_band_j[0] / one.scenario.batch, one.energy_band_j[1] / one.scenario.batch)),
        Column("edp", "EDP", "Js", keep=1, of="edp_js"),
        Column("throughput", "Rate", "1/s", keep=4, of="throughput_per_s"),
        Column("software", "Software", role="text", keep=3,
               of=lambda one: f"{one.runtime.name.removesuffix(' compiler')} ({one.precision_run})"),
        Column("evidence", "Evidence", role="text", keep=2,
               of=lambda one: "none" if one.device.changes else EVIDENCE[one.trust.level]),
    )  # fmt: skip
    lines = tuple(_device_line(one, reference, says[id(one)]) for one in ordered)
    notes = tuple(re.sub(r" \(.*\)$", "", note) for note in deviation_notes(ordered) if FITS_NOT not in note)
    made = rows(shown, ordered, key=lambda one: one.device.key)
    legend = (
        f"{title}: rank by {METRICS[metric].noun}, and {METRICS[metric].noun} over that of {reference.device.key} (1x)"
    )
    return Table("compare", "Devices", shown, made, (legend, *lines, MORE), notes, is_stacked=True)


def _with_band(
    key: str, title: str, unit: str, results: Sequence[Estimate],
    figure: Callable[[Estimate], float], band: Callable[[Estimate], tuple[float, float]],
) -> Column:  # fmt: skip
    """Return a column of a figure with its band: `0.44 -33/+52 %`."""
    scale = scale_for(map(figure, results), unit)

    def cell(one: Estimate) -> str:
        """Return the text of a cell."""
        return f"{scale.cell(figure(one)):>{scale.width}} {band_words(band(one), figure(one))}"

    return Column(key, header(title, scale.label), role="text", keep=0, of=cell)


def _device_line(one: Estimate, reference: Estimate, headline: str) -> str:
    """Say how a device ranks, and how much of its ratio is software, or which setting helps most."""
    said = [headline.removeprefix("on paper: ").removeprefix("hypothetical: ").replace(" · ", ", ")]
    if request := request_sentence(one):
        said = [headline.split(" · ")[0], request.partition(": ")[2]]
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
