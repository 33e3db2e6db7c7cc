"""The knobs of a chip: its facts and prices as they are and were, what each does, and one of them turned.

Elasticities are of the unchanged chip. The curve is of one knob over its way, with everything else as it is now.
"""

from __future__ import annotations

from functools import lru_cache

from analysis.document import Column, columns
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import METRICS
from analysis.estimate.scenario import Scenario
from analysis.explore.tuning.knob_curve import Knob, Knobs, Point, desk, knobs, looked_at, more
from analysis.explore.tuning.knob_curve import turned as turned_changes
from analysis.model.names.model_ref import ModelRef
from hardware import what_if
from hardware.errors import unknown
from hardware.quantity import of_fact, quantity
from hwexplorer import engine
from hwexplorer.declare import DEVICE, Report, Rows
from hwexplorer.options import option
from hwexplorer.state import State, replace
from hwexplorer.views.words import of_node


def unchanged(state: State) -> Estimate:
    """What a state is on its device without changes. What is found out of it is remembered with it, so it is kept."""
    base = what_if.split(state.on)[0]
    return _kept(engine.ref(state), engine.scenario(state), base, id(engine.device(base)), engine.revision())


@lru_cache(maxsize=8)  # the state on screen, the batches and precisions around it, a few of before
def _kept(ref: ModelRef, scenario: Scenario, base: str, device: int, revision: int) -> Estimate:
    return engine.ENGINE.estimate(ref, scenario, base)


def deepen(state: State) -> bool | None:
    """Evaluate one thing more of what the report shows: True where something is complete by it, None where nothing
    was left."""
    return more(engine.result(state), unchanged(state), state.fact, state.metric)


def turned(state: State, by: int) -> State:
    """The state with the knob that is looked at a step further, `by` 1 or -1, or put back (0). Raises RequestError."""
    knob = here(state)
    changes = turned_changes(engine.result(state), unchanged(state), knob, by)
    base = what_if.split(state.on)[0]
    name = f"{base}{{{','.join(changes)}}}" if changes else base
    devices = tuple(name if device == state.on else device for device in state.devices)
    baseline = name if state.baseline == state.on else state.baseline
    return replace(state, devices=devices, on=name, baseline=baseline, fact=knob)


def here(state: State) -> str:
    """The knob that is looked at: of what was named on another device the first one here."""
    return looked_at(unchanged(state), state.fact, state.metric)


def _document(state: State, at_once: bool = False) -> Knobs:
    if not at_once and state.fact and state.fact != here(state):
        raise unknown(f"knob of {what_if.split(state.on)[0]}", state.fact, desk(unchanged(state)).names)
    return knobs(engine.result(state), unchanged(state), state.fact, state.metric, at_once=at_once)


def _told(value: float, unit: str) -> str:
    """Without the tail of a long unit: `J/warp` of J/warp instruction."""
    return of_fact(value, unit.partition(" ")[0])


def _was(knob: Knob) -> str:
    return "" if knob.was == knob.value else _told(knob.was, knob.unit)


def _way(knob: Knob) -> str:
    return f"{_told(knob.least, knob.unit)} to {_told(knob.most, knob.unit)}"


_BEFORE = (
    Column("metric", "Metric", role="text", keep=0, of=lambda row: METRICS[row.metric].title),
    Column("now", "Now", role="text", keep=0, of=lambda row: quantity(row.now, METRICS[row.metric].unit)),
    Column("was", "Unchanged", role="text", keep=0, of=lambda row: quantity(row.was, METRICS[row.metric].unit)),
    Column("change", "Change", "%", role="delta", keep=0, of=lambda row: row.now / row.was - 1),
)


def _placed(document: Knobs) -> list[tuple[Point, str, str]]:
    """The points of the curve, the value of each, and what it is."""
    here = min(document.curve, key=lambda point: abs(point.value - document.value), default=None)
    return [
        (point, _told(point.value, document.unit), "now" * (point is here) + " knee" * (point.value == document.knee))
        for point in document.curve
    ]


_CURVE = (
    Column("value", "Value", role="text", keep=0, of=lambda placed: placed[1]),
    Column("factor", "Turned", "x", keep=0, of=lambda placed: placed[0].factor, help="times the unchanged value"),
    Column("latency", "Latency", "s", role="quantity", keep=0, of=lambda placed: placed[0].latency_s),
    Column(
        "energy", "Energy", "J", role="quantity", keep=0, of=lambda placed: placed[0].energy_j, help="per inference"
    ),
    Column("edp", "EDP", "Js", role="quantity", keep=0, of=lambda placed: placed[0].edp_js),
    Column(
        "mark", "", role="text", keep=0, of=lambda placed: placed[2], help="where it is, and where turning pays less"
    ),
)
COLUMNS = (
    *columns(Knob, "name"),
    Column("value", "Now", role="text", keep=0, of=lambda knob: _told(knob.value, knob.unit)),
    Column("was", "Was", role="text", keep=1, of=_was, help="unchanged, where it is turned"),
    *columns(Knob, "latency energy edp"),
    Column("way", "Turns from, to", role="text", keep=4, of=_way),
    *columns(Knob, "quality source"),
)

VERB = Report(
    subject=DEVICE,
    options=(
        option(
            "--knob",
            dest="fact",
            metavar="FACT",
            help="the fact or price whose curve is shown (default: what matters most)",
        ),
    ),
    document=_document,
    parts=(
        Rows(name="before", columns=_BEFORE, key="metric"),
        Rows(name="curve", title=lambda document: f"{document.knob} turned", columns=_CURVE, of=_placed),
        Rows(
            name="knobs",
            title=lambda document: f"Sorted by what it does to {document.metric}",
            columns=COLUMNS,
            key="name",
        ),
    ),
    title=lambda document, state: of_node("Knobs", state),
    on_screen=False,
    examples={"knobs": "conv2d --on kpu_t256{clock_hz*0.8} --knob clock_hz"},
)
