"""The kernels of several workloads at some batches as one Demand, in which equal kernels occur once.

Of the kernels of a hundred models a quarter are distinct. Two kernels are equal if all their polynomials are equal, so
they cost the same on every device at every batch. A bundle of one workload may skip the search for equal kernels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.estimate.kernels import Structure, demand, structure
from analysis.estimate.roles import Values
from analysis.estimate.totals import Places
from analysis.estimate.windows import windows
from analysis.model.ir.workload import Floats, Workload
from hardware.demand import Calls, Demand, Transfers
from hardware.precision import ACTIVATION, CACHE, KEPT, QUANTIZED, Widths

Indices = NDArray[np.int64]
_ROLES = (ACTIVATION, QUANTIZED, KEPT, CACHE)
# The fields of a demand that are per operator, or the same for all operators.
_COLUMNS = (
    "op_class", "macs", "vector_flops", "special", "elements", "gemm", "local_bytes", "weight_bytes", "largest_bytes",
    "head", "windows", "patches", "links", "element_bytes", "right_bytes", "unpack_ops", "mean_work", "batch", "lag",
    "is_expert",
)  # fmt: skip


class DistinctKernels(msgspec.Struct, frozen=True, kw_only=True):
    """The distinct kernels of several workloads. Per workload, `kernel_of` (k,) and `op_of` (n,) map its kernels and
    operators to distinct ones; `ops` are its first operators of each distinct kernel, ordered by kernel, and
    `transfers` their transfers."""

    kernel_of: tuple[Indices, ...]
    op_of: tuple[Indices, ...]
    ops: tuple[Indices, ...]
    transfers: tuple[Indices, ...]
    n_kernels: int


class Bundle(msgspec.Struct, frozen=True):
    """Several workloads under one execution mode, with their distinct kernels; or one workload whose kernels all count
    as distinct, if `distinct` is None."""

    workloads: tuple[Workload, ...]
    execution: str
    distinct: DistinctKernels | None = None


class BundleDemand(msgspec.Struct, frozen=True):
    """A bundle at some batches and widths of its tensors: the joint demand of b x w estimates, ordered by batch; their
    `places` in it (None for a single estimate); how often each operator is repeated, (n,), if workloads merge equal
    layers; whether convolutions do most multiply-accumulates of each (None without any); and the devices of each."""

    demand: Demand
    places: Places | None
    repeats: Floats | None
    mostly_convolution: tuple[bool | None, ...]
    devices: int


def make_bundle(workloads: Sequence[Workload], execution: str, keeps_order: bool = False) -> Bundle:
    """Find the distinct kernels of the workloads under an execution mode ('eager', 'fused' ..). With `keeps_order`
    every kernel is distinct, because its time depends on the others (`Runtime.keeps_order`)."""
    distinct: dict[bytes, tuple[int, int]] = {}  # signature -> distinct kernel and its first operator
    ops, transfers, kernel_of, op_of = [], [], [], []
    n_kernels = n_ops = 0
    for workload in workloads:
        s = structure(workload, execution)
        counts = np.bincount(s.kernel, minlength=s.n_kernels)
        is_first = np.zeros(s.n_kernels, dtype=np.bool_)
        kernels = np.zeros(s.n_kernels, dtype=np.int64)
        first_op = np.zeros(s.n_kernels, dtype=np.int64)
        alone = (b"%d" % k for k in range(n_kernels, n_kernels + s.n_kernels))
        for k, signature in enumerate(alone if keeps_order else _signatures(workload, s)):
            place = distinct.get(signature)
            if place is None:
                place = distinct[signature] = (n_kernels, n_ops)
                is_first[k] = True
                n_kernels += 1
                n_ops += int(counts[k])
            kernels[k], first_op[k] = place
        order, rank = _by_kernel(s.kernel, counts)
        operators = np.empty(len(s.kernel), dtype=np.int64)
        operators[order] = first_op[s.kernel[order]] + rank
        ops.append(order[is_first[s.kernel[order]]])
        transfers.append(np.flatnonzero(is_first[s.moves.kernel]))
        kernel_of.append(kernels)
        op_of.append(operators)
    found = DistinctKernels(
        kernel_of=tuple(kernel_of),
        op_of=tuple(op_of),
        ops=tuple(ops),
        transfers=tuple(transfers),
        n_kernels=n_kernels,
    )
    return Bundle(tuple(workloads), execution, found)


def _concatenate(parts: Sequence[NDArray[Any]]) -> Indices:
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts])


def _pointers(parts: Sequence[NDArray[Any]]) -> Indices:
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)


def _by_kernel(kernel: NDArray[Any], counts: NDArray[Any]) -> tuple[Indices, Indices]:
    """Return the order of rows by kernel, and the place of each row so ordered within its kernel."""
    order = np.argsort(kernel, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    return order, np.arange(len(kernel)) - np.repeat(starts, counts)


def _signatures(workload: Workload, s: Structure) -> list[bytes]:
    """Return per kernel, as bytes, everything that its cost depends on: the polynomials of its operators and transfers,
    and of all weights and transfers of its model, which decide how much of them a scratchpad keeps."""
    ops, moves = workload.operators, s.moves
    n = workload.n_operators
    local = np.zeros((n, (len(_ROLES) + 1) * len(workload.monomials)))
    np.add.at(local, s.inside.op, _widths(s.inside))
    columns = (ops.macs, ops.flops, ops.special, s.elements, ops.gemm.reshape(n, -1), local)
    operators = np.column_stack([s.op_class, s.head, s.begins, s.prompts, windows(workload)[6], *columns])
    moved = _widths(moves)
    # Transfers of a kernel name their operator by its place in the kernel.
    counts = np.bincount(s.kernel, minlength=s.n_kernels)
    order, rank = _by_kernel(s.kernel, counts)
    place = np.empty(n)
    place[order] = rank
    transfers = np.column_stack([place[moves.op], moves.role, moves.previous < 0, moved, _distances(s, moved)])
    weights = np.stack([moved[moves.is_weight].sum(axis=0), moved.sum(axis=0)])
    head = repr((workload.monomials, workload.defaults, workload.windows, weights.tolist())).encode()
    rows = _rows(operators, s.kernel, s.n_kernels)
    return [head + a + b"|" + b for a, b in zip(rows, _rows(transfers, moves.kernel, s.n_kernels), strict=True)]


def _widths(values: Values) -> Floats:
    """Return coefficients side by side: elements of each role, whose width depends on the precision, and bytes of
    values of fixed width."""
    numel, is_fixed = values.numel, values.fixed_bytes > 0
    columns = [np.where((~is_fixed & (values.precision_role == each))[:, None], numel, 0.0) for each in _ROLES]
    return np.hstack([*columns, np.where(is_fixed[:, None], numel * values.fixed_bytes[:, None], 0.0)])


def _distances(s: Structure, moved: Floats) -> Floats:
    """Return the traffic since each transfer's data was last touched, as coefficients that `kernels.demand`
    evaluates."""
    per_kernel = np.zeros((s.n_kernels, moved.shape[1]))
    np.add.at(per_kernel, s.moves.kernel, moved)
    until = np.vstack([np.zeros((1, moved.shape[1])), np.cumsum(per_kernel, axis=0)])
    first, last = s.moves.between
    distance = until[last] - until[first]
    distance = np.where(s.moves.wraps[:, None], until[-1] - distance, distance)
    return np.where((s.moves.previous < 0)[:, None], 0.0, distance)


def _rows(matrix: Floats, kernel: NDArray[Any], n_kernels: int) -> list[bytes]:
    """Return the rows of each kernel, in order, as bytes."""
    data = np.ascontiguousarray(matrix[np.argsort(kernel, kind="stable")] + 0.0).tobytes()  # + 0.0: no -0.0
    width = matrix.shape[1] * 8
    ends = (np.cumsum(np.bincount(kernel, minlength=n_kernels)) * width).tolist()
    return [data[a:b] for a, b in zip([0, *ends[:-1]], ends, strict=True)]


def bundle_demand(bundle: Bundle, batches: Sequence[int], widths: Widths) -> BundleDemand:
    """Return the joint demand of a bundle at some batches and widths of its tensors. Different batches share no
    kernels."""
    workloads, distinct = bundle.workloads, bundle.distinct
    demands = [demand(workload, batch, widths, bundle.execution) for batch in batches for workload in workloads]
    repeats = [w.repeats @ w.value_at(batch=n) for n in batches for w in workloads if w.repeats is not None]
    formats, devices = tuple(map(mostly_convolution, demands)), workloads[0].devices if workloads else 1
    if distinct is None:
        return BundleDemand(demands[0], None, repeats[0] if repeats else None, formats, devices)
    n_ops, each = sum(map(len, distinct.ops)), range(len(batches))
    kernel_of = [numbers + i * distinct.n_kernels for i in each for numbers in distinct.kernel_of]
    places = Places(
        kernel_of=_concatenate(kernel_of),
        op_of=_concatenate([numbers + i * n_ops for i in each for numbers in distinct.op_of]),
        kernel_ptr=_pointers(distinct.kernel_of),
        op_ptr=_pointers(distinct.op_of),
        batches=len(batches),
    )
    rows = distinct.ops * len(batches)
    joint_repeats = np.concatenate([of[mine] for of, mine in zip(repeats, rows, strict=True)]) if repeats else None
    return BundleDemand(_join(distinct, demands, kernel_of), places, joint_repeats, formats, devices)


def mostly_convolution(needs: Demand) -> bool | None:
    """Return whether convolutions do most multiply-accumulates; None if there are none."""
    total = needs.macs.sum()
    if not total:
        return None
    return bool(needs.macs[needs.is_convolution].sum() * 2 > total)


def _join(one: DistinctKernels, alone: Sequence[Demand], kernel_of: Sequence[Indices]) -> Demand:
    """Return the distinct kernels of all demands as one demand: columns end to end, indices shifted."""
    times = len(alone) // max(len(one.ops), 1)
    ops, transfers = one.ops * times, one.transfers * times

    def join(records: Sequence[Any], names: Sequence[str], rows: Sequence[Indices]) -> dict[str, Any]:
        """Concatenate columns of records, by name. A value that is not an array is the same in all."""
        return {
            name: np.concatenate(
                [getattr(one, name)[..., mine] for one, mine in zip(records, rows, strict=True)], axis=-1
            )
            if isinstance(same := getattr(records[0], name), np.ndarray)
            else same
            for name in names
        }

    kernel, owner, previous = [], [], []
    model = np.zeros(one.n_kernels * times, dtype=np.int64)  # a kernel that several estimates share is of one model
    for run, (each, mine, moves, to, start) in enumerate(
        zip(alone, ops, transfers, kernel_of, _pointers(ops)[:-1], strict=True)
    ):
        model[to] = run
        kernel.append(to[each.kernel[mine]])
        before = each.transfers.previous[moves]
        previous.append(np.where(before < 0, -1, to[before]))
        place = np.zeros(each.n, dtype=np.int64)
        place[mine] = start + np.arange(len(mine))
        owner.append(place[each.transfers.op[moves]])
    joined = join(alone, _COLUMNS, ops)
    return Demand(
        **joined | {"gemm": np.ascontiguousarray(joined["gemm"])},
        kernel=_concatenate(kernel),
        n_kernels=one.n_kernels * times,
        transfers=Transfers(
            op=_concatenate(owner),
            previous=_concatenate(previous),
            **join([each.transfers for each in alone], ("size_bytes", "role", "distance"), transfers),
        ),
        calls=Calls(**join([each.calls for each in alone], Calls.__struct_fields__, ops)),
        model=model,
    )
