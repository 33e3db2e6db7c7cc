"""Choose a format for each layer: the least energy, time or EDP within a bound on the loss."""

from collections.abc import Iterator
from pathlib import Path

from analysis.document import Column, columns
from analysis.estimate.metrics import METRICS
from analysis.explore import plans
from analysis.explore.tuning import KNOB_METRICS
from hardware.base.errors import RequestError
from hardware.base.text import count_noun, percent, quantity
from hardware.precision import FORMATS
from hwexplorer import declare, engine, options
from hwexplorer.state import State, replace


def _states(state: State, formats: tuple[str, ...] | None = None, **_: object) -> tuple[State, ...]:
    return tuple(replace(state, precision=name) for name in formats or plans.default_formats())


def _document(
    state: State,
    formats: tuple[str, ...] | None,
    losses: Path | None,
    keep: tuple[str, ...] | None,
    max_loss: float | None,
    measure: str | None,
) -> plans.FormatPlan:
    if (losses is None) != (max_loss is None):
        raise RequestError("a bound needs both --losses FILE and --max-loss LOSS")
    results = [engine.result(one) for one in _states(state, formats)]
    distinct = list({result.precision_run: result for result in reversed(results)}.values())[::-1]
    distinct.sort(key=lambda result: -FORMATS[result.format_name].bits if result.format_name in FORMATS else 0)
    names = [result.format_name for result in distinct]
    return plans.plan_formats(
        distinct,
        measure or "energy",
        float("inf") if max_loss is None else max_loss,
        lambda layers: {} if losses is None else plans.read_losses(losses, layers, names),
        keep or (),
    )


def _summary(plan: plans.FormatPlan, state: State) -> Iterator[str]:
    counts = {form: sum(row.format == form for row in plan.layers) for form in plan.formats}
    shares = ", ".join(f"{count_noun(count, 'layer')} in {form}" for form, count in counts.items() if count)
    wide_s, wide_j, _ = plan.uniform[plan.formats[0]]
    bound = "" if plan.most is None else f"; the losses add up to {plan.loss:.4g} of {plan.most:g}"
    less = f"{percent(1 - plan.energy_j / wide_j)} and {percent(1 - plan.latency_s / wide_s)} less"
    yield (
        f"Least {METRICS[plan.metric].noun}: {shares}: {quantity(plan.energy_j, 'J')} and "
        f"{quantity(plan.latency_s, 's')}, {less} than all in {plan.formats[0]}{bound}"
    )
    for form, (seconds, joules, loss) in plan.uniform.items():
        lost = "" if plan.most is None else f", loss {loss:.4g}"
        yield f"all in {form}: {quantity(joules, 'J')}, {quantity(seconds, 's')}{lost}"
    yield "Conversions between layers of different formats are not counted. Losses: of each layer alone, they add up."


_COSTS = Column(
    "costs", "By format", role="text", keep=3,
    of=lambda row: "; ".join(f"{form} {quantity(j, 'J')} {quantity(s, 's')}" for form, (s, j) in row.costs.items()),
)  # fmt: skip

VERB = declare.Report(
    subject=declare.DEVICE,
    options=(
        options.option("--formats", type=options.precisions, metavar="P,..",
                       help=f"formats to choose among (default {','.join(plans.default_formats())})"),
        options.option("--losses", type=Path, metavar="FILE", help="a table of layer, format, loss (CSV)"),
        options.option("--max-loss", type=options.amount(""), metavar="LOSS", help="most that losses may add up to"),
        options.option("--keep", type=options.name_list("layer"), metavar="LAYER,..",
                       help="layers that stay in the widest format, by path or its beginning"),
        options.choice("--metric", KNOB_METRICS, metavar="M", dest="measure", help="what is made least"),
    ),
    document=_document,
    states=_states,
    title="Formats",
    parts=(
        declare.summary_text(_summary),
        declare.Rows("layers", "Layers", (*columns(plans.LayerFormat), _COSTS), key="layer", first=30),
    ),
    main="layers",
    exports={"modelopt": lambda plan, state: plans.modelopt_config(plan),
             "torchao": lambda plan, state: plans.torchao_config(plan)},
    on_screen=False,
    examples={"formats": "resnet18 --on h100_sxm --keep conv1,fc --formats bf16,int8"},
)  # fmt: skip
