"""Memory of one inference: what is held when, what is live at the peak, what fits where, what would save some.

Reuse is how often the activation memory is used again: the bytes of all values over the most held at once.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import numpy as np

from analysis.document import YES_NO, column
from analysis.estimate import workspace
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.figures import Head, about
from analysis.estimate.memory import allocation_bytes, cache_bytes, lifetimes
from analysis.estimate.roles import roles, tensor_bytes
from analysis.model.ir.workload import BUFFER, INPUT, WEIGHT
from analysis.reports.kernel_rows import kernel_id
from analysis.reports.recomputation import Checkpointing, Recomputation, checkpointing, recompute_one
from hardware.device import Device
from hardware.precision import ACTIVATION, CACHE, KEPT, KEYS, QUANTIZED, parse


class Moment(msgspec.Struct, frozen=True):
    """What is held while one kernel runs, weights included in `total_bytes`, a `fraction` of the peak."""

    kernel: Annotated[str, column("Kernel")]
    activation_bytes: Annotated[float, column("Activations", "byte", key="activations")]
    workspace_bytes: Annotated[float, column("Workspace", "byte", keep=1)]
    total_bytes: Annotated[float, column("Total", "byte")]
    fraction: Annotated[float, column("Held", "%", key="bar", role="bar", keep=1, help="of the peak")]


class Live(msgspec.Struct, frozen=True, kw_only=True):
    """A value held at the peak, by name and by the operator that makes it ('input')."""

    name: Annotated[str, column("Value", key="value")]
    made_by: Annotated[str, column("Made by", keep=2)]
    bytes: Annotated[float, column("Size", "byte")]
    fraction: Annotated[float, column("of live", "%")]
    first: Annotated[str, column("Held from", keep=3)]
    last: Annotated[str, column("Until", keep=3)]


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """What tensors of one role take at the peak: `values` of them, each of `bits` with its part of the scales."""

    role: Annotated[str, column("Role")]
    format: Annotated[str, column("Stored as")]
    bits: Annotated[float, column("Bits", help="of a value, with its part of the scales")]
    values: Annotated[float, column("Values", keep=2)]
    bytes: Annotated[float, column("Size", "byte")]
    fraction: Annotated[float, column("of peak", "%")]


class MemoryLevel(msgspec.Struct, frozen=True, kw_only=True):
    """One level of the device's memory. `kernels_that_fit` is the fraction whose operands and results fit."""

    level: Annotated[str, column("Level")]
    capacity_bytes: Annotated[float, column("Capacity", "byte", role="quantity")]
    peak_fits: Annotated[bool, column("Peak fits", key="peak", shown=YES_NO)]
    activations_fit: Annotated[bool, column("Activations", key="activations", keep=1, shown=YES_NO)]
    weights_fit: Annotated[bool, column("Weights", key="weights", keep=1, shown=YES_NO)]
    kernels_that_fit: Annotated[
        float, column("Kernels that fit", "%", key="kernels", keep=1, help="operands and results of one kernel")
    ]


class Quantization(msgspec.Struct, frozen=True, kw_only=True):
    """The same inference in a narrower precision, run by the engine; ratios to the present one."""

    precision: Annotated[str, column("Change", key="change")]
    precision_run: Annotated[str, column("Runs as", key="runs", keep=2)]
    peak_bytes: Annotated[float, column("Peak", "byte")]
    saved_bytes: Annotated[float, column("Saved", "byte")]
    latency_s: float
    latency_ratio: float
    energy_j: float
    energy_ratio: float


class MemoryReport(Head, frozen=True, kw_only=True):
    """`peak_bytes` = weights + activations + workspace at `peak_kernel`. `workspace_rule` says where the workspace
    comes from, '' where no rule is known and none is counted. `cache_bytes` of the activations are the key-value
    cache of a language model."""

    peak_bytes: float
    weight_bytes: float
    activation_bytes: float
    workspace_bytes: float
    peak_kernel: str
    workspace_rule: str
    device_bytes: float
    fits: bool
    total_activation_bytes: float
    reuse: float
    roles: tuple[Held, ...]
    live: tuple[Live, ...]
    levels: tuple[MemoryLevel, ...]
    quantization: tuple[Quantization, ...]
    recomputation: Recomputation
    checkpointing: Checkpointing
    timeline: tuple[Moment, ...]
    cache_bytes: float = 0.0


def memory_report(result: Estimate) -> MemoryReport:
    """The memory of a model on a device, in the estimate's execution mode, batch and precision."""
    held = result.memory
    lives = lifetimes(result.workload, result.joins)
    size = allocation_bytes(result.workload, lives, result.scenario.batch, result.plan.widths)
    timeline = _timeline(result)
    at = int(result.demand.kernel[held.peak_at]) if result.demand.n_kernels else 0
    total = float(size.sum())
    most = float(held.timeline.max(initial=0.0))
    ruled = bool(workspace.blocked(result.device, result.execution))
    return MemoryReport(
        **about(result, on_device=True),
        peak_bytes=held.peak_bytes,
        weight_bytes=held.weight_bytes,
        activation_bytes=held.activation_peak_bytes,
        workspace_bytes=held.workspace_peak_bytes,
        peak_kernel=timeline[at].kernel if timeline else "",
        workspace_rule=workspace.SOURCE if ruled else "",
        device_bytes=result.device.memory_bytes,
        fits=result.fits,
        total_activation_bytes=total,
        reuse=total / most if most else 1.0,
        roles=_roles(result, at),
        live=_live(result, at),
        levels=_levels(result),
        quantization=_quantization(result),
        recomputation=recompute_one(result),
        checkpointing=checkpointing(result),
        timeline=timeline,
        cache_bytes=cache_bytes(result.workload, result.scenario.batch, result.plan.widths),
    )


def _timeline(result: Estimate) -> tuple[Moment, ...]:
    held, demand = result.memory, result.demand
    activations, scratch = np.zeros(demand.n_kernels), np.zeros(demand.n_kernels)
    np.maximum.at(activations, demand.kernel, held.timeline)
    np.maximum.at(scratch, demand.kernel, held.workspace)
    total = held.weight_bytes + (activations + scratch)
    fraction = total / (held.peak_bytes or 1.0)
    columns = (column.tolist() for column in (activations, scratch, total, fraction))
    return tuple(Moment(kernel_id(result, k), *row) for k, row in enumerate(zip(*columns, strict=True)))


def _roles(result: Estimate, at: int) -> tuple[Held, ...]:
    """The peak by what tensors are to the precision; the bytes add up to it."""
    workload, plan, tensors = result.workload, result.plan, result.workload.tensors
    of_tensor, lives = roles(workload), lifetimes(workload, result.joins)
    values = tensors.numel @ workload.at(batch=result.scenario.batch)
    size = values * tensor_bytes(workload, plan.widths)
    parameter = np.isin(tensors.role, (WEIGHT, BUFFER))
    here = lives.tensor[(lives.first <= at) & (lives.last >= at)]
    live = np.isin(np.arange(len(values)), here)
    kept = parse(plan.requested).kept if not parse(plan.requested).is_uniform else plan.stored
    parts = (
        ("weights", plan.weights, parameter & (of_tensor == QUANTIZED)),
        ("other parameters", kept, parameter & (of_tensor == KEPT)),
        ("buffers", plan.stored, parameter & (of_tensor == ACTIVATION)),
        ("key-value cache", plan.cache, live & (of_tensor == CACHE)),
        ("activations", plan.stored, live & (of_tensor != CACHE)),
    )
    held = [
        Held(
            role=role,
            format=form,
            bits=8.0 * float(size[which].sum()) / float(values[which].sum()),
            values=float(values[which].sum()),
            bytes=float(size[which].sum()),
            fraction=float(size[which].sum()) / (result.memory.peak_bytes or 1.0),
        )
        for role, form, which in parts
        if values[which].sum()
    ]
    scratch = result.memory.workspace_peak_bytes
    if scratch:
        share = scratch / result.memory.peak_bytes
        held.append(Held(role="workspace", format="", bits=0.0, values=0.0, bytes=scratch, fraction=share))
    return tuple(held)


def _live(result: Estimate, at: int) -> tuple[Live, ...]:
    """Values held in kernel `at`, the largest first."""
    workload, tensors = result.workload, result.workload.tensors
    lives = lifetimes(workload, result.joins)
    size = allocation_bytes(workload, lives, result.scenario.batch, result.plan.widths)
    here = np.flatnonzero((lives.first <= at) & (lives.last >= at))
    held = float(size[here].sum()) or 1.0
    rows = []
    for value in here[np.argsort(-size[here], kind="stable")].tolist():
        tensor = int(lives.tensor[value])
        made_by = "input" if tensors.role[tensor] == INPUT else workload.operators.path[int(tensors.producer[tensor])]
        rows.append(
            Live(
                name=tensors.name[tensor],
                made_by=made_by,
                bytes=float(size[value]),
                fraction=float(size[value]) / held,
                first=kernel_id(result, int(lives.first[value])),
                last=kernel_id(result, int(lives.last[value])),
            )
        )
    return tuple(rows)


def capacities(device: Device) -> tuple[tuple[str, float], ...]:
    """The levels of a device's memory from the units outward, with the bytes of all units together."""
    return (*device.arch.levels(device), ("device memory", device.memory_bytes))


def _levels(result: Estimate) -> tuple[MemoryLevel, ...]:
    held, demand = result.memory, result.demand
    needs = demand.per_kernel(demand.per_op(demand.transfers.size_bytes))  # operands and results of each kernel
    return tuple(
        MemoryLevel(
            level=name,
            capacity_bytes=capacity,
            peak_fits=held.peak_bytes <= capacity,
            activations_fit=held.activation_peak_bytes <= capacity,
            weights_fit=held.weight_bytes <= capacity,
            kernels_that_fit=float((needs <= capacity).mean()) if len(needs) else 1.0,
        )
        for name, capacity in capacities(result.device)
    )


def _quantization(result: Estimate) -> tuple[Quantization, ...]:
    """Every precision narrower than the present one."""
    rows = []
    present = parse(result.scenario.precision).widths.weights
    for precision in KEYS:
        narrower = parse(precision)
        if narrower.widths.weights >= present or not narrower.suits(result.workload.work):
            continue
        other = estimate(result.workload, result.device, msgspec.structs.replace(result.scenario, precision=precision))
        rows.append(
            Quantization(
                precision=precision,
                precision_run=other.precision_run,
                peak_bytes=other.memory.peak_bytes,
                saved_bytes=result.memory.peak_bytes - other.memory.peak_bytes,
                latency_s=other.latency_s,
                latency_ratio=other.latency_s / (result.latency_s or 1.0),
                energy_j=other.energy_j,
                energy_ratio=other.energy_j / (result.energy_j or 1.0),
            )
        )
    return tuple(rows)
