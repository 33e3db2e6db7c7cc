"""Measured runs of whole models, as others published them or as measured for this project, found by an estimate.

`python -m lab` writes measured_runs.msgpack from the measured tables, in the terms of an estimate, zipped by model."""

from functools import lru_cache
from math import log
from operator import attrgetter
from pathlib import Path

import msgspec

from analysis.estimate.estimate import Estimate
from hardware.base import file_access
from hardware.base.records import group_by
from hardware.base.text import quantity

PATH = Path(__file__).with_name("measured_runs.msgpack")
# How much farther a run is by what differs.
_DIFFERS = {"layout": 0.5, "formats": 1.0, "runtime": 2.0, "device": 3.0}


class MeasuredRun(msgspec.Struct, frozen=True, kw_only=True):
    """A measured run of a model: `latency_s` is that of the batch, `energy_j` that of an inference, None if not stated.
    `dims` has the kind of work and the lengths, `formats` those of weights, products and cache. `software` and `source`
    are in the words of who published it; `year` is 0 if it is not known."""

    model: str
    dims: str
    device: str
    runtime: str
    formats: str
    layout: str
    batch: int
    latency_s: float | None
    energy_j: float | None
    software: str
    source: str
    year: int

    @property
    def figures(self) -> str:
        """The measured figures in words: `393 µs, 95.2 mJ per inference`."""
        time = quantity(self.latency_s, "s") if self.latency_s else ""
        energy = f"{quantity(self.energy_j, 'J')} per inference" if self.energy_j else ""
        return ", ".join(filter(None, (time, energy)))

    @property
    def cited(self) -> str:
        """The software and the source with its year: `TensorRT 8.6: MLPerf Inference v3.0 closed, 2023`."""
        year = f", {self.year}" if self.year and str(self.year) not in self.source else ""
        return f"{self.software}: {self.source}{year}"

    def __str__(self) -> str:
        return f"{self.device}, batch {self.batch}, {self.formats}: {self.figures} ({self.cited})"


ASKED = MeasuredRun.__struct_fields__[:7]  # the fields that an estimate determines


def asked_of(result: Estimate) -> tuple[str | int, ...]:
    """Return the fields ASKED of a measured run of what an estimate is about."""
    workload, plan = result.workload, result.plan
    dims = [f"{name}={value}" for name, value in sorted(workload.defaults.items())]
    size = [f"{workload.image_size} px"] if workload.image_size else []
    shared = [f"tp={workload.devices}"] if workload.devices > 1 else []
    return (
        workload.name if workload.work == "vision" else workload.name.partition(":")[0],
        " ".join([workload.kind, *size, *dims, *shared]),
        result.device.key,
        result.runtime.id,
        " ".join(dict.fromkeys((plan.weights, plan.operand, plan.contraction[1], plan.cache))),
        result.setup.layout,
        result.scenario.batch,
    )


@lru_cache(maxsize=8)
def _runs_by_asked(model: str) -> dict[tuple[str | int, ...], list[MeasuredRun]]:
    files = msgspec.msgpack.decode(file_access.read(PATH, 1 << 25), type=dict[str, bytes])
    runs = file_access.unzip(files[model], 1 << 25) if model in files else b"[]"
    return group_by(msgspec.json.decode(runs, type=list[MeasuredRun]), attrgetter(*ASKED))


def measured_runs(result: Estimate) -> tuple[MeasuredRun, ...]:
    """Return the measured runs of what an estimate is about, the newest first: of the same model, lengths, device,
    software, formats and batch."""
    asked = asked_of(result)
    return tuple(_runs_by_asked(str(asked[0])).get(asked, ()))


def nearest_runs(result: Estimate, count: int = 3) -> tuple[MeasuredRun, ...]:
    """Return the measured runs that are nearest to an estimate: of the same model and lengths, and alike in device,
    software, formats, layout and batch, in this order of weight."""
    if result.formats:  # none was measured with formats by layer
        return ()
    asked = dict(zip(ASKED, asked_of(result), strict=True))

    def distance(run: MeasuredRun) -> float:
        """Return how unlike a measured run is."""
        differs = sum(weight for name, weight in _DIFFERS.items() if getattr(run, name) != asked[name])
        return differs + 0.1 * abs(log(run.batch / result.scenario.batch))

    runs = (run for same in _runs_by_asked(str(asked["model"])).values() for run in same if run.dims == asked["dims"])
    return tuple(sorted(runs, key=distance)[:count])
