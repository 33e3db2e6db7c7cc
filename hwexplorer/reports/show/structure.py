"""Show what a model is made of, and what could run at once: operators, subgraphs, stages, critical path.

Threads are the elements that an operator, or the head of a subgraph, writes. Arithmetic intensity is FLOP per byte of
an operator's operands and results, or per byte across a subgraph's border. A stage holds nodes that depend on earlier
stages only. The critical path is the heaviest chain by number, FLOPs or time; the speed-up of branches is total work /
critical path. Each subgraph is estimated again with fewer units (clocks, caches and memory bandwidth unchanged, before
any power limit).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from analysis.document import Column, column, columns, records
from analysis.estimate import kernel_rows, kernels, operator_facts, tree_figures
from analysis.estimate.causes import divide_host_work
from analysis.estimate.estimate import Estimate, ratio
from analysis.estimate.figures import Head, head_fields
from analysis.model.ir.workload import Floats
from hardware import demand
from hardware.base.text import count_noun, percent, plain_number, quantity
from hardware.device import Fact
from hardware.execute import execute
from hardware.precision import BASE
from hwexplorer import declare
from hwexplorer.state import State
from hwexplorer.views.captions import chain, list_names
from hwexplorer.views.tables import Digest

if TYPE_CHECKING:
    import networkx

PARALLELISM = (1e3, 1e4, 1e5)
PARALLELISM_LABELS = ("< 1 K", "1-10 K", "10-100 K", "> 100 K")
INTENSITY = (1.0, 10.0, 50.0)
INTENSITY_LABELS = ("< 1", "1-10", "10-50", "> 50")
NEAR_BEST = 1.05
_NEAR = 1.0 + 1e-9  # bounds hold but for rounding
HALF_SPEED = 2.0
_WAYS = ("groups", "rows (weights again)", "columns (inputs again)", "terms of each sum (partial sums exchanged)")
LEVELS = {
    "graph": "branches",
    "batch": "inputs of the batch",
    "thread": "threads",
    "pipeline": "pipeline of devices",
}
_SUMMED = ("macs", "flops", "ingress_bytes", "egress_bytes", "weight_bytes", "internal_bytes")


class KindCount(msgspec.Struct, frozen=True):
    """Members of one type; fractions of the count and of the FLOPs."""

    type: Annotated[str, column("Type")]
    count: Annotated[int, column("Count", "count")]
    fraction: Annotated[float, column("%", "%")]
    flops: Annotated[float, column("FLOP", "FLOP", keep=1)]
    flops_fraction: Annotated[float, column("of FLOPs", "%", keep=1)]


class ValueRange(msgspec.Struct, frozen=True, kw_only=True):
    """Operators and subgraphs with `low` <= value < `high` (None: no upper limit), and their parts of all FLOPs."""

    label: Annotated[str, column("Range")]
    low: float
    high: float | None
    operators: Annotated[int, column("Operators", "count")]
    operators_fraction: Annotated[float, column("%", "%")]
    operators_flops_fraction: Annotated[float, column("of FLOPs", "%", keep=1)]
    subgraphs: Annotated[int, column("Subgraphs", "count")]
    subgraphs_fraction: Annotated[float, column("%", "%")]
    subgraphs_flops_fraction: Annotated[float, column("of FLOPs", "%", keep=1)]


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

    level: Annotated[str, column("Parallelism", shown=LEVELS)]
    most: Annotated[float, column("At most", "SI", role="quantity")]
    mean: Annotated[float, column("Typical", "SI", role="quantity", keep=1)]
    speedup: Annotated[float, column("Speed-up", "x", help="by itself")]
    meaning: Annotated[str, column("Of what", keep=2)]


class Subgraph(msgspec.Struct, frozen=True, kw_only=True):
    """One subgraph, with the class and threads of its head. `stage` is its depth in the dependency graph.
    `internal_bytes` pass between its operators (written and read); all other bytes cross its border. `minimum` and
    `optimal` are numbers of hardware units; `best_s` is the least time with any number."""

    id: Annotated[str, column("Subgraph", key="subgraph")]
    type: Annotated[str, column("Pattern", key="pattern", keep=5)]
    operator_class: Annotated[str, column("Class", key="class", keep=6)]
    stage: Annotated[int, column("Stage", "count", keep=2, help="depth in the dependency graph")]
    operators: tuple[str, ...]
    macs: float
    flops: Annotated[float, column("FLOP", "FLOP")]
    ingress_bytes: Annotated[float, column("In", "byte", keep=3, help="activations that enter")]
    egress_bytes: Annotated[float, column("Out", "byte", keep=3, help="results that leave")]
    weight_bytes: Annotated[float, column("Weights", "byte", key="weights", keep=3)]
    internal_bytes: Annotated[float, column("Inside", "byte", keep=5, help="exchanged between its operators")]
    threads: Annotated[float, column("Threads", "SI", role="quantity", keep=2, help="elements its head writes")]
    intensity: Annotated[float, column("Intensity", "FLOP/byte", keep=1)]
    on_critical_path: Annotated[
        bool,
        column("Critical", key="critical", keep=2, shown={True: "yes", False: ""}, help="on the critical path by time"),
    ]
    minimum: Annotated[int, column("Minimum", "count", keep=1, help="units that reach half of the best speed")]
    optimal: Annotated[int, column("Optimal", "count", keep=1, help="units within 5 % of the best time")]
    best_s: Annotated[float, column("Best", "s", keep=1, help="the least time with any number of units")]
    divides: Annotated[str, column("Divides along", keep=7, help="what each further part reads again or exchanges")]


class Operator(kernel_rows.OperatorInfo, frozen=True, kw_only=True):
    """An operator. Time and energy are its part of its kernel's, the first also of the start of the run, for the batch;
    `edp_js` is a part of the EDP of the model. `bytes` move to and from memory."""

    kernel: str
    macs: float
    flops: float
    bytes: float
    latency_s: float
    energy_j: float
    edp_js: float
    share: float
    bound: str


class Edge(msgspec.Struct, frozen=True):
    """A dependency: the operator or subgraph `target` reads `bytes` of activations that `source` writes."""

    source: str
    target: str
    bytes: float


class StructureReport(Head, frozen=True, kw_only=True):
    """Operators and subgraphs of a model by type, traffic, parallelism and intensity, in execution order; what depends
    on what, and what could run at once. Edges point forward. `average_intensity` is FLOP per byte across borders, None
    without any. `units_total` is the number of units of the device. `latency_s` includes `host_s`, the start of the
    run, which is in no subgraph, stage or path."""

    n_operators: int
    n_subgraphs: int
    operators_by_type: tuple[KindCount, ...]
    subgraphs_by_pattern: tuple[KindCount, ...]
    fused_operators: int
    fused_fraction: float
    macs: float
    flops: float
    ingress_bytes: float
    egress_bytes: float
    weight_bytes: float
    internal_bytes: float
    average_intensity: float | None
    threads: tuple[ValueRange, ...]
    intensity: tuple[ValueRange, ...]
    operator_stages: int
    widest_stage: int
    widest_operators: int
    latency_s: float
    host_s: float
    critical_path: CriticalPath
    parallelism: tuple[Parallelism, ...]
    unit_name: str
    units_total: int
    stages: tuple[Stage, ...]
    subgraphs: tuple[Subgraph, ...]
    edges: tuple[Edge, ...]
    operators: tuple[Operator, ...]
    operator_edges: tuple[Edge, ...]


def structure(whole: Estimate) -> StructureReport:
    """Return the report of a model on a device, in the estimate's execution mode and batch."""
    result, host = divide_host_work(whole)
    host_s = 0.0 if host is None else float(host.run.latency_s.sum())
    workload, batch, parts = result.workload, result.scenario.batch, result.partition
    fused = kernels.demand(workload, batch, result.plan.widths, "fused")
    graph, graph_of_subgraphs = operator_facts.operator_graph(workload), operator_facts.subgraph_graph(workload)
    operators, of_subgraphs = _operators(whole), _subgraph_columns(result, fused)
    flops, depths = _flops(result), operator_facts.levels(graph)
    operand_bytes = operator_facts.operand_bytes(workload, batch, result.plan.widths)
    of_operators = {"flops": flops, "threads": fused.elements, "intensity": ratio(flops, operand_bytes)}
    n_fused = sum(len(members) for members in parts.members if len(members) > 1)
    path = _critical_path(result, whole.latency_s - host_s)
    stages = _stages(result, operator_facts.levels(graph_of_subgraphs))
    sums: dict[str, Any] = {name: float(of_subgraphs[name].sum()) for name in _SUMMED}
    moved_bytes = sums["ingress_bytes"] + sums["egress_bytes"] + sums["weight_bytes"]
    return StructureReport(
        **head_fields(whole, on_device=True),
        n_operators=workload.n_operators,
        n_subgraphs=len(parts.id),
        operators_by_type=count_kinds(workload.operators.kind, flops),
        subgraphs_by_pattern=count_kinds(parts.kind, of_subgraphs["flops"]),
        fused_operators=n_fused,
        fused_fraction=n_fused / (workload.n_operators or 1),
        **sums,
        average_intensity=sums["flops"] / moved_bytes if moved_bytes else None,
        threads=_buckets("threads", PARALLELISM, PARALLELISM_LABELS, of_operators, of_subgraphs),
        intensity=_buckets("intensity", INTENSITY, INTENSITY_LABELS, of_operators, of_subgraphs),
        operator_stages=int(depths.max(initial=0)) + 1,
        widest_stage=max(stages, key=lambda stage: len(stage.subgraphs)).stage,
        widest_operators=int(np.bincount(depths).max(initial=1)),
        latency_s=whole.latency_s,
        host_s=host_s,
        critical_path=path,
        parallelism=_parallelism(result, path, depths, host_s),
        unit_name=result.device.file.unit_name,
        units_total=int(result.device.units),
        stages=stages,
        subgraphs=_subgraphs(result, of_subgraphs, set(path.subgraphs), operators),
        edges=_edges(graph_of_subgraphs, parts.id, result),
        operators=operators,
        operator_edges=_edges(graph, parts.operator_id, result),
    )


def _flops(result: Estimate) -> Floats:
    flops: Floats = result.workload.operators.flops @ result.workload.value_at(batch=result.scenario.batch)
    return flops


# --- what the model is made of ------------------------------------------------------------------------------


def count_kinds(types: Iterable[str], flops: Floats) -> tuple[KindCount, ...]:
    """Return the number and FLOPs of members by type, the most frequent first."""
    names, place = np.unique(list(types), return_inverse=True)
    counts, work = np.bincount(place, minlength=len(names)), np.bincount(place, flops, minlength=len(names))
    total, order = float(flops.sum()) or 1.0, np.argsort(-counts, kind="stable")
    return records(
        KindCount,
        type=names[order],
        count=counts[order],
        fraction=counts[order] / (len(flops) or 1),
        flops=work[order],
        flops_fraction=work[order] / total,
    )


def count_in_ranges(values: Floats, edges: Sequence[float], weights: Floats) -> tuple[Any, Floats, Floats]:
    """Count `values` (n,) in len(edges) + 1 ranges from 0 upwards, divided at `edges`. Return the counts, their
    fractions, and the fractions of the sum of `weights` (n,)."""
    place, size = np.searchsorted(np.asarray(edges), values, side="right"), len(edges) + 1
    counts = np.bincount(place, minlength=size)
    return counts, counts / (len(values) or 1), np.bincount(place, weights, size) / (float(weights.sum()) or 1.0)


def _buckets(
    name: str, edges: Sequence[float], labels: Sequence[str], *levels: dict[str, Floats]
) -> tuple[ValueRange, ...]:
    """Return the buckets of a figure of operators and of subgraphs."""
    counted: dict[str, Any] = {}
    for what, level in zip(("operators", "subgraphs"), levels, strict=True):
        names = (what, f"{what}_fraction", f"{what}_flops_fraction")
        counted |= zip(names, count_in_ranges(level[name], edges, level["flops"]), strict=True)
    return records(ValueRange, label=labels, low=[0.0, *edges], high=[*edges, None], **counted)


def _operators(result: Estimate) -> tuple[Operator, ...]:
    figures, rows = tree_figures.tree(result), kernel_rows.kernels(result)
    infos = kernel_rows.operator_infos(result.workload, result.scenario.batch)
    descriptions: dict[str, Any] = {
        name: [getattr(info, name) for info in infos] for name in kernel_rows.OperatorInfo.__struct_fields__
    }
    return records(
        Operator,
        figures.operators,
        kernel=[rows.id[k] for k in result.demand.kernel],
        bytes=figures.operators.dram_bytes,
        bound=figures.operator_bound,
        **descriptions,
    )


def _subgraph_columns(result: Estimate, fused: demand.Demand) -> dict[str, Any]:
    moved, roles = fused.moved_bytes, {"ingress": demand.READ, "egress": demand.WRITE, "weight": demand.READ_WEIGHT}
    crossing = {f"{name}_bytes": fused.per_kernel(moved[role]) for name, role in roles.items()}
    return {
        **crossing,
        "macs": fused.per_kernel(fused.macs),
        "flops": (flops := fused.per_kernel(_flops(result))),
        "internal_bytes": fused.per_kernel(fused.local_bytes),
        "threads": fused.elements[result.partition.head],
        "divides": [_divisions(fused, head) for head in result.partition.head.tolist()],
        "intensity": ratio(flops, np.sum([*crossing.values()], axis=0)),
    }


def _divisions(fused: demand.Demand, head: int) -> str:
    """Name the dimensions along which the operator at the head of a subgraph can be divided, with their sizes."""
    if fused.macs[head] <= 0 or not fused.gemm[1, head]:
        return f"{fused.elements[head]:,.0f} elements"
    sizes = zip(fused.gemm[:, head].tolist(), _WAYS, strict=True)
    return "; ".join(f"{size:,.0f} {way}" for size, way in sizes if size > 1)


def _subgraphs(
    result: Estimate, columns: dict[str, Any], critical: set[str], operators: Sequence[Operator]
) -> tuple[Subgraph, ...]:
    parts, total = result.partition, int(result.device.units)
    steps = {base << power for base in (1, 3) for power in range(total.bit_length() + 1)}  # 1, 2, 3, 4, 6, 8, 12 ..
    counts = np.array(sorted(count for count in steps | {total} if count <= total))
    times = np.stack([_times(result, count) for count in counts.tolist()])
    best = times.min(axis=0)
    # `counts` ascends, so argmax finds the fewest units that are fast enough.
    optimal, minimum = ((times <= best * factor).argmax(axis=0) for factor in (NEAR_BEST, HALF_SPEED))
    return records(
        Subgraph,
        id=parts.id,
        type=parts.kind,
        operator_class=[operators[head].operator_class for head in parts.head],
        stage=operator_facts.levels(operator_facts.subgraph_graph(result.workload)),
        operators=[tuple(parts.operator_id[i] for i in members) for members in parts.members],
        on_critical_path=[name in critical for name in parts.id],
        minimum=counts[minimum],
        optimal=counts[optimal],
        best_s=best,
        **columns,
    )


def _times(result: Estimate, units: int) -> Floats:
    """Return the seconds of each subgraph on the device with this many units, shape (s,), before any power limit."""
    setup, device = result.setup, result.device
    if units != device.units:
        fact = Fact(float(units), "count", "rule of thumb: the device with fewer units", "derived")
        device = msgspec.structs.replace(device, facts={**device.facts, "units": fact})
        setup = msgspec.structs.replace(setup, device=device)
    return tree_figures.sum_of_kernels(result, execute(result.demand, setup).unthrottled_s)


def _edges(graph: operator_facts.Dependencies, ids: Sequence[str], result: Estimate) -> tuple[Edge, ...]:
    """Return the edges of a graph whose nodes have these ids."""
    source, target = ([ids[i] for i in ends] for ends in (graph.source, graph.target))
    carried = operator_facts.edge_bytes(graph, result.workload, result.scenario.batch, result.plan.widths)
    return records(Edge, source=source, target=target, bytes=carried)


# --- what could run at once ---------------------------------------------------------------------------------


def _stages(result: Estimate, level_of: Any) -> tuple[Stage, ...]:
    ids = result.partition.id
    flops, time = result.partition.total(_flops(result)), result.partition.total(result.run.latency_s)
    rows = []
    for level in range(int(level_of.max(initial=-1)) + 1):
        part = np.flatnonzero(level_of == level)
        names = tuple(ids[s] for s in part)
        rows.append(Stage(level, names, float(flops[part].sum()), float(time[part].max()), float(time[part].sum())))
    return tuple(rows)


def _critical_path(result: Estimate, all_s: float) -> CriticalPath:
    operators, flops = operator_facts.operator_graph(result.workload), _flops(result)
    count, _ = operator_facts.heaviest_path(operators, np.ones(operators.n))
    heavy, _ = operator_facts.heaviest_path(operators, flops)
    slow, nodes = operator_facts.heaviest_path(operators, result.run.latency_s)
    total = float(flops.sum())
    members = dict.fromkeys(int(result.partition.subgraph[operator]) for operator in nodes)
    return CriticalPath(
        operators=int(count),
        flops=heavy,
        flops_fraction=heavy / (total or 1.0),
        time_s=slow,
        time_fraction=slow / (all_s or 1.0),
        subgraphs=tuple(result.partition.id[subgraph] for subgraph in members),
    )


def _parallelism(result: Estimate, path: CriticalPath, depths: Any, host_s: float) -> tuple[Parallelism, ...]:
    device, batch, time = result.device, result.scenario.batch, result.partition.total(result.run.latency_s)
    width, depth = int(np.bincount(depths).max(initial=1)), int(depths.max(initial=0)) + 1
    threads, rates = result.demand.elements[result.partition.head], device.file.fma_per_clock["vector"]
    lanes = device.units * (rates[result.plan.vector] if result.plan.vector in rates else rates[BASE]).value
    by_time = result.latency_s / (path.time_s + host_s or 1.0)
    by_flops = 1.0 / path.flops_fraction if path.flops_fraction else 1.0
    widest, median = float(threads.max(initial=0.0)), float(np.percentile(threads, 50)) if len(threads) else 0.0
    paced = result.latency_s / (float(time.max(initial=0.0)) + host_s or 1.0)
    branches = f"branches: {by_time:.2f}x in time, {by_flops:.2f}x in FLOPs if all ran at once"
    results = f"results of a typical subgraph at once; speed-up over one of the {lanes:,.0f} lanes"
    stream = "subgraphs on devices of their own, a stream of inputs: paced by the slowest"
    return (
        Parallelism("graph", width, result.workload.n_operators / depth, by_time, branches),
        Parallelism("batch", batch, batch, float(batch), "inputs that do not depend on each other"),
        Parallelism("thread", widest, median, min(median, lanes), results),
        Parallelism("pipeline", len(time), len(time), paced, stream),
    )


# --- the operators as a graph -------------------------------------------------------------------------------


def to_networkx(report: StructureReport) -> networkx.DiGraph[str]:
    """Return the operators as a graph of networkx: nodes by id with the figures of each, edges with their bytes.
    Imports networkx."""
    import networkx

    network: networkx.DiGraph[str] = networkx.DiGraph(model=report.model, batch=report.batch, device=report.device)
    for operator in report.operators:
        facts = msgspec.structs.asdict(operator).items()
        network.add_node(operator.id, **{name: fact for name, fact in facts if isinstance(fact, str | int | float)})
    network.add_weighted_edges_from(((edge.source, edge.target, edge.bytes) for edge in report.operator_edges), "bytes")
    return network


# --- Google's Model Explorer, which opens a graph and colours its nodes by node data ------------------------

_GRADIENT = ({"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#d9822b"})
_FIGURES = {"energy (J)": ("energy_j", 1.0), "latency (ms)": ("latency_s", 1e3), "edp (Js)": ("edp_js", 1.0)}


def _explorer_graph(report: Any, state: State) -> str:
    """Return the operators as a graph file of Model Explorer: modules are its namespaces."""
    nodes: dict[str, Any] = {
        operator.id: {
            "id": operator.id,
            "label": operator.type,
            "namespace": "/".join(re.split(r"[./]", operator.id)[:-1]),
            "incomingEdges": [],
            "attrs": [
                {"key": name, "value": f"{getattr(operator, field) * factor:.4g}"}
                for name, (field, factor) in _FIGURES.items()
            ],
        }
        for operator in report.operators
    }
    for edge in report.operator_edges:
        nodes[edge.target]["incomingEdges"].append({"sourceNodeId": edge.source, "sourceNodeOutputId": "0"})
    return json.dumps({"label": report.model, "graphs": [{"id": report.model, "nodes": [*nodes.values()]}]}) + "\n"


def _node_data(name: str, report: Any, state: State) -> str:
    """Return one figure of each operator as node data of Model Explorer, for the graph of `_explorer_graph`."""
    field, factor = _FIGURES[name]
    results = {operator.id: {"value": getattr(operator, field) * factor} for operator in report.operators}
    data = {"name": f"{name} on {report.device}", "results": results, "gradient": _GRADIENT}
    return json.dumps({report.model: data}) + "\n"


KINDS, BUCKETS = columns(KindCount), columns(ValueRange)
STAGES = (
    *columns(Stage, "stage"),
    Column("count", "Subgraphs", "count", keep=0, of=lambda stage: len(stage.subgraphs)),
    *columns(Stage, "flops time serial"),
    Column("subgraphs", "Which", role="text", keep=2, of=lambda stage: list_names(stage.subgraphs)),
)
_BRIEF = columns(Subgraph, "subgraph threads intensity minimum optimal best")


def _summary(report: StructureReport, state: State) -> tuple[str, ...]:
    path = report.critical_path
    intensity = "no" if report.average_intensity is None else plain_number(report.average_intensity)
    widest = report.stages[report.widest_stage].subgraphs
    types = list_names([f"{kind.count} {kind.type}" for kind in report.operators_by_type])
    return (
        f"{count_noun(report.n_operators, 'operator')} in {count_noun(report.n_subgraphs, 'subgraph')}; "
        f"{report.fused_operators} ({percent(report.fused_fraction)}) share a subgraph with another: {types}",
        f"{quantity(report.flops, 'FLOP')}, {quantity(report.macs, 'MAC')}; {intensity} FLOP per byte across borders: "
        f"{quantity(report.ingress_bytes, 'byte')} in, {quantity(report.egress_bytes, 'byte')} out, "
        f"{quantity(report.weight_bytes, 'byte')} weights; {quantity(report.internal_bytes, 'byte')} stay inside",
        f"{count_noun(len(report.stages), 'stage')} of subgraphs, {report.operator_stages} of operators; the widest "
        f"has {count_noun(len(widest), 'subgraph')}, or {count_noun(report.widest_operators, 'operator')}",
        f"the critical path has {count_noun(path.operators, 'operator')}, {percent(path.flops_fraction)} of the "
        f"FLOPs and {percent(path.time_fraction)} of the {quantity(report.latency_s - report.host_s, 's')} after the "
        f"start of the run: {chain(path.subgraphs, 6)}",
        f"with its branches run at once the model would be {report.parallelism[0].speedup:.2f}x as fast",
        _checks(report),
    )


def _checks(report: StructureReport) -> str:
    """Say how many of the bounds of speed-ups and times, which are computed independently, hold."""
    graph, _, threads, _ = report.parallelism
    times_s = report.critical_path.time_s, sum(stage.time_s for stage in report.stages), report.latency_s
    bounds = (graph.speedup, graph.most), (threads.speedup, threads.most), times_s[:2], times_s[1:]
    path, stages, run = (quantity(seconds, "s") for seconds in times_s)
    return (
        f"{sum(value <= most * _NEAR for value, most in bounds)} of 4 bounds hold: speed-up by branches <= "
        f"{graph.most:g}x, by threads <= {threads.most:,.0f}x, critical path {path} <= stages {stages} <= run {run}"
    )


VERB = declare.Report(
    subject=declare.DEVICE,
    document=declare.document_of_estimate(structure),
    title="Structure",
    parts=(
        declare.summary_text(_summary),
        declare.Rows("types", "Operators by type", KINDS, of="operators_by_type"),
        declare.Rows("patterns", "Subgraphs by fusion pattern", KINDS, of="subgraphs_by_pattern"),
        declare.Rows("threads", "Parallelism of operators and subgraphs, in threads", BUCKETS),
        declare.Rows("intensity", "Arithmetic intensity of operators and subgraphs, in FLOP/byte", BUCKETS),
        declare.Rows("parallelism", "What could run at once", columns(Parallelism)),
        declare.Rows("stages", "Stages", STAGES),
        declare.Rows(
            "subgraphs",
            lambda report: f"Subgraphs, and the {report.unit_name}s (of {report.units_total:,}) that each can use",
            columns(Subgraph),
            kind="type",
            brief={"columns": _BRIEF, "digest": Digest("best", "subgraph")},
        ),
    ),
    brief_parts=("summary", "parallelism", "subgraphs"),
    exports={"graph": _explorer_graph, **{f"nodes-{name.split()[0]}": partial(_node_data, name) for name in _FIGURES}},
    section=declare.Section(5, "What the model is made of, and what could run at once"),
    examples={"structure": "conv2d --on h100_sxm"},
)
