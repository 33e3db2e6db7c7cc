"""The predicted run of an estimate in the trace event format, which Perfetto and chrome://tracing show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.estimate.estimate import Estimate
from analysis.reports.kernel_rows import kernels

_US_NS = 1e3  # the unit of the format in nanoseconds
_TRACKS = ("kernels", "operators")
_FIGURES = ("energy_j", "flops", "dram_bytes", "overhead_s")  # of a kernel


def run_timeline(result: Estimate) -> dict[str, Any]:
    """Return kernels and operators as slices, watts and joules as counters. Repeated operators are one slice each."""
    scenario, figures = result.scenario, ("latency_s", "energy_j", "latency_band_s", "energy_band_j")
    data = {
        "origin": "predicted by hwexplorer, not measured",
        "model": result.workload.name,
        "device": result.device.key,
        "runtime": result.runtime.name,
        "batch": scenario.batch,
        "precision": scenario.precision,
        **{name: getattr(result, name) for name in figures},
    }
    return {"traceEvents": list(_events(result)), "displayTimeUnit": "ns", "otherData": data}


def _events(result: Estimate) -> Iterator[dict[str, Any]]:
    rows, run, operators = kernels(result), result.run, result.workload.operators
    yield {"ph": "M", "pid": 1, "name": "process_name", "args": {"name": f"predicted: {result.device.name_in_mode}"}}
    for tid, track in enumerate(_TRACKS, 1):
        yield {"ph": "M", "pid": 1, "tid": tid, "name": "thread_name", "args": {"name": track}}
    order = np.concatenate(rows.members)
    # Whole nanoseconds, so that a slice ends where the next one begins.
    edges_ns = np.rint(1e9 * np.concatenate(([0.0], np.cumsum(run.latency_s[order])))).astype(np.int64)
    for place, i in enumerate(order.tolist()):
        figures = {"energy_j": float(run.energy_j[i])}
        yield _slice(2, operators.path[i], operators.kind[i], edges_ns[place : place + 2], figures)
    edges_ns = edges_ns[np.concatenate(([0], np.cumsum(rows.operators)))]
    power_w = rows.energy_j / np.maximum(rows.latency_s, 1e-12)
    for k, joules in enumerate(np.cumsum(rows.energy_j).tolist()):
        figures = {name: float(getattr(rows, name)[k]) for name in _FIGURES}
        causes = {"bound": rows.bound[k], "resource": rows.resource[k]}
        yield _slice(1, rows.id[k], rows.type[k], edges_ns[k : k + 2], figures | causes)
        yield _counter("power", edges_ns[k], {"W": float(power_w[k])})
        yield _counter("energy", edges_ns[k + 1], {"J": joules})
    yield _counter("power", edges_ns[-1], {"W": 0.0})


def _slice(tid: int, name: str, kind: str, edges_ns: NDArray[np.int64], figures: dict[str, Any]) -> dict[str, Any]:
    start_ns, end_ns = edges_ns.tolist()
    return {"ph": "X", "pid": 1, "tid": tid, "name": name or kind, "cat": kind, "ts": start_ns / _US_NS,
            "dur": (end_ns - start_ns) / _US_NS, "args": figures}  # fmt: skip


def _counter(name: str, at_ns: int, values: dict[str, float]) -> dict[str, Any]:
    return {"ph": "C", "pid": 1, "name": name, "ts": int(at_ns) / _US_NS, "args": values}
