"""Explain a model on several architectures in turn: energy by what they share, and the causes of each step.

Energy is divided by the families of events that all architectures share; each step from one device to the next by its
causes.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise, repeat

import msgspec

from analysis.document import Column
from analysis.estimate.causes import CAUSES, FAMILIES, cause_of_family, sum_by_family, sum_events
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.metrics import METRICS
from analysis.estimate.tree_figures import estimate_of_node, operators_of
from analysis.explore.odds import metric_ratio_band, probability
from analysis.explore.verdict import LIKELY, SURE
from analysis.text.headline import name_with_format, short_name
from hardware.base.errors import RequestError
from hardware.base.text import percent, quantity
from hwexplorer import engine
from hwexplorer.declare import Report, Subject
from hwexplorer.options import MODEL, NODE, ON_SEVERAL, OWN_MODEL, SCENARIO, option
from hwexplorer.reports.why.explain import explain
from hwexplorer.state import State
from hwexplorer.views.captions import MARKED, headline_of_state
from hwexplorer.views.plain import Page, Stack, Table, Text
from hwexplorer.views.tables import rows

_WORDS = {"energy": ("less energy", "the energy"), "latency": ("faster", "the time"), "edp": ("less EDP", "the EDP")}


def _ratio_words(metric: str, ratio: float) -> str:
    if_lower, if_higher = _WORDS.get(metric, ("less", "as much"))
    return f"{quantity(max(ratio, 1.0 / ratio), 'x')} {if_lower if ratio < 1.0 else if_higher}"


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
        ratios = (self.energy_ratio, self.dynamic_ratio, self.latency_ratio, self.edp_ratio)
        energy, dynamic, time, edp = map(_ratio_words, ("energy", "dynamic", "latency", "edp"), ratios)
        return (f"{energy} ({dynamic} without static power), {time}, {edp}",
                *(f"energy: {line}" for line in self.energy_reasons),
                *(f"time: {line.removeprefix('of the time, ')}" for line in self.latency_reasons))  # fmt: skip


class Progression(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer why MODEL CPU GPU TPU KPU`. Sides are about the node, steps about the model.
    `verdict` compares the last device with the best of the others, in energy, time and EDP."""

    node: str
    verdict: tuple[str, ...]
    sides: tuple[ArchitectureSide, ...]
    steps: tuple[ArchitectureStep, ...]


def make_progression(results: Sequence[Estimate], path: str = "") -> Progression:
    """Return a node ('' is the model) on each device, and the steps between them. Raises RequestError for fewer than
    two devices, or an unknown node."""
    if len(results) < 2:
        raise RequestError("a progression needs two devices or more, e.g. cpu gpu tpu kpu")
    sides = tuple(_side(result, path) for result in results)
    steps = tuple(_step(from_device, to_device) for from_device, to_device in pairwise(results))
    verdict = tuple(_verdict(results[-1], results[:-1], metric) for metric in _WORDS)
    return Progression(**head_fields(results[0]), node=path, verdict=verdict, sides=sides, steps=steps)


def _verdict(last: Estimate, others: Sequence[Estimate], metric: str) -> str:
    """Say by how much a device wins or loses against the best of others, with the band of the ratio, odds and cause."""
    rival = min(others, key=METRICS[metric].figure)
    ratio = METRICS[metric].figure(last) / METRICS[metric].figure(rival)
    low, high = metric_ratio_band(last, rival, metric)
    odds = max(probability(last, rival, metric), probability(rival, last, metric))
    verb, preposition = ("wins", "than") if ratio < 1.0 else ("loses", "of")
    name, rival_name = (name_with_format(short_name(run.device), run, (last, *others)) for run in (last, rival))
    likely = "" if odds >= SURE else "probably "
    head = f"{name} {likely}{verb}" if odds >= LIKELY else f"Too close to call for {name}"
    says = (
        f"{head}: {_ratio_words(metric, ratio)} {preposition} {rival_name}, the best of the others "
        f"({quantity(low, 'x')} to {quantity(high, 'x')} of it, {percent(odds)} sure)"
    )
    if metric == "edp":
        return says
    causes = explain(last, rival, metric).reasons[1:]
    cause = next((line.partition(": ")[2] for line in causes if line[:1].isdigit()), "")
    return f"{says}; {cause}" if cause else says


def _side(result: Estimate, path: str) -> ArchitectureSide:
    members, of_node = operators_of(result, path), estimate_of_node(result, path)
    energy_j = sum_events(of_node, members)[1] / of_node.scenario.batch
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


# --- the verb ---------------------------------------------------------------------------------------------------------


class _Family(msgspec.Struct, frozen=True):
    """A family of events and its energy on each device, J per inference."""

    name: str
    energy_j: dict[str, float]
    largest_j: float


def _with_devices(state: State, several: Sequence[str]) -> State:
    return msgspec.structs.replace(state, devices=tuple(several)) if several else state


def _document(state: State, several: Sequence[str]) -> Progression:
    devices = _with_devices(state, several).devices
    return make_progression([engine.result(state, name) for name in devices], state.at)


Bar = Callable[[str, _Family], float]


def _columns(document: Progression, bar: Bar) -> tuple[Column, ...]:
    columns = [Column("family", "Events", role="text", keep=0, of="name")]
    for side in document.sides:
        energy, share = partial(_energy_on, side.device), partial(bar, side.device)
        columns.append(Column(side.device, MARKED[side.device], "J", role="quantity", keep=0, of=energy))
        columns.append(Column(f"{side.device}_bar", "", "%", role="bar", keep=1, of=share))
    return tuple(columns)


def _energy_on(device: str, row: _Family) -> float:
    return row.energy_j[device]


def _bar_on(device: str, row: _Family) -> float:
    return row.energy_j[device] / row.largest_j


def _bar_by_cause(device: str, row: _Family) -> Stack:
    cause = cause_of_family(row.name)
    return Stack([_bar_on(device, row) * (place == cause) for place in range(len(CAUSES))])


def _table(document: Progression, bar: Bar) -> Table:
    """Return the families that take energy, the costliest first."""
    energies_j = [{side.device: side.energy_by_family_j[name] for side in document.sides} for name in FAMILIES]
    largest_j = max(max(energy_j.values()) for energy_j in energies_j) or 1.0
    families = map(_Family, FAMILIES, energies_j, repeat(largest_j))
    costly = (row for row in families if any(row.energy_j.values()))
    items = sorted(costly, key=lambda row: -max(row.energy_j.values()))
    runs = (
        f"{MARKED[side.device]}: {quantity(side.latency_s, 's')}, {quantity(side.energy_j_per_inference, 'J')}, "
        f"{side.precision_run}, {side.runtime}"
        for side in document.sides
    )
    columns = _columns(document, bar)
    title = f"Energy per inference of {document.node or document.model} by event family"
    return Table(
        "families",
        title,
        columns,
        rows(columns, items, key="name"),
        footer=("Shares are of the largest amount, on one scale for all devices", *runs),
    )


def family_table(state: State) -> Table:
    """Return the families of events on each device of the state, for its node, with bars in the colour of a cause."""
    return _table(_document(state, ()), _bar_by_cause)


def _view(state: State, several: Sequence[str]) -> Page:
    document, named = _document(state, several), _with_devices(state, several)
    table = _table(document, _bar_on)
    lines = tuple((f"{step.from_device} to {step.to_device}", step.says) for step in document.steps)
    steps = Text("steps", "Steps of the whole model", lines)
    verdict = Text("verdict", "", (("Answer", document.verdict),))
    return Page("progression", headline_of_state(named), (verdict, table, steps), csv=table)


VERB = Report(
    subject=Subject(options=(MODEL, *SCENARIO, *OWN_MODEL, ON_SEVERAL, NODE), several=True),
    options=(option("several", nargs="*", default=(), metavar="DEV", help="devices in turn: cpu gpu tpu kpu"),),
    document=_document,
    view=_view,
    on_screen=False,
    examples={"progression": "resnet18 xeon_8490h h100_sxm tpu_v4 kpu_t256"},
)
