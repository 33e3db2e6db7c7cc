"""Explain a model on several architectures in turn: energy by what they share, and the causes of each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from analysis.document import Column
from analysis.estimate.causes import CAUSES, cause_of_family
from analysis.explore.architecture_steps import Progression, family_rows, make_progression
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.declare import Report, Subject
from hwexplorer.options import MODEL, NODE, ON_SEVERAL, OWN_MODEL, SCENARIO, option
from hwexplorer.state import State
from hwexplorer.views.captions import MARKED, headline_of_state
from hwexplorer.views.plain import Page, Stack, Table, Text
from hwexplorer.views.tables import rows


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
        columns.append(Column(side.device, side.device, "J", role="quantity", keep=0, of=energy))
        mark = MARKED[side.device].removeprefix(side.device).strip()
        columns.append(Column(f"{side.device}_bar", mark, "%", role="bar", keep=1, of=share))
    return tuple(columns)


def _energy_on(device: str, row: _Family) -> float:
    return row.energy_j[device]


def _bar_on(device: str, row: _Family) -> float:
    return row.energy_j[device] / row.largest_j


def _bar_by_cause(device: str, row: _Family) -> Stack:
    cause = cause_of_family(row.name)
    return Stack([_bar_on(device, row) * (place == cause) for place in range(len(CAUSES))])


def _table(document: Progression, bar: Bar) -> Table:
    families = family_rows(document)
    largest_j = max((max(energy_j.values()) for _, energy_j in families), default=1.0)
    items = [_Family(name, energy_j, largest_j) for name, energy_j in families]
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
        footer=("Bars are shares of the largest amount, on one scale for all devices", *runs),
    )


def family_table(state: State) -> Table:
    """Return the families of events on each device of the state, for its node, with bars in the colour of a cause."""
    return _table(_document(state, ()), _bar_by_cause)


def _view(state: State, several: Sequence[str]) -> Page:
    document, named = _document(state, several), _with_devices(state, several)
    table = _table(document, _bar_on)
    lines = tuple((f"{step.from_device} to {step.to_device}", step.says) for step in document.steps)
    steps = Text("steps", "Steps of the whole model", lines)
    return Page("progression", headline_of_state(named), (table, steps), csv=table)


VERB = Report(
    subject=Subject(options=(MODEL, *SCENARIO, *OWN_MODEL, ON_SEVERAL, NODE), several=True),
    options=(option("several", nargs="*", default=(), metavar="DEV", help="devices in turn: cpu gpu tpu kpu"),),
    document=_document,
    view=_view,
    on_screen=False,
    examples={"progression": "resnet18 xeon_8490h h100_sxm tpu_v4 kpu_t256"},
)
