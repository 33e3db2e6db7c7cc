"""Find the least change of one fact with which a device matches another.

The size of a change is the logarithm of its factor. Costs have steps (tiles, waves, power limits), so each knob is
tried over its whole range.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import Column, column, columns
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.metrics import METRICS
from analysis.explore.odds import BEATS, probability
from analysis.explore.tuning.knob_bench import KNOB_METRICS, change_knobs, check_knobs, facts, nearest_factor
from hardware.errors import RequestError
from hardware.quantity import of_fact, percent, quantity
from hwexplorer import engine
from hwexplorer.declare import Report, Rows, Subject, summary_text
from hwexplorer.options import MODEL, OWN_MODEL, SCENARIO, name_list, option
from hwexplorer.state import State, other_device, replace
from hwexplorer.views.captions import scenario_words

FACTOR_MAX = 64.0  # of a knob, either way
_LIMIT = math.log(FACTOR_MAX)
_PLACES, _HALVINGS = 33, 12  # tried on the range of a knob, and between two of these
_WORTH = 0.01  # gain in ln of the metric that is worth a change which does not match


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One knob: the factor of its value (1: unchanged) and the changed value, None for a price or a rate."""

    knob: str
    factor: float
    value: float | None
    unit: str


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """One metric of both devices: `ratio` is A over B; `odds` of A being measured below B, None for EDP."""

    metric: str
    a: float
    b: float
    ratio: float
    odds: float | None


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """The least change of `knobs` and how the changed device compares. `device` is its name, '' if no change matches
    the other device; the turns are then those of the nearest change."""

    knobs: tuple[str, ...]
    device: Annotated[str, column("The device", keep=3)]
    turns: tuple[Turn, ...]
    goals: tuple[Goal, ...]
    size: Annotated[float, column("ln(factor)", keep=4, help="size of the change: the logarithm of the factor")]


class Crossover(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer crossover`: changes of A that match B, the smallest first."""

    a: str
    b: str
    metrics: tuple[str, ...]
    matches: bool
    goals: tuple[Goal, ...]
    ways: tuple[Way, ...]


def crossover(a: Estimate, b: Estimate, knobs: Sequence[str], metrics: tuple[str, ...]) -> Crossover:
    """Find the least change of A's device by each knob alone."""

    def gap(knob: str, change: float) -> float:
        """Return the largest ln(A / B) at a change, the logarithm of the factor; infinity for an invalid device."""
        try:
            result = change_knobs(a, {knob: nearest_factor(a.device, knob, math.exp(change))})
        except RequestError:
            return math.inf
        return max(math.log(METRICS[name].figure(result) / METRICS[name].figure(b)) for name in metrics)

    ways = [_way(a, b, metrics, knob, *_least_change(partial(gap, knob))) for knob in dict.fromkeys(knobs)]
    goals = _goals(a, b, metrics)
    return Crossover(
        **head_fields(a),
        a=a.device.key,
        b=b.device.key,
        metrics=metrics,
        matches=all(goal.ratio <= 1.0 for goal in goals),
        goals=goals,
        ways=tuple(sorted(ways, key=lambda way: (not way.device, way.size))),
    )


def _goals(a: Estimate, b: Estimate, metrics: tuple[str, ...]) -> tuple[Goal, ...]:
    goals = []
    for metric in metrics:
        value, goal = (METRICS[metric].figure(side) for side in (a, b))
        chance = probability(a, b, metric) if metric in BEATS else None
        goals.append(Goal(metric=metric, a=value, b=goal, ratio=value / goal, odds=chance))
    return tuple(goals)


def _least_change(gap: Callable[[float], float]) -> tuple[float, bool]:
    """Return the smallest change that closes the gap, and True; else the change with the least gap, and False."""
    gaps = {change: gap(change) for change in (0.0, *np.linspace(-_LIMIT, _LIMIT, _PLACES).tolist())}
    matching = [change for change, gap_left in gaps.items() if gap_left <= 0.0]
    if not matching:
        nearest = min(gaps, key=lambda change: gaps[change])
        return (nearest if gaps[nearest] < gaps[0.0] - _WORTH else 0.0), False
    smallest = min(matching, key=abs)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS if smallest else 0):
        middle = (low + high) / 2
        low, high = (low, middle) if gap(smallest * middle) <= 0.0 else (middle, high)
    return smallest * high, True


def _way(a: Estimate, b: Estimate, metrics: tuple[str, ...], knob: str, change: float, matches: bool) -> Way:
    factor = nearest_factor(a.device, knob, math.exp(change))
    result = change_knobs(a, {knob: factor})
    fact = result.device.facts.get(knob)
    value, unit = (fact.value, fact.unit) if fact is not None else (None, "")
    return Way(
        knobs=(knob,),
        device=result.device.key if matches else "",
        turns=(Turn(knob=knob, factor=factor, value=value, unit=unit),),
        goals=_goals(result, b, metrics),
        size=abs(math.log(factor)),
    )


# --- the verb ---------------------------------------------------------------------------------------------------------

# The knobs to try if none is named: facts that a designer chooses.
_LIKELY = ("units", "clock_hz", "matrix", "vector", "memory_bandwidth", "scratchpad_bytes", "l2_bytes", "launch_s",
           "process_nm", "array_rows")  # fmt: skip


def _change(way: Way) -> str:
    """Return the knobs that a way turns; if it turns none, all its knobs."""
    words = [
        f"{turn.knob} x {turn.factor:.3g}" + ("" if turn.value is None else f" = {of_fact(turn.value, turn.unit)}")
        for turn in way.turns
        if turn.factor != 1.0
    ]
    return ", ".join(words) or f"{', '.join(way.knobs)} as it is"


def _odds(goal: Goal) -> str:
    return "" if goal.odds is None else f" ({percent(goal.odds)} sure to be less)"


COLUMNS = (
    Column("change", "Change", role="text", keep=0, of=_change),
    Column("matches", "Matches", role="text", keep=0, of=lambda way: "yes" if way.device else "no"),
    *columns(Way, "size"),
    Column(
        "then", "Then", role="text", keep=1,
        of=lambda way: ", ".join(f"{g.ratio:.3g}x the {METRICS[g.metric].noun}{_odds(g)}" for g in way.goals),
        help="against the other device; how sure: with the bands of both",
    ),
    *columns(Way, "device"),
)  # fmt: skip


def _document(
    state: State, a: str | None, b: str | None, knob: list[tuple[str, ...]] | None, measures: tuple[str, ...] | None
) -> Crossover:
    base, goal = map(engine.result, _states(state, a, b))
    names = [name for group in knob or () for name in check_knobs(base.device, group)]
    names = names or [name for name in _LIKELY if name in facts(base.device)]
    return crossover(base, goal, names, measures or ("edp",))


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
    names = [engine.result(side).runtime.name for side in _states(state, document.a, document.b)]
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
