"""A trace laid over an estimate: which measured operator is which of the model's, and what is left on either side.

Both are sequences in order of execution. They are aligned so that as much as possible agrees in kind and size, without
crossings. Operators of the model that the trace does not show by themselves belong to the kernel that they follow in
their subgraph. Nothing is dropped: matched + unmatched + gaps - overlaps = wall time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from statistics import median

import msgspec
import numpy as np

from analysis.annexes.traces.pairs import Overlay, Pair, family, group, leaves
from analysis.annexes.traces.record import Trace, TraceOp
from analysis.annexes.traces.totals import counted, is_sums, of_sums, of_tests
from analysis.estimate.estimate import Estimate
from analysis.model.ir.workload import WEIGHT
from hardware.demand import OpClass

_CELLS = 6_000_000  # of the table that aligns the two sequences; longer ones are aligned within a band
SAME = 0.02  # of a size: less is padding
_KIND, _SIZE, _CLASS, _OTHER_SIZE, _MODULE = 4.0, 3.0, 1.0, 1.0, 6.0


class _Item(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared of an operator: family of its kind, class, elements of its weights and of its data; the path of
    its module, where the trace tells it ('' else)."""

    family: str
    path: str
    group: int
    weights: frozenset[float]
    data: float


def overlay(trace: Trace, result: Estimate) -> Overlay:
    """The trace beside the estimate of the same model at the same batch."""
    if trace.is_tests:
        return of_tests(trace, result)
    if trace.is_total:
        trace = counted(trace, result)
        if is_sums(trace):
            return of_sums(trace, result)
    ops = [op for top in trace.ops for op in leaves(top)]
    shown = [op for op in ops if op.kind != "view"]
    mine, theirs = _model_items(result), [_trace_item(op) for op in shown]
    matches = _aligned(mine, theirs)
    matches += _out_of_order(mine, theirs, matches)
    owner = dict(matches)
    members: dict[int, list[int]] = {j: [i] for i, j in matches}
    for region, inside in _regions(shown, owner, mine):
        members[region] = inside
        owner.update(dict.fromkeys(inside, region))
    missing = []
    for i in range(len(mine)):
        if i in owner:
            continue
        j = _kernel_of(i, owner, result)
        if j is None:
            missing.append(i)
        else:
            members[j].append(i)
    latency = result.run.latency_s
    pairs = [
        Pair(operators=tuple(sorted(those)), op=shown[j], predicted_s=float(latency[those].sum()))
        for j, those in members.items()
    ]
    matched = set(members)
    for i in [i for i in missing if result.workload.operators.kind[i] == "attention"]:
        inside = _opened(i, owner, shown, matched)
        if inside:
            missing.remove(i)
            matched.update(inside)
            parts = tuple(shown[j] for j in inside)
            op = TraceOp(
                name=" + ".join(part.name for part in parts), kind="attention",
                seconds=sum(part.seconds for part in parts), parts=parts,
            )  # fmt: skip
            pairs.append(Pair(operators=(i,), op=op, predicted_s=float(latency[i])))
    strangers = [op for j, op in enumerate(shown) if j not in matched] + [op for op in ops if op.kind == "view"]
    sizes = [(mine[i].data, theirs[j].data) for i, j in matches if mine[i].weights & theirs[j].weights]
    if said := _other_inputs(sizes):
        trace = msgspec.structs.replace(trace, notes=(said, *trace.notes))
    return Overlay(
        trace=trace,
        pairs=tuple(pairs),
        strangers=tuple(op for op in strangers if op.seconds > 0),
        missing=tuple(missing),
        missing_s=float(latency[missing].sum()) if missing else 0.0,
    )


def _other_inputs(sizes: Sequence[tuple[float, float]]) -> str:
    """What to say where layers of the same weights took inputs of another size than the estimate's: (predicted,
    measured) elements of each."""
    ratios = [measured / predicted for predicted, measured in sizes if predicted and measured]
    if not ratios or abs(median(ratios) - 1.0) < SAME:
        return ""
    return (
        f"the trace's inputs are {median(ratios):.3g}x as large as the estimate's: another batch, image or sequence "
        f"(seen in {len(ratios)} layers of the same weights)"
    )


def _regions(shown: Sequence[TraceOp], owner: dict[int, int], mine: Sequence[_Item]) -> list[tuple[int, list[int]]]:
    """What a compiler made one of: all that the trace does not show by itself, after what ran before the region and
    before what ran after it, up to the last operator that the region names."""
    anchors = sorted((j, i) for i, j in owner.items() if shown[j].kind != "copy")
    found, start = [], 0
    for j in [j for j, op in enumerate(shown) if op.kind == "region"]:
        start = max([start, *(i + 1 for at, i in anchors if at < j)])
        end = min((i for at, i in anchors if at > j and i >= start), default=len(mine))
        named = [i for i in range(start, end) if shown[j].until and _is_of(mine[i].path, shown[j].until)]
        end = named[-1] + 1 if named else end
        if inside := [i for i in range(start, end) if i not in owner]:
            found.append((j, inside))
        start = end
    return found


def _opened(i: int, owner: dict[int, int], shown: Sequence[TraceOp], matched: set[int]) -> list[int]:
    """What runs in place of an attention that the trace does not show as one: products and what stands between them,
    after what comes before it in the model and before what comes after."""
    first = max((j for k, j in owner.items() if k < i), default=-1) + 1
    end = min((j for k, j in owner.items() if k > i and j >= first), default=len(shown))
    inside = [j for j in range(first, end) if j not in matched]
    return inside if sum(shown[j].kind in ("matmul", "softmax") for j in inside) >= 2 else []


def _kernel_of(i: int, owner: dict[int, int], result: Estimate) -> int | None:
    """The measured operator in whose kernel an unseen one of the model must have run: one of its subgraph's."""
    members = result.partition.members[int(result.partition.subgraph[i])]
    before = [owner[m] for m in members if m < i and m in owner]
    after = [owner[m] for m in members if m > i and m in owner]
    return before[-1] if before else after[0] if after else None


def _model_items(result: Estimate) -> list[_Item]:
    ops, tensors, point = (
        result.workload.operators,
        result.workload.tensors,
        result.workload.at(batch=result.scenario.batch),
    )
    read, sizes, is_weight = ops.in_numel @ point, tensors.numel @ point, tensors.role == WEIGHT
    items = []
    for i, kind in enumerate(ops.kind):
        edges = range(ops.in_ptr[i], ops.in_ptr[i + 1])
        weights = frozenset(float(read[e]) for e in edges if is_weight[ops.in_tensor[e]])
        data = [float(read[e]) for e in edges if not is_weight[ops.in_tensor[e]]]
        outputs = [float(sizes[t]) for t in ops.out_tensor[ops.out_ptr[i] : ops.out_ptr[i + 1]]]
        largest = max(data or outputs or [0.0])
        path = ops.path[i].partition("~")[0]
        items.append(_Item(family=family(kind), path=path, group=group(kind), weights=weights, data=largest))
    return items


def _trace_item(op: TraceOp) -> _Item:
    sizes = [float(prod(shape)) for shape in op.shapes if shape]
    data = sizes[0] if sizes else float(prod(op.result)) if op.result else 0.0
    kind = op.kind
    weights = frozenset(sizes[1:])
    return _Item(family=family(kind), path=op.module, group=group(kind), weights=weights, data=data)


def _score(mine: _Item, theirs: _Item) -> float:
    """How well two agree; 0 where they cannot be the same."""
    if mine.family == theirs.family:
        value = _KIND
    elif {mine.family, theirs.family} == {"conv", "linear"} or mine.group == theirs.group == OpClass.ELEMENTWISE:
        value = _CLASS  # a linear layer may be a convolution of 1 x 1; element-wise work has many names
    else:
        return 0.0
    if theirs.path and _is_of(mine.path, theirs.path):
        value += _MODULE
    if not theirs.data:
        return value
    if mine.weights & theirs.weights or (mine.data == theirs.data and not mine.weights):
        return value + _SIZE
    # Of another size: most likely another one of its kind.
    return value - _OTHER_SIZE if mine.data == theirs.data else value - 3.0 * _OTHER_SIZE


def _is_of(path: str, module: str) -> bool:
    return path == module or path.startswith(f"{module}.")


def _aligned(mine: Sequence[_Item], theirs: Sequence[_Item]) -> list[tuple[int, int]]:
    """Pairs of places, rising in both, with the greatest sum of scores (dynamic programming over a band)."""
    n, m = len(mine), len(theirs)
    if not n or not m:
        return []
    band = m if n * m <= _CELLS else max(_CELLS // n // 2, 64)
    distinct_mine, rows = _distinct(mine)
    distinct_theirs, columns = _distinct(theirs)
    scores = np.array([[_score(a, b) for b in distinct_theirs] for a in distinct_mine])
    best = np.zeros(m + 1)
    # 1: a pair, 2: this place of the model is left out, 3: that of the trace is.
    step = np.zeros((n + 1, m + 1), dtype=np.int8)
    for i in range(1, n + 1):
        row = scores[rows[i - 1]][columns]
        centre = i * m // n
        row = np.where(np.abs(np.arange(m) - centre) <= band, row, 0.0)
        paired = np.where(row > 0, best[:-1] + row, -1.0)
        reached = np.maximum(paired, best[1:])
        running = np.maximum.accumulate(reached)
        step[i, 1:] = np.where(reached < running, 3, np.where(paired > best[1:], 1, 2))
        best = np.concatenate([[0.0], running])
    matches, i, j = [], n, m
    while i and j:
        if step[i, j] == 1:
            matches.append((i - 1, j - 1))
            i, j = i - 1, j - 1
        elif step[i, j] == 2:
            i -= 1
        else:
            j -= 1
    return matches[::-1]


def _out_of_order(
    mine: Sequence[_Item], theirs: Sequence[_Item], matches: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Pairs among what is left that agree in kind and size: branches run in another order than the model lists them."""
    taken = {i for i, _ in matches}
    left = set(range(len(theirs))) - {j for _, j in matches}
    more = []
    for i in range(len(mine)):
        if i in taken:
            continue
        j = next((j for j in sorted(left) if _score(mine[i], theirs[j]) >= _KIND + _SIZE), None)
        if j is not None:
            more.append((i, j))
            left.discard(j)
    return more


def _distinct(items: Sequence[_Item]) -> tuple[list[_Item], np.ndarray[tuple[int], np.dtype[np.intp]]]:
    """Items that differ, and which of them stands at each place."""
    index: dict[_Item, int] = {}
    places = [index.setdefault(item, len(index)) for item in items]
    return list(index), np.array(places, dtype=np.intp)
