"""Shapes of the results of ONNX operators with sliding windows: convolutions, pools and their inverses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from hwexplorer_annexes.onnx.onnx_op import NodeResult, OnnxOp, Shape, ShapeError, constant, shape_of


def _window_positions(op: OnnxOp, kernel: Sequence[int], ceil: bool = False) -> Shape:
    space = [constant(size) for size in op.shape()[2:]]
    rank = len(space)
    if len(kernel) != rank:
        raise ShapeError(f"a window of {len(kernel)} dimensions over {rank}")
    strides, dilations = op.int_list("strides", [1] * rank), op.int_list("dilations", [1] * rank)
    way = op.attr("auto_pad", "NOTSET")
    if way.startswith("SAME"):
        return shape_of([-(-size // step) for size, step in zip(space, strides, strict=True)])
    pads = (op.int_list("pads") or [0] * 2 * rank) if way != "VALID" else [0] * 2 * rank
    sizes = []
    for place, size in enumerate(space):
        room = size + pads[place] + pads[place + rank] - dilations[place] * (kernel[place] - 1) - 1
        steps = -(-room // strides[place]) if ceil else room // strides[place]
        if ceil and steps * strides[place] >= size + pads[place]:
            steps -= 1  # the last window must start inside the data
        sizes.append(steps + 1)
    return shape_of(sizes)


def _convolution(op: OnnxOp) -> Shape:
    outer, _, *kernel = op.shape(3 if op.node.op == "QLinearConv" else 1)
    return (op.shape()[0], outer, *_window_positions(op, [constant(size) for size in kernel]))


def _pool(op: OnnxOp) -> list[NodeResult]:
    shape = (*op.shape()[:2], *_window_positions(op, op.int_list("kernel_shape"), bool(op.int_attr("ceil_mode", 0))))
    return [NodeResult(shape, op.dtype()), NodeResult(shape, "int64")]


def _transposed_convolution(op: OnnxOp) -> Shape:
    _, outer, *kernel = op.shape(1)
    space = [constant(size) for size in op.shape()[2:]]
    rank = len(space)
    strides, dilations = op.int_list("strides", [1] * rank), op.int_list("dilations", [1] * rank)
    extra, pads = op.int_list("output_padding", [0] * rank), op.int_list("pads") or [0] * 2 * rank
    sizes: list[int] = op.int_list("output_shape")[-rank:]
    if not sizes and str(op.attr("auto_pad", "")).startswith("SAME"):
        sizes = [size * step for size, step in zip(space, strides, strict=True)]
    elif not sizes:
        sizes = [
            strides[x] * (space[x] - 1)
            + extra[x]
            + (constant(kernel[x]) - 1) * dilations[x]
            + 1
            - pads[x]
            - pads[x + rank]
            for x in range(rank)
        ]
    return (op.shape()[0], outer * op.int_attr("group", 1), *shape_of(sizes))


def _unpool(op: OnnxOp) -> Shape:
    if op.has_input(2):
        return shape_of(op.items(2))
    kernel, rank = op.int_list("kernel_shape"), op.rank - 2
    strides, pads = op.int_list("strides", [1] * rank), op.int_list("pads", [0] * 2 * rank)
    grown = [
        (size - 1) * strides[place] + kernel[place] - pads[place] - pads[place + rank]
        for place, size in enumerate(op.shape()[2:])
    ]
    return (*op.shape()[:2], *shape_of(grown))


# Rules for the shapes of results, by section of operator_table.toml.
WINDOW_SHAPES: dict[str, Callable[[OnnxOp], Shape | list[NodeResult]]] = {
    "convolve": _convolution,
    "transposed_convolution": _transposed_convolution,
    "pool": _pool,
    "unpool": _unpool,
    "columns_to_image": lambda op: (op.shape()[0], op.shape()[1] // prod(op.ints(2)), *shape_of(op.items(1))),
}
