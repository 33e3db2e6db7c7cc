"""Deviations of an estimate from the request, in words."""

from analysis.estimate.estimate import Estimate
from hardware.demand import OpClass
from hardware.engines.runtime import AUTO, MODES, format_rule, runtimes
from hardware.precision import runs_wider

_WORK = {"vision": "vision models", "encoder": "encoders", "language": "language models",
         "solver": "factorisations"}  # fmt: skip


def describe_deviations(result: Estimate) -> tuple[str, ...]:
    """Return a phrase for each deviation from the request, or from what a reader would expect."""
    workload, device, runtime, asked = result.workload, result.device, result.runtime, result.scenario.execution
    phrases = list(_formats(result))
    if many := int(result.run.mapping.is_reduced.sum()):
        phrases.append(f"{many} convolution{'s' if many > 1 else ''} {device.arch.reduction}")
    if asked not in (AUTO, *MODES, runtime.id):
        phrases.append(
            f"{runtimes()[asked].name} does not run {_WORK[workload.work]} on it: {runtime.name} takes its place"
        )
    if result.part:
        phrases.append(f"the compiler runs the batch in parts of {result.part}: activations stay on chip")
    elif result.waves > 1:
        phrases.append(
            f"{result.scenario.batch} requests do not fit together: {result.waves} waves of {result.wave_batch}, "
            "one after another"
        )
    if not result.fits:
        peak_gb, memory_gb = result.peak_memory_bytes / 1e9, device.memory_bytes / 1e9
        phrases.append(f"does not fit: needs {peak_gb:.1f} GB of {memory_gb:.0f} GB")
    if workload.parallel is not None:
        speed = (workload.parallel.link_bytes_per_s or device.link_bandwidth) / 1e9
        phrases.append(
            f"energy and power of {workload.devices} devices, memory of each; links of {speed:.3g} GB/s, "
            "their energy not counted"
        )
    if not result.supported:
        phrases.append(
            f"no software is known to run {_WORK[workload.work]} on it: the figures are what its units would take"
        )
    if runs_wider(result.scenario.precision, result.precision_run):
        phrases.append(f"no software runs {result.scenario.precision} on it: it is not recommended")
    if result.run.mapping.mark:
        phrases.append(result.run.mapping.mark)
    if device.changes:
        phrases.append("hypothetical: facts were changed")
    elif not device.silicon:
        phrases.append("a design target: it exists on paper only, and nothing on it was measured")
    return tuple(phrases)


def _formats(result: Estimate) -> tuple[str, ...]:
    """Return the deviations of the plan that affect this model. Formats of products affect no model without
    contractions."""
    plan, demand = result.plan, result.demand
    phrases = plan.marks if demand.macs.any() or plan.stored != plan.requested else ()
    if plan.vector_mac != plan.stored and demand.is_depthwise.any():
        phrases = (*phrases, f"depthwise convolutions run as {plan.vector_mac}: no reduction for the matrix unit")
    rule = format_rule(result.device, result.runtime.formats, plan.stored, "residual")
    if rule is not None and plan.operand == plan.stored and (demand.op_class == OpClass.ROW_NORM).any():
        phrases = (*phrases, f"{plan.stored} is for products: {rule.why}")
    return phrases
