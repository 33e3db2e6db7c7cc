"""Show what memory holds: weights, activations, the peak, and what would save some."""

from collections.abc import Iterator
from typing import Annotated

import msgspec
import numpy as np

from analysis import document, wording
from analysis.estimate import alternatives, operator_facts, peak_memory
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.kernel_rows import kernels
from analysis.model.ir.workload import BUFFER, WEIGHT, Bools, Floats
from analysis.model.training.step import saved_tensors, weight_gradients
from hardware import precision
from hardware.base.text import quantity
from hwexplorer import declare, engine
from hwexplorer.state import State
from hwexplorer.views.tables import Digest


class Moment(msgspec.Struct, frozen=True):
    """Memory held while one kernel executes. `total_bytes` includes the weights; `fraction` is of the peak."""

    kernel: Annotated[str, document.column("Kernel")]
    activation_bytes: Annotated[float, document.column("Activations", "byte", key="activations")]
    workspace_bytes: Annotated[float, document.column("Workspace", "byte", keep=1)]
    total_bytes: Annotated[float, document.column("Total", "byte")]
    fraction: Annotated[float, document.column("Held", "%", key="bar", role="bar", keep=1, help="of the peak")]


class LiveValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value held at the peak. `made_by` is the operator that makes it, or 'input'."""

    name: Annotated[str, document.column("Value", key="value")]
    made_by: Annotated[str, document.column("Made by", keep=2)]
    bytes: Annotated[float, document.column("Size", "byte")]
    fraction: Annotated[float, document.column("Share of live", "%")]


class TensorRole(msgspec.Struct, frozen=True):
    """The tensors of one role at the peak. `values` counts their elements; `bits` of each include the scales."""

    role: Annotated[str, document.column("Role")]
    format: Annotated[str, document.column("Stored as")]
    bits: Annotated[float, document.column("Bits", help="bits of a value, with its share of the scales")]
    values: Annotated[float, document.column("Values", keep=2)]
    bytes: Annotated[float, document.column("Size", "byte")]
    fraction: Annotated[float, document.column("Share of peak", "%")]


class MemoryLevel(msgspec.Struct, frozen=True, kw_only=True):
    """A level of device memory. `kernels_that_fit` is the fraction of kernels with operands and results that fit."""

    level: Annotated[str, document.column("Level")]
    capacity_bytes: Annotated[float, document.column("Capacity", "byte", role="quantity")]
    peak_fits: Annotated[bool, document.column("Peak fits", key="peak", shown=document.YES_NO)]
    activations_fit: Annotated[bool, document.column("Activations", key="activations", keep=1, shown=document.YES_NO)]
    weights_fit: Annotated[bool, document.column("Weights", key="weights", keep=1, shown=document.YES_NO)]
    kernels_that_fit: Annotated[
        float,
        document.column("Kernels that fit", "%", key="kernels", keep=1, help="operands and results of one kernel"),
    ]


class Saving(msgspec.Struct, frozen=True, kw_only=True):
    """The same work in a narrower format or, of training, with activations computed again. Ratios are to now."""

    change: Annotated[str, document.column("Change")]
    precision_run: Annotated[str, document.column("Runs as", key="runs", keep=2)]
    peak_bytes: Annotated[float, document.column("Peak", "byte")]
    saved_bytes: Annotated[float, document.column("Saved", "byte")]
    most_batch: Annotated[int | None, document.column("Largest batch", "count", keep=1)]
    latency_s: Annotated[float, document.column("Latency", "s", keep=1)]
    latency_ratio: float
    energy_j: Annotated[float, document.column("Energy", "J", keep=1, help="of the batch")]
    energy_ratio: float


class MemoryReport(Head, frozen=True, kw_only=True):
    """`peak_bytes` = weights + activations + workspace at `peak_kernel`. `workspace_rule` says where the workspace
    comes from, '' if no rule is known: then it counts as 0. `cache_bytes` of the activations are the key-value
    cache of a language model. Batches of training up to `most_batch` fit."""

    peak_bytes: float
    weight_bytes: float
    activation_bytes: float
    workspace_bytes: float
    peak_kernel: str
    workspace_rule: str
    device_bytes: float
    fits: bool
    most_batch: int | None
    roles: tuple[TensorRole, ...]
    live: tuple[LiveValue, ...]
    levels: tuple[MemoryLevel, ...]
    savings: tuple[Saving, ...]
    timeline: tuple[Moment, ...]
    cache_bytes: float = 0.0


def memory_report(result: Estimate) -> MemoryReport:
    """Return the memory of a model on a device, in the estimate's execution mode, batch and precision."""
    memory, workload, batch = result.memory, result.workload, result.scenario.batch
    lives = peak_memory.lifetimes(workload, result.joins)
    size = peak_memory.allocation_bytes(workload, lives, batch, result.plan.widths)
    peak = int(result.demand.kernel[memory.peak_at]) if result.demand.n_kernels else 0
    has_rule = bool(peak_memory.block_channels(result.device, result.execution))
    return document.record(
        MemoryReport,
        memory,
        result,
        **head_fields(result, on_device=True),
        activation_bytes=memory.activation_peak_bytes,
        workspace_bytes=memory.workspace_peak_bytes,
        peak_kernel=kernels(result).id[peak] if result.demand.n_kernels else "",
        workspace_rule=peak_memory.SOURCE if has_rule else "",
        device_bytes=result.device.memory_bytes,
        roles=_roles(result, peak),
        live=_live(result, size, peak),
        levels=_levels(result),
        savings=tuple(_savings(result)),
        timeline=_timeline(result),
        cache_bytes=peak_memory.cache_bytes(workload, batch, result.plan.widths),
    )


def _timeline(result: Estimate) -> tuple[Moment, ...]:
    memory, demand = result.memory, result.demand
    activations, scratch = np.zeros(demand.n_kernels), np.zeros(demand.n_kernels)
    np.maximum.at(activations, demand.kernel, memory.timeline)
    np.maximum.at(scratch, demand.kernel, memory.workspace)
    total = memory.weight_bytes + (activations + scratch)
    return document.records(
        Moment,
        kernel=kernels(result).id,
        activation_bytes=activations,
        workspace_bytes=scratch,
        total_bytes=total,
        fraction=total / (memory.peak_bytes or 1.0),
    )


def _roles(result: Estimate, at: int) -> tuple[TensorRole, ...]:
    workload, plan, tensors, peak = result.workload, result.plan, result.workload.tensors, result.memory.peak_bytes
    of_tensor, lives = operator_facts.roles(workload), peak_memory.lifetimes(workload, result.joins)
    for wide, stays in ((precision.EXCLUDED, precision.KEPT), (precision.IN_8_BITS, precision.IN_8_BITS)):
        is_narrow = plan.widths.by_role[wide] == plan.widths.weights
        of_tensor = np.where(of_tensor == wide, precision.QUANTIZED if is_narrow else stays, of_tensor)
    values = tensors.numel @ workload.value_at(batch=result.scenario.batch)
    size = values * operator_facts.tensor_bytes(workload, plan.widths)
    parameter = np.isin(tensors.role, (WEIGHT, BUFFER))
    live = np.isin(np.arange(len(values)), lives.tensor[(lives.first <= at) & (lives.last >= at)])
    parts: tuple[tuple[str, str, Bools], ...] = (
        ("weights", plan.weights, parameter & (of_tensor == precision.QUANTIZED)),
        ("wider weights", precision.FORMATS[plan.weights].beside, parameter & (of_tensor == precision.IN_8_BITS)),
        ("other parameters", plan.kept, parameter & (of_tensor == precision.KEPT)),
        ("buffers", plan.stored, parameter & (of_tensor == precision.ACTIVATION)),
        ("key-value cache", plan.cache, live & (of_tensor == precision.CACHE)),
        ("activations", plan.stored, live & (of_tensor != precision.CACHE)),
    )
    if workload.training is not None:
        parts = _training_parts(result, parameter, live)
    rows = []
    for role, form, which in parts:
        count, total = float(values[which].sum()), float(size[which].sum())
        if count:
            rows.append(TensorRole(role, form, 8.0 * total / count, count, total, total / (peak or 1.0)))
    if scratch := result.memory.workspace_peak_bytes:
        rows.append(TensorRole("workspace", "", 0.0, 0.0, scratch, scratch / peak))
    return tuple(rows)


def _training_parts(result: Estimate, parameter: Bools, live: Bools) -> tuple[tuple[str, str, Bools], ...]:
    """Return the roles of tensors in training: whether they stay, and what holds the others at the peak."""
    tensors, wide, stored = result.workload.tensors, precision.BASE, result.plan.stored
    is_state = np.array([name.endswith((".state", ".master")) for name in tensors.name])
    is_gradient, is_saved = (
        np.isin(tensors.storage, tensors.storage[which]) & live
        for which in (weight_gradients(result.workload), saved_tensors(result.workload))
    )
    is_saved &= ~is_gradient
    return (
        ("parameters", wide, parameter & (tensors.role == WEIGHT)),
        ("optimizer states", wide, parameter & is_state),
        ("buffers", stored, parameter & (tensors.role == BUFFER) & ~is_state),
        ("gradients of parameters", wide, is_gradient),
        ("saved for backward", stored, is_saved),
        ("other activations", stored, live & ~is_saved & ~is_gradient),
    )


def _live(result: Estimate, size: Floats, at: int) -> tuple[LiveValue, ...]:
    workload, tensors = result.workload, result.workload.tensors
    lives = peak_memory.lifetimes(workload, result.joins)
    live = np.flatnonzero((lives.first <= at) & (lives.last >= at))
    values = live[np.argsort(-size[live], kind="stable")]
    tensor = lives.tensor[values]
    return document.records(
        LiveValue,
        name=[tensors.name[t] for t in tensor],
        made_by=[workload.operators.path[p] if p >= 0 else "input" for p in tensors.producer[tensor].tolist()],
        bytes=size[values],
        fraction=size[values] / (float(size[live].sum()) or 1.0),
    )


def _levels(result: Estimate) -> tuple[MemoryLevel, ...]:
    memory, demand = result.memory, result.demand
    needs = demand.per_kernel(demand.per_op(demand.transfers.size_bytes))  # operands and results of each kernel
    names, sizes = zip(*result.device.levels, ("device memory", result.device.memory_bytes), strict=True)
    capacity = np.array(sizes)
    return document.records(
        MemoryLevel,
        level=names,
        capacity_bytes=sizes,
        peak_fits=memory.peak_bytes <= capacity,
        activations_fit=memory.activation_peak_bytes <= capacity,
        weights_fit=memory.weight_bytes <= capacity,
        kernels_that_fit=[float((needs <= size).mean()) if len(needs) else 1.0 for size in sizes],
    )


def _savings(result: Estimate) -> Iterator[Saving]:
    present = precision.parse(result.scenario.precision).widths.weights
    formats = alternatives.precisions(result, lambda other: other.widths.weights < present)
    for other in (*alternatives.training_settings(result), *formats):
        if other.result.memory.peak_bytes < result.memory.peak_bytes:
            yield document.record(
                Saving,
                other.result.memory,
                other.result,
                change=other.change.removeprefix("precision "),
                saved_bytes=result.memory.peak_bytes - other.result.memory.peak_bytes,
                latency_ratio=other.result.latency_s / (result.latency_s or 1.0),
                energy_ratio=other.result.energy_j / (result.energy_j or 1.0),
            )


SAVINGS = (
    *document.columns(Saving, "change peak saved most_batch runs latency"),
    document.Column("slower", "Δ latency", "%", role="delta", keep=0, of=lambda change: change.latency_ratio - 1),
    *document.columns(Saving, "energy"),
    document.Column("dearer", "Δ energy", "%", role="delta", keep=0, of=lambda change: change.energy_ratio - 1),
)


def _summary(report: MemoryReport, state: State) -> tuple[str, ...]:
    scratch = quantity(report.workspace_bytes, "byte") if report.workspace_rule else "unknown (none counted)"
    cached = min(sum(row.bytes for row in report.roles if row.role == "key-value cache"), report.activation_bytes)
    cache = f"key-value cache {quantity(cached, 'byte')} + " if cached else ""
    is_step, most = engine.result(state).workload.kind == "training", report.most_batch
    kept, live = ("parameters and optimizer", "gradients, activations") if is_step else ("weights", "activations")
    unknown = peak_memory.NO_RULE + peak_memory.ADVISED * (engine.result(state).device.vendor == "NVIDIA")
    return (
        f"peak {quantity(report.peak_bytes, 'byte')} = {kept} {quantity(report.weight_bytes, 'byte')} + {cache}"
        f"{live} {quantity(report.activation_bytes - cached, 'byte')} + workspace {scratch}, in {report.peak_kernel}",
        f"{'fits' if report.fits else 'DOES NOT FIT'} in {quantity(report.device_bytes, 'byte')} "
        f"({report.device_bytes / 2**30:.3g} GiB){f'; batches up to {most:,} do' if most else ''}",
        *([wording.course_words([(m.kernel, m.total_bytes) for m in report.timeline])] if is_step else ()),
        f"workspace: {report.workspace_rule or unknown}",
    )


VERB = declare.Report(
    subject=declare.DEVICE,
    document=declare.document_of_estimate(memory_report),
    title="Memory",
    parts=(
        declare.summary_text(_summary),
        declare.Rows("roles", "Peak memory by role of tensors", document.columns(TensorRole)),
        declare.Rows(
            "live",
            "Live at the peak",
            document.columns(LiveValue, "value bytes fraction made_by"),
            brief={
                "title": "Largest at the peak",
                "columns": document.columns(LiveValue, "value bytes"),
                "digest": Digest("bytes", "value", "Share of live"),
            },
        ),
        declare.Rows("levels", "What fits where", document.columns(MemoryLevel)),
        declare.Rows("savings", "What would save some, and its cost", SAVINGS,
                     without=lambda report: ("most_batch",) * (report.most_batch is None)),
        declare.Rows("timeline", "Over the execution order",
                     document.columns(Moment, "kernel bar total activations workspace"),
                     without=lambda report: () if report.workspace_rule else ("workspace",)),
    ),
    brief_parts=("summary", "roles", "live"),
    section=declare.Section(50, "What is held in memory"),
    examples={"memory": "conv2d --on h100_sxm"},
)  # fmt: skip
