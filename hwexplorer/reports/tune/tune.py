"""Show what each fact of a device does: effects of 1 %, and a curve over one of them.

Elasticities are computed on the unchanged device. The curve changes one knob and keeps the present changes of others.
"""

from collections.abc import Iterator

from analysis.document import Column, columns
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import METRICS
from analysis.explore import tuning
from hardware import what_if
from hardware.base.errors import unknown
from hardware.base.text import of_fact, percent, quantity
from hwexplorer import engine
from hwexplorer.answer import Answer
from hwexplorer.declare import DEVICE, Report, Rows
from hwexplorer.options import option
from hwexplorer.settings import NAMES
from hwexplorer.state import State, replace
from hwexplorer.views.captions import fact_words


def estimate_unchanged(state: State) -> Estimate:
    """Return the estimate of a state on its device without changes."""
    base = what_if.split_changes(state.on)[0]
    return engine.result(State(state.model, **{name: getattr(state, name) for name in NAMES}), base)


def step_selected_knob(state: State, by: int) -> State:
    """Return the state with its knob one step up (1) or down (-1), or reset (0). Raises RequestError."""
    knob = select_state_knob(state)
    changes = tuning.step_knob(engine.result(state), estimate_unchanged(state), knob, by)
    base = what_if.split_changes(state.on)[0]
    name = f"{base}{{{','.join(changes)}}}" if changes else base
    devices = tuple(name if device == state.on else device for device in state.devices)
    baseline = name if state.baseline == state.on else state.baseline
    return replace(state, devices=devices, on=name, baseline=baseline, fact=knob)


def select_state_knob(state: State) -> str:
    """Return the knob that a state names, or the knob of the first row if the device does not have it."""
    return tuning.select_knob(estimate_unchanged(state), state.fact, state.metric)


def _document(state: State) -> tuning.KnobReport:
    if state.fact and state.fact != select_state_knob(state):
        raise unknown(
            f"knob of {what_if.split_changes(state.on)[0]}",
            state.fact,
            tuning.knob_table(estimate_unchanged(state)).names,
        )
    return tuning.knobs(engine.result(state), estimate_unchanged(state), state.fact, state.metric)


def _short_amount(value: float, unit: str) -> str:
    """Write an amount with the first word of its unit: `J/warp` for J/warp instruction."""
    return of_fact(value, unit.partition(" ")[0])


_BEFORE = (
    Column("metric", "Metric", role="text", keep=0, of=lambda row: METRICS[row.metric].title),
    Column("now", "Now", role="text", keep=0, of=lambda row: quantity(row.now, METRICS[row.metric].unit)),
    Column("was", "Unchanged", role="text", keep=0, of=lambda row: quantity(row.was, METRICS[row.metric].unit)),
    Column("change", "Change", "%", role="delta", keep=0, of=lambda row: row.now / row.was - 1),
)


def _curve_rows(document: tuning.KnobReport) -> list[tuple[tuning.CurvePoint, str, str]]:
    nearest = min(document.curve, key=lambda point: abs(point.value - document.value), default=None)
    marks = ("now" * (point is nearest) + " knee" * (point.value == document.knee) for point in document.curve)
    amounts = (_short_amount(point.value, document.unit) for point in document.curve)
    return list(zip(document.curve, amounts, marks, strict=True))


_CURVE = (
    Column("value", "Value", role="text", keep=0, of=lambda row: row[1]),
    Column("factor", "Factor", "x", keep=0, of=lambda row: row[0].factor, help="multiple of the unchanged value"),
    Column("latency", "Latency", "s", role="quantity", keep=0, of=lambda row: row[0].latency_s),
    Column("energy", "Energy", "J", role="quantity", keep=0, help="per inference",
           of=lambda row: row[0].energy_j_per_inference),
    Column("edp", "EDP", "Js", role="quantity", keep=0, of=lambda row: row[0].edp_js),
    Column("mark", "", role="text", keep=0, of=lambda row: row[2], help="now, and the knee: past it a step gains less"),
)  # fmt: skip
COLUMNS = (
    Column("parameter", "Parameter", role="text", keep=0, help="a fact of the device, or the energy of an event",
           of=lambda knob: fact_words(knob.name)),
    *columns(tuning.KnobRow, "name"),
    Column("value", "Now", role="text", keep=0, of=lambda knob: _short_amount(knob.value, knob.unit)),
    Column("was", "Was", role="text", keep=1, help="change against the unchanged device",
           of=lambda knob: _short_amount(knob.was, knob.unit) if knob.was != knob.value else ""),
    *columns(tuning.KnobRow, "latency energy edp"),
    Column("way", "Range", role="text", keep=4,
           of=lambda knob: f"{_short_amount(knob.least, knob.unit)} to {_short_amount(knob.most, knob.unit)}"),
    *columns(tuning.KnobRow, "quality source"),
)  # fmt: skip


def _curve_title(document: tuning.KnobReport) -> str:
    """Return the knob with the ends of its curve, which is empty until it is evaluated."""
    ends = [_short_amount(point.value, document.unit) for point in document.curve]
    span = f" from {ends[0]} to {ends[-1]}; past the knee a step gains less" if ends else ""
    return fact_words(document.knob) + span


def _remarks(document: tuning.KnobReport, state: State) -> Iterator[str]:
    """Say what prices move where the power limit binds, and why a higher clock saves energy if it does."""
    if document.free_limit_w is not None:
        limit, free = (quantity(watts, "W") for watts in (document.power_limit_w, document.free_limit_w))
        yield (
            f"The limit of {limit} binds {percent(document.limited_share)} of the time: there, cheaper events raise "
            f"the clock and move the energy little. From {free} on it does not bind, and a price moves it by its share."
        )
    if any(knob.name == "clock_hz" and (knob.energy or 0.0) < 0.0 for knob in document.knobs):
        yield "A higher clock saves energy: power at rest, or at the limit, is drawn for less time."


# Brief text has the metrics that changed, few points of the curve, and the earlier values if a knob is turned.
_FACTORS = (0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 10.0)
_BRIEF_BEFORE = {"of": lambda document: [row for row in document.before if row.now != row.was], "optional": True}
_BRIEF_CURVE = {
    "title": _curve_title,
    "of": lambda document: [row for row in _curve_rows(document) if row[2] or row[0].factor in _FACTORS],
}
_BRIEF_KNOBS = {
    "without": lambda document: () if any(knob.was != knob.value for knob in document.knobs) else ("was",),
    "first": 15,
}

VERB = Report(
    subject=DEVICE,
    options=(
        option("--knob", dest="fact", metavar="FACT",
               help="the fact or price whose curve is shown (default: what matters most)"),
    ),
    document=_document,
    parts=(
        Rows("before", "", _BEFORE, key="metric", brief=_BRIEF_BEFORE),
        Rows("curve", lambda document: document.knob, _CURVE, of=_curve_rows, brief=_BRIEF_CURVE),
        Rows(
            "knobs", lambda document: "Change in % for 1 % more of each fact or price, the largest effect on "
            f"{METRICS[document.metric].noun} first", COLUMNS, key="name", brief=_BRIEF_KNOBS, notes=_remarks,
        ),
    ),
    title="Knobs",
    pane=lambda state: Answer("tune", replace(state, fact=select_state_knob(state))).view(),
    on_screen=False,
    examples={"tune": "conv2d --on kpu_t256{clock_hz*0.8} --knob clock_hz"},
)  # fmt: skip
