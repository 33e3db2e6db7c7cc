"""One model on devices of several architectures in turn: energy by the families of events that all share, and the
causes of each step from one device to the next."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from analysis.estimate.estimate import Estimate
from analysis.estimate.families import FAMILIES, sum_by_family
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.tree_figures import estimate_of_node, operators_of
from analysis.explore.explanation import explain
from analysis.text.headline import short_name
from hardware.errors import RequestError
from hardware.quantity import quantity


class ArchitectureSide(msgspec.Struct, frozen=True, kw_only=True):
    """A device: figures of the node per inference, and its energy by family of events, J per inference."""

    device: str
    architecture: str
    precision_run: str
    runtime: str
    latency_s: float
    energy_j_per_inference: float
    energy_by_family_j: dict[str, float]


class ArchitectureStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step from one device to the next: ratios of the whole model, the second over the first, and causes in words.
    `dynamic_ratio` is that of the energy without static power."""

    from_device: str
    to_device: str
    energy_ratio: float
    dynamic_ratio: float
    latency_ratio: float
    edp_ratio: float
    energy_reasons: tuple[str, ...]
    latency_reasons: tuple[str, ...]

    @property
    def says(self) -> tuple[str, ...]:
        """The step in lines: what changes, then causes of the energy and of the time."""
        energy, dynamic, time, edp = (
            f"{quantity(max(ratio, 1.0 / ratio), 'x')} {if_lower if ratio < 1.0 else if_higher}"
            for ratio, if_lower, if_higher in (
                (self.energy_ratio, "less energy", "the energy"),
                (self.dynamic_ratio, "less", "as much"),
                (self.latency_ratio, "faster", "the time"),
                (self.edp_ratio, "less EDP", "the EDP"),
            )
        )
        return (f"{energy} ({dynamic} without static power), {time}, {edp}",
                *(f"energy: {line}" for line in self.energy_reasons),
                *(f"time: {line.removeprefix('of the time, ')}" for line in self.latency_reasons))  # fmt: skip


class Progression(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer why MODEL CPU GPU TPU KPU`. Sides are about the node, steps about the model."""

    node: str
    sides: tuple[ArchitectureSide, ...]
    steps: tuple[ArchitectureStep, ...]


def family_rows(document: Progression) -> list[tuple[str, dict[str, float]]]:
    """Return each family with its energy on each device, the costliest family first; families without energy are left
    out."""
    rows = [(name, {side.device: side.energy_by_family_j[name] for side in document.sides}) for name in FAMILIES]
    return sorted((row for row in rows if any(row[1].values())), key=lambda row: -max(row[1].values()))


def make_progression(results: Sequence[Estimate], path: str = "") -> Progression:
    """Return a node ('' is the model) on each device, and the steps between them. Raises RequestError for fewer than
    two devices, or an unknown node."""
    if len(results) < 2:
        raise RequestError("a progression needs two devices or more, e.g. cpu gpu tpu kpu")
    sides = tuple(_side(result, path) for result in results)
    steps = tuple(_step(from_device, to_device) for from_device, to_device in pairwise(results))
    return Progression(**head_fields(results[0]), node=path, sides=sides, steps=steps)


def _side(result: Estimate, path: str) -> ArchitectureSide:
    members, of_node = operators_of(result, path), estimate_of_node(result, path)
    counts = of_node.run.scale_counts(of_node.run.counts)[:, members].sum(axis=1)
    energy_j = counts * of_node.run.prices.value / of_node.scenario.batch
    families = sum_by_family(of_node.events, energy_j).tolist()
    return ArchitectureSide(
        device=result.device.key, architecture=result.device.architecture, precision_run=result.precision_run,
        runtime=result.runtime.name, latency_s=float(of_node.run.latency_s[members].sum()),
        energy_j_per_inference=float(energy_j.sum()),
        energy_by_family_j=dict(zip(FAMILIES, families, strict=True)),
    )  # fmt: skip


def _step(from_device: Estimate, to_device: Estimate) -> ArchitectureStep:
    energy, latency = (explain(from_device, to_device, metric) for metric in ("energy", "latency"))
    return ArchitectureStep(
        from_device=short_name(from_device.device), to_device=short_name(to_device.device),
        energy_ratio=1.0 / energy.ratio, latency_ratio=1.0 / latency.ratio,
        dynamic_ratio=_dynamic_j(to_device) / (_dynamic_j(from_device) or 1.0),
        edp_ratio=1.0 / energy.ratio / latency.ratio,
        energy_reasons=energy.reasons[1:], latency_reasons=latency.reasons[1:],
    )  # fmt: skip


def _dynamic_j(result: Estimate) -> float:
    return (result.energy_j - result.component_j["static"]) / result.scenario.batch
