"""The kernels of an estimate as columns, named as in documents, and as arrays under the roofs of the device: peaks,
intensities, sides of the ridge. And the classes of operators in standard terms, with how far each can be divided by
batch, channels and positions: a class follows from kind and sizes; for squeeze-excite and attention also from the
connections between operators."""

import math
from collections.abc import Iterator
from functools import cached_property

import msgspec
import numpy as np

from analysis.document import records
from analysis.estimate.causes import LIMITS, limits
from analysis.estimate.estimate import Estimate, ratio
from analysis.estimate.operator_facts import partition
from analysis.estimate.tree_figures import operators_of
from analysis.model.ir.workload import ACTIVATION, BUFFER, INPUT, KINDS, WEIGHT, Bools, Floats, Ints, Workload
from hardware.base.records import memoize
from hardware.demand import OpClass
from hardware.execute import RESOURCES


def main_peak(result: Estimate) -> tuple[str, float]:
    """Return the unit and format that most of the contractions run on (`matrix.fp16`), and its FLOP/s. If the
    device has no rate for it, return its fastest unit and format."""
    peaks, plan = result.device.peaks, result.plan
    unit, form = plan.convolution if result.precision_run == plan.convolution[1] else plan.contraction
    if (unit, form) not in peaks:
        unit, form = max(peaks, key=lambda key: peaks[key])
    return f"{unit}.{form}", peaks[unit, form]


class RooflinePoints(msgspec.Struct, frozen=True):
    """The kernels that do arithmetic, shape (p,): FLOP per byte, FLOP/s, and the number of the kernel and of its
    head operator."""

    intensity: Floats
    flop_per_s: Floats
    kernel: Ints
    operator: Ints


def points(result: Estimate) -> RooflinePoints:
    """Return the kernels that do arithmetic. For a kernel without memory traffic, the intensity uses the bytes that
    cross the last on-chip level."""
    rows = kernels(result)
    traffic = np.where(rows.dram_bytes > 0, rows.dram_bytes, rows.chip_bytes)
    active = np.flatnonzero((rows.flops > 0) & (traffic > 0)).astype(np.int32)
    rate = rows.flops[active] / np.maximum(result.run.kernel_s[active], 1e-30)
    return RooflinePoints(rows.flops[active] / traffic[active], rate, active, rows.head[active])


def sides_of_ridge(result: Estimate) -> tuple[Bools, Bools]:
    """Return two masks (k,): kernels with a ridge (peak rate for their work / bandwidth), and kernels left of it."""
    rows = kernels(result)
    has_ridge = (rows.flops > 0) & (rows.ideal_s > 0)
    ridge = ratio(rows.flops, rows.ideal_s) / result.device.memory_bandwidth
    return has_ridge, has_ridge & (rows.dram_bytes > 0) & (ratio(rows.flops, rows.dram_bytes) < ridge)


class Kernels(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """All kernels of an estimate, shape (k,). `head` is the operator that starts the kernel, `operators` the number of
    its operators, `ideal_s` the time of its busiest unit at full peak. `dram_bytes` cross the memory interface,
    `chip_bytes` the last on-chip level."""

    estimate: Estimate
    head: Ints
    operators: Ints
    flops: Floats
    ideal_s: Floats
    dram_bytes: Floats
    chip_bytes: Floats
    energy_j: Floats
    latency_s: Floats
    compute_s: Floats
    memory_s: Floats
    overhead_s: Floats

    @cached_property
    def members(self) -> list[Ints]:
        """The operators of each kernel, in order."""
        order = np.argsort(self.estimate.demand.kernel, kind="stable").astype(np.int32)
        return np.split(order, np.cumsum(self.operators)[:-1])

    @cached_property
    def id(self) -> list[str]:
        """The id of each kernel: its subgraph's if it executes all of the subgraph, else its head operator's."""
        parts = self.estimate.partition
        return [
            parts.id[s] if size == len(parts.members[s]) else parts.operator_id[head]
            for head, size, s in zip(self.head, self.operators, parts.subgraph[self.head], strict=True)
        ]

    @cached_property
    def type(self) -> list[str]:
        """The kinds of the operators of a kernel: `conv+bias`."""
        kinds = self.estimate.workload.operators.kind
        return ["+".join(kinds[i] for i in members) for members in self.members]

    @cached_property
    def bound(self) -> list[str]:
        """The bound of each kernel, one of LIMITS."""
        return [LIMITS[limit] for limit in limits(self.estimate)]

    @cached_property
    def resource(self) -> list[str]:
        """The resource that each kernel uses most, one of RESOURCES."""
        return [RESOURCES[resource] for resource in self.estimate.run.resource]


@memoize()
def kernels(result: Estimate) -> Kernels:
    """Return the kernels of an estimate, computed once."""
    demand, run = result.demand, result.run
    flow = run.mapping.traffic
    head = np.zeros(demand.n_kernels, dtype=np.int32)
    heads = np.flatnonzero(demand.head)
    head[demand.kernel[heads]] = heads
    matrix, vector = demand.per_kernel(run.mapping.matrix_ideal_s), demand.per_kernel(run.mapping.vector_ideal_s)
    return Kernels(
        estimate=result,
        head=head,
        operators=np.bincount(demand.kernel, minlength=demand.n_kernels).astype(np.int32),
        flops=demand.per_kernel(demand.flops),
        ideal_s=np.maximum(matrix, vector),
        dram_bytes=demand.per_kernel(flow.dram_bytes),
        chip_bytes=demand.per_kernel(flow.chip_bytes),
        energy_j=demand.per_kernel(run.energy_j),
        latency_s=run.kernel_s,
        compute_s=run.kernel_compute_s,
        memory_s=run.kernel_memory_s,
        overhead_s=run.overhead_s,
    )


def kernels_of(result: Estimate, path: str) -> Ints:
    """Return the kernels that execute an operator below a node ('' is the model), in order. Raises RequestError for an
    unknown node."""
    kernel: Ints = np.unique(result.demand.kernel[operators_of(result, path)]).astype(np.int32)
    return kernel


_BY_KIND = {
    "conv_transpose": "transposed_conv", "deform_conv": "deformable_conv", "bias": "bias", "cast": "data_movement",
    "embedding": "embedding", "resample": "resample", "roi_align": "resample",
} | dict.fromkeys(
    ("relu", "relu6", "gelu", "silu", "sigmoid", "tanh", "hardswish", "hardsigmoid"), "activation"
) | {kind: kind for kind in ("linear", "matmul", "attention", "recurrent", "softmax")}  # fmt: skip
_BY_OP_CLASS = {
    OpClass.DEPTHWISE: "depthwise_conv", OpClass.NORM: "normalization", OpClass.ROW_NORM: "normalization",
    OpClass.ELEMENTWISE: "elementwise", OpClass.REDUCTION: "reduction", OpClass.POOL: "pooling",
    OpClass.MOVEMENT: "data_movement", OpClass.GATHER: "gather", OpClass.FACTOR: "factorisation",
}  # fmt: skip
_ROLES = {ACTIVATION: "activation", INPUT: "input", WEIGHT: "weight", BUFFER: "buffer"}
_SQUEEZES, _GATES = ("mean", "avg_pool"), ("sigmoid", "hardsigmoid", "clamp", "tanh", "relu", "softmax")
_PROJECTS = ("conv", "linear", "matmul")
_LONGEST = 12  # operators between the ends of a pattern


class OperatorTensor(msgspec.Struct, frozen=True):
    """A tensor as captured. Symbolic sizes are text, as "2*batch". None and '' if the capture has no shape or dtype."""

    name: str
    role: str
    shape: tuple[int | str, ...] | None
    dtype: str


class OperatorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """An operator and its tensors. It computes independently `batch_parallelism` samples, `channel_parallelism`
    channels (features) and `spatial_parallelism` positions (pixels, tokens); their product is the number of elements
    that it writes."""

    id: str
    type: str
    subgraph: str
    operator_class: str
    groups: int
    batch_parallelism: int
    channel_parallelism: int
    spatial_parallelism: int
    inputs: tuple[OperatorTensor, ...]
    outputs: tuple[OperatorTensor, ...]


def operator_infos(workload: Workload, batch: int) -> tuple[OperatorInfo, ...]:
    """Return the description of each operator, in execution order."""
    parts, kinds, classes = partition(workload), workload.operators.kind, operator_classes(workload)
    gemm = workload.operators.gemm @ workload.value_at(batch=batch)
    numels = workload.tensors.numel @ workload.value_at(batch=batch)
    reads, writes = ([_edges(workload, i, side) for i in range(workload.n_operators)] for side in ("in", "out"))
    elements = [float(numels[tensors].max(initial=1.0)) for tensors in writes]
    parallel = [_parallel(workload, i, batch, gemm[i].tolist(), count) for i, count in enumerate(elements)]
    is_convolution = ["conv" in name or "conv" in kind for name, kind in zip(classes, kinds, strict=True)]
    samples, channels, positions = map(list, zip(*parallel, strict=True)) if parallel else ([], [], [])
    return records(
        OperatorInfo,
        id=parts.operator_id,
        type=kinds,
        subgraph=[parts.id[s] for s in parts.subgraph],
        operator_class=classes,
        groups=np.where(is_convolution, np.maximum(gemm[:, 0].astype(np.int64), 1), 1),
        batch_parallelism=samples,
        channel_parallelism=channels,
        spatial_parallelism=positions,
        inputs=[tuple(_tensor(workload, t) for t in tensors) for tensors in reads],
        outputs=[tuple(_tensor(workload, t) for t in tensors) for tensors in writes],
    )


def _edges(workload: Workload, i: int, side: str) -> list[int]:
    ops = workload.operators
    pointers, tensors = getattr(ops, f"{side}_ptr"), getattr(ops, f"{side}_tensor")
    edges: list[int] = tensors[pointers[i] : pointers[i + 1]].tolist()
    return edges


def _tensor(workload: Workload, t: int) -> OperatorTensor:
    tensors = workload.tensors
    return OperatorTensor(
        tensors.name[t],
        _ROLES[int(tensors.role[t])],
        tensors.shape[t] if tensors.shape else None,
        tensors.dtype[t] if tensors.dtype else "",
    )


def _parallel(workload: Workload, i: int, batch: int, gemm: list[float], written: float) -> tuple[int, int, int]:
    """Return batch, channels and positions. Channels are the second dimension of images, else the last dimension."""
    total, kind = max(round(written), 1), workload.operators.kind[i]
    samples = batch if total % batch == 0 else 1
    groups, _, columns, _ = gemm
    if columns:
        channels = round(groups * columns if KINDS[kind].op_class in (OpClass.CONV, OpClass.DEPTHWISE) else columns)
    else:
        shapes = workload.tensors.shape
        shape = max((shapes[t] for t in _edges(workload, i, "out") if shapes), key=len, default=())
        size = shape[1 if len(shape) > 3 else -1] if len(shape) > 1 else 1
        channels = size if isinstance(size, int) else 1
    rest = total // samples
    channels = channels if channels and rest % channels == 0 else math.gcd(rest, max(channels, 1))
    return samples, channels, rest // channels


# --- classes ----------------------------------------------------------------------------------------------


@memoize(shared=True)
def operator_classes(workload: Workload) -> tuple[str, ...]:
    """Return the class of each operator, in execution order."""
    classes = [_class_of(workload, i) for i in range(workload.n_operators)]
    for i, kind in enumerate(workload.operators.kind):
        if kind == "mul":
            for j in _squeezed(workload, i):
                classes[j] = "squeeze_excite"
        elif kind == "softmax":
            for j in _attending(workload, i):
                classes[j] = "attention"
    return tuple(classes)


def _class_of(workload: Workload, i: int) -> str:
    kind = workload.operators.kind[i]
    if kind in ("conv", "depthwise_conv"):
        return _conv(workload, i)
    return _BY_KIND.get(kind) or _BY_OP_CLASS.get(KINDS[kind].op_class, "other")


def _conv(workload: Workload, i: int) -> str:
    """Return the class of a convolution from its groups and window. If the capture has no shapes, it is pointwise if it
    reads exactly rows x inner values: each value once."""
    tensors, ops = workload.tensors, workload.operators
    point = workload.value_at(**dict.fromkeys(workload.dims, 2))
    groups, rows, _, inner = ops.gemm[i] @ point
    weight = next((t for t in _edges(workload, i, "in") if tensors.role[t] == WEIGHT), None)
    shape = tensors.shape[weight] if tensors.shape and weight is not None else ()
    if groups > 1:
        return "depthwise_conv" if (shape[1] == 1 if shape else ops.kind[i] == "depthwise_conv") else "grouped_conv"
    if shape:
        return "pointwise_conv" if math.prod(size for size in shape[2:] if isinstance(size, int)) == 1 else "conv"
    read = ops.in_numel[ops.in_ptr[i]] @ point
    return "pointwise_conv" if read == rows * inner else "conv"


def _producers(workload: Workload, i: int) -> Iterator[int]:
    tensors = workload.tensors
    for t in _edges(workload, i, "in"):
        if tensors.producer[t] >= 0:
            yield int(tensors.producer[t])


def _squeezed(workload: Workload, product: int) -> list[int]:
    ops = workload.operators
    point = workload.value_at(**dict.fromkeys(workload.dims, 2))
    sizes = {
        p: float(workload.tensors.numel[_edges(workload, p, "out")[0]] @ point) for p in _producers(workload, product)
    }
    for gate in sorted(sizes, key=lambda p: sizes[p])[:1]:
        if len(sizes) < 2 or sizes[gate] * 2 > max(sizes.values()) or ops.kind[gate] not in _GATES:
            continue
        chain, op = [product, gate], gate
        while len(chain) <= _LONGEST:
            above = [p for p in _producers(workload, op) if p not in chain]
            if not above:
                break
            op = above[-1]
            if ops.kind[op] not in (*_SQUEEZES, *_GATES, *_PROJECTS, "bias", "silu", "hardswish", "gelu", "batch_norm"):
                break
            chain.append(op)
            if ops.kind[op] in _SQUEEZES:
                return chain if any(ops.kind[j] in _PROJECTS for j in chain) else []
    return []


def _attending(workload: Workload, softmax: int) -> list[int]:
    """Return the operators from the product of queries and keys through this softmax to the product with the values."""
    ops, tensors = workload.operators, workload.tensors

    def mixes(i: int) -> bool:
        """Return True if an operator multiplies two activations."""
        weights = any(tensors.role[t] == WEIGHT for t in _edges(workload, i, "in"))
        return ops.kind[i] in ("matmul", "linear") and not weights

    path, op = [softmax], softmax
    while not mixes(op) and len(path) <= _LONGEST:
        op = max(_producers(workload, op), default=-1)
        if op < 0:
            return []
        path.append(op)
    if not mixes(op):
        return []
    readers, later_ops = {softmax}, []
    for i in range(softmax + 1, min(softmax + _LONGEST, workload.n_operators)):
        if readers.intersection(_producers(workload, i)):
            readers.add(i)
            later_ops.append(i)
            if mixes(i):
                return [*path, *later_ops]
    return []
