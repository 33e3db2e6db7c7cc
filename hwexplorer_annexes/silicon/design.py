"""Design search: evaluates a grid of changes of a chip by their cost over several models.

A design is a what-if device (hardware/what_if.py). It holds a limit of power by a lower clock. Its score is a metric of
its `total` over that of the base: the weighted geometric mean over models, or, for a mission or models at rates, one
second of the mission, at rest included. The front is of the same totals. Lower is better.
"""

import itertools
import math
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import numpy as np

from hwexplorer.extend import (
    METRICS,
    Constraint,
    Device,
    Ranking,
    RequestError,
    area,
    declare,
    document,
    engine,
    execute,
    mission,
    options,
    try_each,
    tuning,
    what_if,
)
from hwexplorer.extend import state as states
from hwexplorer.extend import text as text_module

Column = document.Column
ModelCost = tuning.ModelCost
count_noun, percent, quantity = text_module.count_noun, text_module.percent, text_module.quantity

DESIGNS_MAX = 1_000_000
_ROUNDING = 1.0 + 1e-6  # a design that a limit of power throttles is at this limit
_OBJECTIVES = ("area", "latency", "energy")  # of the front; they order designs of equal score, so it holds the best
_REFUSALS = {"power": "it draws more power than allowed", "area": "its die is larger than allowed"}


class DesignKnob(msgspec.Struct, frozen=True):
    """A fact and its candidate values in SI units."""

    name: str
    values: tuple[float, ...]

    def change(self, value: float) -> what_if.Change:
        """Return the change that sets the fact to a value."""
        return what_if.Change(
            self.name, "=", f"{value:.10g}x{value:.10g}" if self.name == what_if.ARRAY else f"{value:.10g}"
        )


class DesignStudy(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a search: tasks with their weights, whose estimates `find` returns, or the mission `asked` for,
    which they are part of; limits of `power` in W and `area` in mm2."""

    base: Device
    knobs: tuple[DesignKnob, ...]
    tasks: tuple[mission.Task, ...]
    weights: tuple[float, ...] = ()
    asked: mission.Mission | None = None
    find: mission.Find
    metric: str
    limits: tuple[Constraint, ...] = ()


class Design(msgspec.Struct, frozen=True, kw_only=True):
    """One design with its cost for each model of the study, and their `total`: weighted geometric means, or busy time
    and energy of one second of a mission, of which the chip draws `rest_w` when it waits. `binds` is the share of time
    by what limits it, the most first. `refused` says why it is invalid or violates a limit."""

    device: str
    values: tuple[float, ...]
    changes: str = ""
    costs: tuple[ModelCost, ...] = ()
    total: ModelCost = ModelCost(math.inf, math.inf)
    rest_w: float = 0.0
    score: float = math.inf
    power_w: float = 0.0
    area_mm2: float = 0.0
    dies: int = 1
    cost_usd: float = 0.0
    binds: dict[str, float] = {}
    refused: str = ""

    def sort_key(self, metric: str) -> float:
        """Return the score, the area, or a metric of the total."""
        own = {"score": self.score, "area": self.area_mm2}
        return own[metric] if metric in own else METRICS[metric].figure(self.total)


class DesignReport(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer tune design`: `best` designs by score, and the Pareto `front` of latency and energy
    of their totals and of area. `as_it_is` is the base; `why_refused` is the most common reason. `excluded` would be
    better than the best but for the `limits`, in W and mm2."""

    base: str
    knobs: tuple[DesignKnob, ...]
    models: tuple[str, ...]
    metric: str
    is_mission: bool
    evaluated: int
    refused: int
    as_it_is: Design
    best: tuple[Design, ...]
    front: tuple[Design, ...]
    why_refused: str
    excluded: Design | None = None
    limits: dict[str, float] = {}


def parse_knob(device: Device, text: str) -> DesignKnob:
    """Parse a range in steps of two, `units=64..1024`, or a list of values, `units=64|256`. Raises RequestError."""
    name, equals, written = text.partition("=")
    least, dots, most = written.partition("..")
    if not equals or not written:
        raise RequestError(f"knob {text[:40]!r}: expected a fact and its range, e.g. units=64..1024 or units=64|256")
    full, unit = what_if.find_field(device, name)
    values = [what_if.parse_value(value, unit) for value in ((least, most) if dots else written.split("|"))]
    if dots and not 0 < values[0] < values[1]:
        raise RequestError(f"knob {text[:40]!r}: expected a range from a value above 0 to a larger one")
    for value in values:
        try:
            what_if.check_value(value, unit)
        except ValueError as error:
            raise RequestError(f"knob {text[:40]!r}: {error}") from None
    if dots:  # doublings, and the largest value, which need not be one
        values[:1] = [values[0] * 2.0**i for i in range(math.ceil(math.log2(values[1] / values[0]) - 1e-9))]
    return DesignKnob(full, tuple(sorted(set(values))))


def _within_power(study: DesignStudy) -> DesignStudy:
    """Return the study with a base that holds the limit of power."""
    most_w = min((limit.amount for limit in study.limits if limit.figure == "power"), default=math.inf)
    if study.base.power_limit_w <= most_w:
        return study
    held = what_if.apply_changes(study.base, (what_if.Change("power_limit_w", "=", f"{most_w:.10g}"),))
    return msgspec.structs.replace(study, base=held)


def _design(study: DesignStudy, unchanged: Design, values: tuple[float, ...]) -> Design:
    """Return the design of some values with its score. Raises RequestError for a chip that cannot be."""
    changes = tuple(knob.change(value) for knob, value in zip(study.knobs, values, strict=True))
    try:
        device = what_if.apply_changes(study.base, changes)
    except RequestError as error:
        raise RequestError(str(error).rpartition("}: ")[2]) from None
    design = _evaluate(study, device, values)
    figure = METRICS[study.metric].figure
    design = msgspec.structs.replace(design, score=figure(design.total) / figure(unchanged.total))
    limited = {"power": design.power_w, "area": design.area_mm2}
    broken = (_REFUSALS[limit.figure] for limit in study.limits if limit.excess(limited[limit.figure]) > _ROUNDING)
    return msgspec.structs.replace(design, refused=design.refused or next(broken, ""))


def _evaluate(study: DesignStudy, device: Device, values: tuple[float, ...]) -> Design:
    """Return the design with the cost of each model, its highest power, and why it is refused if a model does not fit
    in memory or its units cannot do the mission."""
    results = [study.find(task, device.key) for task in study.tasks]
    refused = next((f"{result.workload.name} does not fit in memory" for result in results if not result.fits), "")
    costs, rest_w = tuple(document.record(ModelCost, result) for result in results), 0.0
    weights = study.weights or tuple(task.rate_hz or 1.0 for task in study.tasks)
    if study.asked is None:
        logs = np.log([(cost.latency_s, cost.energy_j_per_inference) for cost in costs])
        total = ModelCost(*np.exp(np.average(logs, axis=0, weights=weights)).tolist())
    else:
        answer = mission.divide_tasks(study.asked, mission.module_units(device, engine.device), study.find)
        busy_s = sum((task.rate_hz or task.done_hz) * task.busy_s for task in answer.tasks)
        total, rest_w = ModelCost(busy_s, answer.power_w), answer.rest_w + answer.host_w
        refused = refused or ("" if answer.is_possible else answer.why)
    size, seconds = area(device, True), np.array([result.bound_s for result in results]).T @ np.array(weights)
    binds = {
        execute.BOUNDS[place]: float(seconds[place] / seconds.sum()) for place in np.argsort(-seconds) if seconds[place]
    }
    return document.record(
        Design, size, device=device.key, values=values, costs=costs, total=total, rest_w=rest_w, score=1.0, binds=binds,
        power_w=max(result.average_power_w for result in results), area_mm2=size.total_mm2, refused=refused,
        changes=",".join(str(knob.change(value)) for knob, value in zip(study.knobs, values, strict=False)),
    )  # fmt: skip


def search_designs(study: DesignStudy, tick: Callable[[int, int], None] | None = None, most: int = 20) -> DesignReport:
    """Evaluate the grid of designs and return the best. Raises RequestError if all are refused."""
    total = math.prod(len(knob.values) for knob in study.knobs)
    if total > DESIGNS_MAX:
        raise RequestError(f"a grid of {total:,} designs (allowed: {DESIGNS_MAX:,}): take fewer values")
    study = _within_power(study)
    unchanged = _evaluate(study, study.base, ())
    grid = itertools.product(*(knob.values for knob in study.knobs))
    found, reasons = try_each(grid, lambda values: _design(study, unchanged, values), tick)
    reasons.update(one.refused for one in found if one.refused)
    why = next((reason for reason, _ in reasons.most_common(1)), "")
    best = Ranking(found).where(lambda one: not one.refused).order("score", *_OBJECTIVES)
    if not best:
        raise RequestError(f"none of {total:,} designs can be: {why}")
    better = [one for one in found if one.refused in _REFUSALS.values() and one.score < best[0].score]
    return document.record(
        DesignReport,
        study,
        base=study.base.key,
        models=tuple(task.model for task in study.tasks),
        is_mission=study.asked is not None,
        evaluated=total,
        refused=reasons.total(),
        as_it_is=unchanged,
        best=tuple(best[:most]),
        front=tuple(best.front(_OBJECTIVES)),
        why_refused=why,
        excluded=min(better, key=lambda one: one.score, default=None),
        limits={limit.figure: limit.amount for limit in study.limits},
    )


def _device(design: Design) -> str:
    return design.changes or design.device


COLUMNS = (
    Column("design", "Design", role="text", keep=0, of=_device),
    Column("score", "Score", keep=0, help="the metric of the total over all models, or of a second; the base is 1"),
    Column("power", "Power", "W", keep=1, of="power_w", help="highest average power of a model"),
    Column("area_mm2", "mm2", keep=1, help="area of the die, by published rules (hardware/area.toml)"),
    Column("dies", "Dies", role="text", keep=1, of=lambda design: str(design.dies),
           help="above 1: larger than what one exposure prints; their links are not counted"),
    Column("cost_usd", "Die USD", keep=3, help="good die only, by the price of wafers: no package, memory, test"),
    Column("binds", "Binds", role="text", keep=2, help="what limits most of the time",
           of=lambda design: next((f"{name} {percent(share)}" for name, share in design.binds.items()), "")),
    Column("costs", "Latency and energy/inf by model", role="text", keep=2,
           of=lambda design: "; ".join(f"{quantity(one.latency_s, 's')} {quantity(one.energy_j_per_inference, 'J')}"
                                       for one in design.costs)),
)  # fmt: skip


def _workloads(text: str) -> tuple[str, ...]:
    """Split `resnet50*2,llama3_8b:request,in=1024` into models; a part `in=1024` belongs to the model before it."""
    models: list[str] = []
    for part in options.split_list(text):
        if models and re.fullmatch(r"\w+=\w+", part):
            models[-1] += f",{part}"
        else:
            models.append(part)
    return tuple(models)


def _model_and_weight(workload: str) -> tuple[str, float]:
    model, star, weight = workload.rpartition("*")
    return (model, options.parse_amount(weight.removesuffix("/s"), "")) if star else (workload, 1.0)


def _state_of(state: states.State, task: mission.Task) -> states.State:
    return states.replace(state, model=task.model, precision=task.precision, batch=task.batch)


def _tasks(
    state: states.State, workload: tuple[str, ...] | None, mission_file: Path | None
) -> tuple[tuple[mission.Task, ...], tuple[float, ...], mission.Mission | None]:
    """Return the tasks that the options name, and either their weights or the mission of tasks at rates."""
    if mission_file is not None and not workload:
        asked = mission.read_mission(mission_file)
        return asked.task, (), asked
    if mission_file is not None or not workload:
        raise RequestError(
            "a design search takes either models or --mission FILE: tune DEV --mission FILE --grid K=A..B"
        )
    models, amounts = zip(*map(_model_and_weight, workload), strict=True)
    if min(amounts) <= 0:
        raise RequestError("the weight or rate of a model must be greater than 0, e.g. resnet50*2 or resnet50*30/s")
    at_rates = {one.endswith("/s") for one in workload}
    if len(at_rates) > 1:
        raise RequestError("either all models have a rate, e.g. resnet50*30/s, or none has")
    rates_hz = amounts if True in at_rates else [0.0] * len(amounts)
    tasks = tuple(
        mission.Task(model=model, rate_hz=rate_hz, precision=state.precision, batch=state.batch)
        for model, rate_hz in zip(models, rates_hz, strict=True)
    )
    return tasks, amounts, mission.Mission(task=tasks) if True in at_rates else None


def _states(
    state: states.State, workload: tuple[str, ...] | None, mission_file: Path | None = None, **_: object
) -> tuple[states.State, ...]:
    return tuple(_state_of(state, task) for task in _tasks(state, workload, mission_file)[0])


def _document(
    state: states.State,
    base: str,
    workload: tuple[str, ...] | None,
    mission_file: Path | None,
    knobs: tuple[str, ...],
    measure: str | None,
    max_power: float | None,
    max_area: str | None,
    top: int | None,
    tick: Callable[[int, int], None] | None = None,
) -> DesignReport:
    tasks, weights, asked = _tasks(state, workload, mission_file)
    device = engine.device(base)
    area_mm2 = None if max_area is None else options.parse_amount(max_area.removesuffix("mm2"), "")
    limits = {"power": max_power, "area": area_mm2}
    study = DesignStudy(
        base=device,
        knobs=tuple(parse_knob(device, one) for one in knobs),
        tasks=tasks,
        weights=weights,
        asked=asked,
        find=lambda task, key: engine.result(_state_of(state, task), key),
        metric=measure or "edp",
        limits=tuple(Constraint(figure, "<=", most) for figure, most in limits.items() if most is not None),
    )
    return search_designs(study, tick, top or 20)


_UNITS = {"power": "W", "area": "mm2"}
_BINDS = {"power": "the power limit", "memory": "memory", "compute": "arithmetic", "launch": "starts of kernels"}


def _answer(document: DesignReport) -> Iterable[str]:
    """Yield which design is best within the limits, which is second, and what binds."""
    first, *others = document.best
    limits = [f"{amount:g} {_UNITS[figure]}" for figure, amount in document.limits.items()]
    within = f" within {' and '.join(limits)}" if limits else ""
    second = f"; second {_device(others[0])}, {others[0].score / first.score:.3g}x" if others else ""
    noun = METRICS[document.metric].noun.removesuffix(" per inference")
    yield f"least {noun}{' of a second' * document.is_mission}{within}: {_device(first)}{second}"
    shares = [f"{_BINDS[name]} {percent(share)}" for name, share in first.binds.items() if share >= 0.005]
    yield f"what binds it, in parts of its time: {', '.join(shares)}"
    if document.is_mission:
        joules, rest = (quantity(amount, "J") for amount in (first.total.energy_j_per_inference, first.rest_w))
        yield f"in one second it is busy for {quantity(first.total.latency_s, 's')} and takes {joules}, at rest {rest}"
    yield f"score: {noun} over the base's; best {first.score:.3g}: {first.device}"
    if (out := document.excluded) is not None:
        better = f"{_device(out)}, {out.score / first.score:.3g}x"
        yield f"better but for a limit: {better}; {out.refused}, {out.area_mm2:,.0f} mm2"


def _footer(document: DesignReport, state: states.State) -> Iterable[str]:
    base = document.as_it_is
    yield from _answer(document)
    yield f"base: {base.power_w:.3g} W, {base.area_mm2:,.0f} mm2, {base.cost_usd:.3g} USD a die"
    yield "areas by rule: arithmetic, memories, PHYs and their links, without graphics, media and fp64 units"
    if several := sum(design.dies > 1 for design in document.best):
        yield f"links between dies are not counted, as in {several} of these; --max-area excludes them"
    if document.refused:
        out = f"{document.refused:,} of {document.evaluated:,}"
        yield f"{out} cannot be or exceed a limit, most: {document.why_refused}"
    changed = f"{document.base.removesuffix('}')},DESIGN}}" if "{" in document.base else f"{document.base}{{DESIGN}}"
    yield f"to compare a design: hwexplorer compare MODEL --on '{document.base},{changed}'"


VERB = declare.Report(
    subject=declare.Subject(options=(*options.SCENARIO[:5], *options.OWN_MODEL)),
    options=(
        options.option("--base", required=True, metavar="DEV", help="the device that is changed"),
        options.option(
            "--workload", type=_workloads, metavar="M,..",
            help="models with weights or rates: resnet50*2, vit_b_16*30/s",
        ),
        options.option("--mission", dest="mission_file", type=Path, metavar="FILE",
                       help="a mission in TOML instead: its second is what is made least"),
        options.option(
            "--knobs", required=True, type=lambda text: tuple(options.split_list(text)), metavar="K=A..B,..",
            help="facts with ranges (in powers of 2) or values: units=64..1024,array=8|16|32",
        ),
        options.choice("--metric", tuning.KNOB_METRICS, metavar="M", dest="measure", help="what is made least"),
        options.option(
            "--max-power", unit="W", metavar="W", help="limit of power; a lower clock holds it: 15W"
        ),
        options.option("--max-area", metavar="MM2", help="limit of the die area: 200mm2"),
        options.option("--top", type=options.whole(1, 1000), metavar="N", help="designs shown (default 20)"),
    ),
    document=_document,
    states=_states,
    title=lambda document, state: (
        f"{count_noun(document.evaluated, 'design')} of {document.base} by {METRICS[document.metric].noun} of "
        + f"{', '.join(document.models)}: "
        + ", ".join(f"{knob.name}={'|'.join(f'{value:g}' for value in knob.values)}" for knob in document.knobs)
    ),
    parts=(
        declare.Rows(
            "front", "Beaten by none in latency, energy and area", COLUMNS, key="device",
            of=lambda document: document.front[: len(document.best)],
        ),
        declare.Rows("best", "Best", COLUMNS, key="device", footer=_footer),
    ),
    main="best",
    ticks="designs",
    on_screen=False,
    examples={"design": "--base kpu_t256 --workload conv2d --knobs units=64..512,array=8..32 --max-area 900mm2"},
)  # fmt: skip
