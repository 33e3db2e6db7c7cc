"""From operators and a way to group them into kernels, to what the hardware must do: the Demand.

`eager` runs each operator as a kernel (a bias is part of its contraction; `apart`, not of a convolution);
`compiled` runs contractions alone and what follows each as one kernel; `fused` runs each subgraph as one. What passes
between operators of a kernel stays on chip; everything else is a transfer, with the traffic since it was last touched,
which decides whether a cache still holds it.
"""

from __future__ import annotations

import msgspec
import numpy as np

from analysis.estimate.dependencies import row_lags
from analysis.estimate.partition import op_classes, partition
from analysis.estimate.roles import right_roles, roles, stored_bytes, value_bytes
from analysis.estimate.windows import windows
from analysis.model.ir.operator_kinds import KINDS
from analysis.model.ir.workload import BUFFER, INPUT, WEIGHT, Floats, Ints, Workload
from hardware.demand import READ, READ_WEIGHT, WRITE, Demand, Stream
from hardware.precision import CACHE, QUANTIZED, Widths
from hardware.remember import remembered

_KEEP = 16  # demands remembered per workload: neighbouring batches and precisions while scrubbing


class Structure(msgspec.Struct, frozen=True):
    """The batch-independent part: kernels, and transfers as rows of coefficients.

    `previous` (t,) is the kernel that touched a transfer's data last (for writes: the last that reads it),
    -1 for data that is new or must leave, and `wraps` marks weights last touched in the previous inference.
    `width_role` (t,) is what its tensor is to a precision (roles.py); `weights` (w,) those that are read.
    `local_*` are values exchanged within a kernel: the operator and the elements.
    `winograd_tiles_per_row` (n,): 4 x 4 patches per row of a convolution's product, zero where Winograd cannot be.
    `calls` (n,) is 1 at the first operator of the model and of each part that is repeated by itself; `prompts` (n,) is
    1 for those that read a prompt.
    """

    kernel: Ints
    n_kernels: int
    head: np.ndarray[tuple[int], np.dtype[np.bool_]]
    op: Ints
    role: Ints
    numel: Floats
    fixed_bytes: Ints
    width_role: Ints
    own_kernel: Ints
    previous: Ints
    wraps: np.ndarray[tuple[int], np.dtype[np.bool_]]
    tensor: Ints
    weights: Ints
    local_op: Ints
    local_numel: Floats
    local_fixed: Ints
    local_role: Ints
    op_class: Ints
    elements: Floats
    winograd_tiles_per_row: Floats
    calls: Floats
    prompts: Floats


def _grouping(workload: Workload, execution: str) -> tuple[list[int], list[bool]]:
    parts = partition(workload)
    n, ops = workload.n_operators, workload.operators
    if execution == "fused":
        heads = set(parts.head.tolist())
        return parts.subgraph.tolist(), [i in heads for i in range(n)]
    if execution == "compiled":
        return _compiled(workload)
    kernel: list[int] = []
    head: list[bool] = []
    for i, kind in enumerate(ops.kind):
        joins = kind == "bias" and i > 0 and (execution != "apart" or ops.kind[i - 1] not in ("conv", "conv_transpose"))
        kernel.append(kernel[-1] if joins else (kernel[-1] + 1 if kernel else 0))
        head.append(not joins)
    return kernel, head


def _compiled(workload: Workload) -> tuple[list[int], list[bool]]:
    """Contractions (with their bias) call library kernels; what follows them in a subgraph is one kernel."""
    kinds = workload.operators.kind
    runs: list[list[int]] = []
    for members in partition(workload).members:
        current: list[int] = []
        for i in members:
            after_library = bool(current) and KINDS[kinds[current[0]]].fuses == "anchor" and kinds[i] != "bias"
            if current and (KINDS[kinds[i]].fuses == "anchor" or after_library):
                runs.append(current)
                current = []
            current.append(i)
        runs.append(current)
    runs.sort(key=lambda run: run[-1])
    kernel, head = [0] * len(kinds), [False] * len(kinds)
    for k, run in enumerate(runs):
        head[run[0]] = True
        for i in run:
            kernel[i] = k
    return kernel, head


class _Transfers:
    """Columns of transfers while they are collected."""

    def __init__(self) -> None:
        self.op: list[int] = []
        self.role: list[int] = []
        self.numel: list[Floats] = []
        self.tensor: list[int] = []
        self.own: list[int] = []
        self.previous: list[int] = []
        self.wraps: list[bool] = []

    def add(self, op: int, role: int, numel: Floats, tensor: int, own: int, previous: int, wraps: bool) -> None:
        self.op.append(op)
        self.role.append(role)
        self.numel.append(numel)
        self.tensor.append(tensor)
        self.own.append(own)
        self.previous.append(previous)
        self.wraps.append(wraps)


@remembered(shared=True)
def structure(workload: Workload, execution: str) -> Structure:
    """Kernels and transfers of a workload under 'eager' or 'fused', computed once each."""
    ops, tensors = workload.operators, workload.tensors
    kernel, head = _grouping(workload, execution)
    n_kernels = max(kernel, default=-1) + 1
    head_of = [0] * n_kernels
    for i, is_head in enumerate(head):
        if is_head:
            head_of[kernel[i]] = i
    role_of, producer = tensors.role.tolist(), tensors.producer.tolist()
    in_ptr, in_tensor = ops.in_ptr.tolist(), ops.in_tensor.tolist()
    out_ptr, out_tensor = ops.out_ptr.tolist(), ops.out_tensor.tolist()

    touched: dict[int, list[int]] = {}  # tensor -> kernels that read it from outside, in order
    local: list[tuple[int, int, Floats]] = []
    read_inside: set[int] = set()
    rows = _Transfers()
    order = sorted(range(len(kernel)), key=lambda i: (kernel[i], i))
    for i in order:
        k = kernel[i]
        for e in range(in_ptr[i], in_ptr[i + 1]):
            t = in_tensor[e]
            made_in = kernel[producer[t]] if producer[t] >= 0 else -1
            seen = touched.get(t, [])
            if made_in == k or (seen and seen[-1] == k):
                local.append((i, t, ops.in_numel[e]))
                read_inside.add(t)
                continue
            is_weight = role_of[t] in (WEIGHT, BUFFER)
            previous = seen[-1] if seen else made_in
            role = READ_WEIGHT if is_weight else READ
            rows.add(i, role, ops.in_numel[e], t, k, previous, is_weight and not seen)
            touched.setdefault(t, []).append(k)
    for i in order:
        k = kernel[i]
        for t in out_tensor[out_ptr[i] : out_ptr[i + 1]]:
            leaves = bool(tensors.is_output[t])
            if t in touched or leaves or t not in read_inside:
                rows.add(head_of[k], WRITE, tensors.numel[t], t, k, -1 if leaves else touched.get(t, [-1])[-1], False)
            if t in read_inside and t not in touched:
                local.append((i, t, tensors.numel[t]))
    return _finish(workload, kernel, head, n_kernels, rows, local)


def _finish(
    workload: Workload,
    kernel: list[int],
    head: list[bool],
    n_kernels: int,
    rows: _Transfers,
    local: list[tuple[int, int, Floats]],
) -> Structure:
    ops, tensors = workload.operators, workload.tensors
    width = len(workload.monomials)
    tensor = np.array(rows.tensor, dtype=np.int32)
    inside = np.array([t for _, t, _ in local], dtype=np.int32)
    written = np.zeros((len(kernel), width))
    np.add.at(written, np.repeat(np.arange(len(kernel)), np.diff(ops.out_ptr)), tensors.numel[ops.out_tensor])
    # A weight that several kernels read was last touched by the last of them, one inference ago.
    last = dict(zip(rows.tensor, rows.own, strict=True))
    previous = [last[t] if wraps else p for t, p, wraps in zip(rows.tensor, rows.previous, rows.wraps, strict=True)]
    return Structure(
        np.array(kernel, dtype=np.int32),
        n_kernels,
        np.array(head, dtype=np.bool_),
        np.array(rows.op, dtype=np.int32),
        np.array(rows.role, dtype=np.int32),
        np.array(rows.numel).reshape(-1, width),
        tensors.fixed_bytes[tensor],
        roles(workload)[tensor],
        np.array(rows.own, dtype=np.int32),
        np.array(previous, dtype=np.int32),
        np.array(rows.wraps, dtype=np.bool_),
        tensor,
        np.unique(tensor[np.array(rows.role, dtype=np.int32) == READ_WEIGHT]),
        np.array([i for i, _, _ in local], dtype=np.int32),
        np.array([numel for _, _, numel in local]).reshape(-1, width),
        tensors.fixed_bytes[inside],
        roles(workload)[inside],
        op_classes(workload),
        written,
        _winograd_tiles_per_row(workload),
        _calls(workload, kernel),
        _prompts(workload),
    )


def _calls(workload: Workload, kernel: list[int]) -> Floats:
    """Where a call of the model begins: at its first kernel, and where what is repeated as a whole does."""
    begins = np.zeros(len(kernel))
    if not len(begins):
        return begins
    first = min(range(len(kernel)), key=lambda i: kernel[i])
    begins[first] = 1.0
    if workload.repeats is not None:
        changes = (workload.repeats[1:] != workload.repeats[:-1]).any(axis=1)
        begins[1:][changes] = 1.0
    return begins


def _prompts(workload: Workload) -> Floats:
    """1 for operators that read the prompt of a language model: all of a prefill, of a request those that run once."""
    once = np.full(workload.n_operators, float(workload.kind in ("prefill", "request")))
    if workload.kind == "request" and workload.repeats is not None:
        once[(workload.repeats != workload.repeats[0]).any(axis=1)] = 0.0
    return once


def _winograd_tiles_per_row(workload: Workload) -> Floats:
    """A dense two-dimensional convolution reads each input once and uses it in window / stride^2 products per result
    channel: nine say 3 x 3 at stride 1, short of nine by its borders where it is not padded. Images are taken as
    square."""
    ops, tensors = workload.operators, workload.tensors
    one = workload.at(**dict.fromkeys(workload.dims, 1))
    groups, rows, _, depth = (ops.gemm @ one).T
    read = ops.in_numel @ one
    activation = tensors.role[ops.in_tensor] <= INPUT
    tiles_per_row = np.zeros(workload.n_operators)
    for i, (kind, target) in enumerate(zip(ops.kind, ops.target, strict=True)):
        if kind != "conv" or "conv2d" not in target or groups[i] != 1 or not rows[i]:
            continue
        edges = slice(ops.in_ptr[i], ops.in_ptr[i + 1])
        inputs = float(read[edges][activation[edges]].sum())
        if 8.0 * inputs < depth[i] * rows[i] < 10.0 * inputs:
            tiles_per_row[i] = np.ceil(rows[i] ** 0.5 / 4.0) ** 2 / rows[i]
    return tiles_per_row


@remembered(keep=_KEEP)
def demand(workload: Workload, batch: int, widths: Widths, execution: str) -> Demand:
    """What the workload asks of a device at one batch and widths of its tensors, under 'eager' or 'fused'.

    The last few are remembered with the workload."""
    ops, s = workload.operators, structure(workload, execution)
    point = workload.at(batch=batch)
    n = workload.n_operators

    moved = (s.numel @ point) * value_bytes(s.fixed_bytes, s.width_role, widths)
    inside = (s.local_numel @ point) * value_bytes(s.local_fixed, s.local_role, widths)
    local = np.bincount(s.local_op, inside, minlength=n).astype(np.float64, copy=False)
    per_kernel = np.bincount(s.own_kernel, moved, minlength=s.n_kernels)
    until = np.concatenate([[0.0], np.cumsum(per_kernel)])  # traffic before each kernel
    activations = np.bincount(s.own_kernel, np.where(s.role == READ_WEIGHT, 0.0, moved), minlength=s.n_kernels)
    first = np.minimum(s.own_kernel, s.previous)
    second = np.maximum(s.own_kernel, s.previous)
    between = until[second] - until[first + 1]
    between = np.where(s.wraps, until[-1] - (until[second + 1] - until[first]), between)
    distance = np.where(s.previous < 0, np.inf, np.maximum(between, 0.0))
    macs = ops.macs @ point
    gemm = np.ascontiguousarray((ops.gemm @ point).T)
    return Demand(
        s.op_class,
        macs,
        np.maximum(ops.flops @ point - 2.0 * macs, 0.0),
        ops.special @ point,
        s.elements @ point,
        gemm,
        local,
        np.full(n, stored_bytes(workload, s.weights, batch, widths)),
        s.kernel,
        s.head,
        s.n_kernels,
        s.op,
        moved,
        s.role,
        distance,
        widths.activations,
        gemm[1] * s.winograd_tiles_per_row,
        s.calls,
        s.calls * workload.attended(batch),
        _links(workload, s.elements @ point * widths.activations),
        right_bytes=None if widths.is_uniform else np.array(widths.by_role)[right_roles(workload)],
        unpack_ops=_unpack_ops(s, s.numel @ point, widths, n),
        stream=Stream(
            batch=workload.attended(batch),
            model=np.zeros(s.n_kernels, dtype=np.int32),
            previous=s.previous,
            lag=row_lags(workload),
        ),
        windows=windows(workload),
        prompts=s.prompts,
        largest_bytes=np.full(n, activations.max(initial=0.0)),
    )


def _unpack_ops(s: Structure, values: Floats, widths: Widths, n: int) -> Floats | None:
    """Operations of each operator that unpacks once what it reads of weights and cache; None where nothing is."""
    if not (widths.unpack_weights or widths.unpack_cache):
        return None
    each = np.zeros(4)
    each[[QUANTIZED, CACHE]] = widths.unpack_weights, widths.unpack_cache
    operations = np.where((s.fixed_bytes > 0) | (s.role == WRITE), 0.0, values * each[s.width_role])
    return np.bincount(s.op, operations, minlength=n).astype(np.float64, copy=False)


def _links(workload: Workload, result_bytes: Floats) -> Floats | None:
    """Of each collective the bytes that a device sends, the messages that they are, and the speed of the links, zero
    for those of the device, (3, n); None for a model on one device."""
    parallel = workload.parallel
    if parallel is None:
        return None
    parts, messages = np.array([parallel.sent(kind) for kind in workload.operators.kind], dtype=np.float64).T
    return np.stack([result_bytes * parts, messages, np.full(len(parts), parallel.link_bytes_per_s)])
