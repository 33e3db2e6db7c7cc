"""ONNX operators that move, pick or create data: the shape of the result and the ATen call that costs the same.

What PyTorch would run as a view is one here too, with strides, so a copy is counted where one is made: a Reshape
of what a Transpose left.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ...poly import Poly, Size, poly, product
from ..pt2_sizes import is_viewable, layout
from .fold import slice_arguments
from .op import Handler, Made, Op, Result, Shape, ShapeError, broadcast, constant, contiguous, positive, shape_of


def _view(op: Op, shape: Shape, strides: Sequence[int]) -> Result:
    return Result((Made(shape, op.dtype(), tuple(strides)),))


def _copied(op: Op, shape: Shape, target: str = "aten.clone", note: str = "") -> Result:
    return Result((Made(shape, op.dtype()),), target, {"self": op.ref(0)}, note)


def same(op: Op) -> Result:
    return _view(op, op.shape(), op.value(0).strides)


def _numbers(shape: Shape) -> tuple[int, ...]:
    return layout(shape, ())[0]


def _reshaped(op: Op, shape: Shape) -> Result:
    """A window where the data lies as it must, else a copy."""
    if product(shape) != product(op.shape()):
        raise ShapeError(f"{product(op.shape())} elements do not fill {product(shape)}")
    numbers = _numbers(shape)
    held = (_numbers(op.shape()), op.value(0).strides)
    if is_viewable(held, numbers):
        # Strides of a window are only asked whether they are contiguous; a split of strided data keeps the copy.
        is_plain = op.value(0).strides == contiguous(held[0])
        return _view(op, shape, contiguous(numbers) if is_plain else _split_strides(held, numbers))
    return _copied(op, shape, "aten.reshape")


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


def _reshape(op: Op) -> Result:
    asked: list[Any] = op.items(1) if op.has(1) else op.int_list("shape")
    old = op.shape()
    if not op.int_attr("allowzero", 0):
        asked = [old[place] if size == 0 else size for place, size in enumerate(asked)]
    open_places = [place for place, size in enumerate(asked) if not isinstance(size, Poly) and size == -1]
    if open_places:
        given = product(size for place, size in enumerate(asked) if place not in open_places)
        asked[open_places[0]] = product(old) // given if given != poly(0) else poly(0)
    return _reshaped(op, shape_of(asked))


def _flatten(op: Op) -> Result:
    axis = op.int_attr("axis", 1)
    axis = axis if axis == len(op.shape()) else positive(axis, len(op.shape()))
    return _reshaped(op, (product(op.shape()[:axis]), product(op.shape()[axis:])))


def _squeeze(op: Op) -> Result:
    axes = op.axes()
    if axes is None:
        axes = [place for place, size in enumerate(op.shape()) if size == poly(1)]
    kept = [place for place in range(len(op.shape())) if place not in axes]
    return _view(op, tuple(op.shape()[x] for x in kept), [op.value(0).strides[x] for x in kept])


def _unsqueeze(op: Op) -> Result:
    axes = op.ints(1) if op.has(1) else op.int_list("axes")
    rank = len(op.shape()) + len(axes)
    new = {positive(axis, rank) for axis in axes}
    sizes, strides = iter(op.shape()), iter(op.value(0).strides)
    shape = [poly(1) if place in new else next(sizes) for place in range(rank)]
    return _view(op, tuple(shape), [1 if place in new else next(strides) for place in range(rank)])


def _transpose(op: Op) -> Result:
    rank = len(op.shape())
    order = op.int_list("perm") or list(reversed(range(rank)))
    if sorted(order) != list(range(rank)):
        raise ShapeError("perm is no order of the dimensions")
    return _view(op, tuple(op.shape()[x] for x in order), [op.value(0).strides[x] for x in order])


def _expand(op: Op) -> Result:
    shape = broadcast(op.shape(), shape_of(op.items(1)))
    missing = len(shape) - len(op.shape())
    old = (poly(1),) * missing + op.shape()
    strides = (0,) * missing + op.value(0).strides
    return _view(op, shape, [s if a == b else 0 for s, a, b in zip(strides, old, shape, strict=True)])


def _slice(op: Op) -> Result:
    shape, strides = list(op.shape()), list(op.value(0).strides)
    for start, end, axis, step in zip(*slice_arguments(op), strict=True):
        place = positive(axis, len(shape))
        shape[place] = _window(shape[place], start, end, step)
        strides[place] *= step
    return _view(op, tuple(shape), strides)


def _window(size: Poly, start: Any, end: Any, step: int) -> Poly:
    """Elements of `start:end:step`. Along a live dimension: all of it, or all but a few at the ends."""
    if size.is_constant and not isinstance(start, Poly) and not isinstance(end, Poly):
        length = size.constant()
        window = slice(start, None if step < 0 and end < -length else end, step)
        return poly(len(range(*window.indices(length))))
    if step != 1:
        raise ShapeError("a live dimension is sliced in steps")
    first: Size = start if isinstance(start, Poly) or start >= 0 else size + start
    if isinstance(end, Poly):
        last: Size = end
    elif end >= 1 << 30:  # "to the end"
        last = size
    else:
        last = size + end if end < 0 else end
    if isinstance(last, Poly) and not last.is_constant and size.is_constant:
        last = size  # not more than there is
    if not size.is_constant and not isinstance(last, Poly):
        raise ShapeError("a live dimension is cut at a fixed place")
    return poly(last) - first


def _split(op: Op) -> Result:
    axis = op.axis()
    size = op.shape()[axis]
    parts: list[Any] = op.items(1) if op.has(1) else op.int_list("split")
    count = len(op.node.outputs)
    if not parts:
        if size.is_constant and size.constant() % count:
            chunk = -(-size.constant() // count)
            parts = [chunk] * (count - 1) + [size.constant() - chunk * (count - 1)]
        else:
            parts = [size // count] * count
    made = [
        Made((*op.shape()[:axis], *shape_of([part]), *op.shape()[axis + 1 :]), op.dtype(), op.value(0).strides)
        for part in parts
    ]
    return Result(tuple(made))


def _concat(op: Op) -> Result:
    axis = op.axis()
    shapes = [value.meta.shape for value in op.inputs if value is not None]
    total = poly(0)
    for shape in shapes:
        total = total + shape[axis]
    shape = (*shapes[0][:axis], total, *shapes[0][axis + 1 :])
    return Result((Made(shape, op.dtype()),), "aten.cat", op.all_refs())


def _stack(op: Op) -> Result:
    count = len(op.inputs)
    place = positive(op.int_attr("axis", 0), len(op.shape()) + 1)
    shape = (*op.shape()[:place], poly(count), *op.shape()[place:])
    return Result((Made(shape, op.dtype()),), "aten.stack", op.all_refs())


def _gather(op: Op) -> Result:
    axis = op.axis()
    picked = op.shape(1)
    shape = (*op.shape()[:axis], *picked, *op.shape()[axis + 1 :])
    index = op.number(1)
    if isinstance(index, int) and not picked:
        strides = op.value(0).strides
        return _view(op, shape, (*strides[:axis], *strides[axis + 1 :]))  # one row: a window
    is_table = op.value(0).is_weight and axis == 0 and len(op.shape()) == 2
    return Result((Made(shape, op.dtype()),), "aten.embedding" if is_table else "aten.index_select", op.refs_of(0, 1))


def _gather_elements(op: Op) -> Result:
    return Result((Made(op.shape(1), op.dtype()),), "aten.gather", op.refs_of(0, 1))


def _gather_nd(op: Op) -> Result:
    batch = op.int_attr("batch_dims", 0)
    depth = constant(op.shape(1)[-1])
    shape = (*op.shape(1)[:-1], *op.shape()[batch + depth :])
    return Result((Made(shape, op.dtype()),), "aten.index", op.refs_of(0, 1))


def _scatter(op: Op) -> Result:
    target = "aten.scatter" if op.attr("reduction", "none") == "none" else "aten.scatter_reduce"
    return Result((op.like(),), target, op.refs_of(0, 1, 2))


def _pad(op: Op) -> Result:
    amounts = op.items(1) if op.has(1) else list(op.int_list("pads"))
    axes = op.ints(3) if op.has(3) else list(range(len(op.shape())))
    shape = list(op.shape())
    for place, axis in enumerate(axes):
        place_of = positive(axis, len(shape))
        shape[place_of] = shape_of([shape[place_of] + amounts[place] + amounts[place + len(axes)]])[0]
    if tuple(shape) == op.shape():
        return same(op)
    return _copied(op, tuple(shape), "aten.pad")


def _tile(op: Op) -> Result:
    shape = shape_of([size * times for size, times in zip(op.shape(), op.items(1), strict=True)])
    return same(op) if shape == op.shape() else _copied(op, shape, "aten.repeat")


def _blocks(op: Op, to_depth: bool) -> Result:
    batch, channels, *space = op.shape()
    side = op.int_attr("blocksize", 1)
    area = side ** len(space)
    if to_depth:
        shape = (batch, channels * area, *(size // side for size in space))
    else:
        shape = (batch, channels // area, *(size * side for size in space))
    return _copied(op, shape, "aten.pixel_unshuffle" if to_depth else "aten.pixel_shuffle")


def _resize(op: Op) -> Result:
    roi_first = op.node.op == "Resize" and op.opset >= 11
    scales_at, sizes_at = (2, 3) if roi_first else (1, 9)
    axes = op.int_list("axes") or list(range(len(op.shape())))
    shape = list(op.shape())
    if op.has(sizes_at):
        for axis, size in zip(axes, op.items(sizes_at), strict=True):
            shape[positive(axis, len(shape))] = shape_of([size])[0]
    else:
        given = op.attr("scales")
        scales = op.items(scales_at) if given is None else list(given)
        for axis, scale in zip(axes, scales, strict=True):
            if scale != 1:
                place = positive(axis, len(shape))
                shape[place] = poly(int(constant(shape[place]) * scale + 1e-9))
    rank = sum(a != b for a, b in zip(shape, op.shape(), strict=True)) or len(shape) - 2
    return _copied(op, tuple(shape), _resampling(str(op.attr("mode", "nearest")), max(1, min(3, rank))))


def _resampling(mode: str, rank: int) -> str:
    if mode == "cubic":
        return "aten.upsample_bicubic2d"
    if mode == "linear" or mode == "bilinear":
        return f"aten.upsample_{('linear1d', 'bilinear2d', 'trilinear3d')[rank - 1]}"
    return f"aten.upsample_nearest{rank}d"


def _one_hot(op: Op) -> Result:
    depth = poly(constant(op.number(1)))
    axis = op.int_attr("axis", -1)
    place = positive(axis, len(op.shape()) + 1)
    shape = (*op.shape()[:place], depth, *op.shape()[place:])
    return Result((Made(shape, op.dtype(2)),), "aten.one_hot", {"self": op.ref(0)})


def _filled(op: Op) -> Result:
    value = op.attr("value")
    return Result((Made(shape_of(op.items(0)), getattr(value, "dtype", "float32")),), "aten.full")


def _range(op: Op) -> Result:
    start, limit, step = (op.number(index) for index in range(3))
    if start is None or limit is None or step is None:
        raise ShapeError("its length depends on the data")
    if isinstance(limit, Poly) and step == 1:
        return Result((Made((limit - start,), op.dtype()),), "aten.arange")
    return Result(
        (Made((poly(len(range(constant(start), constant(limit), constant(step)))),), op.dtype()),), "aten.arange"
    )


DATA_DEPENDENT = "a size that depends on the data is counted at its most"


def _nonzero(op: Op) -> Result:
    shape = (poly(len(op.shape())), product(op.shape()))
    return Result((Made(shape, "int64"),), "aten.nonzero", {"self": op.ref(0)}, DATA_DEPENDENT)


def _compress(op: Op) -> Result:
    axis = op.attr("axis")
    shape = (product(op.shape()),) if axis is None else op.shape()
    return Result((Made(shape, op.dtype()),), "aten.masked_select", {"self": op.ref(0)}, DATA_DEPENDENT)


def _unique(op: Op) -> Result:
    count = (product(op.shape()),)
    made = (Made(count, op.dtype()), *(Made(count, "int64") for _ in op.node.outputs[1:]))
    return Result(made, "aten.sort", {"self": op.ref(0), "dim": 0}, DATA_DEPENDENT)


def _top_k(op: Op) -> Result:
    axis = op.axis(default=-1)
    kept = constant(op.number(1)) if op.has(1) else op.int_attr("k", 1)
    shape = (*op.shape()[:axis], poly(kept), *op.shape()[axis + 1 :])
    made = (Made(shape, op.dtype()), Made(shape, "int64"))
    return Result(made, "aten.topk", {"self": op.ref(0), "k": kept, "dim": axis})


def _crop(op: Op) -> Result:
    axes = op.int_list("axes") or list(range(len(op.shape())))
    shape = list(op.shape())
    for axis, size in zip(axes, op.items(1), strict=True):
        shape[positive(axis, len(shape))] = shape_of([size])[0]
    return _copied(op, tuple(shape), "aten.pad")


def _col2im(op: Op) -> Result:
    block = prod(op.ints(2))
    return _copied(op, (op.shape()[0], op.shape()[1] // block, *shape_of(op.items(1))), "aten.col2im")


def _random(op: Op) -> Result:
    shape = shape_of(op.attr("shape", [])) if "Like" not in op.node.op else op.shape()
    return Result((Made(shape, "float32"),), "aten.randn")


def _flip(op: Op) -> Result:
    return _copied(op, op.shape(), "aten.flip")


def _tri(op: Op) -> Result:
    return _copied(op, op.shape(), "aten.triu")


MOVES: dict[str, Handler] = {
    **dict.fromkeys(("Identity", "Dropout", "Optional", "OptionalGetElement"), same),
    "Reshape": _reshape,
    "Flatten": _flatten,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Transpose": _transpose,
    "Expand": _expand,
    "Slice": _slice,
    "Split": _split,
    "Concat": _concat,
    "Stack": _stack,  # ours: ConcatFromSequence with a new axis
    "Gather": _gather,
    "GatherElements": _gather_elements,
    "GatherND": _gather_nd,
    **dict.fromkeys(("Scatter", "ScatterElements", "ScatterND"), _scatter),
    "Pad": _pad,
    "Tile": _tile,
    "DepthToSpace": lambda op: _blocks(op, False),
    "SpaceToDepth": lambda op: _blocks(op, True),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    "OneHot": _one_hot,
    "ConstantOfShape": _filled,
    "Range": _range,
    "EyeLike": lambda op: Result((op.like(),), "aten.eye"),
    "NonZero": _nonzero,
    "Compress": _compress,
    "Unique": _unique,
    "TopK": _top_k,
    "CenterCropPad": _crop,
    "Col2Im": _col2im,
    **dict.fromkeys(("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike"), _random),
    "Bernoulli": lambda op: Result((op.like(),), "aten.bernoulli", {"self": op.ref(0)}),
    "ReverseSequence": _flip,
    "Trilu": _tri,
}
