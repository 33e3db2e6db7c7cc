"""Find the least change of one fact with which a device matches another."""

from __future__ import annotations

from analysis.document import Column, columns
from analysis.estimate.metrics import METRICS
from analysis.explore.tuning.knob_bench import KNOB_METRICS, check_knobs, facts
from analysis.explore.tuning.least_change import FACTOR_MAX, Crossover, Goal, Way
from analysis.explore.tuning.least_change import crossover as find
from hardware.quantity import of_fact, percent, quantity
from hwexplorer import engine
from hwexplorer.declare import Report, Rows, Subject, summary_text
from hwexplorer.options import MODEL, OWN_MODEL, SCENARIO, name_list, option
from hwexplorer.state import State, other_device, replace
from hwexplorer.views.captions import scenario_words

# The knobs to try if none is named: facts that a designer chooses.
_LIKELY = ("units", "clock_hz", "matrix", "vector", "memory_bandwidth", "scratchpad_bytes", "l2_bytes", "launch_s",
           "process_nm", "array_rows")  # fmt: skip


def _change(way: Way) -> str:
    """Return the knobs that a way turns; if it turns none, all its knobs."""
    turned = [
        f"{turn.knob} x {turn.factor:.3g}" + ("" if turn.value is None else f" = {of_fact(turn.value, turn.unit)}")
        for turn in way.turns
        if turn.factor != 1.0
    ]
    return ", ".join(turned) or f"{', '.join(way.knobs)} as it is"


def _odds(goal: Goal) -> str:
    return "" if goal.odds is None else f" ({percent(goal.odds)} sure to be less)"


COLUMNS = (
    Column("change", "Change", role="text", keep=0, of=_change),
    Column("matches", "Matches", role="text", keep=0, of=lambda way: "yes" if way.device else "no"),
    *columns(Way, "size"),
    Column(
        "then", "Then", role="text", keep=1,
        of=lambda way: ", ".join(f"{one.ratio:.3g}x the {METRICS[one.metric].noun}{_odds(one)}" for one in way.goals),
        help="against the other device; how sure: with the bands of both",
    ),
    *columns(Way, "device"),
)  # fmt: skip


def _document(
    state: State, a: str | None, b: str | None, knob: list[tuple[str, ...]] | None, measures: tuple[str, ...] | None
) -> Crossover:
    first, second = map(engine.result, _states(state, a, b))
    names = [name for one in knob or () for name in check_knobs(first.device, one)]
    names = names or [name for name in _LIKELY if name in facts(first.device)]
    return find(first, second, names, measures or ("edp",))


def _states(state: State, a: str | None, b: str | None, **_: object) -> tuple[State, ...]:
    return tuple(replace(state, devices=(name,), on=name) for name in (a or state.on, b or other_device(state)))


def _summary(document: Crossover, state: State) -> tuple[str, ...]:
    lines = [
        f"now {METRICS[goal.metric].noun} is {quantity(goal.a, METRICS[goal.metric].unit)} against "
        f"{quantity(goal.b, METRICS[goal.metric].unit)}: {goal.ratio:.3g}x{_odds(goal)}"
        for goal in document.goals
    ]
    if document.matches:
        answer = f"{document.a} matches {document.b} without a change"
    elif any(way.device for way in document.ways):
        answer = f"{document.a} matches {document.b} with the smallest change below that is marked yes"
    else:
        answer = f"no change of one fact by up to {FACTOR_MAX:g}x is enough; the nearest ones are listed"
    return (answer, *lines)


def _runtime_words(state: State, document: Crossover) -> str:
    """Return the software of both devices: `OpenVINO against TensorRT`."""
    names = [engine.result(each).runtime.name for each in _states(state, document.a, document.b)]
    return " against ".join(dict.fromkeys(names))


VERB = Report(
    subject=Subject(options=(MODEL, *SCENARIO, *OWN_MODEL), several=True),
    options=(
        option("a", metavar="A", help="the device to change"),
        option("b", metavar="B", help="the device to match"),
        option(
            "--knob",
            type=name_list("knob"),
            action="append",
            metavar="FACT,..",
            help="facts or prices to change, each alone: clock_hz,units",
        ),
        option(
            "--metric",
            type=name_list("metric", KNOB_METRICS),
            dest="measures",
            metavar="M,..",
            help=f"what must match: {', '.join(KNOB_METRICS)} (default edp)",
        ),
    ),
    document=_document,
    states=_states,
    title=lambda document, state: (
        f"What {document.a} needs to match {document.b} in {' and '.join(METRICS[m].noun for m in document.metrics)}: "
        f"{document.model}, {scenario_words(state, _runtime_words(state, document))}"
    ),
    parts=(summary_text(_summary), Rows("ways", "Changes, the smallest first", COLUMNS)),
    on_screen=False,
    examples={"crossover": "conv2d kpu_t256 tpu_v4 --knob clock_hz,units,matrix --metric latency"},
)
