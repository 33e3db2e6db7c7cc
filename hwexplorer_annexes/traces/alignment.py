"""Align a trace with an estimate: match measured operators with the model's, and keep the rest of both.

Both are sequences in order of execution. They are aligned so that kinds and sizes agree as far as possible, without
crossings. An operator of the model without a measured counterpart is assigned to the kernel that it follows in its
subgraph. Nothing is dropped: matched + unmatched + gaps - overlaps = wall time.

Sums over a whole capture are matched by kind: the module finds the number of runs in the capture, and compares each
kind's time with the time of the model's operators of that kind. Sums do not show the time of single operators.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from math import prod
from statistics import median
from typing import Any

import msgspec
import numpy as np

from hwexplorer.extend import KINDS, Device, demand, estimate, group_by, setup, workload
from hwexplorer_annexes.traces.trace_record import NAMES, Trace, TraceError, TraceOp, join_followers

OpClass = demand.OpClass
CALLING = 0.2  # share of its time that an operator may spend itself if it only calls others
_FAMILIES: dict[str, str] = {kind: names[0] for names in NAMES["same"] for kind in names}
# Kinds by which runs are counted, the most reliable first: their operators are nearly always one kernel.
_COUNTED = ("attention", "conv", "layer_norm", "norm", "softmax", "linear")
NEAR = 0.05  # relative distance from a whole number of runs


class MatchedPair(msgspec.Struct, frozen=True, kw_only=True):
    """A measured operator and the indices of the model's operators that it executes. `input_ratio` is the elements of
    the measured input over the model's. `has_same_weights` and `input_ratio` are None if the trace has no sizes."""

    operators: tuple[int, ...]
    op: TraceOp
    predicted_s: float
    has_same_weights: bool | None = None
    input_ratio: float | None = None


class Alignment(msgspec.Struct, frozen=True, kw_only=True):
    """All pairs of a trace of one run. `strangers` are measured operators that are not in the model; `missing` are
    indices of the model's operators that are not in the trace, and `missing_s` is their predicted time."""

    trace: Trace
    pairs: tuple[MatchedPair, ...]
    strangers: tuple[TraceOp, ...]
    missing: tuple[int, ...]
    missing_s: float

    @property
    def matched_s(self) -> float:
        """Seconds of measured operators that are in the model."""
        return sum(pair.op.seconds for pair in self.pairs)

    @property
    def unmatched_s(self) -> float:
        """Seconds of measured operators that are not in the model."""
        return sum(op.seconds for op in self.strangers)

    @property
    def coverage(self) -> float:
        """The share of the measured operators' time that belongs to operators of the model."""
        spent_s = self.matched_s + self.unmatched_s
        return self.matched_s / spent_s if spent_s else 0.0


def make_alignment(
    trace: Trace,
    result: estimate.Estimate,
    pairs: Sequence[MatchedPair],
    strangers: Sequence[TraceOp],
    missing: Sequence[int],
) -> Alignment:
    """Return the alignment. It keeps only strangers that took time and adds up the time of missing operators."""
    return Alignment(
        trace=trace,
        pairs=tuple(pairs),
        strangers=tuple(op for op in strangers if op.seconds > 0),
        missing=tuple(missing),
        missing_s=float(result.run.latency_s[list(missing)].sum()) if missing else 0.0,
    )


def kind_family(kind: str) -> str:
    """Return the first of the kinds that profilers do not distinguish from this one, else the kind itself."""
    return _FAMILIES.get(kind, kind)


def kind_group(kind: str) -> int:
    """Return the operator class of a kind, -1 for an unknown kind. Normalisations count as element-wise. Kinds of one
    class may be matched with each other."""
    if kind not in KINDS:
        return -1
    op_class = KINDS[kind].op_class
    return int(OpClass.ELEMENTWISE if op_class in (OpClass.ELEMENTWISE, OpClass.NORM) else op_class)


def leaf_ops(op: TraceOp) -> Iterator[TraceOp]:
    """Yield the operators that a model may have: those with a known kind or without parts. The time that a caller
    spends itself is divided among its parts; above the share `CALLING` it becomes a separate operator instead."""
    if op.kind or not op.parts:
        yield op
        return
    parts_s = sum(part.seconds for part in op.parts)
    own_s = op.seconds - parts_s
    if own_s <= CALLING * op.seconds:
        for part in op.parts:
            yield from leaf_ops(_scale_op(part, op.seconds / parts_s))
        return
    for part in op.parts:
        yield from leaf_ops(part)
    yield msgspec.structs.replace(op, name=f"{op.name}, itself", seconds=own_s, parts=())


def _scale_op(op: TraceOp, factor: float) -> TraceOp:
    parts = tuple(_scale_op(part, factor) for part in op.parts)
    return msgspec.structs.replace(op, seconds=op.seconds * factor, parts=parts)


# --- sums of a whole capture --------------------------------------------------------------------------------


def divide_into_runs(trace: Trace, result: estimate.Estimate) -> Trace:
    """Return the trace with times per run, for a file that does not state its number of runs. The number is estimated
    as the count of kernels of one kind over their count in the model. A note says so."""
    in_model = Counter(kind_family(kind) for kind in result.workload.operators.kind)
    in_file: Counter[str] = Counter()
    for op in trace.ops:
        in_file[kind_family(op.kind)] += op.count
    ratios = {kind: in_file[kind] / in_model[kind] for kind in _COUNTED if in_model[kind] and in_file[kind]}
    several = [kind for kind, n in ratios.items() if n > 1.0 - NEAR and abs(n - round(n)) < NEAR * n]
    if not several:
        return msgspec.structs.replace(
            trace, notes=(*trace.notes, "the file does not state its number of runs: one is assumed")
        )
    kind = several[0]
    runs = ratios[kind]
    note = (
        f"the file does not state its number of runs: {runs:.4g} are assumed, from its {in_file[kind]} kernels of "
        f"{kind.replace('_', ' ')} and the model's {in_model[kind]}"
    )
    return msgspec.structs.replace(
        trace,
        runs=max(round(runs), 1),
        wall_s=trace.wall_s / runs,
        gap_s=trace.gap_s / runs,
        overlap_s=trace.overlap_s / runs,
        ops=tuple(msgspec.structs.replace(op, seconds=op.seconds / runs) for op in trace.ops),
        gaps=tuple((cause, seconds / runs) for cause, seconds in trace.gaps),
        notes=(*trace.notes, note),
    )


def align_sums(trace: Trace, result: estimate.Estimate) -> Alignment:
    """Align the time of each kind with the time of the model's operators of that kind."""
    kinds = result.workload.operators.kind
    by_kind = group_by(range(len(kinds)), lambda i: kind_family(kinds[i]))
    measured: dict[str, list[TraceOp]] = defaultdict(list)
    strangers: list[TraceOp] = []
    for op in (op for top in trace.ops for op in leaf_ops(top)):
        kind = _kind_in_model(op.kind, by_kind)
        (measured[kind] if kind else strangers).append(op)
    # Element-wise work has many names: if no kernel has the name of a kind, it ran in other element-wise kernels.
    unnamed = [kind for kind in by_kind if kind not in measured and kind_group(kind) == OpClass.ELEMENTWISE]
    host = next((kind for kind in measured if kind_group(kind) == OpClass.ELEMENTWISE), "")
    for kind in unnamed if host else ():
        by_kind[host] += by_kind.pop(kind)
    missing = sorted(i for kind, members in by_kind.items() if kind not in measured for i in members)
    pairs = [
        MatchedPair(
            operators=tuple(by_kind[kind]), op=_merge_ops(kind, ops),
            predicted_s=float(result.run.latency_s[by_kind[kind]].sum()),
        )
        for kind, ops in measured.items()
    ]  # fmt: skip
    return make_alignment(trace, result, pairs, strangers, missing)


def _kind_in_model(kind: str, by_kind: dict[str, list[int]]) -> str:
    """Return the kind of the model's operators that kernels of this kind execute, '' if there is none."""
    family = kind_family(kind)
    if family in by_kind:
        return family
    if other := {"conv": "linear", "linear": "conv"}.get(family):
        return other if other in by_kind else ""
    if kind_group(kind) == OpClass.ELEMENTWISE:
        return next((name for name in by_kind if kind_group(name) == OpClass.ELEMENTWISE), "")
    return ""


def _merge_ops(kind: str, ops: list[TraceOp]) -> TraceOp:
    ops = sorted(ops, key=lambda op: -op.seconds)
    count = sum(op.count for op in ops)
    return TraceOp(
        name=f"{count} kernels of {kind.replace('_', ' ')}",
        kind=kind,
        seconds=sum(op.seconds for op in ops),
        kernels=tuple(op.name for op in ops[:8]),
        count=count,
    )


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
    elif {model.family, measured.family} == {
        "conv",
        "linear",
    } or model.group == measured.group == OpClass.ELEMENTWISE:
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
    free = (j for j in reversed(range(len(measured))) if j not in taken)
    left = group_by(free, lambda j: measured[j])  # indices of equal items in descending order
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


SAME_SIZE = 0.02  # relative difference of sizes; smaller differences are padding
LEAST_MATCHED = 0.9  # share of matrix operators on each side; with fewer the trace is of another model
_MATRIX = {"conv", "linear", "attention"}
_CHIP = re.compile(r"(?!sxm|hbm|gddr|pcie|pg\d)[a-z]*\d{1,5}[a-z]{0,2}")
_MEMORY = re.compile(r"\d+g[bi]?")


def describe_difference(alignment: Alignment, result: estimate.Estimate) -> str:
    """Return a warning that the trace is of another model, batch or device than the estimate; '' if it is not."""
    scenario = result.scenario
    operators = _operator_differences(alignment, result)
    reasons = [*_device_differences(alignment.trace, result.device), *operators]
    reasons += _input_differences(alignment, scenario.batch, bool(operators))
    if not reasons:
        return ""
    compared = f"{result.workload.name} at batch {scenario.batch} on {result.device.key}"
    return f"Warning: this trace is not of {compared}: {'; '.join(reasons)}"


def describe_other_runtime(trace: Trace, result: estimate.Estimate) -> tuple[str, ...]:
    """Return one line if the trace is of another runtime than the estimate, else ()."""
    runtime = setup.find_runtime(result.device, trace.runtime)
    if runtime is None or runtime.id == result.runtime.id:
        return ()
    return (
        f"the trace is of {runtime.name}, the estimate of {result.runtime.name}: compare with the runtime {runtime.id}",
    )


def _operator_differences(alignment: Alignment, result: estimate.Estimate) -> list[str]:
    kinds = result.workload.operators.kind
    in_model = {i for i, kind in enumerate(kinds) if kind_family(kind) in _MATRIX}
    seen = in_model & {i for pair in alignment.pairs for i in pair.operators}
    matched = [pair for pair in alignment.pairs if kind_family(pair.op.kind) in _MATRIX]
    joined = sum(pair.op.name.count("||") for pair in matched)  # TensorRT names each layer of a joined kernel
    n_seen = min(len(seen) + joined, len(in_model))
    strangers = sum(op.count for op in alignment.strangers if kind_family(op.kind) in _MATRIX)
    in_trace = sum(pair.op.count for pair in matched) + strangers
    known = [pair.has_same_weights for pair in matched if pair.has_same_weights is not None]
    reasons = []
    if n_seen < LEAST_MATCHED * len(in_model):
        reasons.append(f"it has {n_seen} of the {len(in_model)} matrix operators of the model")
    if strangers > (1.0 - LEAST_MATCHED) * in_trace:
        reasons.append(f"{strangers} of the trace's {in_trace} matrix operators are not in the model")
    if sum(known) < LEAST_MATCHED * len(known):
        reasons.append(f"{len(known) - sum(known)} of {len(known)} matched matrix operators have other weights")
    return reasons


def _input_differences(alignment: Alignment, batch: int, is_other_model: bool) -> list[str]:
    """Return a reason if the batch of convolutions differs, else if the inputs of layers have other sizes. For another
    model the sizes are not compared."""
    shapes = [pair.op.shapes[0] for pair in alignment.pairs if pair.op.shapes and kind_family(pair.op.kind) == "conv"]
    batches = Counter(shape[0] for shape in shapes if len(shape) == 4).most_common(1)
    if batches and batches[0][0] != batch:
        return [f"its batch is {batches[0][0]}"]
    ratios = [pair.input_ratio for pair in alignment.pairs if pair.has_same_weights and pair.input_ratio]
    if is_other_model or not ratios or abs(median(ratios) - 1.0) < SAME_SIZE:
        return []
    return [f"its inputs are {median(ratios):.3g}x as large (another batch, image or sequence)"]


def _device_differences(trace: Trace, device: Device) -> list[str]:
    if not trace.on_device:
        return [] if device.arch.is_host else ["it ran on a CPU"]
    if device.arch.is_host:
        return [f"it ran on {trace.device or 'an accelerator'}"]
    chips, expected = _chip_names(trace.device), _chip_names(f"{device.name} {device.id.replace('_', ' ')}")
    return [f"it ran on {trace.device}"] if chips and expected and not chips & expected else []


def _chip_names(name: str) -> set[str]:
    """Return the words of a device's name that number a chip: {'h100'} for `NVIDIA H100 80GB HBM3`."""
    words = re.findall(r"[a-z0-9]+", name.lower())
    return {word for word in words if _CHIP.fullmatch(word) and not _MEMORY.fullmatch(word)}
