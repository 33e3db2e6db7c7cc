"""Peak memory from the lifetimes of tensors over the execution order."""

from __future__ import annotations

import msgspec
import numpy as np

from analysis.kernels import structure
from analysis.workload.workload import BUFFER, WEIGHT, Floats, Ints, Workload


class Memory(msgspec.Struct, frozen=True):
    """Bytes. `timeline` (n,) is what activations hold while each operator runs; `peak_bytes` adds the weights.

    Workspaces of libraries are not included."""

    peak_bytes: float
    weight_bytes: float
    activation_peak_bytes: float
    timeline: Floats


class Lifetimes(msgspec.Struct, frozen=True):
    """Per allocation (a tensor and all that share its storage): first and last operator, elements."""

    first: Ints
    last: Ints
    numel: Floats
    fixed_bytes: Ints


def memory(workload: Workload, batch: int, element_bytes: float, execution: str) -> Memory:
    """Peak memory of one inference. A fused kernel keeps the values between its operators on chip."""
    point = workload.at(batch=batch)
    tensors = workload.tensors
    width = np.where(tensors.fixed_bytes > 0, tensors.fixed_bytes, element_bytes)
    constant = np.isin(tensors.role, (WEIGHT, BUFFER))
    weights = float((tensors.numel[constant] @ point * width[constant]).sum())
    lives = lifetimes(workload, execution)
    size = (lives.numel @ point) * np.where(lives.fixed_bytes > 0, lives.fixed_bytes, element_bytes)
    n = max(workload.n_operators, 1)
    change = np.bincount(lives.first, size, minlength=n + 1) - np.bincount(lives.last + 1, size, minlength=n + 1)
    timeline = np.cumsum(change)[:n]
    peak = float(timeline.max(initial=0.0))
    return Memory(weights + peak, weights, peak, timeline)


def lifetimes(workload: Workload, execution: str) -> Lifetimes:
    """When each allocation lives, computed once per workload and execution mode."""
    key = f"_lifetimes_{execution}"
    cached: Lifetimes | None = workload.__dict__.get(key)
    if cached is None:
        cached = _lifetimes(workload, execution)
        workload.__dict__[key] = cached
    return cached


def _lifetimes(workload: Workload, execution: str) -> Lifetimes:
    tensors = workload.tensors
    outside = set(structure(workload, execution).tensor.tolist())
    root = tensors.storage.tolist()
    for t, base in enumerate(root):  # an in-place result may overwrite an in-place result
        while root[base] != base:
            base = root[base]
        root[t] = base
    spans: dict[int, tuple[int, int, int]] = {}
    sizes = tensors.numel @ workload.at(**dict.fromkeys(workload.dims, 2))
    roles, producers, until = tensors.role.tolist(), tensors.producer.tolist(), tensors.live_until.tolist()
    for t, base in enumerate(root):
        if roles[t] in (WEIGHT, BUFFER) or t not in outside:
            continue
        first, last, largest = spans.get(base, (producers[t], until[t], t))
        largest = t if sizes[t] > sizes[largest] else largest
        spans[base] = (min(first, producers[t]), max(last, until[t]), largest)
    rows = np.array(list(spans.values()), dtype=np.int32).reshape(-1, 3)
    return Lifetimes(
        np.maximum(rows[:, 0], 0),
        np.maximum(rows[:, 1], np.maximum(rows[:, 0], 0)),
        tensors.numel[rows[:, 2]],
        tensors.fixed_bytes[rows[:, 2]],
    )
