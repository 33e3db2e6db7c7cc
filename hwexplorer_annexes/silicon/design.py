"""Design search: a grid of changed chips over several models, best first, with area and cost."""

import re
from collections.abc import Callable, Iterable

from hwexplorer.extend import METRICS, Constraint, RequestError, declare, document, engine, options, tuning
from hwexplorer.extend import text as text_module
from hwexplorer_annexes.silicon.design_search import Design, DesignReport, DesignStudy, parse_knob, search_designs
from hwexplorer_annexes.verb_parts import Rows, State, option, replace

Column = document.Column
percent = text_module.percent
quantity = text_module.quantity


def _device(design: Design) -> str:
    return design.changes or design.device


def _binds(design: Design) -> str:
    return next((f"{name} {percent(share)}" for name, share in design.binds.items()), "")


def _costs(design: Design) -> str:
    return "; ".join(
        f"{quantity(cost.latency_s, 's')} {quantity(cost.energy_j_per_inference, 'J')}" for cost in design.costs
    )


COLUMNS = (
    Column("design", "Design", role="text", keep=0, of=_device),
    Column("score", "Score", keep=0, help="weighted geometric mean over the models of the metric, the base is 1"),
    Column("power", "Power", "W", keep=1, of="power_w", help="highest average power of a model"),
    Column("area_mm2", "mm2", keep=1, help="area of the die, by published rules (hardware/area.toml)"),
    Column("dies", "Dies", role="text", keep=1, of=lambda design: str(design.dies),
           help="above 1: larger than what one exposure prints; their links are not counted"),
    Column("cost_usd", "Die USD", keep=3, help="good die only, by the price of wafers: no package, memory, test"),
    Column("binds", "Binds", role="text", keep=2, of=_binds, help="what limits most of the time"),
    Column("costs", "Latency and energy/inf by model", role="text", keep=2, of=_costs),
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


def _states(state: State, workload: tuple[str, ...] | None, **_: object) -> tuple[State, ...]:
    if not workload:
        raise RequestError("a design search takes --base, --workload and --knobs, in the shell")
    return tuple(replace(state, model=_model_and_weight(one)[0]) for one in workload)


def _document(
    state: State,
    base: str,
    workload: tuple[str, ...],
    knobs: tuple[str, ...],
    measure: str | None,
    max_power: float | None,
    max_area: str | None,
    top: int | None,
    tick: Callable[[int, int], None] | None = None,
) -> DesignReport:
    _states(state, workload)
    device = engine.device(base)
    models = tuple(map(_model_and_weight, workload))
    if any(weight <= 0 for _, weight in models):
        raise RequestError("the weight or rate of a model must be greater than 0, e.g. resnet50*2 or resnet50*30/s")
    at_rates = {one.endswith("/s") for one in workload}
    if len(at_rates) > 1:
        raise RequestError("either all models have a rate, e.g. resnet50*30/s, or none has")
    area_mm2 = None if max_area is None else options.parse_amount(max_area.removesuffix("mm2"), "")
    limits = {"power": max_power, "area": area_mm2}
    study = DesignStudy(
        base=device,
        knobs=tuple(parse_knob(device, one) for one in knobs),
        models=models,
        scenario=engine.scenario(state),
        metric=measure or "edp",
        at_rates=True in at_rates,
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
    yield f"least {METRICS[document.metric].noun}{within}: {_device(first)}{second}"
    shares = [f"{_BINDS[name]} {percent(share)}" for name, share in first.binds.items() if share >= 0.005]
    yield f"what binds it, in parts of its time: {', '.join(shares)}"
    if first.second is not None:
        joules = quantity(first.second.energy_j_per_inference, "J")
        yield f"in one second it is busy for {quantity(first.second.latency_s, 's')} and takes {joules}, without rest"
    if (out := document.excluded) is not None:
        better = f"{_device(out)}, {out.score / first.score:.3g}x"
        yield f"better but for a limit: {better}; {out.refused}, {out.area_mm2:.3g} mm2"


def _footer(document: DesignReport, state: State) -> Iterable[str]:
    base = document.as_it_is
    yield from _answer(document)
    yield f"base: {base.power_w:.3g} W, {base.area_mm2:.3g} mm2, {base.cost_usd:.3g} USD a die"
    yield "areas by rule: arithmetic, memories, PHYs and their links, without graphics, media and fp64 units"
    if several := sum(design.dies > 1 for design in document.best):
        yield f"{several} of these take several dies, whose links are not counted; --max-area excludes them"
    yield f"score: {document.metric} over the base's; best {document.best[0].score:.3g}: {document.best[0].device}"
    if document.refused:
        out = f"{document.refused:,} of {document.evaluated:,}"
        yield f"{out} cannot be or exceed a limit, most: {document.why_refused}"
    changed = f"{document.base.removesuffix('}')},DESIGN}}" if "{" in document.base else f"{document.base}{{DESIGN}}"
    yield f"to compare a design: hwexplorer compare MODEL --on '{document.base},{changed}'"


VERB = declare.Report(
    subject=declare.Subject(options=(*options.SCENARIO[:5], *options.OWN_MODEL)),
    options=(
        option("--base", required=True, metavar="DEV", help="the device that is changed"),
        option(
            "--workload", required=True, type=_workloads, metavar="M,..",
            help="models with weights or rates: resnet50*2, vit_b_16*30/s",
        ),
        option(
            "--knobs", required=True, type=lambda text: tuple(options.split_list(text)), metavar="K=A..B,..",
            help="facts with ranges (in powers of 2) or values: units=64..1024,array=8|16|32",
        ),
        options.choice("--metric", tuning.KNOB_METRICS, metavar="M", dest="measure", help="what is made least"),
        option(
            "--max-power", type=options.amount("W"), metavar="W", help="limit of power; a lower clock holds it: 15W"
        ),
        option("--max-area", metavar="MM2", help="limit of the die area: 200mm2"),
        option("--top", type=options.whole(1, 1000), metavar="N", help="designs shown (default 20)"),
    ),
    document=_document,
    states=_states,
    title=lambda document, state: (
        f"{document.evaluated:,} designs of {document.base} by {document.metric} of {', '.join(document.models)}: "
        + ", ".join(f"{knob.name}={'|'.join(f'{value:g}' for value in knob.values)}" for knob in document.knobs)
    ),
    parts=(
        Rows(
            "front", "Beaten by none in latency, energy and area", COLUMNS, key="device",
            of=lambda document: sorted(document.front, key=lambda design: design.score)[: len(document.best)],
        ),
        Rows("best", "Best", COLUMNS, key="device", footer=_footer),
    ),
    main="best",
    ticks="designs",
    on_screen=False,
    examples={"design": "--base kpu_t256 --workload conv2d --knobs units=64..512,array=8..32 --max-area 900mm2"},
)  # fmt: skip
