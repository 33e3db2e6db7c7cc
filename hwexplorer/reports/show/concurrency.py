"""Show what can run in parallel: stages, critical path, hardware units per subgraph.

A stage holds nodes that depend on earlier stages only. The critical path is the heaviest chain by number, FLOPs or
time; the speed-up of branches is total work / critical path. Each subgraph is estimated again with fewer units
(clocks, caches and memory bandwidth unchanged, before any power limit).
"""

from typing import Annotated

import msgspec
import numpy as np

from analysis.document import Column, column, columns, records
from analysis.estimate.dependencies import Dependencies, heaviest_path, levels, operator_graph, subgraph_graph
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.kernels import demand
from analysis.estimate.tree_figures import sum_of_kernels
from analysis.model.ir.workload import Floats
from hardware.base.text import count_noun, percent, quantity
from hardware.demand import READ, READ_WEIGHT, WRITE, Demand
from hardware.device_file import Fact
from hardware.execute import execute
from hardware.precision import BASE
from hwexplorer.declare import DEVICE, Report, Rows, Section, document_of_estimate, summary_text
from hwexplorer.state import State
from hwexplorer.views.captions import chain, list_names
from hwexplorer.views.digest import Digest

NEAR_BEST = 1.05
HALF_SPEED = 2.0
LITTLE = 1.5  # speed-up from branches below which concurrency between operators is little
_PARTIAL_SUM_BYTES = 4.0  # partial results are exchanged in 32 bits


class Stage(msgspec.Struct, frozen=True):
    """Subgraphs that depend on earlier stages only. `time_s` is of the slowest one, `serial_s` the sum of all."""

    stage: Annotated[int, column("Stage", "count")]
    subgraphs: tuple[str, ...]
    flops: Annotated[float, column("FLOP", "FLOP", keep=1)]
    time_s: Annotated[float, column("At once", "s", help="the slowest subgraph")]
    serial_s: Annotated[float, column("In turn", "s", keep=1, help="one after another")]


class CriticalPath(msgspec.Struct, frozen=True, kw_only=True):
    """The longest chains of operators by number, by FLOPs and by time. `subgraphs` are on the chain by time."""

    operators: int
    flops: float
    flops_fraction: float
    time_s: float
    time_fraction: float
    subgraphs: tuple[str, ...]


class Parallelism(msgspec.Struct, frozen=True):
    """One kind of parallelism: the most at once, the mean, and the speed-up it could give by itself (1: none)."""

    level: Annotated[str, column("Parallelism")]
    most: Annotated[float, column("At most", "SI", role="quantity")]
    mean: Annotated[float, column("Typical", "SI", role="quantity", keep=1)]
    speedup: Annotated[float, column("Speed-up", "x", help="by itself")]
    meaning: Annotated[str, column("Of what", keep=2)]


class SubgraphSplit(msgspec.Struct, frozen=True):
    """A way to divide a subgraph: into at most `ways`; every part beyond the first reads `repeated_bytes` again
    and exchanges `exchanged_bytes` of partial results."""

    dimension: str
    ways: int
    repeated_bytes: float
    exchanged_bytes: float


class SubgraphUnits(msgspec.Struct, frozen=True, kw_only=True):
    """Hardware units that a subgraph can use. `threads` is the number of results it could compute at once, `best_s` the
    least time with any number of units, `optimal_s` the time with the optimal number."""

    id: Annotated[str, column("Subgraph", key="subgraph")]
    type: str
    threads: Annotated[float, column("Threads", "SI", role="quantity", keep=2)]
    minimum: Annotated[int, column("Minimum", "count", help="units that reach half of the best speed")]
    optimal: Annotated[int, column("Optimal", "count", help="units within 5 % of the best time")]
    units_total: Annotated[int, column("Of", "count", key="total", keep=1)]
    best_s: Annotated[float, column("Best", "s", keep=1)]
    optimal_s: Annotated[float, column("At optimal", "s", key="time", keep=2)]
    splits: tuple[SubgraphSplit, ...]


class ConcurrencyCheck(msgspec.Struct, frozen=True):
    """A check of figures that were computed independently, and the speed-up to expect from them."""

    name: Annotated[str, column("Check")]
    holds: Annotated[bool, column("", key="verdict", shown={True: "holds", False: "FAILS"})]
    says: Annotated[str, column("", keep=1)]


class ConcurrencyReport(Head, frozen=True, kw_only=True):
    """Stages, critical path and kinds of parallelism of a model, and the units that each subgraph can use."""

    n_stages: int
    operator_stages: int
    widest_stage: int
    widest_subgraphs: tuple[str, ...]
    widest_operators: int
    total_flops: float
    total_s: float
    critical_path: CriticalPath
    parallelism: tuple[Parallelism, ...]
    theoretical_speedup: float
    unit_name: str
    stages: tuple[Stage, ...]
    units: tuple[SubgraphUnits, ...]
    checks: tuple[ConcurrencyCheck, ...]


def concurrency(result: Estimate) -> ConcurrencyReport:
    """Return the report of a model on a device, in the estimate's execution mode and batch."""
    operators, subgraphs = operator_graph(result.workload), subgraph_graph(result.workload)
    of_operators = levels(operators)
    stages = _stages(result, subgraphs)
    path = _critical_path(result, operators)
    widest = max(stages, key=lambda stage: len(stage.subgraphs))
    width = int(np.bincount(of_operators).max(initial=1))
    total = float(_flops(result).sum())
    kinds = _parallelism(result, path, total, width, int(of_operators.max(initial=0)) + 1)
    return ConcurrencyReport(
        **head_fields(result, on_device=True),
        n_stages=len(stages),
        operator_stages=int(of_operators.max(initial=0)) + 1,
        widest_stage=widest.stage,
        widest_subgraphs=widest.subgraphs,
        widest_operators=width,
        total_flops=total,
        total_s=result.latency_s,
        critical_path=path,
        parallelism=kinds,
        theoretical_speedup=kinds[0].speedup,
        unit_name=result.device.file.unit_name,
        stages=stages,
        units=_units(result),
        checks=_checks(result, path, stages, kinds),
    )


def _checks(
    result: Estimate, path: CriticalPath, stages: tuple[Stage, ...], kinds: tuple[Parallelism, ...]
) -> tuple[ConcurrencyCheck, ...]:
    """Check that speed-ups follow from the concurrency: a path that is too long or too short, a time that does not add
    up or an operator in the wrong stage fails."""
    near, total_s, staged_s = 1.0 + 1e-9, result.latency_s, sum(stage.time_s for stage in stages)
    graph, batch, thread, _ = kinds
    little = "little concurrency between operators, so limited speed-up: " if graph.speedup < LITTLE else ""
    fill = "fill" if thread.mean >= thread.speedup else "do not fill"
    times = f"{path.time_s * 1e3:.4g} <= {staged_s * 1e3:.4g} <= {total_s * 1e3:.4g} ms"
    return (
        ConcurrencyCheck(
            "branches", graph.speedup * near >= 1.0 and graph.speedup <= graph.most * near,
            f"{little}{graph.speedup:.2f}x from branches, at most {count_noun(graph.most, 'operator')} at once",
        ),
        ConcurrencyCheck(
            "batch", batch.speedup <= result.scenario.batch,
            f"batch {result.scenario.batch}: {'a larger one adds concurrency' if batch.most < 2 else 'inputs at once'}",
        ),
        ConcurrencyCheck(
            "threads", 0.0 < thread.speedup <= thread.most * near,
            f"a typical subgraph computes {thread.mean:,.0f} results at once, which {fill} the device",
        ),
        ConcurrencyCheck(
            "critical path", max(path.time_fraction, path.flops_fraction) <= near,
            f"{percent(path.time_fraction)} of the time, {percent(path.flops_fraction)} of the FLOPs, never above all",
        ),
        ConcurrencyCheck(
            "stages", path.time_s <= staged_s * near and staged_s <= total_s * near,
            f"critical path, stage after stage, one after another: {times}",
        ),
    )  # fmt: skip


def _flops(result: Estimate) -> Floats:
    flops: Floats = result.workload.operators.flops @ result.workload.value_at(batch=result.scenario.batch)
    return flops


def _stages(result: Estimate, graph: Dependencies) -> tuple[Stage, ...]:
    ids, level_of = result.partition.id, levels(graph)
    flops, time = result.partition.total(_flops(result)), result.partition.total(result.run.latency_s)
    rows = []
    for level in range(int(level_of.max(initial=-1)) + 1):
        part = np.flatnonzero(level_of == level)
        names = tuple(ids[s] for s in part)
        rows.append(Stage(level, names, float(flops[part].sum()), float(time[part].max()), float(time[part].sum())))
    return tuple(rows)


def _critical_path(result: Estimate, operators: Dependencies) -> CriticalPath:
    flops = _flops(result)
    count, _ = heaviest_path(operators, np.ones(operators.n))
    heavy, _ = heaviest_path(operators, flops)
    slow, nodes = heaviest_path(operators, result.run.latency_s)
    total = float(flops.sum())
    members = dict.fromkeys(int(result.partition.subgraph[operator]) for operator in nodes)
    return CriticalPath(
        operators=int(count),
        flops=heavy,
        flops_fraction=heavy / total if total else 0.0,
        time_s=slow,
        time_fraction=slow / result.latency_s if result.latency_s else 0.0,
        subgraphs=tuple(result.partition.id[subgraph] for subgraph in members),
    )


def _parallelism(result: Estimate, path: CriticalPath, flops: float, width: int, depth: int) -> tuple[Parallelism, ...]:
    device, batch, time = result.device, result.scenario.batch, result.partition.total(result.run.latency_s)
    threads, rates = result.demand.elements[result.partition.head], device.file.fma_per_clock["vector"]
    lanes = device.units * (rates[result.plan.vector] if result.plan.vector in rates else rates[BASE]).value
    by_time = result.latency_s / path.time_s if path.time_s else 1.0
    by_flops = flops / path.flops if path.flops else 1.0
    slowest, widest = float(time.max(initial=0.0)), float(threads.max(initial=0.0))
    median = float(np.median(threads)) if len(threads) else 0.0
    paced = result.latency_s / slowest if slowest else 1.0
    branches = f"branches: {by_time:.2f}x in time, {by_flops:.2f}x in FLOPs if all ran at once"
    results = f"results a subgraph can compute at once (median); the device has {lanes:,.0f} lanes"
    stream = "subgraphs on devices of their own, a stream of inputs: paced by the slowest"
    return (
        Parallelism("graph", width, result.workload.n_operators / depth, by_time, branches),
        Parallelism("batch", batch, batch, float(batch), "inputs that do not depend on each other"),
        Parallelism("thread", widest, median, min(median, lanes), results),
        Parallelism("pipeline", len(time), len(time), paced, stream),
    )


def _units(result: Estimate) -> tuple[SubgraphUnits, ...]:
    parts, total, batch = result.partition, int(result.device.units), result.scenario.batch
    steps = {base << power for base in (1, 3) for power in range(total.bit_length() + 1)}  # 1, 2, 3, 4, 6, 8, 12 ..
    counts = np.array(sorted(count for count in steps | {total} if count <= total))
    times = np.stack([_times(result, count) for count in counts.tolist()])
    best = times.min(axis=0)
    # `counts` ascends, so argmax finds the fewest units that are fast enough.
    optimal, minimum = ((times <= best * factor).argmax(axis=0) for factor in (NEAR_BEST, HALF_SPEED))
    fused = demand(result.workload, batch, result.plan.widths, "fused")
    border = np.stack([fused.per_kernel(fused.moved_bytes[role]) for role in (READ, READ_WEIGHT, WRITE)], axis=1)
    return records(
        SubgraphUnits,
        id=parts.id,
        type=parts.kind,
        threads=fused.elements[parts.head],
        minimum=counts[minimum],
        optimal=counts[optimal],
        units_total=total,
        best_s=best,
        optimal_s=times[optimal, np.arange(len(best))],
        splits=[
            _splits(fused, head, batch, *sides)
            for head, sides in zip(parts.head.tolist(), border.tolist(), strict=True)
        ],
    )


def _times(result: Estimate, units: int) -> Floats:
    """Return the seconds of each subgraph on the device with this many units, shape (s,), before any power limit."""
    setup, device = result.setup, result.device
    if units != device.units:
        fact = Fact(float(units), "count", "rule of thumb: the device with fewer units", "derived")
        device = msgspec.structs.replace(device, facts={**device.facts, "units": fact})
        setup = msgspec.structs.replace(setup, device=device)
    return sum_of_kernels(result, execute(result.demand, setup).unthrottled_s)


def _splits(
    demand: Demand, head: int, batch: int, inputs: float, weights: float, results: float
) -> tuple[SubgraphSplit, ...]:
    g, m, n, k = (float(side) for side in demand.gemm[:, head])
    splits = [SubgraphSplit("batch", batch, weights, 0.0)]
    if demand.macs[head] <= 0 or not m:
        splits.append(SubgraphSplit("elements", int(max(demand.elements[head], 1.0)), 0.0, 0.0))
    else:
        rows = m / batch if m % batch == 0 else m
        splits += [
            SubgraphSplit("rows", int(rows), weights, 0.0),
            SubgraphSplit("columns", int(n), inputs, 0.0),
            SubgraphSplit("groups", int(g), 0.0, 0.0),
            SubgraphSplit("reduction", int(k), 0.0, results * _PARTIAL_SUM_BYTES / demand.element_bytes),
        ]
    return tuple(sorted((split for split in splits if split.ways > 1), key=lambda split: -split.ways))


# --- the verb ---------------------------------------------------------------------------------------------------------

STAGES = (
    *columns(Stage, "stage"),
    Column("count", "Subgraphs", "count", keep=0, of=lambda stage: len(stage.subgraphs)),
    *columns(Stage, "flops time serial"),
    Column("subgraphs", "Which", role="text", keep=2, of=lambda stage: list_names(stage.subgraphs)),
)


def _split(split: SubgraphSplit) -> str:
    cost = ""
    if split.repeated_bytes:
        cost = f", {quantity(split.repeated_bytes, 'byte')} repeated"
    elif split.exchanged_bytes:
        cost = f", {quantity(split.exchanged_bytes, 'byte')} exchanged"
    return f"{split.dimension} {split.ways:,}{cost}"


UNITS = (
    *columns(SubgraphUnits),
    Column(
        "splits",
        "Can be divided along",
        role="text",
        keep=3,
        of=lambda units: "; ".join(map(_split, units.splits)),
    ),
)


def _summary(report: ConcurrencyReport, state: State) -> tuple[str, ...]:
    path = report.critical_path
    return (
        f"with its branches run at once the model would be {report.theoretical_speedup:.2f}x as fast",
        f"{count_noun(report.n_stages, 'stage')} of subgraphs, {report.operator_stages} of operators; the widest has "
        f"{count_noun(len(report.widest_subgraphs), 'subgraph')}, or {count_noun(report.widest_operators, 'operator')}",
        f"the critical path has {count_noun(path.operators, 'operator')}, {percent(path.flops_fraction)} of the "
        f"FLOPs and {percent(path.time_fraction)} of the {quantity(report.total_s, 's')}",
        f"it goes through {chain(path.subgraphs, 6)}",
        _describe_checks(report.checks),
    )


def _describe_checks(checks: tuple[ConcurrencyCheck, ...]) -> str:
    wrong = [check.name for check in checks if not check.holds]
    return (
        f"checks that fail: {', '.join(wrong)}" if wrong else f"all {len(checks)} checks of these figures hold (--all)"
    )


VERB = Report(
    subject=DEVICE,
    document=document_of_estimate(concurrency),
    title="Concurrency",
    parts=(
        summary_text(_summary),
        Rows("parallelism", "Parallelism", columns(Parallelism)),
        Rows("checks", "Checks", columns(ConcurrencyCheck)),
        Rows("stages", "Stages", STAGES),
        Rows(
            "units", lambda report: f"Hardware units ({report.unit_name}s) per subgraph", UNITS, kind="type",
            brief={"digest": Digest("best", "subgraph")},
        ),
    ),
    brief_parts=("summary", "parallelism", "units"),
    section=Section(60, "What could run at once"),
    examples={"concurrency": "conv2d --on h100_sxm"},
)  # fmt: skip
