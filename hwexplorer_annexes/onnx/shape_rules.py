"""Shapes of ONNX results that patterns cannot state: slices, concatenations, views and reductions.

A view in PyTorch is also a view here, with strides, so a copy is counted only where PyTorch makes one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from hwexplorer.extend import size_expressions
from hwexplorer_annexes.onnx.constant_folding import slices_of
from hwexplorer_annexes.onnx.graph_parts import Poly, Size, poly, product
from hwexplorer_annexes.onnx.onnx_op import (
    ONE,
    NodeResult,
    OnnxOp,
    Shape,
    ShapeError,
    broadcast,
    constant,
    contiguous_strides,
    positive_axis,
    shape_of,
)

Axes = list[tuple[Poly, int]]  # size and stride of each dimension


def _view(op: OnnxOp, axes: Iterable[tuple[Poly, int]]) -> list[NodeResult]:
    sizes, strides = tuple(zip(*axes, strict=True)) or ((), ())
    return [NodeResult(tuple(sizes), op.dtype(), tuple(strides))]


def _axes(op: OnnxOp) -> Axes:
    return list(zip(op.shape(), op.value().strides, strict=True))


def _identity(op: OnnxOp) -> list[NodeResult]:
    return _view(op, _axes(op))


def dequantized_view(op: OnnxOp) -> list[NodeResult]:
    """Return a view of the first input in the type of the second."""
    return [NodeResult(op.shape(), op.dtype(1), op.value().strides)]


# --- views ---------------------------------------------------------------------------------------


def _numbers(shape: Shape) -> tuple[int, ...]:
    return size_expressions.layout(shape, ())[0]


def _view_or_copy(op: OnnxOp, shape: Shape) -> list[NodeResult]:
    if product(shape) != product(op.shape()):
        raise ShapeError(f"{product(op.shape())} elements do not fill {product(shape)}")
    numbers, held = _numbers(shape), (_numbers(op.shape()), op.value().strides)
    if not size_expressions.is_viewable(held, numbers):
        return [NodeResult(shape, op.dtype())]
    # A view of contiguous data is contiguous; a split of strided data needs its strides to count later copies.
    is_plain = op.value().strides == contiguous_strides(held[0])
    return [NodeResult(shape, op.dtype(), contiguous_strides(numbers) if is_plain else _split_strides(held, numbers))]


def _split_strides(held: tuple[tuple[int, ...], tuple[int, ...]], new: Sequence[int]) -> tuple[int, ...]:
    """Return the strides of a viewable reshape: each new dimension is cut from the old dimensions that cover it."""
    runs: list[list[int]] = []  # elements, innermost stride
    for size, stride in zip(*held, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = [runs[-1][0] * size, stride]
        else:
            runs.append([size, stride])
    strides: list[int] = []
    size, stride = runs.pop() if runs else [1, 1]
    for wanted in reversed(new):
        if size == 1 and runs and wanted != 1:
            size, stride = runs.pop()
        strides.append(stride)
        stride, size = stride * wanted, size // max(1, wanted)
    return tuple(reversed(strides))


def _reshape(op: OnnxOp) -> list[NodeResult]:
    wanted, old = op.items(1, "shape"), op.shape()
    if not op.int_attr("allowzero", 0):
        wanted = [old[place] if size == 0 else size for place, size in enumerate(wanted)]
    if -1 in wanted:
        given = product(size for size in wanted if size != -1)
        wanted[wanted.index(-1)] = product(old) // given if given != poly(0) else 0
    return _view_or_copy(op, shape_of(wanted))


def _flatten(op: OnnxOp) -> list[NodeResult]:
    axis = op.int_attr("axis", 1)
    axis = axis if axis == op.rank else positive_axis(axis, op.rank)
    return _view_or_copy(op, (product(op.shape()[:axis]), product(op.shape()[axis:])))


def _squeeze(op: OnnxOp) -> list[NodeResult]:
    removed = op.axes() or [place for place, size in enumerate(op.shape()) if size == ONE]
    return _view(op, [axis for place, axis in enumerate(_axes(op)) if place not in removed])


def _unsqueeze(op: OnnxOp) -> list[NodeResult]:
    axes, new_axes = _axes(op), op.ints(1, "axes")
    for place in sorted(positive_axis(axis, op.rank + len(new_axes)) for axis in new_axes):
        axes.insert(place, (ONE, 1))
    return _view(op, axes)


def _transpose(op: OnnxOp) -> list[NodeResult]:
    order = op.int_list("perm") or list(reversed(range(op.rank)))
    if sorted(order) != list(range(op.rank)):
        raise ShapeError("perm is not a permutation of the dimensions")
    return _view(op, [_axes(op)[place] for place in order])


def _expand(op: OnnxOp) -> list[NodeResult]:
    shape = broadcast(op.shape(), shape_of(op.items(1)))
    old = [(ONE, 0)] * (len(shape) - op.rank) + _axes(op)
    return _view(op, [(new, stride if size == new else 0) for new, (size, stride) in zip(shape, old, strict=True)])


def _slice(op: OnnxOp) -> list[NodeResult]:
    axes = _axes(op)
    for start, end, place, step in slices_of(op):
        size, stride = axes[place]
        axes[place] = _slice_length(size, start, end, step), stride * step
    return _view(op, axes)


def _slice_length(size: Poly, start: Any, end: Any, step: int) -> Poly:
    """Return the length of `start:end:step`. Raises ShapeError for a symbolic one with a step or a fixed end."""
    if size.is_constant and not isinstance(start, Poly) and not isinstance(end, Poly):
        length = constant(size)
        window = slice(start, None if step < 0 and end < -length else end, step)
        return poly(len(range(*window.indices(length))))
    if step != 1:
        raise ShapeError("a symbolic dimension is sliced with a step")
    first: Size = start if isinstance(start, Poly) or start >= 0 else size + start
    last: Size = end
    if not isinstance(end, Poly):  # a very large number means "to the end"
        last = size if end >= 1 << 30 else size + end if end < 0 else end
    if isinstance(last, Poly) and not last.is_constant and size.is_constant:
        last = size  # the end cannot exceed the size
    if not size.is_constant and not isinstance(last, Poly):
        raise ShapeError("a symbolic dimension is sliced at a fixed position")
    return poly(last) - first


# --- splits and concatenations -------------------------------------------------------------------------------------


def _replace_axis(op: OnnxOp, axis: int, *sizes: Size) -> Shape:
    return (*op.shape()[:axis], *shape_of(sizes), *op.shape()[axis + 1 :])


def _split(op: OnnxOp) -> list[NodeResult]:
    axis, count = op.axis(), len(op.node.outputs)
    size, parts = op.shape()[axis], op.items(1, "split")
    if not parts and size.is_constant and constant(size) % count:
        chunk = -(-constant(size) // count)
        parts = [chunk] * (count - 1) + [constant(size) - chunk * (count - 1)]
    parts = parts or [size // count] * count
    return [NodeResult(_replace_axis(op, axis, part), op.dtype(), op.value().strides) for part in parts]


def _concatenate(op: OnnxOp) -> Shape:
    """Return the shape of a concatenation. Each quantised part has a scale and zero point, as has the result, first."""
    start, step = (2, 3) if op.node.op == "QLinearConcat" else (0, 1)
    shapes = [op.shape(place) for place in range(start, len(op.inputs), step)]
    axis = positive_axis(op.int_attr("axis", 0), len(shapes[0]))
    return (*shapes[0][:axis], sum((shape[axis] for shape in shapes), poly(0)), *shapes[0][axis + 1 :])


def _insert_axis(op: OnnxOp, default: int, size: int) -> Shape:
    place = positive_axis(op.int_attr("axis", default), op.rank + 1)
    return (*op.shape()[:place], poly(size), *op.shape()[place:])


def row_view(op: OnnxOp) -> list[NodeResult]:
    """Return the view of one row along the attribute `axis`."""
    return _view(op, [axis for place, axis in enumerate(_axes(op)) if place != op.axis()])


def _pad(op: OnnxOp) -> Shape | list[NodeResult]:
    amounts = op.items(1, "pads")
    axes = op.ints(3) if op.has_input(3) else range(op.rank)
    sizes = list(op.shape())
    for place, axis in enumerate(axes):
        sizes[positive_axis(axis, op.rank)] += amounts[place] + amounts[place + len(axes)]
    shape = shape_of(sizes)
    return _identity(op) if shape == op.shape() else shape


def _tile(op: OnnxOp) -> Shape | list[NodeResult]:
    shape = shape_of([size * times for size, times in zip(op.shape(), op.items(1), strict=True)])
    return _identity(op) if shape == op.shape() else shape


def _set_axes(op: OnnxOp, sizes: Sequence[Any]) -> Shape:
    shape: list[Any] = list(op.shape())
    for axis, size in zip(op.int_list("axes") or range(op.rank), sizes, strict=True):
        shape[axis] = size
    return shape_of(shape)


def resize_shape(op: OnnxOp) -> Shape:
    """Return the shape of a resized tensor from its declared shape, sizes or scales."""
    if (told := op.declared_shape) is not None:
        return told
    scales_at, sizes_at = (2, 3) if op.node.op == "Resize" and op.opset >= 11 else (1, 9)
    if op.has_input(sizes_at):
        return _set_axes(op, op.items(sizes_at))
    old, axes = op.shape(), op.int_list("axes") or range(op.rank)
    pairs = zip(axes, op.items(scales_at, "scales"), strict=True)
    return _set_axes(op, [old[a] if scale == 1 else int(constant(old[a]) * scale + 1e-9) for a, scale in pairs])


def _range(op: OnnxOp) -> Shape:
    start, limit, step = (op.number(index) for index in range(3))
    if start is None or limit is None or step is None:
        raise ShapeError("its length depends on the data")
    if isinstance(limit, Poly) and step == 1:
        return (limit - start,)
    return (poly(len(range(constant(start), constant(limit), constant(step)))),)


def _suppress(op: OnnxOp) -> Shape:
    """Return the shape of a box suppression: the most boxes that the node may keep of every class."""
    batch, classes, boxes = op.shape(1)
    kept = min(constant(op.number(2) or 0), constant(boxes)) or constant(boxes)
    return (batch * classes * kept, poly(3))


def top_k_shapes(axis: int, count: int) -> Callable[[OnnxOp], list[Shape]]:
    """Return the rule that gives the shapes of `count` values along an axis and of their indices."""
    return lambda op: [_replace_axis(op, axis, count)] * 2


# --- spectra ----------------------------------------------------------------------------------------------


def transform_axis(op: OnnxOp) -> int:
    """Return the axis that a DFT transforms."""
    axis = op.number(2) if op.has_input(2) else op.int_attr("axis", -2 if op.opset >= 20 else 1)
    if axis is None and op.declared_shape is not None:
        axis = -2  # only the cost of the transform depends on it
    return positive_axis(constant(axis), op.rank)


def spectrum_shape(op: OnnxOp) -> Shape:
    """Return the shape of a DFT. Its last dimension has the real and imaginary part."""
    if (told := op.declared_shape) is not None:
        return told
    shape, place = list(op.shape()), transform_axis(op)
    if op.has_input(1):
        shape[place] = poly(constant(op.number(1)))
    if op.int_attr("onesided", 0):
        shape[place] = poly(constant(shape[place]) // 2 + 1)
    return (*shape[:-1], poly(2))


def frames_shape(points: int, is_half: bool, op: OnnxOp) -> Shape:
    """Return the shape of a short-time transform with frames of `points`, with half of the spectrum if `is_half`."""
    if (told := op.declared_shape) is not None:
        return told
    frames = (constant(op.shape()[1]) - points) // constant(op.number(1)) + 1
    return (op.shape()[0], poly(frames), poly(points // 2 + 1 if is_half else points), poly(2))


# --- reductions -----------------------------------------------------------------------------------


def _remove_axes(op: OnnxOp, axes: Sequence[int]) -> Shape:
    if op.int_attr("keepdims", 1):
        return tuple(ONE if place in axes else size for place, size in enumerate(op.shape()))
    return tuple(size for place, size in enumerate(op.shape()) if place not in axes)


def reduce_shape(op: OnnxOp) -> Shape | list[NodeResult]:
    """Return the shape without the reduced axes, by default all axes."""
    axes = op.axes()
    if not axes and op.int_attr("noop_with_empty_axes", 0):
        return _identity(op)
    return _remove_axes(op, axes or range(op.rank))


def normalization_shapes(op: OnnxOp) -> list[NodeResult]:
    """Return the result of a normalisation, and the statistics of its groups if the node has such outputs."""
    axis = op.axis(default=-1)
    row = (*op.shape()[:axis], *(ONE for _ in op.shape()[axis:]))
    return [NodeResult(op.shape(), op.dtype()), *(NodeResult(row, "float32") for _ in op.node.outputs[1:])]


def _grid(op: OnnxOp) -> Shape:
    batch, _, *space = shape_of(op.items(1))
    return (batch, *space, poly(len(space)))


# Rules for the shapes of results, by section of operator_table.toml.
SHAPES: dict[str, Callable[[OnnxOp], Shape | list[Shape] | list[NodeResult]]] = {
    "same_shape": lambda op: op.shape(),
    "broadcast": lambda op: broadcast(*op.shapes()),
    "identity": _identity,
    "reduce": reduce_shape,
    "reduce_axis": lambda op: _remove_axes(op, [op.axis()]),
    "reshape": _reshape,
    "flatten": _flatten,
    "squeeze": _squeeze,
    "unsqueeze": _unsqueeze,
    "transpose": _transpose,
    "expand": _expand,
    "slice": _slice,
    "split": _split,
    "concatenate": _concatenate,
    "stack": lambda op: _insert_axis(op, 0, len(op.inputs)),
    "gather": lambda op: _replace_axis(op, op.axis(), *op.shape(1)),
    "gather_nd": lambda op: (
        *op.shape(1)[:-1],
        *op.shape()[op.int_attr("batch_dims", 0) + constant(op.shape(1)[-1]) :],
    ),
    "pad": _pad,
    "crop": lambda op: _set_axes(op, op.items(1)),
    "tile": _tile,
    "one_hot": lambda op: _insert_axis(op, -1, constant(op.number(1))),
    "range": _range,
    "stated": lambda op: shape_of(op.items(0) if op.inputs else op.int_list("shape")),
    "grid": _grid,
    "region": lambda op: (op.shape(1)[0], op.shape()[1], *shape_of(op.int_list("pooled_shape"))),
    "compress": lambda op: (product(op.shape()),) if op.attr("axis") is None else op.shape(),
    "suppress": _suppress,
}
