"""Comparison of one model on several devices: figures, recommendations, and insights with their numbers."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from analysis.document import column, record
from analysis.estimate.alternatives import best_setting
from analysis.estimate.causes import causes, values_by_cause
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.figures import Figures, Head, figures, head_fields
from analysis.estimate.metrics import METRICS
from analysis.estimate.scenario import Scenario
from analysis.explore.attribution import attribute_to_software
from analysis.explore.cost import Bill
from analysis.explore.next_step import NextStep
from analysis.explore.odds import Odds, odds, odds_sentence
from analysis.explore.verdict import Verdict, verdict
from analysis.model.ir.workload import Workload
from analysis.text.headline import headlines, rank_words
from analysis.text.insight import comparison_sentence, design_price_sentence, device_sentences, request_sentence
from hardware.area import area
from hardware.base.errors import RequestError
from hardware.base.records import memoize
from hardware.device import Device
from hardware.device_catalog import device_as_designed


class Compared(Figures, frozen=True, kw_only=True):
    """One device; ratios are to the baseline's figures. `energy_as_designed_j` is the energy of a design target at its
    designer's prices. Latency and energy by cause add up to the totals of the batch."""

    ratio_to_baseline: dict[str, float]
    die_mm2: Annotated[float, column("Die mm2", keep=5, help="by published rules: compare designs of one kind")]
    die_usd: Annotated[float, column("Die USD", keep=5, help="good die only: no package, memory, test, margin")]
    throughput_per_mm2: Annotated[float, column("Inf/s/mm2", keep=5)]
    verdict: Annotated[str, column("Verdict", keep=4)]
    energy_as_designed_j: float | msgspec.UnsetType = msgspec.UNSET
    latency_by_cause_s: dict[str, float]
    energy_by_cause_j: dict[str, float]


class Comparison(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer compare`. Design targets, if asked for, are recommended in a separate group."""

    baseline: str
    parameters: int
    macs: float
    macs_per_inference: float
    flops: float
    coverage: float
    coverage_bytes: float
    coverage_flops: float
    answer: Verdict | None
    recommendations: dict[str, str]
    recommendations_design_targets: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    odds: tuple[Odds, ...]
    insights: tuple[str, ...]
    next: tuple[NextStep, ...]
    rows: tuple[Compared, ...]
    cost: Bill | msgspec.UnsetType = msgspec.UNSET


def compare(
    workload: Workload, devices: Sequence[Device], scenario: Scenario, baseline: str, on_paper: bool = False
) -> Comparison:
    """Compare devices. `on_paper` means that design targets were asked for. Raises RequestError if `baseline` is not
    the key of one of the devices."""
    results = [estimate(workload, device, scenario) for device in devices]
    reference = next((r for r in results if baseline in (r.device.key, r.device.id)), None)
    if reference is None:
        keys = ", ".join(r.device.key for r in results)
        raise RequestError(f"baseline {baseline!r} is not among the devices ({keys})")
    workload = results[0].workload
    point = workload.value_at(batch=scenario.batch)
    macs = workload.total(workload.operators.macs, batch=scenario.batch)
    return Comparison(
        **head_fields(results[0]),
        baseline=reference.device.key,
        parameters=workload.parameters,
        macs=macs,
        macs_per_inference=macs / scenario.batch,
        flops=float((workload.operators.flops @ point).sum()),
        coverage=results[0].coverage,
        coverage_bytes=results[0].rule_coverage.bytes,
        coverage_flops=results[0].rule_coverage.flops,
        answer=verdict(results, on_paper=on_paper),
        recommendations=recommendations(results),
        recommendations_design_targets=(on_paper and recommendations(results, silicon=False)) or msgspec.UNSET,
        odds=odds(results, reference),
        insights=insights(results, reference),
        next=next_steps(results, scenario),
        rows=tuple(
            device_figures(result, reference, headline)
            for result, headline in zip(results, headlines(results, reference, rank_words(results, "edp")), strict=True)
        ),
    )


def device_figures(result: Estimate, reference: Estimate, headline: str) -> Compared:
    """Return the figures of a device with their ratios to those of the reference."""
    own_figures, by_cause = figures(result), causes(result).sum_over(slice(None))
    ratios = {m.ratio: m.figure(own_figures) / (m.figure(reference) or 1.0) for m in METRICS.values() if m.ratio}
    die = area(result.device)
    return record(
        Compared,
        own_figures,
        ratio_to_baseline=ratios,
        die_mm2=die.total_mm2,
        die_usd=die.cost_usd,
        throughput_per_mm2=own_figures.throughput_per_s / die.total_mm2,
        verdict=headline,
        energy_as_designed_j=msgspec.UNSET if (designed := as_designed(result)) is None else designed.energy_j,
        latency_by_cause_s=values_by_cause(by_cause.time_s),
        energy_by_cause_j=values_by_cause(by_cause.energy_j),
    )


def recommendations(results: Sequence[Estimate], silicon: bool = True) -> dict[str, str]:
    """Return the best device for each aim, among real devices or design targets; '' if none can run the model. Without
    design targets, their dictionary is empty."""
    group = [result for result in results if result.device.silicon is silicon]
    if not group and not silicon:
        return {}
    fitting = [result for result in group if result.can_win]
    ranks = {aim: [tuple(METRICS[name].figure(r) for name in names) for r in fitting] for aim, names in _AIMS.items()}
    return {aim: fitting[rank.index(min(rank))].device.key if fitting else "" for aim, rank in ranks.items()}


# The aim of a recommendation -> the metrics that decide.
_AIMS = {
    "energy": ("energy",),
    "latency": ("latency",),
    "throughput": ("latency",),
    "balance": ("edp",),
    "memory": ("memory", "energy"),
}


def insights(results: Sequence[Estimate], reference: Estimate) -> tuple[str, ...]:
    """Return sentences that a reader should notice, with their numbers."""
    lines = [line for result in results if (line := request_sentence(result))]
    chances = odds(results, reference)
    for result in results:
        if result is not reference and result.energy_j > 0 and result.fits and reference.fits:
            chance = odds_sentence([one for one in chances if one.device == result.device.key])
            software = attribute_to_software(reference, result)
            words = ""
            if software is not None:
                words = f"{software.describe(result.latency_s < reference.latency_s)} ({software.runtimes})"
            lines.append(comparison_sentence(result, reference, words, chance))
    lines += (design_price_sentence(result, designed) for result in results if (designed := as_designed(result)))
    return (*lines, *(line for result in results for line in device_sentences(result)))


@memoize()
def as_designed(result: Estimate) -> Estimate | None:
    """Return the estimate of a design target at its designer's prices; None for a device that exists."""
    device = device_as_designed(result.device)
    return None if device is None else estimate(result.workload, device, result.scenario)


def next_steps(results: Sequence[Estimate], scenario: Scenario) -> tuple[NextStep, ...]:
    """Return the requests that follow up on a comparison."""
    model = results[0].workload
    best = recommendations(results)["balance"] or results[0].device.key
    steps = [NextStep("tree", model, (best,), scenario), NextStep("show events", model, (best,), scenario)]
    settings = [setting for result in results if (setting := best_setting(result)) is not None]
    batches = [setting.result.scenario.batch for setting in settings if setting.kind == "batch"]
    if batches:
        larger = msgspec.structs.replace(scenario, batch=max(batches))
        steps.append(NextStep("compare", model, tuple(result.device.key for result in results), larger))
    if len(results) > 1:
        worst, least = max(results, key=lambda r: r.edp_js), min(results, key=lambda r: r.edp_js)
        steps.append(NextStep("why", model, (worst.device.key, least.device.key), scenario))
    steps.append(NextStep("advise", model, (best,), scenario))
    return tuple(steps)
