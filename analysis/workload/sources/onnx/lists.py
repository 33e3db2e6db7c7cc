"""Lists of tensors in ONNX: they cost nothing themselves; what makes and joins them is Split and Concat."""

from __future__ import annotations

from dataclasses import replace

from .file import OnnxNode
from .op import MAX_KNOWN, Op, ShapeError, Value, constant

LISTS = frozenset(
    [
        "SequenceConstruct",
        "SequenceEmpty",
        "SequenceInsert",
        "SequenceErase",
        "SequenceAt",
        "SplitToSequence",
        "ConcatFromSequence",
    ]
)


def split_of(op: Op) -> OnnxNode:
    """The Split that makes the parts of a SplitToSequence."""
    size = constant(op.shape()[op.axis()])
    if size > MAX_KNOWN:
        raise ShapeError("its parts are too many")
    sizes = [1] * size
    if op.has(1):
        sizes = op.ints(1)
        if op.number(1) is not None and not op.shape(1):
            sizes = [min(sizes[0], size - start) for start in range(0, size, max(1, sizes[0]))]
    elif not op.int_attr("keepdims", 1):
        raise ShapeError("it drops the dimension that it splits")
    names = tuple(f"{op.node.outputs[0]}[{place}]" for place in range(len(sizes)))
    attributes = {"axis": op.int_attr("axis", 0), "split": sizes}
    return replace(op.node, op="Split", inputs=op.node.inputs[:1], outputs=names, attributes=attributes)


def parts_of(op: Op) -> tuple[Value, ...]:
    """The list that a node gives, of one that only picks and orders."""
    if op.node.op == "SequenceEmpty":
        return ()
    if op.node.op == "SequenceConstruct":
        return tuple(value for value in op.inputs if value is not None)
    held = list(op.value(0).parts)
    if op.node.op == "SequenceInsert":
        held.insert(constant(op.number(2)) if op.has(2) else len(held), op.value(1))
    elif op.node.op == "SequenceErase":
        held.pop(constant(op.number(1)) if op.has(1) else -1)
    return tuple(held)


def part_of(op: Op) -> Value:
    """SequenceAt."""
    place = op.number(1)
    if place is None:
        raise ShapeError("which part it takes depends on the data")
    return op.value(0).parts[constant(place)]
