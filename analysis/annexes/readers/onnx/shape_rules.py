"""Shapes of ONNX results that no pattern says: data that is cut, joined or seen otherwise.

What PyTorch would run as a view is one here too, with strides, so a copy is counted where one is made: a Reshape
of what a Transpose left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from analysis.annexes.readers.onnx.constant_folding import slices_of
from analysis.annexes.readers.onnx.onnx_op import (
    ONE,
    Made,
    OnnxOp,
    Shape,
    ShapeError,
    broadcast,
    constant,
    contiguous,
    positive,
    shape_of,
)
from analysis.annexes.readers.size_expressions import is_viewable, layout
from analysis.model.ir.poly import Poly, Size, poly, product

Axes = list[tuple[Poly, int]]  # size and stride of each dimension


def like(op: OnnxOp) -> Shape:
    return op.shape()


def spread(op: OnnxOp) -> Shape:
    return broadcast(*op.shapes())


def _window(op: OnnxOp, axes: Iterable[tuple[Poly, int]]) -> list[Made]:
    sizes, strides = tuple(zip(*axes, strict=True)) or ((), ())
    return [Made(tuple(sizes), op.dtype(), tuple(strides))]


def _axes(op: OnnxOp) -> Axes:
    return list(zip(op.shape(), op.value().strides, strict=True))


def same(op: OnnxOp) -> list[Made]:
    return _window(op, _axes(op))


def widened(op: OnnxOp) -> list[Made]:
    """The same in the type of the second input."""
    return [Made(op.shape(), op.dtype(1), op.value().strides)]


# --- seen otherwise ---------------------------------------------------------------------------------------


def _numbers(shape: Shape) -> tuple[int, ...]:
    return layout(shape, ())[0]


def _reshaped(op: OnnxOp, shape: Shape) -> list[Made]:
    """A window where the data lies as it must, else a copy."""
    if product(shape) != product(op.shape()):
        raise ShapeError(f"{product(op.shape())} elements do not fill {product(shape)}")
    numbers, held = _numbers(shape), (_numbers(op.shape()), op.value().strides)
    if not is_viewable(held, numbers):
        return [Made(shape, op.dtype())]
    # Strides of a window are only asked whether they are contiguous; a split of strided data keeps the copy.
    is_plain = op.value().strides == contiguous(held[0])
    return [Made(shape, op.dtype(), contiguous(numbers) if is_plain else _split_strides(held, numbers))]


def _split_strides(held: tuple[tuple[int, ...], tuple[int, ...]], new: Sequence[int]) -> tuple[int, ...]:
    """Strides of a viewable reshape: each new dimension is cut from the run of old ones that covers it."""
    runs: list[list[int]] = []  # elements, stride of the innermost
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


def reshape(op: OnnxOp) -> list[Made]:
    wanted, old = op.items(1, "shape"), op.shape()
    if not op.int_attr("allowzero", 0):
        wanted = [old[place] if size == 0 else size for place, size in enumerate(wanted)]
    if -1 in wanted:
        given = product(size for size in wanted if size != -1)
        wanted[wanted.index(-1)] = product(old) // given if given != poly(0) else 0
    return _reshaped(op, shape_of(wanted))


def flatten(op: OnnxOp) -> list[Made]:
    axis = op.int_attr("axis", 1)
    axis = axis if axis == op.rank else positive(axis, op.rank)
    return _reshaped(op, (product(op.shape()[:axis]), product(op.shape()[axis:])))


def squeeze(op: OnnxOp) -> list[Made]:
    gone = op.axes() or [place for place, size in enumerate(op.shape()) if size == ONE]
    return _window(op, [axis for place, axis in enumerate(_axes(op)) if place not in gone])


def unsqueeze(op: OnnxOp) -> list[Made]:
    axes, added = _axes(op), op.ints(1, "axes")
    for place in sorted(positive(axis, op.rank + len(added)) for axis in added):
        axes.insert(place, (ONE, 1))
    return _window(op, axes)


def transpose(op: OnnxOp) -> list[Made]:
    order = op.int_list("perm") or list(reversed(range(op.rank)))
    if sorted(order) != list(range(op.rank)):
        raise ShapeError("perm is no order of the dimensions")
    return _window(op, [_axes(op)[place] for place in order])


def expand(op: OnnxOp) -> list[Made]:
    shape = broadcast(op.shape(), shape_of(op.items(1)))
    old = [(ONE, 0)] * (len(shape) - op.rank) + _axes(op)
    return _window(op, [(new, stride if size == new else 0) for new, (size, stride) in zip(shape, old, strict=True)])


def cut(op: OnnxOp) -> list[Made]:
    axes = _axes(op)
    for start, end, place, step in slices_of(op):
        size, stride = axes[place]
        axes[place] = _part(size, start, end, step), stride * step
    return _window(op, axes)


def _part(size: Poly, start: Any, end: Any, step: int) -> Poly:
    """Elements of `start:end:step`. Along a live dimension: all of it, or all but a few at the ends."""
    if size.is_constant and not isinstance(start, Poly) and not isinstance(end, Poly):
        length = constant(size)
        window = slice(start, None if step < 0 and end < -length else end, step)
        return poly(len(range(*window.indices(length))))
    if step != 1:
        raise ShapeError("a live dimension is sliced in steps")
    first: Size = start if isinstance(start, Poly) or start >= 0 else size + start
    last: Size = end
    if not isinstance(end, Poly):  # a very large number means "to the end"
        last = size if end >= 1 << 30 else size + end if end < 0 else end
    if isinstance(last, Poly) and not last.is_constant and size.is_constant:
        last = size  # not more than there is
    if not size.is_constant and not isinstance(last, Poly):
        raise ShapeError("a live dimension is cut at a fixed place")
    return poly(last) - first


# --- split and joined -------------------------------------------------------------------------------------


def _replaced(op: OnnxOp, axis: int, *sizes: Size) -> Shape:
    """The first input's shape with other sizes in place of one."""
    return (*op.shape()[:axis], *shape_of(sizes), *op.shape()[axis + 1 :])


def split(op: OnnxOp) -> list[Made]:
    axis, count = op.axis(), len(op.node.outputs)
    size, parts = op.shape()[axis], op.items(1, "split")
    if not parts and size.is_constant and constant(size) % count:
        chunk = -(-constant(size) // count)
        parts = [chunk] * (count - 1) + [constant(size) - chunk * (count - 1)]
    parts = parts or [size // count] * count
    return [Made(_replaced(op, axis, part), op.dtype(), op.value().strides) for part in parts]


def concat(op: OnnxOp) -> Shape:
    axis = op.axis()
    return _replaced(op, axis, sum((shape[axis] for shape in op.shapes()), poly(0)))


def stack(op: OnnxOp) -> Shape:
    place = positive(op.int_attr("axis", 0), op.rank + 1)
    return (*op.shape()[:place], poly(len(op.inputs)), *op.shape()[place:])


def picked(op: OnnxOp) -> list[Made]:
    """One row: a window."""
    return _window(op, [axis for place, axis in enumerate(_axes(op)) if place != op.axis()])


def gather(op: OnnxOp) -> Shape:
    return _replaced(op, op.axis(), *op.shape(1))


def gather_nd(op: OnnxOp) -> Shape:
    depth = constant(op.shape(1)[-1])
    return (*op.shape(1)[:-1], *op.shape()[op.int_attr("batch_dims", 0) + depth :])


def pad(op: OnnxOp) -> Shape | list[Made]:
    amounts = op.items(1, "pads")
    axes = op.ints(3) if op.has(3) else list(range(op.rank))
    shape = op.shape()
    for place, axis in enumerate(axes):
        axis = positive(axis, op.rank)
        shape = (
            *shape[:axis],
            *shape_of([shape[axis] + amounts[place] + amounts[place + len(axes)]]),
            *shape[axis + 1 :],
        )
    return same(op) if shape == op.shape() else shape


def tile(op: OnnxOp) -> Shape | list[Made]:
    shape = shape_of([size * times for size, times in zip(op.shape(), op.items(1), strict=True)])
    return same(op) if shape == op.shape() else shape


def resize(op: OnnxOp) -> Shape:
    if (told := op.declared()) is not None:
        return told
    scales_at, sizes_at = (2, 3) if op.node.op == "Resize" and op.opset >= 11 else (1, 9)
    axes = op.int_list("axes") or list(range(op.rank))
    shape: list[Any] = list(op.shape())
    if op.has(sizes_at):
        for axis, size in zip(axes, op.items(sizes_at), strict=True):
            shape[axis] = size
    else:
        for axis, scale in zip(axes, op.items(scales_at, "scales"), strict=True):
            shape[axis] = shape[axis] if scale == 1 else int(constant(shape[axis]) * scale + 1e-9)
    return shape_of(shape)


def cropped(op: OnnxOp) -> Shape:
    shape: list[Any] = list(op.shape())
    for axis, size in zip(op.int_list("axes") or range(op.rank), op.items(1), strict=True):
        shape[axis] = size
    return shape_of(shape)


def one_hot(op: OnnxOp) -> Shape:
    place = positive(op.int_attr("axis", -1), op.rank + 1)
    return (*op.shape()[:place], poly(constant(op.number(1))), *op.shape()[place:])


def ranged(op: OnnxOp) -> Shape:
    start, limit, step = (op.number(index) for index in range(3))
    if start is None or limit is None or step is None:
        raise ShapeError("its length depends on the data")
    if isinstance(limit, Poly) and step == 1:
        return (limit - start,)
    return (poly(len(range(constant(start), constant(limit), constant(step)))),)


def asked(op: OnnxOp) -> Shape:
    """What the first input says, or an attribute."""
    return shape_of(op.items(0) if op.inputs else op.int_list("shape"))


def grid(op: OnnxOp) -> Shape:
    batch, _, *space = shape_of(op.items(1))
    return (batch, *space, poly(len(space)))


def region(op: OnnxOp) -> Shape:
    return (op.shape(1)[0], op.shape()[1], *shape_of(op.int_list("pooled_shape")))


def compressed(op: OnnxOp) -> Shape:
    return (product(op.shape()),) if op.attr("axis") is None else op.shape()


def suppressed(op: OnnxOp) -> Shape:
    """At most so many boxes of every class."""
    batch, classes, boxes = op.shape(1)
    kept = min(constant(op.number(2) or 0), constant(boxes)) or constant(boxes)
    return (batch * classes * kept, poly(3))


def kept(axis: int, count: int) -> Callable[[OnnxOp], list[Shape]]:
    """So many along one dimension, and where they were."""
    return lambda op: [_replaced(op, axis, count)] * 2


# --- spectra ----------------------------------------------------------------------------------------------


def transformed_axis(op: OnnxOp) -> int:
    axis = op.number(2) if op.has(2) else op.int_attr("axis", -2 if op.opset >= 20 else 1)
    if axis is None and op.declared() is not None:
        axis = -2  # any will do: only the levels of the transform follow from it
    return positive(constant(axis), op.rank)


def transformed(op: OnnxOp) -> Shape:
    """Its last dimension holds real and imaginary part."""
    if (told := op.declared()) is not None:
        return told
    shape, place = list(op.shape()), transformed_axis(op)
    if op.has(1):
        shape[place] = poly(constant(op.number(1)))
    if op.int_attr("onesided", 0):
        shape[place] = poly(constant(shape[place]) // 2 + 1)
    return (*shape[:-1], poly(2))


def framed(points: int, is_half: bool) -> Callable[[OnnxOp], Shape]:
    def shape(op: OnnxOp) -> Shape:
        if (told := op.declared()) is not None:
            return told
        frames = (constant(op.shape()[1]) - points) // constant(op.number(1)) + 1
        return (op.shape()[0], poly(frames), poly(points // 2 + 1 if is_half else points), poly(2))

    return shape


# --- gathered into less -----------------------------------------------------------------------------------


def _without(op: OnnxOp, axes: Sequence[int]) -> Shape:
    if op.int_attr("keepdims", 1):
        return tuple(ONE if place in axes else size for place, size in enumerate(op.shape()))
    return tuple(size for place, size in enumerate(op.shape()) if place not in axes)


def reduced(op: OnnxOp) -> Shape | list[Made]:
    axes = op.axes()
    if not axes and op.int_attr("noop_with_empty_axes", 0):
        return same(op)
    return _without(op, axes or range(op.rank))


def reduced_along(op: OnnxOp) -> Shape:
    return _without(op, [op.axis()])


def normalised(op: OnnxOp) -> list[Made]:
    """The result, and statistics of what was normalised."""
    axis = op.axis(default=-1)
    row = (*op.shape()[:axis], *(ONE for _ in op.shape()[axis:]))
    return [Made(op.shape(), op.dtype()), *(Made(row, "float32") for _ in op.node.outputs[1:])]
