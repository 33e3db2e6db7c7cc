"""The difference between two results, and of several devices in turn.

A result is an estimate, or a file that `compare`, `tree` or `report` wrote as JSON. Two estimates of one model are also
explained by cause and node; for others, the operators that were added, removed or changed say where they differ.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec

from analysis.document import column, record, records
from analysis.estimate.causes import FAMILIES, divide_host_work, family_energy
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.metrics import METRICS, select_metrics
from analysis.estimate.tree_figures import host_branches, operators_of
from analysis.explore.attribution import Explanation, estimate_of_work, explain, is_comparable
from analysis.explore.odds import LIKELY, probability, verdict
from analysis.explore.outcome import Finding, coverage_findings
from analysis.wording import CHANGES, describe_metric, formats_differ, short_name, work_word
from hardware.base import file_access
from hardware.base.errors import RequestError, unknown
from hardware.base.text import Unit, percent

_FILE_MAX = 64 << 20  # bytes; the report of the largest model that ships has 3 MB
_HOST = "host"  # the type of the work between kernels
_RUN_FIGURES = ("energy", "latency", "edp", "memory")


class OperatorFigures(msgspec.Struct, frozen=True, kw_only=True):
    """One operator; `name` is its module path. Energy in J and MACs per inference, latency in s of the batch."""

    id: str
    name: str
    type: str
    energy: float
    latency: float
    macs: float


class ResultSummary(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The model and settings of a result, and its figures, by names of METRICS. `precision_run` and `runtime` are '' in
    files that do not have them. `incomplete` is not empty if too little of the work has a cost rule."""

    model: str
    device: str
    batch: int
    precision: str
    precision_run: str
    execution: str
    runtime: str
    coverage: float
    incomplete: str
    prices: str = "own"
    figures: dict[str, float]


class ComparedResult(ResultSummary, frozen=True, kw_only=True):
    """A result with its operators; without any if they are not known."""

    parts: tuple[OperatorFigures, ...] = ()


def summarize_estimate(result: Estimate, path: str = "") -> ComparedResult:
    """Return the work below a node ('' is the model) as a result that can be compared. A node has no peak of memory."""
    work, batch = estimate_of_work(result, path), result.scenario.batch
    members, ops, demand = operators_of(result, path), result.workload.operators, result.demand
    (rest, host), is_whole = divide_host_work(work), work is result
    operators = records(
        OperatorFigures,
        id=[result.partition.operator_id[i] for i in members],
        name=[ops.path[i] for i in members],
        type=[ops.kind[i] for i in members],
        energy=rest.run.energy_j[members] / batch,
        latency=rest.run.latency_s[members],
        macs=demand.macs[members] / batch,
    )
    if host is not None:  # a row of its own, as in the tree
        branch = host_branches(result)[0]
        energy, latency = float(host.run.energy_j.sum()) / batch, float(host.run.latency_s.sum())
        own = OperatorFigures(id=branch.key, name=branch.name, type=_HOST, energy=energy, latency=latency, macs=0.0)
        operators = (*operators, own)
    figures = {name: METRICS[name].figure(work) for name in _RUN_FIGURES if is_whole or name != "memory"} | {
        "macs": float(demand.macs[members].sum()) / batch,
        "flops": float(demand.flops[members].sum()) / batch,
        "operators": float(len(members)),
    }
    return record(
        ComparedResult,
        result,
        result.scenario,
        model=result.workload.name,
        device=result.device.key,
        runtime=result.runtime.name,
        incomplete=result.rule_coverage.gap,
        figures=figures,
        parts=operators,
    )


_Amount = Annotated[float, msgspec.Meta(ge=0)]


_Batch = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]


class _Node(msgspec.Struct):
    id: str
    name: str
    type: str
    macs: _Amount
    flops: _Amount
    latency_s: _Amount
    energy_j: _Amount
    edp_js: _Amount
    children: tuple["_Node", ...] = ()


class _Row(msgspec.Struct):
    device: str
    batch: _Batch
    latency_s: _Amount
    energy_j_per_inference: _Amount
    edp_js: _Amount
    peak_memory_bytes: _Amount
    execution_run: str
    precision_run: str = ""
    runtime: str = ""


class _Compared(msgspec.Struct):
    macs_per_inference: _Amount
    flops: _Amount
    rows: Annotated[tuple[_Row, ...], msgspec.Meta(min_length=1)]


class _Head(msgspec.Struct):
    schema: str
    model: str
    batch: _Batch
    precision: str
    device: str = ""
    execution_run: str = ""
    precision_run: str = ""
    runtime: str = ""
    coverage: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    incomplete: str = ""
    prices: str = "own"


def read_result(path: Path, device: str) -> ComparedResult:
    """Read a device's result from a file, of its first device if it lacks this one. Raises RequestError."""
    try:
        data = msgspec.json.decode(file_access.read(path, _FILE_MAX), type=dict[str, Any])
        head, root, compared = msgspec.convert(data, _Head), None, None
        if "tree" in data or "children" in data:
            root = msgspec.convert(data.get("tree", data), _Node)
        if "tree" in data or root is None:
            compared = msgspec.convert(data.get("compare") if root else data, _Compared)
        return _combine(head, device, root, compared)
    except OSError as error:
        raise RequestError(f"cannot read {path}: {error.strerror or error}") from None
    except (msgspec.MsgspecError, RecursionError, UnicodeError) as error:
        wrong = " ".join(str(error).split())[:200]
        raise RequestError(f"{path} is not JSON written by compare, tree or report: {wrong}") from None


def _combine(head: _Head, device: str, root: _Node | None, compared: _Compared | None) -> ComparedResult:
    row = None
    figures: dict[str, float] = {}
    parts: tuple[OperatorFigures, ...] = ()
    if compared is not None:
        row = next((r for r in compared.rows if r.device == device), compared.rows[0])
        figures = {name: METRICS[name].figure(row) for name in _RUN_FIGURES} | {
            "macs": compared.macs_per_inference,
            "flops": compared.flops / head.batch,
        }
    if root is not None:
        parts = tuple(
            record(
                OperatorFigures, op, energy=op.energy_j / head.batch, latency=op.latency_s, macs=op.macs / head.batch
            )
            for subgraph in root.children
            for op in ([subgraph] if subgraph.type == _HOST else subgraph.children)
        )
        figures |= {
            "energy": root.energy_j / head.batch,
            "latency": root.latency_s,
            "edp": root.edp_js,
            "macs": root.macs / head.batch,
            "flops": root.flops / head.batch,
            "operators": float(sum(part.type != _HOST for part in parts)),
        }
    of_run = {name: getattr(head, name) or getattr(row, name, "") for name in ("device", "precision_run", "runtime")}
    execution = head.execution_run or getattr(row, "execution_run", "")
    return record(ComparedResult, head, **of_run, execution=execution, figures=figures, parts=parts)


# The figures that are sums over operators.
PARTS = ("energy", "latency", "macs")
_SAME = 1e-9  # relative: below this a difference is rounding
# Settings of a result, in words.
_SETTINGS = {"model": "model", "device": "device", "batch": "batch", "precision": "precision", "prices": "prices",
             "precision_run": "format used", "runtime": "runtime", "execution": "kernels"}  # fmt: skip


class FigureChange(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of both sides. `change` is relative to `a`, None if only `a` is 0."""

    figure: str
    title: Annotated[str, column("Figure", key="figure")]
    unit: Annotated[Unit, column("SI unit", role="text", keep=9)]
    a: float
    b: float
    difference: float
    change: Annotated[float | None, column("Change", role="delta")]


class TypeCount(msgspec.Struct, frozen=True):
    """The number of operators of a type on both sides."""

    type: Annotated[str, column("Operators")]
    a: Annotated[int, column("First", "count")]
    b: Annotated[int, column("Second", "count")]


class OperatorChange(msgspec.Struct, frozen=True, kw_only=True):
    """An operator that differs: `how` is 'added', 'removed' or 'changed'. Differences in SI units."""

    id: Annotated[str, column("Operator")]
    type: Annotated[str, column("Kind", keep=2)]
    how: Annotated[str, column("", help="added, removed or changed")]
    energy_j: Annotated[float, column("Energy/inf", "J", role="quantity")]
    latency_s: Annotated[float, column("Latency", "s", role="quantity")]
    macs: Annotated[float, column("MACs", "MAC", role="quantity", keep=1)]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """State what differs from the first to the second side, of all or of a node: settings, figures, causes, operators.
    `missing` are figures that only one side has.
    `reasons` begin with the answer. `explanation` is None unless both sides are estimates of one model; then `places`
    are empty, since every operator of another device differs. `findings` are on rules."""

    node: str
    a: ResultSummary
    b: ResultSummary
    reasons: tuple[str, ...]
    settings: tuple[str, ...]
    missing: tuple[str, ...]
    figures: tuple[FigureChange, ...]
    explanation: Explanation | None
    operators: tuple[TypeCount, ...]
    places: tuple[OperatorChange, ...]
    holds: bool
    findings: tuple[Finding, ...]

    @property
    def incomplete(self) -> str:
        """The reason that figures of a side do not cover its model; '' if they do."""
        return "; ".join(dict.fromkeys(side.incomplete for side in (self.a, self.b) if side.incomplete))


def compare_results(
    a: Estimate | ComparedResult,
    b: Estimate | ComparedResult,
    metric: str = "edp",
    path: str = "",
    rules: Callable[["ResultChanges"], tuple[Finding, ...]] = lambda changes: (),
) -> Difference:
    """Return the difference of two results, of the work below a node ('' is all). `rules` evaluates rules on the
    changes; too few cost rules on a side break a rule. Raises RequestError for a node that a side does not have."""
    explanation = None
    if isinstance(a, Estimate) and isinstance(b, Estimate) and is_comparable(a, b):
        explanation = explain(a, b, metric, path)
    work = work_word(a) if isinstance(a, Estimate) else "inference"
    changes = ResultChanges(_summarize(a, path), _summarize(b, path), work)
    before, after = changes.sides
    gaps = ((side.coverage, side.incomplete and f"{side.model}: {side.incomplete}") for side in changes.sides)
    findings = (*rules(changes), *(finding for share, gap in gaps for finding in coverage_findings(share, gap)))
    kinds = [Counter(part.type for part in side.parts) for side in changes.sides]
    figures = [name for name in select_metrics(lambda metric: metric.is_compared) if path == "" or name != "memory"]
    shared = tuple(
        changes.figure_change(name) for name in figures if all(name in side.figures for side in changes.sides)
    )
    settings = [
        f"{words} {old} -> {new}"
        for name, words in _SETTINGS.items()
        if (old := getattr(before, name)) != (new := getattr(after, name)) and old and new
    ]
    missing = [METRICS[name].noun for name in figures if (name in before.figures) != (name in after.figures)]
    return Difference(
        node=path,
        a=record(ResultSummary, before),
        b=record(ResultSummary, after),
        reasons=(_headline(shared),) if explanation is None else explanation.reasons,
        settings=tuple(settings),
        missing=tuple(missing),
        figures=shared,
        explanation=explanation,
        operators=tuple(
            TypeCount(name, kinds[0][name], kinds[1][name])
            for name in sorted(kinds[0] | kinds[1])
            if kinds[0][name] != kinds[1][name] and before.parts and after.parts
        ),
        places=changes.operator_changes() if explanation is None else (),
        holds=all(finding.holds for finding in findings),
        findings=findings,
    )


def _summarize(side: Estimate | ComparedResult, path: str) -> ComparedResult:
    if isinstance(side, Estimate):
        return summarize_estimate(side, path)
    if path:
        raise RequestError(f"a file has no nodes to compare: --node {path} needs two devices or states")
    return side


def _headline(figures: Sequence[FigureChange]) -> str:
    """Write `+25 % EDP, +14 % energy per inference`; of EDP, energy and latency if they differ."""
    words = dict[str, str]()
    for one in figures:
        share, sign = abs(one.change or 0.0), "+" if one.difference > 0 else "-"
        amount = "from nothing" if one.change is None else f"{sign}{percent(share, int(share < 0.0995))}"
        words |= {one.figure: f"{amount} {one.title}"} if one.difference else {}
    listed = [words[name] for name in ("edp", "energy", "latency") if name in words] or words.values()
    return ", ".join(listed) or "nothing differs"


class ResultChanges:
    """The changes from one result to another, by figure and by operator."""

    def __init__(self, a: ComparedResult, b: ComparedResult, work: str = "inference") -> None:
        self.sides, self._has_operators, self._work = (a, b), bool(a.parts and b.parts), work

    def figure_change(self, figure: str) -> FigureChange:
        """Return the change of a figure. Raises RequestError if a side does not have it."""
        title = METRICS[figure].noun_of(self._work)
        for side in self.sides:
            if figure not in side.figures:
                raise RequestError(f"the file of {side.model} has no {title}: that of `hwexplorer report` has all")
        a, b = (side.figures[figure] for side in self.sides)
        is_same = abs(b - a) <= _SAME * max(a, b)
        return FigureChange(
            figure=figure,
            title=title,
            unit=METRICS[figure].unit,
            a=a,
            b=b,
            difference=0.0 if is_same else b - a,
            change=0.0 if is_same else relative_difference(a, b),
        )

    def relative_change(self, figure: str, pattern: str) -> float:
        """Return the relative change of the operators whose path matches, of all for an empty pattern; infinity if only
        the first value is 0. Raises RequestError."""
        if not pattern:
            change = self.figure_change(figure).change
        elif figure not in PARTS:
            raise unknown("figure of a part", figure, PARTS)
        else:
            sums = []
            for side in self.sides:
                matching = [p for p in side.parts if fnmatchcase(p.name, pattern) or fnmatchcase(p.id, pattern)]
                sums.append(sum(getattr(part, figure) for part in matching))
            if not self._has_operators or not any(sums):
                raise RequestError(f"no operator of either side matches {pattern!r}")
            change = relative_difference(*sums)
        return float("inf") if change is None else change

    def operator_changes(self) -> tuple[OperatorChange, ...]:
        """Return the operators that differ, the largest difference of energy first."""
        places = []
        old_parts, new_parts = ({part.id: part for part in side.parts} for side in self.sides)
        for id in dict.fromkeys((*old_parts, *new_parts)) if self._has_operators else ():
            old, new = old_parts.get(id), new_parts.get(id)
            how = "added" if old is None else "removed" if new is None else "changed"
            old_figures, new_figures = ([getattr(p, name) if p else 0.0 for name in PARTS] for p in (old, new))
            is_same = all(abs(b - a) <= _SAME * max(a, b) for a, b in zip(old_figures, new_figures, strict=True))
            types = dict.fromkeys(part.type for part in (old, new) if part)
            if how == "changed" and is_same and len(types) == 1:
                continue
            energy, latency, macs = (b - a for a, b in zip(old_figures, new_figures, strict=True))
            kind = " -> ".join(types)
            places.append(OperatorChange(id=id, type=kind, how=how, energy_j=energy, latency_s=latency, macs=macs))
        return tuple(sorted(places, key=lambda one: (-abs(one.energy_j), -abs(one.latency_s))))


def relative_difference(a: float, b: float) -> float | None:
    """Return the difference over the first value. Return None if only the first value is 0."""
    if a == b:
        return 0.0
    return (b - a) / a if a else None


# --- several devices in turn ------------------------------------------------------------------------------


class ArchitectureSide(msgspec.Struct, frozen=True, kw_only=True):
    """A device: figures of the node per inference, and its energy by family of events, J per inference."""

    device: str
    architecture: str
    precision_run: str
    runtime: str
    latency_s: float
    energy_j_per_inference: float
    energy_by_family_j: dict[str, float]


class ArchitectureStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step from one device to the next: ratios of the second over the first, and causes in words. `dynamic_ratio` is
    that of the energy without static power."""

    from_device: str
    to_device: str
    energy_ratio: float
    dynamic_ratio: float
    latency_ratio: float
    edp_ratio: float
    energy_reasons: tuple[str, ...]
    latency_reasons: tuple[str, ...]

    @property
    def says(self) -> tuple[str, ...]:
        """The step in lines: what changes, then causes of the energy and of the time."""
        ratios = {"energy": self.energy_ratio, "latency": self.latency_ratio, "edp": self.edp_ratio}
        words = ", ".join(describe_metric(*pair) for pair in ratios.items())
        return (f"{words}; without static power {describe_metric('energy', self.dynamic_ratio)}",
                *(f"energy: {line}" for line in self.energy_reasons),
                *(f"time: {line}" for line in self.latency_reasons))  # fmt: skip


class Progression(Head, frozen=True, kw_only=True):
    """A node ('' is the model) on several devices in turn. `answers` say which existing device has the least EDP, and
    compare the last device with the best of the others, in energy, time and EDP."""

    node: str
    answers: tuple[str, ...]
    sides: tuple[ArchitectureSide, ...]
    steps: tuple[ArchitectureStep, ...]


def compare_in_turn(results: Sequence[Estimate], path: str = "") -> Progression:
    """Return the work below a node ('' is all) on each device, and the steps between them. Raises RequestError for an
    unknown node."""
    leader = verdict([estimate_of_work(result, path) for result in results])
    return Progression(
        **head_fields(results[0]),
        node=path,
        answers=(
            *(leader.lines[:1] if leader is not None else ()),
            *(_answer(results[-1], results[:-1], metric, path) for metric in CHANGES),
        ),
        sides=tuple(_side(result, path) for result in results),
        steps=tuple(_step(from_device, to_device, path) for from_device, to_device in pairwise(results)),
    )


def _answer(last: Estimate, others: Sequence[Estimate], metric: str, path: str) -> str:
    """Write `KPU-T256 (paper): 4.8x slower than TPU v4 (98 % sure): it computes in fp32, TPU v4 in bf16`, against the
    best of the others."""
    figure = METRICS[metric].figure
    own, *rivals = (estimate_of_work(result, path) for result in (last, *others))
    rival = min(rivals, key=figure)
    odds = max(probability(own, rival, metric), probability(rival, own, metric))
    sure = f"{percent(odds)} sure" if odds >= LIKELY else f"too close to call, {percent(odds)} odds"
    name, rival_name = short_name(own.device), short_name(rival.device)
    words = f"{name}: {describe_metric(metric, figure(own) / (figure(rival) or 1.0), rival_name)} ({sure})"
    if not formats_differ((own, rival)):
        return words
    return f"{words}: it computes in {own.precision_run}, {rival_name} in {rival.precision_run}"


def _side(result: Estimate, path: str) -> ArchitectureSide:
    work = estimate_of_work(result, path)
    families = (family_energy(work) / work.scenario.batch).tolist()
    return ArchitectureSide(
        device=result.device.key, architecture=result.device.architecture, precision_run=result.precision_run,
        runtime=result.runtime.name, latency_s=work.latency_s, energy_j_per_inference=work.energy_j_per_inference,
        energy_by_family_j=dict(zip(FAMILIES, families, strict=True)),
    )  # fmt: skip


def _step(from_device: Estimate, to_device: Estimate, path: str) -> ArchitectureStep:
    energy, latency = (explain(from_device, to_device, metric, path) for metric in ("energy", "latency"))
    dynamic_j = [
        (work.energy_j - work.component_j["static"]) / work.scenario.batch
        for work in (estimate_of_work(result, path) for result in (from_device, to_device))
    ]
    return ArchitectureStep(
        from_device=short_name(from_device.device), to_device=short_name(to_device.device),
        energy_ratio=energy.ratio, latency_ratio=latency.ratio, dynamic_ratio=dynamic_j[1] / (dynamic_j[0] or 1.0),
        edp_ratio=energy.ratio * latency.ratio,
        energy_reasons=energy.reasons[1:], latency_reasons=latency.reasons[1:],
    )  # fmt: skip
