"""One record for what a run costs, and one head for what a document is about: comparisons, sweeps, searches, advice
and explanations all hold these, so a key means the same wherever it stands."""

from __future__ import annotations

from typing import Any

import msgspec

from analysis.estimate.estimate import Estimate
from analysis.estimate.serving import Serving, serving
from analysis.estimate.totals import rates
from analysis.estimate.trust import Trust
from analysis.model.ir.workload import Workload
from hardware.execute import BOUNDS


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One model on one device in one scenario. Energy and latency are for the whole batch where a name does not say
    otherwise; SI units. `devices` run it together: energy and power are those of all, memory of each. `runtime` is
    what it runs with, `serving` what a request of a language model is judged by, `bound_time` the share of the time
    by what bounds it; `supported` is False where no software is known to run such work on the device; `formats` those
    of a language model by role; `silicon` is False for a device that exists on paper only, `trust` how well such work
    is known on it; `incomplete` says what has no cost rule where that is too much."""

    model: str
    device: str
    devices: int
    name: str
    architecture: str
    image_size: int | None
    batch: int
    precision: str
    precision_run: str
    execution_run: str
    runtime: str
    latency_s: float
    latency_band_s: tuple[float, float]
    latency_s_per_inference: float
    energy_j: float
    energy_band_j: tuple[float, float]
    energy_j_per_inference: float
    edp_js: float
    throughput_per_s: float
    compute_j: float
    memory_j: float
    static_j: float
    average_power_w: float
    power_limit_w: float
    tdp_w: float
    utilization: float
    bound: str
    bound_time: dict[str, float]
    peak_memory_bytes: float
    weight_bytes: float
    activation_bytes: float
    workspace_bytes: float
    fits: bool
    supported: bool
    silicon: bool
    trust: Trust
    marks: tuple[str, ...]
    formats: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    incomplete: str | msgspec.UnsetType = msgspec.UNSET
    serving: Serving | msgspec.UnsetType = msgspec.UNSET

    @property
    def can_win(self) -> bool:
        """As of an Estimate."""
        return self.fits and self.supported and not self.incomplete


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What a document is about. `execution` and `layout` where that depends on a device, `device` and `execution_run`
    where it is about one; `sequence`, `kv` and `output` of a model that has these lengths."""

    model: str
    batch: int
    precision: str
    execution: str | msgspec.UnsetType = msgspec.UNSET
    layout: str | msgspec.UnsetType = msgspec.UNSET
    image_size: int | None
    device: str | msgspec.UnsetType = msgspec.UNSET
    execution_run: str | msgspec.UnsetType = msgspec.UNSET
    sequence: int | msgspec.UnsetType = msgspec.UNSET
    kv: int | msgspec.UnsetType = msgspec.UNSET
    output: int | msgspec.UnsetType = msgspec.UNSET


def figures(result: Estimate) -> Figures:
    """The record of an estimate."""
    device, memory = result.device, result.memory
    compute, moved, static = result.component_j.values()
    return Figures(
        **msgspec.structs.asdict(result.rates),
        model=result.workload.name,
        device=device.key,
        devices=result.workload.devices,
        name=device.name,
        architecture=device.architecture,
        image_size=result.workload.image_size,
        batch=result.scenario.batch,
        precision=result.scenario.precision,
        precision_run=result.precision_run,
        execution_run=result.execution,
        runtime=result.runtime.name,
        latency_s=result.latency_s,
        latency_band_s=result.latency_band_s,
        energy_j=result.energy_j,
        energy_band_j=result.energy_band_j,
        compute_j=compute,
        memory_j=moved,
        static_j=static,
        power_limit_w=result.power_limit_w,
        tdp_w=device.tdp_w * result.workload.devices,
        utilization=result.utilization,
        bound=result.bound,
        bound_time={name: s / (result.latency_s or 1.0) for name, s in zip(BOUNDS, result.bound_s, strict=True)},
        peak_memory_bytes=memory.peak_bytes,
        weight_bytes=memory.weight_bytes,
        activation_bytes=memory.activation_peak_bytes,
        workspace_bytes=memory.workspace_peak_bytes,
        fits=result.fits,
        supported=result.supported,
        silicon=device.silicon,
        trust=result.trust,
        marks=result.marks,
        formats=_formats(result),
        incomplete=result.covered.gap or msgspec.UNSET,
        serving=serving(result) or msgspec.UNSET,
    )


def _formats(result: Estimate) -> dict[str, str] | msgspec.UnsetType:
    """What a language model is kept in, by role; unset for other models."""
    if result.workload.kind not in ("decode", "prefill", "request"):
        return msgspec.UNSET
    plan = result.plan
    return {"weights": plan.weights, "activations": plan.stored, "cache": plan.cache}


def with_cost(of: Figures, latency_s: float, energy_j: float, **others: Any) -> Figures:
    """The record at another latency and energy of the batch; everything that follows from them follows."""
    follows = msgspec.structs.asdict(rates(of.batch, latency_s, energy_j))
    return msgspec.structs.replace(of, latency_s=latency_s, energy_j=energy_j, **follows, **others)


def about(result: Estimate, on_device: bool = False) -> dict[str, Any]:
    """The fields of a Head; `on_device` names the device and what `auto` means on it."""
    scenario = result.scenario
    head = about_model(result.workload, scenario.batch, scenario.precision)
    head |= {"execution": scenario.execution, "layout": scenario.layout}
    return head | ({"device": result.device.key, "execution_run": result.execution} if on_device else {})


def about_model(workload: Workload, batch: int, precision: str) -> dict[str, Any]:
    """The fields of a Head about a model alone."""
    head = {"model": workload.name, "batch": batch, "precision": precision, "image_size": workload.image_size}
    return head | workload.defaults
