"""Memory bought with repeated work: savings and cost of recomputing values instead of keeping them.

In inference one value that the peak does not use is dropped after its last use before, and made again just before its
next use from values still held then. In training only values at the borders of segments are kept for the backward pass:
contiguous segments of equal bytes, as many as make the least memory, each run again when its turn comes.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.estimate.estimate import Estimate
from analysis.estimate.kernels import structure
from analysis.estimate.peak_memory import allocation_bytes, lifetimes, live_bytes, storage_roots
from analysis.model.ir.workload import BUFFER, INPUT, WEIGHT, Floats, Ints
from analysis.reports.kernel_rows import kernels
from hardware.demand import WRITE
from hardware.memo import memoize


class Recomputation(msgspec.Struct, frozen=True, kw_only=True):
    """`peak_bytes` without weights, before and after. `value` is what is dropped ('' where nothing helps),
    `kernels` run again, at a cost of `latency_s` and `energy_j`."""

    value: str
    before_bytes: float
    peak_bytes: float
    saved_bytes: float
    kernels: int
    latency_s: float
    energy_j: float


class Checkpointing(msgspec.Struct, frozen=True, kw_only=True):
    """Activations kept for a backward pass, all of them or those of `segments`; the cost is the forward work
    repeated, beside `forward_s` of one pass."""

    kept_bytes: float
    segments: int
    checkpointed_bytes: float
    saved_bytes: float
    latency_s: float
    energy_j: float
    forward_s: float


class _Values(msgspec.Struct, frozen=True, kw_only=True):
    """Allocations (a,): bytes, lifetimes in kernels, and the kernels that write and read each. `inputs[k]` are the
    allocations that kernel k reads; `held` (k,) bytes of values and `scratch` of workspace are live in each kernel."""

    size: Floats
    first: list[int]
    last: list[int]
    name: list[str]
    is_input: list[bool]
    writes: list[list[int]]
    reads: list[list[int]]
    inputs: list[list[int]]
    held: Floats
    scratch: Floats


@memoize()
def _values(result: Estimate) -> _Values:
    workload, tensors = result.workload, result.workload.tensors
    joined, lives = structure(workload, result.joins), lifetimes(workload, result.joins)
    size, root = (
        allocation_bytes(workload, lives, result.scenario.batch, result.plan.widths),
        storage_roots(tensors.storage),
    )
    place = {root[tensor]: value for value, tensor in enumerate(lives.tensor.tolist())}
    writes: list[list[int]] = [[] for _ in size]
    reads: list[list[int]] = [[] for _ in size]
    inputs: list[list[int]] = [[] for _ in range(joined.n_kernels)]
    rows = zip(joined.moves.tensor.tolist(), joined.moves.kernel.tolist(), joined.moves.role.tolist(), strict=True)
    for tensor, kernel, role in rows:
        if tensors.role[tensor] in (WEIGHT, BUFFER):
            continue
        value = place[root[tensor]]
        (writes if role == WRITE else reads)[value].append(kernel)
        if role != WRITE:
            inputs[kernel].append(value)
    scratch = np.zeros(joined.n_kernels)
    np.maximum.at(scratch, joined.kernel, result.memory.workspace)
    return _Values(
        size=size,
        first=lives.first.tolist(),
        last=lives.last.tolist(),
        name=[tensors.name[tensor] for tensor in lives.tensor],
        is_input=[bool(tensors.role[tensor] == INPUT) for tensor in lives.tensor],
        writes=[sorted(set(kernels)) for kernels in writes],
        reads=[sorted(set(kernels)) for kernels in reads],
        inputs=inputs,
        held=live_bytes(lives, size, joined.n_kernels),
        scratch=scratch,
    )


def recompute_one(result: Estimate) -> Recomputation:
    """Return the best single value to recompute during inference; nothing is saved where none helps."""
    values, rows = _values(result), kernels(result)
    total = values.held + values.scratch
    before = peak = float(total.max(initial=0.0))
    value, again, cost = "", np.zeros(0, dtype=np.int32), 0.0
    for index in range(len(values.size)):
        found = _peak_without(values, index, int(total.argmax()))
        if found is None:
            continue
        seconds = float(rows.latency_s[found[1]].sum())
        if found[0] < peak or (found[0] == peak and value and seconds < cost):
            (peak, again), value, cost = found, values.name[index], seconds
    return Recomputation(
        value=value,
        before_bytes=before,
        peak_bytes=peak,
        saved_bytes=before - peak,
        kernels=len(again),
        latency_s=cost,
        energy_j=float(rows.energy_j[again].sum()),
    )


def _peak_without(values: _Values, a: int, at: int) -> tuple[float, Ints] | None:
    """Return the peak with value `a` dropped across kernel `at`, and the kernels run again; None where that cannot
    be."""
    touched = sorted({*values.writes[a], *values.reads[a]})
    if values.is_input[a] or at in touched or not values.first[a] < at < values.last[a]:
        return None
    before, after = [k for k in touched if k < at], [k for k in touched if k > at]
    again = _kernels_that_make(values, a, after[0]) if before and after else None
    if again is None:
        return None
    held = values.held.copy()
    held[before[-1] + 1 : after[0]] -= values.size[a]
    most = max(float((held + values.scratch).max()), _bytes_while_recomputing(values, a, again, after[0]))
    return most, np.array(again, dtype=np.int32)


def _kernels_that_make(values: _Values, a: int, use: int) -> list[int] | None:
    """Return the kernels that make value `a` again just before kernel `use` from what is held then; None where values
    have been overwritten."""
    again: set[int] = set()
    wanted, seen = [a], {a}
    while wanted:
        value = wanted.pop()
        if values.is_input[value] or any(k >= use for k in values.writes[value]):
            return None
        again.update(values.writes[value])
        for k in values.writes[value]:
            operands = set(values.inputs[k]) - seen
            seen |= operands
            if any(write > k for operand in operands for write in values.writes[operand]):
                return None
            wanted += [one for one in operands if not (values.is_input[one] or values.last[one] >= use)]
    return sorted(again)


def _bytes_while_recomputing(values: _Values, a: int, again: list[int], use: int) -> float:
    """Return the most that is held while the kernels run again, other values that live then included."""
    count = len(values.size)
    others = [b for b in range(count) if b != a and values.first[b] < use <= values.last[b]]
    base, spans = float(values.size[others].sum()), []
    for b in set(range(count)).difference(others):
        if writes := [k for k in again if k in values.writes[b]]:
            reads = [k for k in again if b in values.inputs[k]]
            spans.append((writes[0], again[-1] if b == a else max([*reads, writes[-1]]), float(values.size[b])))
    steps = [
        base + sum(size for first, last, size in spans if first <= k <= last) + float(values.scratch[k]) for k in again
    ]
    return max(steps, default=base)


def checkpointing(result: Estimate) -> Checkpointing:
    """Return the activation memory of a training step with everything kept, and in the best number of segments."""
    values, rows = _values(result), kernels(result)
    n_kernels, kept = len(values.held), float(values.size.sum())
    first = np.array(values.first, dtype=np.int64)
    touched = zip(values.reads, values.writes, values.first, strict=True)
    spans = np.stack([first, [max([*reads, *writes, start]) for reads, writes, start in touched]])
    running = np.cumsum(np.bincount(first, values.size, minlength=max(n_kernels, 1)))
    least, borders = kept, np.zeros(0, dtype=np.int64)
    for segments in range(2, int(2 * np.sqrt(n_kernels)) + 2):
        cuts = np.unique(np.searchsorted(running, running[-1] * np.arange(1, segments) / segments) + 1)
        cuts = cuts[cuts < len(running)]  # equal shares of the bytes made
        held = _segmented_bytes(values.size, np.searchsorted(cuts, spans, side="right"))
        if held < least and len(cuts):
            least, borders = held, cuts
    repeated = int(borders[-1]) if len(borders) else 0
    return Checkpointing(
        kept_bytes=kept,
        segments=len(borders) + 1,
        checkpointed_bytes=least,
        saved_bytes=kept - least,
        latency_s=float(rows.latency_s[:repeated].sum()),
        energy_j=float(rows.energy_j[:repeated].sum()),
        forward_s=result.latency_s,
    )


def _segmented_bytes(size: Floats, segment: NDArray[np.integer[Any]]) -> float:
    """Return the bytes of the values that cross a border between segments, and of the fullest segment between borders.
    `segment` (2, a) is that in which each value begins and ends."""
    is_crossing = segment[0] != segment[1]
    inside = np.bincount(segment[0][~is_crossing], size[~is_crossing], minlength=1)
    return float(np.bincount(is_crossing, size, minlength=2)[1] + inside.max())
