"""Memory bought with repeated work: what recomputing values instead of keeping them saves, and what it costs.

Two rules. In inference, one value: the one that is held across the peak without being used there, dropped after its
last use before and recomputed just before its next use, from values that are still held then; the choice is the one
that lowers the peak most. In training, segments: where every value is kept for the backward pass, only those at the
borders of segments are, and each segment is run again when its turn comes; contiguous segments of equal bytes, as
many as make the least memory (about the square root of the number of kernels). Times and energies are those of the
kernels that run again.
"""

from __future__ import annotations

import msgspec
import numpy as np

from analysis.estimate.estimate import Estimate
from analysis.estimate.kernels import structure
from analysis.estimate.memory import allocation_bytes, lifetimes, live_bytes, roots
from analysis.model.ir.workload import BUFFER, INPUT, WEIGHT, Floats
from analysis.reports.kernel_rows import kernels
from hardware.demand import WRITE


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
    """Allocations (a,): bytes, kernels that write and read each, those live in each kernel; per kernel (k,) what
    is held beside. `inputs[k]` are the allocations kernel k reads."""

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


def _values(result: Estimate) -> _Values:
    workload, tensors = result.workload, result.workload.tensors
    joined = structure(workload, result.joins)
    lives = lifetimes(workload, result.joins)
    size = allocation_bytes(workload, lives, result.scenario.batch, result.plan.widths)
    root = roots(tensors.storage)
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
        name=[tensors.name[tensor] for tensor in lives.tensor.tolist()],
        is_input=[bool(tensors.role[tensor] == INPUT) for tensor in lives.tensor.tolist()],
        writes=[sorted(set(ks)) for ks in writes],
        reads=[sorted(set(ks)) for ks in reads],
        inputs=inputs,
        held=live_bytes(lives, size, joined.n_kernels),
        scratch=scratch,
    )


def recompute_one(result: Estimate) -> Recomputation:
    """The best single value to recompute during inference; nothing saved where none helps."""
    values = _values(result)
    total = values.held + values.scratch
    before = float(total.max(initial=0.0))
    best = Recomputation(
        value="", before_bytes=before, peak_bytes=before, saved_bytes=0.0, kernels=0, latency_s=0.0, energy_j=0.0
    )
    if not len(total):
        return best
    energy, seconds = kernels(result).energy_j, result.run.kernel_s
    at = int(total.argmax())
    for value in range(len(values.size)):
        without = _without(values, value, at)
        if without is None:
            continue
        peak, again = without
        cost = float(seconds[again].sum())
        if peak < best.peak_bytes or (peak == best.peak_bytes and best.value and cost < best.latency_s):
            best = Recomputation(
                value=values.name[value],
                before_bytes=before,
                peak_bytes=peak,
                saved_bytes=before - peak,
                kernels=len(again),
                latency_s=cost,
                energy_j=float(energy[again].sum()),
            )
    return best


def _without(values: _Values, a: int, at: int) -> tuple[float, list[int]] | None:
    """The peak with value `a` dropped across kernel `at`, and the kernels run again; None where that cannot be."""
    touched = sorted({*values.writes[a], *values.reads[a]})
    if values.is_input[a] or at in touched or not values.first[a] < at < values.last[a]:
        return None
    before, after = [k for k in touched if k < at], [k for k in touched if k > at]
    if not before or not after:
        return None
    last_use, next_use = before[-1], after[0]
    again = _chain(values, a, next_use)
    if again is None:
        return None
    held = values.held.copy()
    held[last_use + 1 : next_use] -= values.size[a]
    chain = _chain_bytes(values, a, again, next_use)
    return max(float((held + values.scratch).max()), chain), again


def _chain(values: _Values, a: int, use: int) -> list[int] | None:
    """Kernels that make value `a` again just before kernel `use`, from what is held then; None where values have
    been overwritten."""
    again: set[int] = set()
    wanted = [a]
    seen = {a}
    while wanted:
        b = wanted.pop()
        if values.is_input[b] or any(k >= use for k in values.writes[b]):
            return None
        for k in values.writes[b]:
            again.add(k)
            for c in values.inputs[k]:
                if c in seen:
                    continue
                seen.add(c)
                if any(w > k for w in values.writes[c]):
                    return None
                if not (values.is_input[c] or values.last[c] >= use):
                    wanted.append(c)
    return sorted(again)


def _chain_bytes(values: _Values, a: int, again: list[int], use: int) -> float:
    """The most that is held while the kernels run again, other values that live then included."""
    standing = [b for b in range(len(values.size)) if b != a and values.first[b] < use <= values.last[b]]
    base = float(values.size[standing].sum())
    kept = set(standing)
    written = {b: [k for k in again if k in values.writes[b]] for b in range(len(values.size)) if b not in kept}
    spans = []
    for b, writes in written.items():
        if writes:
            reads = [k for k in again if b in values.inputs[k]]
            spans.append((writes[0], again[-1] if b == a else max([*reads, writes[-1]]), float(values.size[b])))
    steps = [
        base + sum(size for first, last, size in spans if first <= k <= last) + float(values.scratch[k]) for k in again
    ]
    return max(steps, default=base)


def checkpointing(result: Estimate) -> Checkpointing:
    """Activation memory of a training step with everything kept, and in the best number of segments."""
    values = _values(result)
    n_kernels = len(values.held)
    energy, seconds = kernels(result).energy_j, result.run.kernel_s
    kept = float(values.size.sum())
    best = Checkpointing(
        kept_bytes=kept,
        segments=1,
        checkpointed_bytes=kept,
        saved_bytes=0.0,
        latency_s=0.0,
        energy_j=0.0,
        forward_s=result.latency_s,
    )
    first = np.array(values.first, dtype=np.int64)
    made_bytes = np.bincount(first, values.size, minlength=max(n_kernels, 1)).astype(np.float64)
    needed = [
        max([*reads, *writes, start])
        for reads, writes, start in zip(values.reads, values.writes, values.first, strict=True)
    ]
    for segments in range(2, int(2 * np.sqrt(n_kernels)) + 2):
        cuts = _cuts(made_bytes, segments)
        held = _segmented(values, needed, cuts, n_kernels)
        if held < best.checkpointed_bytes and cuts:
            last = cuts[-1]
            best = Checkpointing(
                kept_bytes=kept,
                segments=len(cuts) + 1,
                checkpointed_bytes=held,
                saved_bytes=kept - held,
                latency_s=float(seconds[:last].sum()),
                energy_j=float(energy[:last].sum()),
                forward_s=result.latency_s,
            )
    return best


def _cuts(made_bytes: Floats, segments: int) -> list[int]:
    """The kernels that segments after the first begin with: equal shares of the bytes made."""
    running = np.cumsum(made_bytes)
    targets = running[-1] * np.arange(1, segments) / segments
    return sorted({int(k) for k in np.searchsorted(running, targets) + 1 if 0 < k < len(made_bytes)})


def _segmented(values: _Values, needed: list[int], cuts: list[int], n: int) -> float:
    """Bytes of the values that cross a border between segments, and of the fullest segment between borders."""
    segment = np.searchsorted(np.array(cuts), np.arange(n), side="right")
    inside = np.zeros(len(cuts) + 1)
    borders = 0.0
    for first, last, size in zip(values.first, needed, values.size.tolist(), strict=True):
        if segment[first] == segment[last]:
            inside[segment[first]] += size
        else:
            borders += size
    return borders + float(inside.max())
