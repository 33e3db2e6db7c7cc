"""Totals over the kernels of an execution, for one estimate or for many models at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec
import numpy as np

from analysis.model.ir.workload import Floats
from hardware.execute import BOUNDS, Execution


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The totals of w estimates, each for the whole batch, SI units, shape (w,). `utilization` is the time that the
    busiest unit would need at its full peak, over the latency. `bound` is what bounds the most time, `bound_s` (w,
    bounds) the time by bound. `pipelined_s` is the part of the latency in which the next batch already runs."""

    latency_s: Floats
    pipelined_s: Floats
    energy_j: Floats
    utilization: Floats
    bound: tuple[str, ...]
    bound_s: Floats


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Figures that follow from the batch, latency and energy of an estimate. The energy-delay product is of one
    inference: its energy times the latency of the batch that it waits for."""

    latency_s_per_inference: float
    energy_j_per_inference: float
    edp_js: float
    throughput_per_s: float
    average_power_w: float


def rates(batch: int, latency_s: float, energy_j: float, pipelined_s: float = 0.0) -> Rates:
    """Return the rates of a whole batch; throughput and power are 0 without latency. The next batch may enter
    `pipelined_s` before this one has left, so inferences can follow each other sooner than one takes."""
    follows_s = latency_s - pipelined_s
    return Rates(
        latency_s_per_inference=latency_s / batch,
        energy_j_per_inference=energy_j / batch,
        edp_js=energy_j / batch * latency_s,
        throughput_per_s=batch / follows_s if follows_s else 0.0,
        average_power_w=energy_j / latency_s if latency_s else 0.0,
    )


def totals(run: Execution, kernel_ends: Sequence[int], op_ends: Sequence[int]) -> Totals:
    """Return the sums of the estimates of a run, whose kernels and operators end at these places."""
    latency, peak = _sums(run.kernel_s, kernel_ends), _sums(run.utilization * run.kernel_s, kernel_ends)
    segments = [(run.bound[a:b], run.kernel_s[a:b]) for a, b in pairwise((0, *kernel_ends))]
    bound_s = np.array([np.bincount(*one, minlength=len(BOUNDS)) for one in segments], dtype=np.float64)
    return Totals(
        latency_s=latency,
        pipelined_s=np.zeros_like(latency) if run.pipelined_s is None else _sums(run.pipelined_s, kernel_ends),
        energy_j=_sums(run.energy_j, op_ends),
        utilization=ratio(peak, latency),
        bound=tuple(BOUNDS[b] for b in bound_s.argmax(axis=1).tolist()),
        bound_s=bound_s,
    )


def _sums(values: Floats, ends: Sequence[int]) -> Floats:
    """Return the sum of each segment. Terms are added in the order in which a segment alone is summed (reduceat pairs
    them differently)."""
    return np.array([np.add.reduce(values[a:b]) for a, b in pairwise((0, *ends))])


def weighted_mean(values: Floats, weights: Floats) -> float:
    """Return the mean of values by their weights, 0 without any weight."""
    total = float(weights.sum())
    return float((values * weights).sum()) / total if total else 0.0


def ratio(a: Floats, b: Floats, otherwise: Floats | float = 0.0) -> Floats:
    """Return a / b, and `otherwise` where b is 0."""
    return np.where(b > 0, a / np.where(b > 0, b, 1.0), otherwise)
