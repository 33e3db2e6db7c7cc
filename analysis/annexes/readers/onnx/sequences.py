"""Lists of tensors in ONNX. They cost nothing; Split and Concat make and join their parts."""

from __future__ import annotations

from dataclasses import replace

from analysis.annexes.readers.onnx.onnx_file import MAX_VALUES, OnnxNode
from analysis.annexes.readers.onnx.onnx_op import OnnxOp, OnnxValue, ShapeError, constant

LISTS = frozenset((
    "SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase", "SequenceAt", "SplitToSequence",
    "ConcatFromSequence",
))  # fmt: skip


def sequence_result(op: OnnxOp) -> OnnxValue | tuple[OnnxValue, ...] | OnnxNode:
    """Return what a node gives: one part, the parts of a list, or the Split or Concat that makes it. Parts are named
    after the result of the node, with their number in brackets."""
    name = op.node.outputs[0]
    match op.node.op:
        case "SequenceConstruct":
            return tuple(value for value in op.inputs if value is not None)
        case "SequenceEmpty":
            return ()
        case "SplitToSequence":
            return _split(op, name)
        case "ConcatFromSequence":
            names = [f"{name}[{place}]" for place in range(len(op.value().parts))]
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
    names = [f"{name}[{place}]" for place in range(len(sizes))]
    given = [("axis", op.int_attr("axis", 0)), ("split", sizes)]
    return replace(op.node, op="Split", inputs=op.node.inputs[:1], outputs=names, given=given)
