"""Comparison of one model on several devices: figures, recommendations and sentences with numbers."""

from collections.abc import Sequence
from typing import Annotated

import msgspec

from analysis import wording
from analysis.document import column, record
from analysis.estimate.alternatives import best_setting, precisions
from analysis.estimate.causes import causes, values_by_cause
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.figures import Figures, Head, figures, head_fields, serving
from analysis.estimate.metrics import METRICS
from analysis.estimate.scenario import Scenario
from analysis.explore.attribution import attribute_to_software
from analysis.explore.cost import Bill
from analysis.explore.odds import Odds, Verdict, odds, verdict
from analysis.model.ir.workload import Workload
from analysis.model.names import zoo
from hardware.base.errors import RequestError
from hardware.base.text import percent, quantity
from hardware.device import Device
from hardware.precision import FORMATS, WIDE, parse


class NextStep:
    """A report of a model on devices (their keys). It is not a struct, because its text depends on the front end.
    `image_size` is None for the model's own size."""

    __slots__ = ("devices", "image_size", "report", "scenario", "words")

    def __init__(
        self, report: str, model: Workload, devices: tuple[str, ...], scenario: Scenario, image_size: int | None = None
    ) -> None:
        self.report, self.words, self.devices = report, model.words, devices
        self.scenario, self.image_size = scenario, image_size


def request_of(result: Estimate) -> NextStep:
    """Return the request that shows the figures of an estimate."""
    workload = result.workload
    size, info = workload.image_size, zoo.table().get(workload.name)
    own = info is None or size == info.image_size
    return NextStep("compare", workload, (result.key,), result.scenario, None if own else size)


NOTICEABLE = 0.01  # relative change that is mentioned
UNMEASURED = "data sheets only, nothing measured there"


class Compared(Figures, frozen=True, kw_only=True):
    """One device; ratios are to the baseline's figures. Latency and energy by cause add up to the totals of the
    batch."""

    ratio_to_baseline: dict[str, float]
    verdict: Annotated[str, column("Verdict", keep=4)]
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
    ranks = wording.rank_words(results, "edp")
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
            device_figures(result, reference, words)
            for result, words in zip(results, wording.headlines(results, reference, ranks), strict=True)
        ),
    )


def device_figures(result: Estimate, reference: Estimate, words: str) -> Compared:
    """Return the figures of a device with their ratios to those of the reference."""
    own_figures, by_cause = figures(result), causes(result).sum_over(slice(None))
    ratios = {m.ratio: m.figure(own_figures) / (m.figure(reference) or 1.0) for m in METRICS.values() if m.ratio}
    return record(
        Compared,
        own_figures,
        ratio_to_baseline=ratios,
        verdict=words,
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
    """Return a sentence about each device, with its numbers."""
    phrases = wording.headlines(results, reference, wording.rank_words(results, "edp"))
    return tuple(device_sentence(*pair, reference) for pair in zip(results, phrases, strict=True))


def device_sentence(result: Estimate, phrase: str, reference: Estimate) -> str:
    """Say how a device ranks (`phrase`), how much of that is software, and which setting helps most; or what it lacks
    for the model."""
    parts = [phrase.removeprefix("design: ").removeprefix("what if: ").replace(" · ", ", ")]
    if (request := serving(result)) is not None and result.fits:
        parts.append(f"{request.largest_batch} such requests fit at once")
    elif not result.fits:
        parts.append(f"does not fit {fitting_format(result)}".rstrip())
    else:
        software = attribute_to_software(reference, result) if reference.fits else None
        if software is not None:
            parts.append(software.describe(result.latency_s < reference.latency_s))
        parts.append(setting_hint(result))
    return f"{wording.short_name(result.device)}: {'; '.join(filter(None, parts))}"


def next_steps(results: Sequence[Estimate], scenario: Scenario) -> tuple[NextStep, ...]:
    """Return the requests that follow up on a comparison."""
    model = results[0].workload
    best = recommendations(results)["balance"] or results[0].device.key
    steps = [NextStep("tree", model, (best,), scenario), NextStep("show events", model, (best,), scenario)]
    settings = [setting for result in results if (setting := best_setting(result)) is not None]
    batches = [setting.result.batch for setting in settings if setting.kind == "batch"]
    if batches:
        larger = msgspec.structs.replace(scenario, batch=max(batches))
        steps.append(NextStep("compare", model, tuple(result.key for result in results), larger))
    if len(results) > 1:
        worst, least = max(results, key=lambda r: r.edp_js), min(results, key=lambda r: r.edp_js)
        steps.append(NextStep("why", model, (worst.key, least.key), scenario))
    steps.append(NextStep("advise", model, (best,), scenario))
    return tuple(steps)


# --- sentences ---------------------------------------------------------------------------------------------


def setting_hint(result: Estimate) -> str:
    """Name the setting that helps most, as `batch 16: 3.7x less energy per inference`; '' without one."""
    best = best_setting(result)
    if best is None:
        return ""
    change = best.result.energy_j_per_inference / result.energy_j_per_inference
    energy = f"energy per {wording.work_word(result)}"
    gain = wording.describe_change(change, f"less {energy}", f"more {energy}") or f"the same {energy}"
    check = f" ({accuracy_note(best.setting)})" if best.kind == "precision" else ""
    return f"{best.change}: {gain}{check}"


def fitting_format(result: Estimate) -> str:
    """Name the widest format in which the model fits: `in fp32; in fp16 it does, in 16 GB`. Without one, say how a
    language model runs with the memory of a host; '' for other models."""
    stored = FORMATS[result.plan.weights].bytes
    narrower = precisions(result, lambda precision: FORMATS[precision.weights].bytes < stored)
    widest = next((other for other in narrower if other.result.fits), None)
    if widest is None:
        return "alone: `show offload` keeps layers in the memory of a host" if result.can_offload else ""
    size = quantity(widest.result.peak_memory_bytes, "byte")
    return f"in {result.scenario.precision}; in {widest.setting} it does, in {size}"


def accuracy_note(precision: str) -> str:
    """Say what a format requires: an accuracy check for floats of 16 bits and more, calibration for others."""
    form = FORMATS[precision if precision in FORMATS else parse(precision).weights]
    is_wide = form.kind == "float" and form.bits >= FORMATS[WIDE].bits
    return "check the accuracy" if is_wide else "needs calibration, accuracy changes"


def change_effects(before: Estimate, after: Estimate, odds: str = "") -> str:
    """Describe what a change does to utilisation, kernels, traffic, power, bound, software and formats."""
    parts = [f"utilisation {percent(before.utilization, 1)} to {percent(after.utilization, 1)}"]
    if before.demand.n_kernels != after.demand.n_kernels:
        parts.append(f"{before.demand.n_kernels} kernels to {after.demand.n_kernels}")
    traffic = [float(side.run.mapping.traffic.dram_bytes.sum()) / side.scenario.batch for side in (before, after)]
    if abs(traffic[1] / (traffic[0] or 1.0) - 1.0) > NOTICEABLE:
        moved = " to ".join(quantity(bytes_moved, "byte") for bytes_moved in traffic)
        parts.append(f"DRAM {moved} per {wording.work_word(before)}")
    parts.append(f"static {percent(before.static_fraction)} to {percent(after.static_fraction)} of the energy")
    if before.bound != after.bound:
        parts.append(f"{before.bound} bound to {after.bound} bound")
    if before.device.key != after.device.key:
        if after.trust.level == "engineering":
            parts.append(UNMEASURED)
        parts.extend([odds] if odds else [])
    elif before.runtime.id != after.runtime.id:
        parts.append(f"{before.runtime.name} to {after.runtime.name}")
    if after.plan.weights not in (before.plan.weights, after.precision_run):
        parts.append(f"weights {before.plan.weights} to {after.plan.weights}: {accuracy_note(after.plan.weights)}")
    elif before.precision_run != after.precision_run:
        parts.append(f"{before.precision_run} to {after.precision_run}: {accuracy_note(after.precision_run)}")
    return ", ".join(parts)
