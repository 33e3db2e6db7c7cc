"""What would lift the limit of a node: the settings that act on what it waits for, run, and the one that helps most."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from analysis.estimate.causes import DRAM, LAUNCH, causes
from analysis.estimate.estimate import Estimate, estimate
from analysis.model import request_bounds
from analysis.model.ir.workload import Ints
from hardware.errors import RequestError
from hardware.precision import FORMATS, NARROWER, parse
from hardware.remember import remembered

BATCHES = (4, 16)  # times the batch
WORTH = 1.1  # a gain below is not worth saying


class Lift(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as states spell it (`b32`, `int8`, `fused`): how many times faster an inference of the node is with it,
    and of how much less energy; below 1 it is slower, or needs more."""

    setting: str
    speedup: float
    energy_ratio: float


def lift(result: Estimate, members: Ints) -> Lift | None:
    """The setting that helps most against the largest cause of the node; None where none is worth saying."""
    cause = int(causes(result).of(members).time_s.argmax())
    best: Lift | None = None
    for setting, other in _tried(result, cause):
        tried = Lift(
            setting=setting,
            speedup=_ratio(result, other, float(result.run.latency_s[members].sum()),
                           float(other.run.latency_s[members].sum())),
            energy_ratio=_ratio(result, other, float(result.run.energy_j[members].sum()),
                                float(other.run.energy_j[members].sum())),
        )  # fmt: skip
        # A larger setting has to earn its place: half as much again as the one before it.
        if tried.speedup >= WORTH and (best is None or tried.speedup >= 1.5 * best.speedup):
            best = tried
    return best


def _ratio(now: Estimate, other: Estimate, before: float, after: float) -> float:
    """Per inference."""
    return before / now.scenario.batch / (after / other.scenario.batch) if after else 0.0


def _tried(result: Estimate, cause: int) -> Iterator[tuple[str, Estimate]]:
    """The settings that act on a cause, those that can be and fit."""
    for setting, field, value in _settings(result, cause):
        other = _with(result, field, value)
        if other is not None and (other.fits or not result.fits):
            yield setting, other


@remembered()
def _with(result: Estimate, field: str, value: int | str) -> Estimate | None:
    """The run with one setting changed; None where that cannot be, as of a model of one batch."""
    try:
        return estimate(result.workload, result.device, msgspec.structs.replace(result.scenario, **{field: value}))
    except RequestError:
        return None


def _settings(result: Estimate, cause: int) -> Iterator[tuple[str, str, int | str]]:
    if cause == LAUNCH and result.execution == "eager":
        yield "fused", "execution", "fused"
    if cause in (LAUNCH, DRAM):
        for factor in BATCHES:
            batch = result.scenario.batch * factor
            if batch <= request_bounds.BATCH:
                yield f"b{batch}", "batch", batch
    if cause != LAUNCH:
        bits = FORMATS[parse(result.scenario.precision).weights].bits
        narrower = (name for name in NARROWER if FORMATS[parse(name).weights].bits < bits)
        if (name := next(narrower, "")) != "":
            yield name, "precision", name
