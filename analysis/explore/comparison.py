"""One model on several devices: rows, recommendations among those that can win, insights that quote numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated

import msgspec

from analysis.document import column
from analysis.estimate.causes import causes, named
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.figures import Figures, Head, about, figures
from analysis.estimate.scenario import Scenario
from analysis.estimate.serving import serving
from analysis.explore.next_step import NextStep
from analysis.explore.odds import Odds, odds, settling, told
from analysis.explore.runtime_share import split
from analysis.model.ir.workload import Workload
from analysis.model.names.targets import refusal
from analysis.text.headline import phrases
from hardware.area import area
from hardware.device import Device
from hardware.errors import RequestError
from hardware.precision import FORMATS, KEYS, parse
from hardware.quantity import quantity
from hardware.remember import remembered
from hardware.sentence import counted

LOW_UTILIZATION = 0.3  # below this, a reader wants to know what would fill the device
CURES = (4, 16, 64, 256)  # times the batch


class Compared(Figures, frozen=True, kw_only=True):
    """One device; ratios are of its figures to the baseline's. `verdict` says in a phrase what it is among the
    others; `energy_as_designed_j` what a design target takes at its designer's own prices; latency and energy of the
    batch by cause (analysis/estimate/causes.py) add up to them; area and cost of the die by rule (hardware/area.py)."""

    ratio_to_baseline: dict[str, float]
    die_mm2: Annotated[float, column("Die mm2", keep=5, help="by published rules: compare designs of one kind")]
    die_usd: Annotated[float, column("Die USD", keep=5, help="of a good die: no package, memory, test, margin")]
    throughput_per_mm2: Annotated[float, column("Inf/s/mm2", keep=5)]
    verdict: Annotated[str, column("Verdict", keep=4)]
    energy_as_designed_j: float | msgspec.UnsetType = msgspec.UNSET
    latency_by_cause_s: dict[str, float]
    energy_by_cause_j: dict[str, float]


class Comparison(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer compare`. What exists on paper only is recommended in a group of its own, where it
    was asked for."""

    baseline: str
    parameters: int
    macs: float
    macs_per_inference: float
    flops: float
    coverage: float
    coverage_bytes: float
    coverage_flops: float
    recommendations: dict[str, str]
    recommendations_design_targets: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    odds: tuple[Odds, ...]
    insights: tuple[str, ...]
    next: tuple[NextStep, ...]
    rows: tuple[Compared, ...]


def compare(
    workload: Workload, devices: Sequence[Device], scenario: Scenario, baseline: str, on_paper: bool = False
) -> Comparison:
    """Compare devices. `baseline` is the key of one of them; raises RequestError otherwise. `on_paper`: design
    targets were asked for."""
    results = [estimate(workload, device, scenario) for device in devices]
    reference = next((r for r in results if baseline in (r.device.key, r.device.id)), None)
    if reference is None:
        raise RequestError(
            f"baseline {baseline!r} is not among the devices ({', '.join(r.device.key for r in results)})"
        )
    workload = results[0].workload
    point = workload.at(batch=scenario.batch)
    macs = workload.total(workload.operators.macs, batch=scenario.batch)
    return Comparison(
        **about(results[0]),
        baseline=reference.device.key,
        parameters=workload.parameters,
        macs=macs,
        macs_per_inference=macs / scenario.batch,
        flops=float((workload.operators.flops @ point).sum()),
        coverage=results[0].coverage,
        coverage_bytes=results[0].covered.bytes,
        coverage_flops=results[0].covered.flops,
        recommendations=recommendations(results),
        recommendations_design_targets=(on_paper and recommendations(results, silicon=False)) or msgspec.UNSET,
        odds=odds(results, reference),
        insights=insights(results, reference),
        next=next_steps(results, scenario),
        rows=compared(results, reference),
    )


# What a ratio is named -> the figures it is of.
_RATIOS = {
    "latency": "latency_s",
    "energy": "energy_j",
    "edp": "edp_js",
    "throughput": "throughput_per_s",
    "peak_memory": "peak_memory_bytes",
}


def compared(results: Sequence[Estimate], reference: Estimate) -> tuple[Compared, ...]:
    """The devices' figures beside the baseline's."""
    told = phrases(results, reference)
    return tuple(_compared(result, reference, phrase) for result, phrase in zip(results, told, strict=True))


def _compared(result: Estimate, reference: Estimate, phrase: str) -> Compared:
    mine, theirs, of = figures(result), figures(reference), causes(result).of(slice(None))
    ratios = {name: getattr(mine, key) / (getattr(theirs, key) or 1.0) for name, key in _RATIOS.items()}
    die = area(result.device)
    return Compared(
        **msgspec.structs.asdict(mine),
        ratio_to_baseline=ratios,
        die_mm2=die.total_mm2,
        die_usd=die.cost_usd,
        throughput_per_mm2=mine.throughput_per_s / die.total_mm2,
        verdict=phrase,
        energy_as_designed_j=msgspec.UNSET if (hoped := as_designed(result)) is None else hoped.energy_j,
        latency_by_cause_s=named(of.time_s),
        energy_by_cause_j=named(of.energy_j),
    )


def recommendations(results: Sequence[Estimate], silicon: bool = True) -> dict[str, str]:
    """The best device for each aim, among those that can win, real ones or design targets; '' where none does,
    nothing at all where there are no design targets.

    Balance is the least EDP per inference; equal memory is decided by energy."""
    group = [result for result in results if result.device.silicon is silicon]
    fitting = [result for result in group if result.can_win]
    if not group and not silicon:
        return {}
    if not fitting:
        return dict.fromkeys(("energy", "latency", "throughput", "balance", "memory"), "")

    def best(*key: str) -> str:
        return min(fitting, key=lambda r: tuple(_figure(r, name) for name in key)).device.key

    return {
        "energy": best("energy"),
        "latency": best("latency"),
        "throughput": best("latency"),
        "balance": best("edp"),
        "memory": best("memory", "energy"),
    }


def _figure(result: Estimate, name: str) -> float:
    return {
        "energy": result.energy_j,
        "latency": result.latency_s,
        "edp": result.edp_js,
        "memory": result.memory.peak_bytes,
    }[name]


def insights(results: Sequence[Estimate], reference: Estimate) -> tuple[str, ...]:
    """What a reader should notice, with the numbers."""
    lines = [line for result in results if (line := _served(result))]
    chances = odds(results, reference)
    lines += [
        _against(result, reference, [each for each in chances if each.device == result.device.key])
        for result in results
        if result is not reference and result.energy_j > 0 and result.fits and reference.fits
    ]
    lines += [line for line in (settling(chances),) if line]
    lines += [_hoped(result, hoped) for result in results if (hoped := as_designed(result)) is not None]
    for result in results:
        lines.extend(_about(result))
    return tuple(lines)


@remembered()
def as_designed(result: Estimate) -> Estimate | None:
    """A design target at its designer's own prices; None for what exists."""
    device = result.device.as_designed
    return None if device is None else estimate(result.workload, device, result.scenario)


def _hoped(result: Estimate, hoped: Estimate) -> str:
    return (
        f"{result.device.name}: {quantity(result.energy_j, 'J')} at prices of silicon of its node, "
        f"{quantity(hoped.energy_j, 'J')} at its designer's ({hoped.device.key})"
    )


def _served(result: Estimate) -> str:
    """A request as its users speak of it; '' for anything else."""
    served = serving(result) if result.fits else None
    if served is None:
        return ""
    return (
        f"{result.device.name}: first token after {quantity(served.time_to_first_token_s, 's')}, then one every "
        f"{quantity(served.time_per_output_token_s, 's')}: {served.tokens_per_s:.3g} tokens/s, "
        f"{quantity(served.energy_j_per_token, 'J')} per token; {served.largest_batch} such requests fit at once"
    )


def _against(result: Estimate, reference: Estimate, chances: Sequence[Odds]) -> str:
    energy = reference.energy_j / result.energy_j
    speed = reference.latency_s / (result.latency_s or 1.0)
    less = f"{energy:.1f}x less energy" if energy >= 1 else f"{1 / energy:.1f}x the energy"
    fast = f"{speed:.1f}x as fast" if speed >= 1 else f"{1 / speed:.1f}x slower"
    if 0.95 < energy < 1.05:
        less = "about the same energy"
    if 0.95 < speed < 1.05:
        fast = "about as fast"
    slower, quicker = (reference, result) if speed >= 1 else (result, reference)
    parts = split(slower, quicker)
    how = f" ({parts.text})" if parts else ""
    doubt = "; " + said if (said := told(chances)) else ""
    return f"{result.device.name} against {reference.device.name}: {less}, {fast}{how}{doubt}"


def _about(result: Estimate) -> list[str]:
    lines = []
    static = result.static_fraction
    name = result.device.name
    if result.bound == "launch":
        busy = float(result.run.busy_s.sum()) / (result.latency_s or 1.0)
        kernels = counted(result.demand.n_kernels, "kernel")
        lines.append(f"{name} is launch bound: busy {busy:.0%} of the time with {kernels}")
    larger = cure(result)
    if larger is not None:
        less = result.energy_j_per_inference / larger.energy_j_per_inference
        lines.append(
            f"{name} reaches {result.utilization:.1%} of its peak: batch {larger.scenario.batch} makes it "
            f"{larger.utilization:.0%}, {less:.1f}x less energy per inference "
            f"and {larger.throughput_per_s / (result.throughput_per_s or 1.0):.1f}x the throughput"
        )
    if static > 0.5:
        lines.append(
            f"{static:.0%} of the energy on {name} is static: finishing sooner saves up to "
            f"{quantity(static * result.energy_j, 'J')}"
        )
    if not result.fits:
        lines.append(f"{result.workload.name} does not fit on {name}{_would_fit(result)}")
    return lines


def _would_fit(result: Estimate) -> str:
    """The widest format that makes a model fit, found by running it; '' where none does."""
    asked, stored = result.scenario.precision, FORMATS[result.plan.weights].bytes
    for name in KEYS:
        precision = parse(name)
        if precision.suits(result.workload.work) and FORMATS[precision.weights].bytes < stored:
            narrower = msgspec.structs.replace(result.scenario, precision=name)
            tried = estimate(result.workload, result.device, narrower)
            if tried.fits:
                return f" in {asked}; in {name} it does, in {quantity(tried.peak_memory_bytes, 'byte')}"
    return ""


def larger_batches(result: Estimate, factors: Iterable[int]) -> Iterator[Estimate]:
    """The run at so many times the batch, as long as it fits."""
    for factor in factors:
        batch = result.scenario.batch * factor
        if refusal(result.workload, batch):
            return
        tried = estimate(result.workload, result.device, msgspec.structs.replace(result.scenario, batch=batch))
        if not tried.fits:
            return
        yield tried


@remembered()
def cure(result: Estimate) -> Estimate | None:
    """Where little of the peak is used, the run at the batch that helps: the smallest of 4 to 256 times as many
    inputs that gains half of the utilisation that any of them does. Found by running them; None where none helps."""
    if result.utilization >= LOW_UTILIZATION:
        return None
    larger = list(larger_batches(result, CURES))
    best = max((tried.utilization for tried in larger), default=0.0)
    enough = (result.utilization + best) / 2
    if best < 1.5 * result.utilization:
        return None
    return next(tried for tried in larger if tried.utilization >= enough)


def next_steps(results: Sequence[Estimate], scenario: Scenario) -> tuple[NextStep, ...]:
    """What follows up on what was found."""
    model = results[0].workload
    best = recommendations(results)["balance"] or results[0].device.key
    steps = [NextStep("tree", model, (best,), scenario), NextStep("events", model, (best,), scenario)]
    batches = [cured.scenario.batch for cured in map(cure, results) if cured is not None]
    if batches:
        larger = msgspec.structs.replace(scenario, batch=max(batches))
        steps.append(NextStep("compare", model, tuple(result.device.key for result in results), larger))
    if len(results) > 1:
        worst, least = max(results, key=lambda r: r.edp_js), min(results, key=lambda r: r.edp_js)
        steps.append(NextStep("explain", model, (worst.device.key, least.device.key), scenario))
    steps.append(NextStep("advise", model, (best,), scenario))
    return tuple(steps)
