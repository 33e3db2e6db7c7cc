"""Differences between a trace and the estimate that it is compared with: model, shapes, batch, device, runtime."""

import re
from collections import Counter
from statistics import median

from hwexplorer.extend import Device, estimate
from hwexplorer_annexes.traces.estimate_parts import find_runtime
from hwexplorer_annexes.traces.matched_pairs import Alignment, kind_family
from hwexplorer_annexes.traces.trace_record import Trace

SAME_SIZE = 0.02  # relative difference of sizes; smaller differences are padding
LEAST_MATCHED = 0.9  # share of matrix operators on each side; with fewer the trace is of another model
_MATRIX = {"conv", "linear", "attention"}
_CHIP = re.compile(r"(?!sxm|hbm|gddr|pcie|pg\d)[a-z]*\d{1,5}[a-z]{0,2}")
_MEMORY = re.compile(r"\d+g[bi]?")


def describe_difference(alignment: Alignment, result: estimate.Estimate) -> str:
    """Return a warning that the trace is of another model, batch or device than the estimate; '' if it is not."""
    scenario = result.scenario
    operators = _operator_differences(alignment, result)
    reasons = [*_device_differences(alignment.trace, result.device), *operators]
    reasons += _input_differences(alignment, scenario.batch, bool(operators))
    if not reasons:
        return ""
    compared = f"{result.workload.name} at batch {scenario.batch} on {result.device.key}"
    return f"Warning: this trace is not of {compared}: {'; '.join(reasons)}"


def describe_other_runtime(trace: Trace, result: estimate.Estimate) -> tuple[str, ...]:
    """Return one line if the trace is of another runtime than the estimate, else ()."""
    runtime = find_runtime(result.device, trace.runtime)
    if runtime is None or runtime.id == result.runtime.id:
        return ()
    return (
        f"the trace is of {runtime.name}, the estimate of {result.runtime.name}: compare with the runtime {runtime.id}",
    )


def _operator_differences(alignment: Alignment, result: estimate.Estimate) -> list[str]:
    kinds = result.workload.operators.kind
    in_model = {i for i, kind in enumerate(kinds) if kind_family(kind) in _MATRIX}
    seen = in_model & {i for pair in alignment.pairs for i in pair.operators}
    matched = [pair for pair in alignment.pairs if kind_family(pair.op.kind) in _MATRIX]
    joined = sum(pair.op.name.count("||") for pair in matched)  # TensorRT names each layer of a joined kernel
    n_seen = min(len(seen) + joined, len(in_model))
    strangers = sum(op.count for op in alignment.strangers if kind_family(op.kind) in _MATRIX)
    in_trace = sum(pair.op.count for pair in matched) + strangers
    known = [pair.has_same_weights for pair in matched if pair.has_same_weights is not None]
    reasons = []
    if n_seen < LEAST_MATCHED * len(in_model):
        reasons.append(f"it has {n_seen} of the {len(in_model)} matrix operators of the model")
    if strangers > (1.0 - LEAST_MATCHED) * in_trace:
        reasons.append(f"{strangers} of the trace's {in_trace} matrix operators are not in the model")
    if sum(known) < LEAST_MATCHED * len(known):
        reasons.append(f"{len(known) - sum(known)} of {len(known)} matched matrix operators have other weights")
    return reasons


def _input_differences(alignment: Alignment, batch: int, is_other_model: bool) -> list[str]:
    """Return a reason if the batch of convolutions differs, else if the inputs of layers have other sizes. For another
    model the sizes are not compared."""
    shapes = [pair.op.shapes[0] for pair in alignment.pairs if pair.op.shapes and kind_family(pair.op.kind) == "conv"]
    batches = Counter(shape[0] for shape in shapes if len(shape) == 4).most_common(1)
    if batches and batches[0][0] != batch:
        return [f"its batch is {batches[0][0]}"]
    ratios = [pair.input_ratio for pair in alignment.pairs if pair.has_same_weights and pair.input_ratio]
    if is_other_model or not ratios or abs(median(ratios) - 1.0) < SAME_SIZE:
        return []
    return [f"its inputs are {median(ratios):.3g}x as large (another batch, image or sequence)"]


def _device_differences(trace: Trace, device: Device) -> list[str]:
    if not trace.on_device:
        return [] if device.arch.is_host else ["it ran on a CPU"]
    if device.arch.is_host:
        return [f"it ran on {trace.device or 'an accelerator'}"]
    chips, expected = _chip_names(trace.device), _chip_names(f"{device.name} {device.id.replace('_', ' ')}")
    return [f"it ran on {trace.device}"] if chips and expected and not chips & expected else []


def _chip_names(name: str) -> set[str]:
    """Return the words of a device's name that number a chip: {'h100'} for `NVIDIA H100 80GB HBM3`."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return {word for word in words if _CHIP.fullmatch(word) and not _MEMORY.fullmatch(word)}
