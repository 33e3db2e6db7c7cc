"""What is on screen against the pin, in one line: how much, and what makes most of the difference, and where.

`h100_sxm b8 vs tpu_v4 b8: EDP +29 %, 81 % of it DRAM energy, 60 % of that in layer3`. The difference of a product
is divided by Shapley (analysis/decide/explain.py), so the parts over causes and places add up to it.
"""

from __future__ import annotations

from collections import Counter

import msgspec
import numpy as np

from analysis.run.estimate import Estimate
from analysis.run.metrics import METRICS
from analysis.workload.workload import Floats
from hardware.remember import remembered
from hwexplorer import engine
from hwexplorer.format import delta
from hwexplorer.state import State, pinned
from hwexplorer.views import why as explanation
from hwexplorer.views.plain import Text

SHOWN = 8
BAR = 16
_TITLES = {"edp": "EDP", "energy": "energy", "latency": "latency"}


def verdict(state: State) -> str:
    """'' without a pin, or with deltas off."""
    other = pinned(state) if state.diff else None
    if other is None:
        return ""
    here, there = engine.result(state), engine.result(other)
    change = METRICS[state.metric].of(here) / (METRICS[state.metric].of(there) or 1.0) - 1
    head = f"{_name(here, there)} vs {_name(there, here)}: {_TITLES[state.metric]} {delta(change)}"
    if here.workload.name != there.workload.name or here.partition.id != there.partition.id:
        return f"{head} ({there.workload.name})"
    if abs(change) < 5e-4:
        return head
    return head + _mostly(*parts(here, there, state.metric))


def why(state: State) -> Text:
    """The explanation of the node; with a pin, first the verdict and the difference by cause, signed."""
    text = explanation.why(state)
    told = verdict(state)
    other = pinned(state)
    if not told or other is None:
        return text
    here, there = engine.result(state), engine.result(other)
    lines = [told]
    if here.workload.name == there.workload.name and here.partition.id == there.partition.id:
        found = waterfall(here, there, state.metric)
        lines += [f"{_signed(part)}\t{_bar(part, found[0][1])} {cause}" for cause, part in found[:SHOWN]]
        if rest := found[SHOWN:]:
            lines.append(f"{_signed(sum(part for _, part in rest))}\t{' ' * BAR} {len(rest)} more")
    rest_of = text.sections[1:] if text.sections and text.sections[0][0] == "Against the pin" else text.sections
    return msgspec.structs.replace(text, sections=(("Against the pin", tuple(lines)), *rest_of))


def _signed(fraction: float) -> str:
    return f"{fraction * 100:+,.0f} %" if abs(fraction) >= 0.0995 else f"{fraction * 100:+.1f} %"


def _bar(part: float, most: float) -> str:
    """Plus and minus signs: the largest part fills the bar."""
    length = max(1, round(BAR * abs(part) / (abs(most) or 1.0)))
    return ("+" if part > 0 else "-") * length + " " * (BAR - length)


def _name(result: Estimate, other: Estimate) -> str:
    """Short: the device and its batch, and the precision where that differs."""
    asked, precision = result.scenario, other.scenario.precision
    return f"{result.device.key} b{asked.batch}" + (f" {asked.precision}" if asked.precision != precision else "")


def parts(here: Estimate, there: Estimate, metric: str) -> tuple[Floats, tuple[str, ...], tuple[str, ...]]:
    """The difference of a metric by place and cause, (places, causes): adds up to it; and their names."""
    from analysis.decide.division import TIMES
    from analysis.run.families import FAMILIES

    ids = here.partition.id
    stage = stages(ids)
    places = tuple(dict.fromkeys(stage))
    where = np.array([places.index(name) for name in stage])
    energy = _energy(here) - _energy(there)
    time = _time(here) - _time(there)
    if metric == "edp":
        mean_time = (here.latency_s + there.latency_s) / 2
        mean_energy = (here.energy_j_per_inference + there.energy_j_per_inference) / 2
        energy, time = energy * mean_time, time * mean_energy
    elif metric == "energy":
        time = time * 0.0
    else:
        energy = energy * 0.0
    each = np.concatenate([energy, time], axis=1)
    found = np.zeros((len(places), each.shape[1]))
    np.add.at(found, where, each)
    causes = (*(f"{name.removesuffix(' power')} energy" for name in FAMILIES), *(f"{name} time" for name in TIMES))
    return found, places, causes


@remembered()
def _energy(result: Estimate) -> Floats:
    """Joules per inference by subgraph and family, computed once per estimate: the pinned side stays."""
    from analysis.run.families import FAMILIES, family_of

    price = np.zeros((len(FAMILIES), len(result.events)))  # of each event, in the row of its family
    for place, (event, value) in enumerate(zip(result.events, result.run.prices.value.tolist(), strict=True)):
        price[FAMILIES.index(family_of(event)), place] = value
    by_operator = price @ result.run.counts  # (families, operators)
    found = np.zeros((len(result.partition.id), len(FAMILIES)))
    np.add.at(found, result.partition.subgraph, by_operator.T)
    return np.asarray(found / result.scenario.batch, dtype=np.float64)


def _time(result: Estimate) -> Floats:
    """Seconds by subgraph and what kernels wait for, divided among operators as their latency is."""
    from analysis.decide.division import TIMES

    run, kernel = result.run, result.demand.kernel
    per_kernel = np.zeros((result.demand.n_kernels, len(TIMES)))
    per_kernel[np.arange(len(run.busy_s)), run.resource] = run.busy_s
    per_kernel[:, -2] = run.overhead_s
    per_kernel[:, -1] = run.kernel_s - run.unthrottled_s
    total = per_kernel.sum(axis=1)
    part = per_kernel / np.where(total > 0, total, 1.0)[:, None]
    found = np.zeros((len(result.partition.id), len(TIMES)))
    np.add.at(found, result.partition.subgraph, run.latency_s[:, None] * part[kernel])
    return found


def stages(ids: tuple[str, ...]) -> list[str]:
    """The part of the model each subgraph is in: the first level of its path where none holds most of them."""
    paths = [name.split("/")[0].split(".") for name in ids]
    for depth in range(1, max(map(len, paths), default=1) + 1):
        names = [".".join(path[:depth]) for path in paths]
        if max(Counter(names).values()) <= 0.6 * len(names):
            return names
    return list(ids)


def _mostly(found: Floats, places: tuple[str, ...], causes: tuple[str, ...]) -> str:
    """The largest cause that goes the way of the difference, and the place where most of it is."""
    whole = float(found.sum())
    by_cause = found.sum(axis=0) / whole
    cause = int(by_cause.argmax())
    told = f", {_part(float(by_cause[cause]))} {causes[cause]}"
    inside = found[:, cause] / whole
    place = int(inside.argmax())
    if len(places) > 1 and inside[place] > 0:
        share = float(inside[place]) / max(float(by_cause[cause]), 1e-12)
        if share <= 1.0:
            told += f", {share * 100:.0f} % of that in {places[place]}"
        else:
            told += f", most in {places[place]}"
    return told


def _part(fraction: float) -> str:
    return f"{fraction * 100:.0f} % of it" if fraction <= 1.005 else "more than all of it"


def waterfall(here: Estimate, there: Estimate, metric: str) -> list[tuple[str, float]]:
    """The difference by cause as fractions of the pinned value, the largest first; they add up to the change."""
    found, _, causes = parts(here, there, metric)
    base = METRICS[metric].of(there) or 1.0
    each = zip(causes, (found.sum(axis=0) / base).tolist(), strict=True)
    return sorted(((cause, part) for cause, part in each if abs(part) > 5e-4), key=lambda pair: -abs(pair[1]))
