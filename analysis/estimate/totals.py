"""Totals over the kernels of an execution, for one estimate or for many models at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

import msgspec
import numpy as np

from analysis.model.ir.workload import Floats
from hardware.demand import Ints
from hardware.execute import BOUNDS, Execution


class Places(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """The places of b x w estimates in one joint execution: w models at each of b `batches`. `kernel_of` and `op_of`
    map the kernels and operators of all estimates, end to end, to those of the execution. At each batch, those of model
    i begin at `kernel_ptr[i]` and `op_ptr[i]`, (w + 1,)."""

    kernel_of: Ints
    op_of: Ints
    kernel_ptr: Ints
    op_ptr: Ints
    batches: int

    @cached_property
    def first_cell(self) -> Ints:
        """The first cell of each kernel's estimate in a flat table of estimates and bounds, (k,)."""
        models = len(self.kernel_ptr) - 1
        run = np.repeat(np.arange(self.batches * models), np.tile(np.diff(self.kernel_ptr), self.batches))
        return len(BOUNDS) * run

    def of_estimates(self) -> Iterator[tuple[Ints, Ints]]:
        """Yield the kernels and the operators of each estimate."""
        kernels, operators = (np.split(of, self.batches) for of in (self.kernel_of, self.op_of))
        for kernel_of, op_of in zip(kernels, operators, strict=True):
            yield from zip(np.split(kernel_of, self.kernel_ptr[1:-1]), np.split(op_of, self.op_ptr[1:-1]), strict=True)


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


def totals(run: Execution, places: Places | None = None) -> Totals:
    """Return the sums of one run, or of the several that `places` tells apart."""
    kernel_s, peak_s, bound, energy_j = run.kernel_s, run.utilization * run.kernel_s, run.bound, run.energy_j
    kernel_ends, op_ends, batches, cell = [0, len(kernel_s)], [0, len(energy_j)], 1, bound
    if places is not None:
        kernel_s, peak_s, bound = kernel_s[places.kernel_of], peak_s[places.kernel_of], bound[places.kernel_of]
        energy_j, batches = energy_j[places.op_of], places.batches
        kernel_ends, op_ends = places.kernel_ptr.tolist(), places.op_ptr.tolist()
        cell = bound + places.first_cell
    latency, peak = _sums(np.stack([kernel_s, peak_s]), kernel_ends, batches)
    pipelined = np.zeros(len(latency))
    if run.pipelined_s is not None:
        pipelined = _sums(
            run.pipelined_s if places is None else run.pipelined_s[places.kernel_of], kernel_ends, batches
        )
    shape = (len(latency), len(BOUNDS))
    bound_s = np.bincount(cell, kernel_s, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64, copy=False)
    return Totals(
        latency_s=latency,
        pipelined_s=pipelined,
        energy_j=_sums(energy_j, op_ends, batches),
        utilization=ratio(peak, latency),
        bound=tuple(BOUNDS[b] for b in bound_s.argmax(axis=1).tolist()),
        bound_s=bound_s,
    )


def _sums(values: Floats, ends: list[int], batches: int) -> Floats:
    """Return the sum of each segment of the last axis, at each batch. Terms are added in the order in which a segment
    alone is summed (reduceat pairs them differently)."""
    rows = values if batches == 1 else values.reshape(*values.shape[:-1], batches, -1)
    sums = np.array([np.add.reduce(rows[..., a:b], axis=-1) for a, b in pairwise(ends)])
    return sums.T if batches == 1 else sums.transpose(*range(1, sums.ndim), 0).reshape(*values.shape[:-1], -1)


def weighted_mean(values: Floats, weights: Floats) -> float:
    """Return the mean of values by their weights, 0 without any weight."""
    total = float(weights.sum())
    return float((values * weights).sum()) / total if total else 0.0


def ratio(a: Floats, b: Floats, otherwise: Floats | float = 0.0) -> Floats:
    """Return a / b, and `otherwise` where b is 0."""
    return np.where(b > 0, a / np.where(b > 0, b, 1.0), otherwise)
