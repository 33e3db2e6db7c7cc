"""A device fitted to one trace: each class of operators at the rate at which the trace has it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from analysis.annexes.machine.own import HIGH, LOW, Own, Row
from analysis.annexes.traces.match import overlay
from analysis.annexes.traces.record import Trace
from analysis.annexes.traces.tree import per_operator
from analysis.estimate.estimate import Estimate, estimate
from hardware.demand import Floats, OpClass
from hardware.device import Device, in_mode
from hardware.errors import RequestError

ROUNDS = 12  # rates move only what they bound: launch and the other level of memory stay, so it is done again
LEAST_COVERAGE = 0.5  # of the measured time: a trace of another model says nothing of this one


def from_trace(trace: Trace, result: Estimate, name: str) -> Own:
    """A device of this name, otherwise like that of the estimate. Raises RequestError for a trace of another model."""
    base = result.device
    laid_over = overlay(trace, result)
    if trace.is_total or laid_over.coverage < LEAST_COVERAGE:
        reason = "it holds sums over runs that it does not count" if trace.is_total else "it is of another model"
        raise RequestError(f"nothing can be fitted to this trace: {reason} ({laid_over.coverage:.0%} finds a node)")
    measured, seen = per_operator(laid_over, result)
    spent = np.where(seen, measured, 0.0)
    before, after, device = _seconds(spent, result), result, base
    for _ in range(ROUNDS):
        now = _seconds(spent, after)
        device = _scaled(device, name, {each: now[each][1] / now[each][0] for each in now})
        after = estimate(result.workload, device, result.scenario)
    then = _seconds(spent, after)
    rows = tuple(
        Row(
            name=OpClass(each).name, batch=result.scenario.batch, family="", is_model=False, measured_s=seconds,
            before_s=predicted, after_s=then[each][1], spread=0.0,
        )
        for each, (seconds, predicted) in before.items()
    )  # fmt: skip
    said = (
        f"fitted to one trace ({trace.producer}) of {result.workload.name}: how well it carries over is not known",
        f"{trace.gap_s / trace.wall_s:.0%} of the run, in which nothing ran, is the host's and in no rate",
    )
    return Own(device=device, nearest=base, rows=rows, noise=0.0, taken=0.0, skipped=said)


def _seconds(measured: Floats, result: Estimate) -> dict[int, tuple[float, float]]:
    """Measured and predicted seconds by class, of the operators with a measured time (n,)."""
    found, classes = {}, result.demand.op_class
    for each in sorted(set(classes[measured > 0].tolist())):
        mine = (measured > 0) & (classes == each)
        found[int(each)] = (float(measured[mine].sum()), float(result.run.latency_s[mine].sum()))
    return {each: both for each, both in found.items() if both[1] > 0}


def _scaled(device: Device, name: str, by: dict[int, float]) -> Device:
    """The device with the rates of each class times a factor: predicted over measured time."""
    software = device.software
    tables: dict[str, dict[str, tuple[float, float, float]]] = {}
    for part in ("compute", "bandwidth"):
        shipped = getattr(software.efficiency, part)[0]
        table = dict(getattr(software, part))
        for each, factor in by.items():
            value = float(np.clip(shipped[each] * factor, LOW, HIGH))
            table[OpClass(each).name] = (value, value, value)
        tables[part] = table
    rates = msgspec.structs.replace(software, **tables)
    spec = msgspec.structs.replace(device.file, id=name, aliases=(), rates=rates, trust=())
    return in_mode(Path(f"{name}.toml"), spec, "")
