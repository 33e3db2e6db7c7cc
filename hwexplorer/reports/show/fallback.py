"""Show which operators an accelerator's compiler leaves to the CPU or GPU beside it, and what that costs."""

from collections.abc import Iterator

from analysis.document import columns
from analysis.explore import divided_run
from analysis.explore.mission import find_partner
from hardware.base.text import count_noun, percent, quantity
from hwexplorer import declare, engine
from hwexplorer.options import option
from hwexplorer.state import State

GROUPS = columns(divided_run.OperatorGroup)


def _document(state: State, rest: str | None) -> divided_run.FallbackReport:
    result = engine.result(state)
    compiler = divided_run.find_compiler(result.device)
    partner = engine.device(rest) if rest else find_partner(result.device, compiler.rest_architecture, engine.device)
    return divided_run.find_fallback(result, engine.result(state, partner.key) if partner else None)


def _summary(report: divided_run.FallbackReport, state: State) -> tuple[str, ...]:
    unit = engine.device(state.on).name
    if report.refused:
        share = sum(group.time_share for group in report.groups if group.status == divided_run.REFUSES)
        rest = report.rest_device or report.rest
        most = count_noun(report.pieces, "piece")
        tail = f"; {report.follow:,} more run there: at most {most} can fit" if report.follow else ""
        verdict = (
            f"{report.refused:,} of {count_noun(report.operators, 'operator')} ({percent(share)} of the time on "
            f"{unit}) fall back to {rest}{tail}"
        )
    else:
        verdict = f"all {report.operators:,} operators run on {unit}, as far as is known"
    lines = [verdict]
    if report.unknown:
        lines.append(f"of {count_noun(report.unknown, 'operator')} no source is known: they count as run by the unit")
    if not (outcome := engine.outcome(state)).fits:
        lines.append(outcome.describe_lack())
    if report.refused:
        lines.append(
            f"{count_noun(report.pieces, 'piece')} of the model on the unit; {count_noun(report.crossings, 'tensor')} "
            f"({quantity(report.crossing_bytes, 'byte')}) between the sides"
        )
        lines += _costs(report)
    return (*lines, f"source: {report.source}; limits on sizes are not checked")


def _costs(report: divided_run.FallbackReport) -> Iterator[str]:
    run = report.divided
    if run is None or not report.rest_device:
        yield "the time of the rest is not known: name its device, as --rest raspberry_pi_5"
        return
    yield (
        f"divided: {quantity(run.latency_s, 's')} and {quantity(run.energy_j, 'J')} = {quantity(run.unit_s, 's')} on "
        f"the unit + {quantity(run.rest_s, 's')} on {report.rest_device} + {quantity(run.crossing_s, 's')} for "
        f"crossings; if the unit ran all: {quantity(report.whole_s, 's')}"
    )
    if report.alone_s is not None:
        word = "quicker" if report.alone_s < run.latency_s else "slower"
        yield f"all on {report.rest_device}: {quantity(report.alone_s, 's')}, {word} than divided"
    if not report.rest_fits:
        room = quantity(engine.device(report.rest_device).memory_bytes, "byte")
        yield f"it does not fit: the rest takes {quantity(run.rest_bytes, 'byte')}, {report.rest_device} has {room}"


VERB = declare.Report(
    subject=declare.DEVICE,
    options=(option("--rest", metavar="DEV", help="the device that runs the rest (default: of the same module)"),),
    document=_document,
    title="Fallback",
    parts=(
        declare.summary_text(_summary),
        declare.Rows("groups", "Operators", GROUPS, key="operator", dim=lambda row: row.status == divided_run.RUNS),
    ),
    examples={"fallback": "vit_b_16 --on jetson_orin_dla"},
)
