"""Alignment of a trace with an estimate: matches measured operators with the model's, and keeps the rest of both.

Both are sequences in order of execution. They are aligned so that kinds and sizes agree as far as possible, without
crossings. An operator of the model without a measured counterpart is assigned to the kernel that it follows in its
subgraph. Nothing is dropped: matched + unmatched + gaps - overlaps = wall time."""

from collections.abc import Sequence
from math import prod
from typing import Any

import msgspec
import numpy as np

from hwexplorer.extend import estimate, workload
from hwexplorer_annexes.traces.estimate_parts import OpClass
from hwexplorer_annexes.traces.matched_pairs import (
    Alignment,
    MatchedPair,
    align_sums,
    divide_into_runs,
    kind_family,
    kind_group,
    leaf_ops,
    make_alignment,
)
from hwexplorer_annexes.traces.trace_record import Trace, TraceError, TraceOp, join_followers

PADDED = 2.1  # most that ONNX Runtime pads a weight, times its size: it rounds channels up to 16
_JOINED = 8  # most operators between two layers with the same input
MOST_CELLS, MOST_SCORES = 50_000_000, 5_000_000  # operators of the model times those of the trace, a second or two
_CELLS = 6_000_000  # of the alignment table; longer sequences are aligned within a band
_KIND, _SIZE, _CLASS, _OTHER_SIZE, _MODULE = 4.0, 3.0, 1.0, 1.0, 6.0  # scores of agreement


class _Item(msgspec.Struct, frozen=True, kw_only=True):
    """The traits by which operators are compared: family of the kind, path of the module ('' if unknown), operator
    class, elements of each weight, elements of the largest data input."""

    family: str
    path: str
    group: int
    weights: frozenset[float]
    data: float


def align_trace(trace: Trace, result: estimate.Estimate) -> Alignment:
    """Align a trace with the estimate of the same model at the same batch."""
    if trace.is_total:
        trace = divide_into_runs(trace, result)
        if trace.runs > 1 or any(op.count > 1 for op in trace.ops):  # merged calls have no order
            return align_sums(trace, result)
    ops = join_followers(op for top in trace.ops for op in leaf_ops(top))
    shown = [op for op in ops if op.kind != "view"]
    model, measured = _model_items(result), [_trace_item(op) for op in shown]
    matches = _align_items(model, measured)
    matches += _match_out_of_order(model, measured, matches)
    owner = dict(matches)
    members: dict[int, list[int]] = {j: [i] for i, j in matches}
    for region, inside in _compiled_regions(shown, owner, model):
        members[region] = inside
        owner.update(dict.fromkeys(inside, region))
    missing = []
    for i in [i for i in range(len(model)) if i not in owner]:
        j = _kernel_of(i, owner, result)
        if j is None:
            j = _joined_layer(i, owner, shown, result)
        if j is None:
            missing.append(i)
        else:
            members[j].append(i)
    pads = PADDED if trace.runtime == "onnxruntime" else 1.0
    latency, twin = result.run.latency_s, {j: i for i, j in matches}
    pairs = [
        MatchedPair(
            operators=tuple(sorted(indices)), op=shown[j], predicted_s=float(latency[indices].sum()),
            **(_compare_sizes(model[twin[j]], measured[j], pads) if j in twin else {}),
        )
        for j, indices in members.items()
    ]  # fmt: skip
    matched = set(members)
    for i in [i for i in missing if result.workload.operators.kind[i] == "attention"]:
        inside = _attention_parts(i, owner, shown, matched)
        if inside:
            missing.remove(i)
            matched.update(inside)
            parts = tuple(shown[j] for j in inside)
            op = TraceOp(
                name=" + ".join(part.name for part in parts), kind="attention",
                seconds=sum(part.seconds for part in parts), parts=parts,
            )  # fmt: skip
            pairs.append(MatchedPair(operators=(i,), op=op, predicted_s=float(latency[i])))
    strangers = [op for j, op in enumerate(shown) if j not in matched] + [op for op in ops if op.kind == "view"]
    return make_alignment(trace, result, pairs, strangers, missing)


def _compare_sizes(model: _Item, measured: _Item, pads: float) -> dict[str, Any]:
    """Return the size fields of a MatchedPair. A runtime may have padded weights to at most `pads` times their size."""
    sizes = [theirs / ours for ours in model.weights for theirs in measured.weights if ours]
    return {
        "has_same_weights": any(1.0 <= size <= pads for size in sizes) if sizes else None,
        "input_ratio": measured.data / model.data if measured.data and model.data else None,
    }


def _compiled_regions(
    shown: Sequence[TraceOp], owner: dict[int, int], model: Sequence[_Item]
) -> list[tuple[int, list[int]]]:
    """Return each region (a kernel that a compiler made of many operators) with the indices of its operators: the
    unmatched ones between its neighbours in the trace, up to the last operator that the region names."""
    anchors = sorted((j, i) for i, j in owner.items() if shown[j].kind != "copy")
    regions, start = [], 0
    for j in [j for j, op in enumerate(shown) if op.kind == "region"]:
        start = max([start, *(i + 1 for at, i in anchors if at < j)])
        end = min((i for at, i in anchors if at > j and i >= start), default=len(model))
        named = [i for i in range(start, end) if shown[j].until and _is_inside(model[i].path, shown[j].until)]
        end = named[-1] + 1 if named else end
        if inside := [i for i in range(start, end) if i not in owner]:
            regions.append((j, inside))
        start = end
    return regions


def _attention_parts(i: int, owner: dict[int, int], shown: Sequence[TraceOp], matched: set[int]) -> list[int]:
    """Return the measured operators (products, softmax and those between) that replace an attention, else []."""
    first = max((j for k, j in owner.items() if k < i), default=-1) + 1
    end = min((j for k, j in owner.items() if k > i and j >= first), default=len(shown))
    inside = [j for j in range(first, end) if j not in matched]
    return inside if sum(shown[j].kind in ("matmul", "softmax") for j in inside) >= 2 else []


def _kernel_of(i: int, owner: dict[int, int], result: estimate.Estimate) -> int | None:
    """Return the measured operator of the same subgraph whose kernel must contain an unseen operator, else None."""
    members = result.partition.members[int(result.partition.subgraph[i])]
    before = [owner[m] for m in members if m < i and m in owner]
    after = [owner[m] for m in members if m > i and m in owner]
    return before[-1] if before else after[0] if after else None


def _joined_layer(i: int, owner: dict[int, int], shown: Sequence[TraceOp], result: estimate.Estimate) -> int | None:
    """Return a measured layer with the same input as an unseen one, else None: software joins such layers (Q, K and V)
    into one kernel. Layers with recorded shapes are not joined."""
    ops = result.workload.operators
    if ops.kind[i] != "linear":
        return None
    source = ops.in_tensor[ops.in_ptr[i]]
    near = (k for k in range(max(i - _JOINED, 0), i + _JOINED + 1) if k in owner and ops.kind[k] == "linear")
    joined = (owner[k] for k in near if ops.in_tensor[ops.in_ptr[k]] == source)
    return next((j for j in joined if not shown[j].shapes), None)


def _model_items(result: estimate.Estimate) -> list[_Item]:
    ops, tensors = result.workload.operators, result.workload.tensors
    point = result.workload.value_at(batch=result.scenario.batch)
    read, sizes, is_weight = ops.in_numel @ point, tensors.numel @ point, tensors.role == workload.WEIGHT
    items = []
    for i, kind in enumerate(ops.kind):
        edges = range(ops.in_ptr[i], ops.in_ptr[i + 1])
        weights = frozenset(float(read[e]) for e in edges if is_weight[ops.in_tensor[e]])
        data = [float(read[e]) for e in edges if not is_weight[ops.in_tensor[e]]]
        outputs = [float(sizes[t]) for t in ops.out_tensor[ops.out_ptr[i] : ops.out_ptr[i + 1]]]
        largest = max(data or outputs or [0.0])
        path = ops.path[i].partition("~")[0]
        items.append(_Item(family=kind_family(kind), path=path, group=kind_group(kind), weights=weights, data=largest))
    return items


def _trace_item(op: TraceOp) -> _Item:
    sizes = [float(prod(shape)) for shape in op.shapes if shape]
    data = sizes[0] if sizes else float(prod(op.result)) if op.result else 0.0
    weights = frozenset(sizes[1:])
    return _Item(family=kind_family(op.kind), path=op.module, group=kind_group(op.kind), weights=weights, data=data)


def _score(model: _Item, measured: _Item) -> float:
    """Return the score of agreement of two operators, 0 if they cannot be the same."""
    if model.family == measured.family:
        value = _KIND
    elif {model.family, measured.family} == {"conv", "linear"} or model.group == measured.group == OpClass.ELEMENTWISE:
        value = _CLASS  # a linear layer may be a convolution of 1 x 1; element-wise work has many names
    else:
        return 0.0
    if measured.path and _is_inside(model.path, measured.path):
        value += _MODULE
    if not measured.data:
        return value
    if model.weights & measured.weights or (model.data == measured.data and not model.weights):
        return value + _SIZE
    # Other sizes most likely mean another operator of the same kind.
    return value - _OTHER_SIZE if model.data == measured.data else value - 3.0 * _OTHER_SIZE


def _is_inside(path: str, module: str) -> bool:
    return path == module or path.startswith(f"{module}.")


def _align_items(model: Sequence[_Item], measured: Sequence[_Item]) -> list[tuple[int, int]]:
    """Return pairs of indices, increasing in both, with the highest sum of scores (dynamic programming in a band)."""
    n, m = len(model), len(measured)
    if not n or not m:
        return []
    distinct_model, rows = _distinct_items(model)
    distinct_measured, columns = _distinct_items(measured)
    if n * m > MOST_CELLS or n * len(distinct_measured) > MOST_SCORES:
        raise TraceError(
            f"a run of it has {m:,} operators, too many to compare with the model's {n:,}: trace fewer runs"
        )
    band = m if n * m <= _CELLS else max(_CELLS // n // 2, 64)
    scores = np.array([[_score(a, b) for b in distinct_measured] for a in distinct_model])
    best = np.zeros(m + 1)
    # 1: the two are a pair; 2: the model's operator is skipped; 3: the trace's operator is skipped.
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


def _match_out_of_order(
    model: Sequence[_Item], measured: Sequence[_Item], matches: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Pair the remaining operators that agree in kind and size: branches may run in another order than in the model."""
    matched = {i for i, _ in matches}
    taken = {j for _, j in matches}
    left: dict[_Item, list[int]] = {}  # indices of equal items in descending order
    for j in reversed(range(len(measured))):
        if j not in taken:
            left.setdefault(measured[j], []).append(j)
    more = []
    for i in [i for i in range(len(model)) if i not in matched]:
        fitting = [places for item, places in left.items() if places and _score(model[i], item) >= _KIND + _SIZE]
        if fitting:
            more.append((i, min(fitting, key=lambda places: places[-1]).pop()))
    return more


def _distinct_items(items: Sequence[_Item]) -> tuple[list[_Item], np.ndarray[tuple[int], np.dtype[np.intp]]]:
    index: dict[_Item, int] = {}
    places = [index.setdefault(item, len(index)) for item in items]
    return list(index), np.array(places, dtype=np.intp)
