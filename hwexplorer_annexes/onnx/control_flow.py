"""Branches, unrolled loops and lists of tensors of ONNX. Lists are free: Split and Concat make and join their parts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hwexplorer_annexes.onnx.graph_parts import Poly, UnreadableError, poly
from hwexplorer_annexes.onnx.onnx_file import MAX_VALUES, OnnxGraph, OnnxNode
from hwexplorer_annexes.onnx.onnx_op import OnnxOp, OnnxValue, ShapeError, constant, positive_axis

_MAX_TURNS = 4096
_NO_LIMIT = 1 << 30  # exporters write it for "until the condition fails"


@dataclass(frozen=True, slots=True)
class Turns:
    """`count` iterations of an inner graph. The inputs of each are its number and a condition (if `skip` is 1), the
    `carried` values (later the results of the last iteration), and a slice of each tensor of `taken` along `axes`. The
    first `skip` results are dropped. Unless `length` is None, results after the carried ones are stacked to `length`
    along the axes `piled`."""

    graph: OnnxGraph
    count: int = 1
    carried: tuple[OnnxValue, ...] = ()
    taken: tuple[OnnxValue, ...] = ()
    skip: int = 0
    length: Poly | None = None
    axes: Sequence[int] = ()
    piled: Sequence[int] = ()
    note: str = ""


def _inner(op: OnnxOp, name: str) -> OnnxGraph:
    graph = op.attr(name)
    if not isinstance(graph, OnnxGraph):
        raise UnreadableError(f"{op.node.op} {op.node.name[:40]!r} has no graph")
    return graph


def _branch(op: OnnxOp) -> Turns:
    then, other = _inner(op, "then_branch"), _inner(op, "else_branch")
    condition = op.number(0)
    if condition is not None:
        return Turns(then if condition else other)
    longer = max(then, other, key=lambda graph: len(graph.nodes))
    return Turns(longer, note="the longer branch of each If is counted")


def _loop(op: OnnxOp) -> Turns:
    """Return the iterations of a Loop. Its inputs: count, condition, carried values; its results: carried, stacked."""
    count, note = op.number(0), ""
    if not isinstance(count, int) or count >= _NO_LIMIT:
        count, note = 1, "a loop whose length depends on the data is counted once"
    if count > _MAX_TURNS:
        count, note = 1, f"a loop of more than {_MAX_TURNS} turns is counted once"
    carried = tuple(op.value(place) for place in range(2, len(op.inputs)))
    return Turns(_inner(op, "body"), count, carried, skip=1, length=poly(count), note=note)


def _scan(op: OnnxOp) -> Turns:
    """Return the iterations of a Scan. Its inputs: carried values, then tensors with one slice for each iteration."""
    split = len(op.inputs) - op.int_attr("num_scan_inputs", 1)
    values = tuple(op.value(place) for place in range(len(op.inputs)))
    given = op.int_list("scan_input_axes", [0] * (len(values) - split))
    axes = [positive_axis(axis, len(value.meta.shape)) for axis, value in zip(given, values[split:], strict=True)]
    length = values[split].meta.shape[axes[0]]
    count, note = (int(length.constant()) if length.is_constant else 0), ""
    if not 0 < count <= _MAX_TURNS:
        count, note = 1, "a loop over a free or very long dimension is counted once"
    piled = op.int_list("scan_output_axes")
    return Turns(
        _inner(op, "body"), count, values[:split], values[split:], length=length, axes=axes, piled=piled, note=note
    )


CONTROL: dict[str, Callable[[OnnxOp], Turns]] = {"If": _branch, "Loop": _loop, "Scan": _scan}

LISTS = frozenset((
    "SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase", "SequenceAt", "SplitToSequence",
    "ConcatFromSequence",
))  # fmt: skip


def sequence_result(op: OnnxOp) -> OnnxValue | tuple[OnnxValue, ...] | OnnxNode:
    """Return the result of a list node: a part, the parts of a list, or a Split or Concat node that makes it."""
    name = op.node.outputs[0]
    match op.node.op:
        case "SequenceConstruct":
            return tuple(value for value in op.inputs if value is not None)
        case "SequenceEmpty":
            return ()
        case "SplitToSequence":
            return _split(op, name)
        case "ConcatFromSequence":
            names = tuple(f"{name}[{place}]" for place in range(len(op.value().parts)))
            return replace(op.node, op="Stack" if op.int_attr("new_axis", 0) else "Concat", inputs=names)
    parts = list(op.value().parts)
    place_at = 2 if op.node.op == "SequenceInsert" else 1
    place = op.number(place_at)
    if op.has_input(place_at) and place is None:
        raise ShapeError("which part it takes depends on the data")
    if op.node.op == "SequenceAt":
        return parts[constant(place)]
    if op.node.op == "SequenceInsert":
        parts.insert(len(parts) if place is None else constant(place), op.value(1))
    else:
        parts.pop(-1 if place is None else constant(place))
    return tuple(parts)


def _split(op: OnnxOp, name: str) -> OnnxNode:
    size = constant(op.shape()[op.axis()])
    if size > MAX_VALUES:
        raise ShapeError("its parts are too many")
    sizes = [1] * size
    if op.has_input(1):
        sizes = op.ints(1)
        if not op.shape(1):
            sizes = [min(sizes[0], size - start) for start in range(0, size, max(1, sizes[0]))]
    elif not op.int_attr("keepdims", 1):
        raise ShapeError("it drops the dimension that it splits")
    names = tuple(f"{name}[{place}]" for place in range(len(sizes)))
    attributes = {"axis": op.int_attr("axis", 0), "split": sizes}
    return replace(op.node, op="Split", inputs=op.node.inputs[:1], outputs=names, attributes=attributes)
