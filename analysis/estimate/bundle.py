"""Several workloads at several batches as one demand, end to end: a bundle. A single estimate is a bundle of one."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import msgspec
import numpy as np

from analysis.estimate.kernels import demand
from analysis.model.ir.workload import Floats, Workload
from hardware.demand import Calls, Demand, Transfers
from hardware.precision import Widths

# The fields of a demand that are per operator, or the same for all operators.
_COLUMNS = (
    "op_class", "head", "macs", "vector_flops", "special", "elements", "gemm", "local_bytes", "weight_bytes",
    "largest_bytes", "windows", "patches", "links", "element_bytes", "right_bytes", "unpack_ops", "mean_work", "batch",
    "lag", "is_expert", "expert_rows",
)  # fmt: skip


class Bundle(msgspec.Struct, frozen=True):
    """The joint demand of estimates, ordered by batch and then by workload. `ends` are where the kernels of each end,
    and where its operators end. `repeats` (n,) says how often each operator is repeated, if workloads merge equal
    layers; `mostly_convolution`, whether convolutions do most multiply-accumulates of each (None without any);
    `devices`, how many share each workload."""

    demand: Demand
    ends: tuple[tuple[int, ...], tuple[int, ...]]
    repeats: Floats | None
    mostly_convolution: tuple[bool | None, ...]
    devices: int


def make_bundle(workloads: Sequence[Workload], batches: Sequence[int], widths: Widths, execution: str) -> Bundle:
    """Return workloads at some batches and widths of their tensors, under an execution mode ('eager', 'fused' ..)."""
    return bundle_pairs([(workload, batch) for batch in batches for workload in workloads], widths, execution)


def bundle_pairs(pairs: Sequence[tuple[Workload, int]], widths: Widths, execution: str) -> Bundle:
    """Return workloads, each at its batch, at some widths of their tensors, under an execution mode."""
    demands = [demand(workload, batch, widths, execution) for workload, batch in pairs]
    repeats = [w.repeats @ w.value_at(batch=batch) for w, batch in pairs if w.repeats is not None]
    return Bundle(
        demand=demands[0] if len(demands) == 1 else _join(demands),
        ends=(tuple(accumulate(one.n_kernels for one in demands)), tuple(accumulate(one.n for one in demands))),
        repeats=np.concatenate(repeats) if repeats else None,
        mostly_convolution=tuple(map(_is_mostly_convolution, demands)),
        devices=pairs[0][0].devices,
    )


def _is_mostly_convolution(work_demand: Demand) -> bool | None:
    total = work_demand.macs.sum()
    return bool(work_demand.macs[work_demand.is_convolution].sum() * 2 > total) if total else None


def _join(demands: Sequence[Demand]) -> Demand:
    """Return all demands as one: columns end to end, indices shifted."""
    kernels, ops = [one.n_kernels for one in demands], [one.n for one in demands]
    firsts = zip(demands, np.cumsum([0, *kernels]), np.cumsum([0, *ops]), strict=False)
    kernel, previous, owner = [], [], []
    for one, first_kernel, first_op in firsts:
        kernel.append(one.kernel + first_kernel)
        before = one.transfers.previous
        previous.append(np.where(before < 0, -1, before + first_kernel))
        owner.append(one.transfers.op + first_op)
    moves, calls = [one.transfers for one in demands], [one.calls for one in demands]
    return Demand(
        **_join_columns(demands, _COLUMNS),
        kernel=np.concatenate(kernel),
        n_kernels=sum(kernels),
        transfers=Transfers(
            op=np.concatenate(owner),
            previous=np.concatenate(previous),
            **_join_columns(moves, ("size_bytes", "role", "distance")),
        ),
        calls=Calls(**_join_columns(calls, Calls.__struct_fields__)),
        model=np.repeat(np.arange(len(demands)), kernels),
    )


def _join_columns(records: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """Concatenate columns of records, by name. A value that is not an array is the same in all; a column that only some
    records have is neutral in the others."""
    return {name: _join_column(records, name) for name in names}


def _join_column(records: Sequence[Any], name: str) -> Any:
    columns = [getattr(one, name) for one in records]
    known = next((column for column in columns if isinstance(column, np.ndarray)), None)
    if known is None:
        return columns[0]
    shape, neutral = known.shape[:-1], float(name == "mean_work")  # a factor; the others are amounts
    filled = (
        np.full((*shape, one.n), neutral) if column is None else column
        for one, column in zip(records, columns, strict=True)
    )
    return np.concatenate(list(filled), axis=-1)
