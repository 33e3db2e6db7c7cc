"""The predicted run of an estimate in the trace event format, which Perfetto and chrome://tracing show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from analysis.estimate.estimate import Estimate
from analysis.reports.kernel_rows import kernels

_US = 1e6  # a second in the unit of the format
_TRACKS = ("kernels", "operators")


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
    start_s = np.cumsum(rows.latency_s) - rows.latency_s
    joules = np.cumsum(rows.energy_j)
    for k, members in enumerate(rows.members):
        seconds, energy_j = float(rows.latency_s[k]), float(rows.energy_j[k])
        figures = {
            "energy_j": energy_j, "bound": rows.bound[k], "resource": rows.resource[k], "flops": float(rows.flops[k]),
            "dram_bytes": float(rows.dram_bytes[k]), "overhead_s": float(rows.overhead_s[k]),
        }  # fmt: skip
        begin_s = float(start_s[k])
        yield _slice(1, rows.id[k], rows.type[k], begin_s, seconds, figures)
        for i in members.tolist():
            own_s, own_j = float(run.latency_s[i]), float(run.energy_j[i])
            yield _slice(2, operators.path[i], operators.kind[i], begin_s, own_s, {"energy_j": own_j})
            begin_s += own_s
        yield _counter("power", start_s[k], {"W": energy_j / seconds if seconds else 0.0})
        yield _counter("energy", start_s[k] + seconds, {"J": float(joules[k])})
    yield _counter("power", result.latency_s, {"W": 0.0})


def _slice(tid: int, name: str, kind: str, at_s: float, seconds: float, figures: dict[str, Any]) -> dict[str, Any]:
    return {"ph": "X", "pid": 1, "tid": tid, "name": name or kind, "cat": kind, "ts": at_s * _US, "dur": seconds * _US,
            "args": figures}  # fmt: skip


def _counter(name: str, at_s: float, values: dict[str, float]) -> dict[str, Any]:
    return {"ph": "C", "pid": 1, "name": name, "ts": float(at_s) * _US, "args": values}
