"""A comparison on one screen: a row and a line for each device; or a page for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from analysis.document import Column
from analysis.estimate.causes import causes, values_by_cause
from analysis.estimate.deviations import describe_deviations
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import METRICS
from analysis.explore.attribution import software_words
from analysis.text.evidence import EVIDENCE, describe_evidence
from analysis.text.headline import headlines, rank_words, short_name
from analysis.text.insight import fitting_format, request_sentence, setting_hint
from hardware.area import area
from hardware.quantity import quantity
from hwexplorer.text.number_format import header, scale_for
from hwexplorer.views.captions import band_words, bound_counts
from hwexplorer.views.plain import Section, Table, Text
from hwexplorer.views.tables import rows

WORTH_NAMING = 0.01  # share of the time or the energy of a cause
FITS_NOT = ": does not fit: "  # is said in the line of a device
MORE = "More: --all (memory, power, utilisation, causes, all sentences), --level detailed, --format csv"


def brief_table(results: Sequence[Estimate], reference: Estimate, metric: str) -> Table:
    """Return a row for each device with its bands, the best first and designs on paper last; below it a line each."""
    ranks = dict(zip(map(id, results), rank_words(results, metric), strict=True))
    says = dict(zip(map(id, results), headlines(results, reference, metric), strict=True))
    figure = METRICS[metric].figure
    ordered = sorted(results, key=lambda one: (not one.device.silicon, not one.can_win, figure(one)))

    def verdict(one: Estimate) -> str:
        """Return the rank of a device, and its metric over that of the reference."""
        if not one.fits:
            return "does not fit"
        ratio = "1x" if one is reference else quantity(figure(one) / (figure(reference) or 1.0), "x", digits=2)
        return ", ".join(filter(None, (ranks[id(one)].removeprefix("on "), ratio)))

    shown = (
        Column("device", "Device", role="text", keep=0, of="device.key"),
        Column("verdict", "Verdict", role="text", keep=0, of=verdict),
        _with_band("latency", "Latency", "s", ordered, lambda one: one.latency_s, lambda one: one.latency_band_s),
        _with_band("energy", "Energy/inf", "J", ordered, lambda one: one.energy_j_per_inference, _energy_band_j),
        Column("edp", "EDP", "Js", keep=1, of="edp_js"),
        Column("throughput", "Rate", "1/s", keep=4, of="throughput_per_s"),
        Column("software", "Software", role="text", keep=3, of=_software),
        Column("evidence", "Evidence", role="text", keep=2, of=_evidence),
    )  # fmt: skip
    lines = tuple(_device_line(one, reference, says[id(one)]) for one in ordered)
    notes = tuple(re.sub(r" \(.*\)$", "", note) for note in deviation_notes(ordered) if FITS_NOT not in note)
    made = rows(shown, ordered, key=lambda one: one.device.key)
    legend = (
        f"Verdict: rank by {METRICS[metric].noun}, and {METRICS[metric].noun} over that of {reference.device.key} (1x)"
    )
    return Table("compare", "Devices", shown, made, (legend, *lines, MORE), notes, is_stacked=True)


def _software(one: Estimate) -> str:
    return f"{one.runtime.name.removesuffix(' compiler')} ({one.precision_run})"


def _evidence(one: Estimate) -> str:
    return "none" if one.device.changes else EVIDENCE[one.trust.level]


def _energy_band_j(one: Estimate) -> tuple[float, float]:
    low, high = one.energy_band_j
    return low / one.scenario.batch, high / one.scenario.batch


def _with_band(
    key: str, title: str, unit: str, results: Sequence[Estimate],
    figure: Callable[[Estimate], float], band: Callable[[Estimate], tuple[float, float]],
) -> Column:  # fmt: skip
    """Return a column of a figure with its band: `0.44 -33/+52%`."""
    scale = scale_for(map(figure, results), unit)

    def cell(one: Estimate) -> str:
        """Return the text of a cell."""
        ends = band_words(band(one), figure(one)).replace(" %", "%")
        return f"{scale.cell(figure(one)):>{scale.width}} {ends}"

    return Column(key, header(title, scale.label), role="text", keep=0, of=cell)


def _device_line(one: Estimate, reference: Estimate, headline: str) -> str:
    """Say what a device is among the others, and the part of software or the setting that helps most."""
    said = [headline.removeprefix("on paper: ").removeprefix("hypothetical: ").replace(" · ", ", ")]
    if request := request_sentence(one):
        said = [headline.split(" · ")[0], request.partition(": ")[2]]
    elif not one.fits:
        said.append(f"does not fit {fitting_format(one)}".rstrip())
    elif one is not reference and reference.fits:
        said.append(software_words(reference, one))
    else:
        said.append(setting_hint(one))
    return f"{short_name(one.device)}: {'; '.join(filter(None, said))}"


def deviation_notes(results: Sequence[Estimate]) -> tuple[str, ...]:
    """Return what deviates from what was asked, once for all devices that it concerns, and the notes of the model."""
    names: dict[str, list[str]] = {}
    for result in results:
        for mark in describe_deviations(result):
            names.setdefault(mark, []).append(short_name(result.device))
    return (*(f"{', '.join(each)}: {mark}" for mark, each in names.items()), *results[0].workload.notes)


# --- a page for each device -----------------------------------------------------------------------------------


def device_pages(results: Sequence[Estimate], reference: Estimate, metric: str, steps: tuple[str, ...]) -> Text:
    """Return a block of labelled lines for each device, and what to ask next."""
    says = headlines(results, reference, metric)
    sections = [_page(one, said) for one, said in zip(results, says, strict=True)]
    return Text("devices", "Device by device", (*sections, ("Next", steps)))


def _page(one: Estimate, said: str) -> Section:
    lines = tuple(f"{label:<11} {text}" for label, text in _facts(one))
    return f"{one.device.label} ({said.replace(' · ', ', ')})", lines


def _facts(one: Estimate) -> Iterator[tuple[str, str]]:
    """Yield the lines of a page: label and text."""
    batch, die, spent = one.scenario.batch, area(one.device), causes(one).sum_over(slice(None))
    energy = ", ".join(f"{name} {quantity(joules / batch, 'J')}" for name, joules in one.component_j.items())
    yield "Latency", f"{quantity(one.latency_s, 's')} ({band_words(one.latency_band_s, one.latency_s)}) per batch"
    yield "Time in", _shares(values_by_cause(spent.time_s))
    band = band_words(one.energy_band_j, one.energy_j)
    yield "Energy/inf", f"{quantity(one.energy_j_per_inference, 'J')} ({band}): {energy}"
    yield "Energy in", _shares(values_by_cause(spent.energy_j))
    yield "EDP", f"{quantity(one.edp_js, 'Js')} (energy per inference x latency)"
    rate, power = quantity(one.throughput_per_s, "1/s"), quantity(one.average_power_w, "W")
    yield "Rate", f"{rate} at {power} of {quantity(one.power_limit_w, 'W')}"
    held = (one.memory.peak_bytes, one.device.memory_bytes, one.memory.weight_bytes, one.memory.activation_peak_bytes)
    peak, has, weights, activations = (quantity(size, "byte") for size in held)
    yield "Memory", f"{peak} of {has}: weights {weights}, activations {activations}"
    yield "Use", f"{one.utilization:.1%} of the {one.precision_run} peak"
    yield "Limit", f"{one.bound} (kernels: {bound_counts(one)})"
    yield "Software", f"{one.runtime.name}, {one.precision_run}"
    yield "Evidence", describe_evidence(one.trust)
    rate = quantity(one.throughput_per_s / die.total_mm2, "1/s")
    yield "Die", f"{die.total_mm2:,.0f} mm2 by published rules, {rate} per mm2"


def _shares(values: dict[str, float]) -> str:
    """Return causes by share, the largest first."""
    total = sum(values.values()) or 1.0
    ordered = sorted(values.items(), key=lambda pair: -pair[1])
    return ", ".join(f"{name} {value / total:.0%}" for name, value in ordered if value / total >= WORTH_NAMING)
