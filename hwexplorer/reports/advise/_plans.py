"""Plans of advise: a format for each layer within a bound on the loss, and the fusions of least EDP."""

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

FORMS, FUSION = KINDS = ("formats", "fusion")
_MOST_LETTERS = 80  # of a precision by layer, in a sentence
OPTIONS = (
    options.choice("--plan", KINDS, metavar="P", help="a format for each layer, or which operators to fuse: "
                   "`hwexplorer advise formats MODEL`, `hwexplorer advise fusion MODEL`"),
    options.option("--formats", type=options.precisions, metavar="P,..",
                   help=f"formats of a plan (default {','.join(plans.default_formats())})"),
    options.option("--losses", type=Path, metavar="FILE",
                   help="layer, format, loss (CSV), the state of ModelOpt's auto_quantize (JSON), or an importance "
                        "matrix of llama.cpp (GGUF or .dat)"),
    options.option("--max-loss", type=options.amount(""), metavar="LOSS", help="most that losses may add up to"),
    options.option("--keep", type=options.name_list("layer"), metavar="LAYER,..",
                   help="layers that stay in the widest format, by path or its beginning"),
    options.choice("--metric", KNOB_METRICS, metavar="M", dest="measure", help="what a plan of formats makes least"),
)  # fmt: skip


def states(state: State, formats: tuple[str, ...] | None) -> tuple[State, ...]:
    """Return the state in each format of a plan."""
    return tuple(replace(state, precision=name) for name in formats or plans.default_formats())


def document(
    state: State,
    plan: str,
    formats: tuple[str, ...] | None,
    losses: Path | None,
    keep: tuple[str, ...] | None,
    max_loss: float | None,
    measure: str | None,
) -> plans.FormatPlan | plans.FusionPlan:
    """Return the plan of a kind. Raises RequestError."""
    if plan == FUSION:
        return plans.plan_fusions(engine.result(state))
    if (losses is None) != (max_loss is None):
        raise RequestError("a bound needs both --losses FILE and --max-loss LOSS")
    results = [engine.result(one) for one in states(state, formats)]
    runs = {(result.precision_run, result.plan.weights): result for result in reversed(results)}
    distinct = sorted(runs.values(), key=lambda result: -FORMATS[result.plan.weights].bits)
    names = [result.format_name for result in distinct]
    return plans.plan_formats(
        distinct,
        measure or "energy",
        float("inf") if max_loss is None else max_loss,
        lambda layers: {} if losses is None else plans.read_losses(losses, layers, names),
        keep or (),
    )


def _summary(plan: object, state: State) -> Iterator[str]:
    if isinstance(plan, plans.FormatPlan):
        counts = {form: sum(row.format == form for row in plan.layers) for form in plan.formats}
        shares = ", ".join(f"{count_noun(count, 'layer')} in {form}" for form, count in counts.items() if count)
        wide_s, wide_j, _ = plan.uniform[plan.formats[0]]
        unknown = "; losses are not known: bound them by --losses FILE --max-loss LOSS"
        losses = f"losses of {plan.judged} of {count_noun(len(plan.layers), 'layer')}"
        bound = unknown if plan.most is None else f"; {losses} add up to {plan.loss:.4g} of {plan.most:g}"
        less = f"{percent(1 - plan.energy_j / wide_j)} and {percent(1 - plan.latency_s / wide_s)} less"
        yield (
            f"Least {METRICS[plan.metric].noun}: {shares}: {quantity(plan.energy_j, 'J')} and "
            f"{quantity(plan.latency_s, 's')}, {less} than all in {plan.formats[0]}{bound}"
        )
        for form, (seconds, joules, loss) in plan.uniform.items():
            known = f"{loss:.4g}" if loss or form == plan.formats[0] else "unknown"
            lost = "" if plan.most is None else f", loss {known}"
            yield f"all in {form}: {quantity(joules, 'J')}, {quantity(seconds, 's')}{lost}"
        mixed = plans.mixed_precision([(row.layer, row.format) for row in plan.layers])
        if len(mixed) <= _MOST_LETTERS:
            yield f"Run it: --precision {mixed}"
        else:
            yield "Run it: `-o plan.csv` writes the layers, and --precision mixed=plan.csv runs them"
        yield "Conversions between layers of different formats are not counted; losses of single layers add up."
    if isinstance(plan, plans.FusionPlan):
        joined = [fusion for fusion in plan.fusions if " + " in fusion.operators]
        edps = [seconds * joules for seconds, joules in (plan.unfused, plan.chosen, plan.fused)]
        yield (
            f"{sum(fusion.is_chosen for fusion in joined)} of {len(joined)} fusions of {plan.runtime} have the least "
            f"EDP, {quantity(edps[1], 'Js')}: {percent(1 - edps[1] / edps[0])} less than without any"
        )
        yield (
            f"all of them save {quantity(plan.unfused[0] - plan.fused[0], 's')} and "
            f"{quantity(plan.unfused[1] - plan.fused[1], 'J')}: the sum of the gains below, and the difference of two "
            "estimates"
        )


_COSTS = Column(
    "costs", "By format", role="text", keep=3,
    of=lambda row: "; ".join(f"{form} {quantity(j, 'J')} {quantity(s, 's')}" for form, (s, j) in row.costs.items()),
)  # fmt: skip
PARTS = (
    declare.summary_text(_summary, "plan", ""),
    declare.Rows("layers", "Layers", (*columns(plans.LayerFormat), _COSTS), key="layer", first=30, optional=True,
                 of=lambda plan: getattr(plan, "layers", ())),
    declare.Rows("fusions", "Kernels, what saves most first", columns(plans.Fusion), key="kernel", first=20,
                 optional=True, of=lambda plan: getattr(plan, "fusions", ())),
)  # fmt: skip
EXPORTS = {
    "modelopt": lambda plan, state: plans.modelopt_config(plan),
    "torchao": lambda plan, state: plans.torchao_config(plan),
}
