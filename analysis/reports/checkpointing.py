"""Activation memory of a training step, with values kept and with checkpoints.

Only values at the borders of segments are kept for the backward pass: contiguous segments of equal bytes, as many as
make the least memory, each run again when its turn comes.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.estimate.estimate import Estimate
from analysis.estimate.kernels import structure
from analysis.estimate.peak_memory import Lifetimes, allocation_bytes, lifetimes, storage_roots
from analysis.model.ir.workload import Floats
from analysis.reports.kernel_rows import kernels


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


def checkpointing(result: Estimate) -> Checkpointing:
    """Return the activation memory of a training step with everything kept, and in the best number of segments."""
    workload, n_kernels = result.workload, result.demand.n_kernels
    lives = lifetimes(workload, result.joins)
    size, spans = allocation_bytes(workload, lives, result.scenario.batch, result.plan.widths), _spans(result, lives)
    kept, rows = float(size.sum()), kernels(result)
    running = np.cumsum(np.bincount(spans[0], size, minlength=max(n_kernels, 1)))
    least, borders = kept, np.zeros(0, dtype=np.int64)
    for segments in range(2, int(2 * np.sqrt(n_kernels)) + 2):
        cuts = np.unique(np.searchsorted(running, running[-1] * np.arange(1, segments) / segments) + 1)
        cuts = cuts[cuts < len(running)]  # equal shares of the bytes made
        held = _segmented_bytes(size, np.searchsorted(cuts, spans, side="right"))
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


def _spans(result: Estimate, lives: Lifetimes) -> NDArray[np.int64]:
    """Return the first and the last kernel (2, a) that touches each allocation."""
    moves = structure(result.workload, result.joins).moves
    root = np.array(storage_roots(result.workload.tensors.storage), dtype=np.int64)
    place = np.full(len(root), -1)
    place[root[lives.tensor]] = np.arange(len(lives.tensor))
    touched = place[root[moves.tensor]]
    is_value = touched >= 0  # not a parameter
    last = lives.first.astype(np.int64)
    np.maximum.at(last, touched[is_value], moves.kernel[is_value])
    return np.stack([lives.first.astype(np.int64), last])


def _segmented_bytes(size: Floats, segment: NDArray[np.integer[Any]]) -> float:
    """Return the bytes of the values that cross a border between segments, and of the fullest segment between borders.
    `segment` (2, a) is that in which each value begins and ends."""
    is_crossing = segment[0] != segment[1]
    inside = np.bincount(segment[0][~is_crossing], size[~is_crossing], minlength=1)
    return float(np.bincount(is_crossing, size, minlength=2)[1] + inside.max())
