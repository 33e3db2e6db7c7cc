"""Choose which operators to fuse: what each fusion saves by itself and in the set of least EDP."""

from collections.abc import Iterator

from analysis.document import columns
from analysis.explore import plans
from hardware.base.text import percent, quantity
from hwexplorer import declare
from hwexplorer.state import State


def _summary(plan: plans.FusionPlan, state: State) -> Iterator[str]:
    joined = [fusion for fusion in plan.fusions if " + " in fusion.operators]
    edps = [seconds * joules for seconds, joules in (plan.unfused, plan.chosen, plan.fused)]
    yield (
        f"{sum(fusion.is_chosen for fusion in joined)} of {len(joined)} fusions of {plan.runtime} have the least EDP, "
        f"{quantity(edps[1], 'Js')}: {percent(1 - edps[1] / edps[0])} less than without any"
    )
    yield (
        f"all of them save {quantity(plan.unfused[0] - plan.fused[0], 's')} and "
        f"{quantity(plan.unfused[1] - plan.fused[1], 'J')}: the sum of the gains below, and the difference of two "
        "estimates"
    )


VERB = declare.Report(
    subject=declare.DEVICE,
    document=declare.document_of_estimate(plans.plan_fusions),
    title="Fusion",
    parts=(
        declare.summary_text(_summary),
        declare.Rows("fusions", "Kernels, what saves most first", columns(plans.Fusion), key="kernel", first=20),
    ),
    main="fusions",
    on_screen=False,
    examples={"fusion": "resnet18 --on h100_sxm"},
)
