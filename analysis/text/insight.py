"""Sentences that a reader of a comparison should notice, each with its numbers."""

from analysis.estimate.alternatives import Alternative, best_setting, widest_that_fits
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import serving
from analysis.text.headline import compare_factors, describe_change, work_word
from hardware.base.text import count_noun, percent, plain_number, quantity
from hardware.precision import FORMATS, WIDE, parse

NOTICEABLE = 0.01  # relative change that is mentioned
UNMEASURED = "data sheets only, nothing measured there"


def request_sentence(result: Estimate) -> str:
    """Describe a request as its users do, by its first and following tokens; '' for anything else."""
    request = serving(result) if result.fits else None
    if request is None:
        return ""
    return (
        f"{result.device.name}: first token after {quantity(request.time_to_first_token_s, 's')}, then one every "
        f"{quantity(request.time_per_output_token_s, 's')}: {plain_number(request.tokens_per_s)} tokens/s, "
        f"{quantity(request.energy_j_per_token, 'J')} per token; {request.largest_batch} such requests fit at once"
    )


def comparison_sentence(result: Estimate, reference: Estimate, software: str, odds: str) -> str:
    """Compare energy and speed of two devices. `software` and `odds` are added at the end, if not ''."""
    factors = ", ".join(compare_factors(result, reference, "the energy")) or "about the same"
    how = f"; in time {software}" if software else ""
    return f"{result.device.name} against {reference.device.name}: {factors}{how}{odds and f'; {odds}'}"


def design_price_sentence(result: Estimate, as_designed: Estimate) -> str:
    """Compare the energy of a design target at event prices of its process node and at its designer's prices."""
    return (
        f"{result.device.name}: {quantity(result.energy_j, 'J')} at prices of silicon of its node, "
        f"{quantity(as_designed.energy_j, 'J')} at its designer's ({as_designed.device.key})"
    )


def device_sentences(result: Estimate) -> list[str]:
    """Describe what keeps a model from using a device well, and the setting that helps most."""
    lines = []
    static = result.static_fraction
    name = result.device.name
    if result.bound == "launch":
        busy = float(result.run.busy_s.sum()) / (result.latency_s or 1.0)
        kernels = count_noun(result.demand.n_kernels, "kernel")
        lines.append(f"{name} is launch bound: busy {percent(busy)} of the time with {kernels}")
    if (best := best_setting(result)) is not None:
        lines.append(setting_sentence(result, best))
    if static > 0.5:
        saved = quantity(static * result.energy_j, "J")
        lines.append(f"{percent(static)} of the energy on {name} is static: finishing sooner saves up to {saved}")
    if not result.fits:
        lines.append(f"{result.workload.name} does not fit on {name} {fitting_format(result)}".rstrip())
    return lines


def setting_hint(result: Estimate) -> str:
    """Name the setting that helps most, as `batch 16: 3.7x less energy per inference`; '' without one."""
    best = best_setting(result)
    if best is None:
        return ""
    return f"{best.change}: {_energy_change(result, best.result)}"


def _energy_change(before: Estimate, after: Estimate) -> str:
    change = after.energy_j_per_inference / before.energy_j_per_inference
    energy = f"energy per {work_word(before)}"
    return describe_change(change, f"less {energy}", f"more {energy}") or f"the same {energy}"


def setting_sentence(result: Estimate, other: Alternative) -> str:
    """Describe what a changed setting does to utilisation, energy and throughput."""
    changed_run = other.result
    rate = changed_run.throughput_per_s / (result.throughput_per_s or 1.0)
    faster = describe_change(rate, "lower throughput", "higher throughput", "the throughput")
    gains = " and ".join(filter(None, (_energy_change(result, changed_run), faster)))
    if other.kind == "precision":
        return f"{result.device.name} in {other.setting}: {gains}; {accuracy_note(other.setting)}"
    peak = f"{percent(result.utilization, 1)} of its peak: {other.change} makes it {percent(changed_run.utilization)}"
    return f"{result.device.name} reaches {peak}, {gains}"


def fitting_format(result: Estimate) -> str:
    """Name the widest format in which the model fits: `in fp32; in fp16 it does, in 16 GB`. Without one, say how a
    language model runs with the memory of a host; '' for other models."""
    widest = widest_that_fits(result)
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
        parts.append(f"DRAM {quantity(traffic[0], 'byte')} to {quantity(traffic[1], 'byte')} per {work_word(before)}")
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
