"""Attribution of a difference between two estimates of one model, in several ways that each add up to it.

EDP is a product, so its difference is attributed by Shapley: `de * mean(t) + dt * mean(e)`.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from analysis.estimate.causes import FAMILIES, STEPS, causes, family_energy, steps
from analysis.estimate.estimate import COMPONENTS, Estimate, estimate
from analysis.estimate.host_work import divide_host_work
from analysis.estimate.kernels import structure
from analysis.estimate.outline import host_branches
from analysis.estimate.peak_memory import allocation_bytes, lifetimes
from analysis.model.ir.workload import Floats
from hardware.base.text import quantity
from hardware.engines.runtime import LIKE_FOR_LIKE
from hardware.execute import BOUNDS, LAUNCH, RESOURCES

_ROUNDING = 1e-12  # relative difference that counts as zero
CANCELLING = 2.0  # times the whole difference: larger parts are stated as amounts
WORTH_SAYING = 0.05  # deviation from 1 of a ratio by software that is worth naming
TIMES = (*RESOURCES, "launch", "power limit")


class Part(msgspec.Struct, frozen=True):
    """One part of both sides, in the unit of the metric. `fraction` is its share of the whole difference (0 if both are
    equal). For EDP, `a` and `b` are Shapley shares of the EDP of each side."""

    name: str
    a: float
    b: float
    difference: float
    fraction: float


Groups = dict[str, tuple[Part, ...]]


def attribute(a: Estimate, b: Estimate, metric: str, per_inference: bool) -> Groups:
    """Attribute the difference of a metric. Return the parts for each way of attributing it, by the name of the way."""
    if metric == "memory":
        return _attribute_memory(a, b)
    if metric == "edp":
        return _attribute_edp(a, b)
    if metric == "energy":
        energies_a, energies_b = _energies(a, per_inference), _energies(b, per_inference)
        names = {"component": COMPONENTS, "family": FAMILIES, "subgraph": _subgraphs(a, b)}
    else:
        energies_a, energies_b = (
            (
                time_parts(side),
                steps(causes(side).sum_over(slice(None))).sum(axis=1),
                _with_host(side, "latency_s"),
            )
            for side in (a, b)
        )
        names = {"cause": TIMES, "step": STEPS, "subgraph": _subgraphs(a, b)}
    return {
        way: list_parts(labels, x, y, is_sorted=way == "subgraph")
        for (way, labels), x, y in zip(names.items(), energies_a, energies_b, strict=True)
    }


def list_parts(names: Sequence[str], a: Floats, b: Floats, is_sorted: bool = True) -> tuple[Part, ...]:
    """Return the parts of a difference by name, the largest first if `is_sorted`, else in the order of `names`."""
    difference = a - b
    total = float(difference.sum())
    if abs(total) < _ROUNDING * float(np.abs(a).sum() + np.abs(b).sum()):
        total = np.inf  # the sides are equal but for rounding
    return _sorted_parts(names, a, b, difference, total, is_sorted)


def parts_cancel(parts: Sequence[Part]) -> bool:
    """Return True if a part is so much larger than the whole difference that its share means nothing."""
    return any(abs(part.fraction) > CANCELLING for part in parts)


def is_comparable(here: Estimate, there: Estimate) -> bool:
    """Return True if both estimates are of the same model in the same subgraphs."""
    return here.workload.name == there.workload.name and here.partition.id == there.partition.id


def _sorted_parts(
    names: Sequence[str], a: Floats, b: Floats, difference: Floats, total: float, is_sorted: bool = True
) -> tuple[Part, ...]:
    order = np.argsort(-np.abs(difference), kind="stable") if is_sorted else np.arange(len(names))
    columns = (a.tolist(), b.tolist(), difference.tolist(), (difference / total).tolist())
    return tuple(Part(names[i], *(column[i] for column in columns)) for i in order.tolist())


# --- energy and latency -----------------------------------------------------------------------------------


def _energies(result: Estimate, per_inference: bool) -> tuple[Floats, Floats, Floats]:
    """Return the energy by component (3,), family (8,), and subgraph and host (s + 1,), J."""
    scale = 1.0 / result.scenario.batch if per_inference else 1.0
    component = np.array(list(result.component_j.values()))
    return component * scale, family_energy(result) * scale, _with_host(result, "energy_j") * scale


def _with_host(result: Estimate, figure: str) -> Floats:
    """Return a figure of the run by subgraph, followed by that of the host's work between kernels, (s + 1,)."""
    rest, host = divide_host_work(result)
    return np.append(result.partition.total(getattr(rest.run, figure)), getattr(host.run, figure).sum() if host else 0)


def _subgraphs(a: Estimate, b: Estimate) -> tuple[str, ...]:
    """Return the names of the parts of `_with_host`."""
    return (*a.partition.id, next((branch.name for side in (a, b) for branch in host_branches(side)), "host"))


def time_parts(result: Estimate) -> Floats:
    """Return the latency by the resource that each kernel waits for, in the order of TIMES, shape (6,), s. Attention
    blocks that fill count as the matrix unit, kernels that quantise or cast as DRAM."""
    run = result.run
    at_work = run.busy_s - run.serial_s.sum(axis=0)
    times = np.bincount(run.resource, at_work, minlength=len(RESOURCES)).astype(np.float64)
    times[[RESOURCES.index("matrix unit"), RESOURCES.index("DRAM")]] += run.serial_s.sum(axis=1)
    throttled = float((run.kernel_s - run.unthrottled_s).sum())
    return np.array([*times, float(run.overhead_s.sum()), throttled])


# --- memory -----------------------------------------------------------------------------------------------


def live_at_peak(result: Estimate) -> dict[str, float]:
    """Return the bytes held at the memory peak: weights, workspace, and each live activation by name."""
    workload, memory = result.workload, result.memory
    held_bytes = {"weights": memory.weight_bytes, "workspace": memory.workspace_peak_bytes}
    if not workload.n_operators:
        return held_bytes
    kernel = int(structure(workload, result.joins).kernel[memory.peak_at])
    lives = lifetimes(workload, result.joins)
    sizes = allocation_bytes(workload, lives, result.wave_batch, result.plan.widths)
    for row in np.flatnonzero((lives.first <= kernel) & (lives.last >= kernel)).tolist():
        name = f"activation {workload.tensors.name[int(lives.tensor[row])]}"
        held_bytes[name] = held_bytes.get(name, 0.0) + float(sizes[row])
    return held_bytes


def _attribute_memory(a: Estimate, b: Estimate) -> Groups:
    live = [live_at_peak(side) for side in (a, b)]
    names = tuple(sorted({*live[0], *live[1]}))  # an order that does not depend on which side is named first
    mine, theirs = (np.array([held.get(name, 0.0) for name in names]) for held in live)
    kind_a, kind_b = (
        np.array([held.weight_bytes, held.activation_peak_bytes, held.workspace_peak_bytes])
        for held in (a.memory, b.memory)
    )
    return {
        "kind": list_parts(("weights", "activations", "workspace"), kind_a, kind_b, is_sorted=False),
        "live at the peak": list_parts(names, mine, theirs),
    }


# --- EDP --------------------------------------------------------------------------------------------------


def _shapley(
    names: Sequence[str], energies: Sequence[Floats], times: Sequence[Floats], a: Estimate, b: Estimate
) -> tuple[Part, ...]:
    """Attribute the difference of e x t: each part of one factor is weighed with the mean of the other factor."""
    energy_j = [side.energy_j_per_inference for side in (a, b)]
    latency_s = [a.latency_s, b.latency_s]
    by_energy = (energies[0] - energies[1]) * (latency_s[0] + latency_s[1]) / 2
    difference = by_energy + (times[0] - times[1]) * (energy_j[0] + energy_j[1]) / 2
    own_js, rest_js = (0.5 * (energies[i] * latency_s[i] + times[i] * energy_j[i]) for i in range(2))
    return _sorted_parts(names, own_js, rest_js, difference, float(difference.sum()) or np.inf)


def _attribute_edp(a: Estimate, b: Estimate) -> Groups:
    sides = [(*_energies(side, True), time_parts(side), _with_host(side, "latency_s")) for side in (a, b)]
    no_energy, no_time = np.zeros(len(FAMILIES)), np.zeros(len(TIMES))
    causes = (*(f"energy: {name}" for name in FAMILIES), *(f"time: {name}" for name in TIMES))
    return {
        "factor": _shapley(
            ("energy", "latency"),
            [np.array([component.sum(), 0.0]) for component, *_ in sides],
            [np.array([0.0, times.sum()]) for *_, times, _ in sides],
            a, b,
        ),
        "cause": _shapley(
            causes,
            [np.concatenate([family, no_time]) for _, family, *_ in sides],
            [np.concatenate([no_energy, times]) for *_, times, _ in sides],
            a, b,
        ),
        "subgraph": _shapley(
            _subgraphs(a, b), [subgraph for _, _, subgraph, *_ in sides], [times for *_, times in sides], a, b
        ),
    }  # fmt: skip


# --- by software and chip ---------------------------------------------------------------------------------


class SoftwareShare(msgspec.Struct, frozen=True):
    """`ratio` of two latencies = `software` x `chip`; `chip` is the ratio with ahead-of-time compilers on both."""

    ratio: float
    software: float
    chip: float
    cause: str

    def describe(self) -> str:
        """Write the ratio as a product: `20x (chip) / 8.7x (software: ..)`, where the software makes up for a part."""
        parts = sorted(((self.chip, "chip"), (self.software, self.cause)), key=lambda part: part[0] < 1.0)
        words = [f"{quantity(max(ratio, 1.0 / ratio), 'x', digits=2)} ({name})" for ratio, name in parts]
        return f"{words[0]} {'/' if parts[1][0] < 1.0 else 'x'} {words[1]}"


def attribute_to_software(slower: Estimate, quicker: Estimate) -> SoftwareShare | None:
    """Attribute the ratio of two latencies; None if the software's part is too small to name."""
    if not slower.latency_s or not quicker.latency_s:
        return None
    sides = slower, quicker
    alike = [
        estimate(side.workload, side.device, msgspec.structs.replace(side.scenario, execution=LIKE_FOR_LIKE))
        for side in sides
    ]
    penalties = [side.latency_s / (copy.latency_s or 1.0) for side, copy in zip(sides, alike, strict=True)]
    ratio, chip = slower.latency_s / quicker.latency_s, alike[0].latency_s / (alike[1].latency_s or 1.0)
    software = ratio / chip
    if abs(software - 1.0) < WORTH_SAYING:
        return None
    responsible = sides[0 if penalties[0] >= penalties[1] else 1]
    waits = responsible.runtime.mode != "fused" and responsible.bound == BOUNDS[LAUNCH]
    names = " against ".join(dict.fromkeys(side.runtime.name for side in sides))
    return SoftwareShare(ratio, software, chip, f"{'host dispatch' if waits else 'software'}: {names}")


def software_words(one: Estimate, other: Estimate) -> str:
    """Return how chip and software make one of two slower; '' if too little is due to software."""
    software = attribute_to_software(*sorted((one, other), key=lambda side: -side.latency_s))
    return "" if software is None else software.describe()
