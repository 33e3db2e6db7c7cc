"""Values an ONNX graph computes from sizes: `Shape -> Gather -> Concat -> Reshape`, with live dimensions kept."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...poly import Poly, product
from .file import TensorInfo
from .op import MAX_KNOWN, Fold, Known, Op, ShapeError, as_known, constant, positive, whole_array


def _again(array: Any) -> Known:
    found = np.asarray(array, dtype=object)
    if found.size > MAX_KNOWN:
        raise ShapeError("too many numbers to be sizes")
    return whole_array(list(found.reshape(-1)), found.shape)


def _each(function: Callable[..., Any]) -> Fold:
    """Element by element, broadcast."""

    def fold(op: Op) -> Known:
        arrays = np.broadcast_arrays(*(op.known(index) for index in range(len(op.inputs))))
        items = [function(*parts) for parts in zip(*(array.reshape(-1) for array in arrays), strict=True)]
        return whole_array(items, arrays[0].shape)

    return fold


def _divide(left: Any, right: Any) -> Any:
    if isinstance(left, Poly) or isinstance(right, Poly):
        if isinstance(left, int) and isinstance(right, Poly):
            raise ShapeError("a number is divided by a live size")
        return left // right
    if isinstance(left, int) and isinstance(right, int):
        return int(math.copysign(abs(left) // abs(right), left * right)) if right else 0
    return left / right


def _remainder(left: Any, right: Any) -> Any:
    if isinstance(left, Poly):
        return left - left // right * right  # nothing, or an error
    return left % right


def _compare(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], Any]:
    def compare(left: Any, right: Any) -> Any:
        """Live sizes are at least 1; what then is not certain is not known."""
        if isinstance(left, Poly) or isinstance(right, Poly):
            answers = {
                function(*(x.at(batch=n) if isinstance(x, Poly) else x for x in (left, right))) for n in (1, 7, 4096)
            }
            if len(answers) > 1:
                raise ShapeError("a comparison depends on the batch")
            return answers.pop()
        return function(left, right)

    return compare


def _shape(op: Op) -> Known:
    sizes = list(op.shape())
    rank = len(sizes)
    start, end = op.int_attr("start", 0), op.int_attr("end", rank)
    return whole_array(sizes[slice(*(max(0, x + rank) if x < 0 else x for x in (start, end)))])


def _constant(op: Op) -> Known:
    for name, found in op.node.attributes.items():
        if isinstance(found, TensorInfo):
            known = as_known(found)
            if known is None:
                raise ShapeError("a constant that is no size")
            return known
        if name in ("value_int", "value_float"):
            return whole_array([found], ())
        if name in ("value_ints", "value_floats"):
            return whole_array(found)
    raise ShapeError("a constant of another kind")


def _filled(op: Op) -> Known:
    shape = op.ints(0)
    if math.prod(shape) > MAX_KNOWN:
        raise ShapeError("too large to be a size")
    found = op.attr("value")
    known = as_known(found) if isinstance(found, TensorInfo) else None
    return whole_array([known.reshape(-1)[0] if known is not None else 0.0] * math.prod(shape), shape)


def _range(op: Op) -> Known:
    start, limit, step = (op.number(index) for index in range(3))
    if any(isinstance(x, Poly) or x is None for x in (start, limit, step)):
        raise ShapeError("a range of live length")
    if not step or (limit - start) / step > MAX_KNOWN:
        raise ShapeError("too long to be a size")
    return whole_array(np.arange(start, limit, step).tolist())


def _gather(op: Op) -> Known:
    data = op.known(0)
    axis = positive(op.int_attr("axis", 0), data.ndim)
    return _again(np.take(data, np.asarray(op.known(1), dtype=np.int64), axis=axis))


def _slice(op: Op) -> Known:
    data = op.known(0)
    starts, ends, axes, steps = slice_arguments(op)
    window: list[slice] = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        window[positive(axis, data.ndim)] = slice(start, None if step < 0 and end < -data.shape[axis] else end, step)
    return _again(data[tuple(window)])


def slice_arguments(op: Op) -> tuple[list[Any], list[Any], list[int], list[int]]:
    """Starts, ends, axes and steps, from inputs (newer files) or attributes; whole numbers or live ends."""
    if op.attr("ends") is not None:
        starts, ends = list(op.attr("starts")), list(op.attr("ends"))
        axes, steps = op.attr("axes"), None
    else:
        starts, ends = op.items(1), op.items(2)
        axes = op.ints(3) if op.has(3) else None
        steps = op.ints(4) if op.has(4) else None
    return starts, ends, list(axes or range(len(starts))), list(steps or [1] * len(starts))


def _reshape(op: Op) -> Known:
    data = op.known(0)
    asked = op.ints(1)
    return _again(data.reshape([data.shape[i] if size == 0 else size for i, size in enumerate(asked)]))


def _squeeze(op: Op) -> Known:
    data = op.known(0)
    axes = op.axes()
    return _again(data.squeeze(tuple(axes) if axes else None))


def _unsqueeze(op: Op) -> Known:
    data = op.known(0)
    axes = op.ints(1) if op.has(1) else op.int_list("axes")
    return _again(np.expand_dims(data, tuple(axes)))


def _cast(op: Op) -> Known:
    kind = op.int_attr("to", 1)
    if kind in (1, 10, 11, 16):
        function: Callable[[Any], Any] = lambda x: x if isinstance(x, Poly) else float(x)  # noqa: E731
    elif kind == 9:
        function = bool
    else:
        function = lambda x: x if isinstance(x, Poly) else int(x)  # noqa: E731
    return _each(function)(Op(op.node, op.inputs[:1], op.opset))


def _reduced(function: Callable[[list[Any]], Any]) -> Fold:
    def fold(op: Op) -> Known:
        data = op.known(0)
        axes = op.axes()
        if data.ndim != 1 or (axes is None and op.int_attr("noop_with_empty_axes", 0)):
            raise ShapeError("a reduction of more than a list")
        return whole_array([function(list(data))], (1,) if op.int_attr("keepdims", 1) else ())

    return fold


def _sum(items: list[Any]) -> Any:
    total = items[0] if items else 0
    for item in items[1:]:
        total = item + total if isinstance(item, Poly) else total + item
    return total


def _product(items: list[Any]) -> Any:
    if any(isinstance(item, Poly) for item in items):
        return product([item if isinstance(item, Poly) else constant(item) for item in items])
    return math.prod(items)


def _subtract(left: Any, right: Any) -> Any:
    return right * -1 + left if isinstance(right, Poly) else left - right


def _add(left: Any, right: Any) -> Any:
    return right + left if isinstance(right, Poly) else left + right


def _multiply(left: Any, right: Any) -> Any:
    return right * left if isinstance(right, Poly) else left * right


def _pick(yes: Any, left: Any, right: Any) -> Any:
    if isinstance(yes, Poly):
        raise ShapeError("a condition is a size")
    return left if yes else right


def _least(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def choose(first: Any, *others: Any) -> Any:
        for other in others:
            is_less = _compare(operator.le)(first, other)
            first = first if is_less == (function is min) else other
        return first

    return choose


def _power(base: Any, exponent: Any) -> Any:
    if not 0 <= exponent <= 64 or (isinstance(base, Poly) and exponent != int(exponent)):
        raise ShapeError("a power that is no size")
    return product([base] * int(exponent)) if isinstance(base, Poly) else base**exponent


def _tile(op: Op) -> Known:
    if math.prod(op.ints(1)) * op.known(0).size > MAX_KNOWN:
        raise ShapeError("too many numbers to be sizes")
    return _again(np.tile(op.known(0), op.ints(1)))


def _concat(op: Op) -> Known:
    arrays = [op.known(index) for index in range(len(op.inputs))]
    return _again(np.concatenate(arrays, axis=positive(op.int_attr("axis", 0), arrays[0].ndim)))


FOLDS: dict[str, Fold] = {
    "Shape": _shape,
    "Size": lambda op: whole_array([product(op.shape())], ()),
    "Constant": _constant,
    "ConstantOfShape": _filled,
    "Range": _range,
    "Gather": _gather,
    "Slice": _slice,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Unsqueeze": _unsqueeze,
    "Concat": _concat,
    "Cast": _cast,
    "Identity": lambda op: op.known(0),
    "Transpose": lambda op: _again(op.known(0).transpose(op.int_list("perm") or None)),
    "Expand": lambda op: _again(np.broadcast_to(op.known(0), np.broadcast_shapes(op.known(0).shape, op.ints(1)))),
    "Tile": _tile,
    "Add": _each(_add),
    "Sub": _each(_subtract),
    "Mul": _each(_multiply),
    "Div": _each(_divide),
    "Mod": _each(_remainder),
    "Neg": _each(lambda x: x * -1),
    "Abs": _each(lambda x: x if isinstance(x, Poly) else abs(x)),
    "Floor": _each(lambda x: x if isinstance(x, Poly) else float(math.floor(x))),
    "Ceil": _each(lambda x: x if isinstance(x, Poly) else float(math.ceil(x))),
    "Round": _each(lambda x: x if isinstance(x, Poly) else float(round(x))),
    "Sqrt": _each(math.sqrt),
    "Pow": _each(_power),
    "Min": _each(_least(min)),
    "Max": _each(_least(max)),
    "Equal": _each(_compare(operator.eq)),
    "Less": _each(_compare(operator.lt)),
    "LessOrEqual": _each(_compare(operator.le)),
    "Greater": _each(_compare(operator.gt)),
    "GreaterOrEqual": _each(_compare(operator.ge)),
    "Not": _each(operator.not_),
    "And": _each(lambda x, y: bool(x and y)),
    "Or": _each(lambda x, y: bool(x or y)),
    "Where": _each(_pick),
    "ReduceSum": _reduced(_sum),
    "ReduceProd": _reduced(_product),
    "ReduceMin": _reduced(lambda items: _least(min)(*items)),
    "ReduceMax": _reduced(lambda items: _least(max)(*items)),
}
# Settled by shapes and attributes alone, whatever the tensors hold.
OF_SHAPES = frozenset(("Shape", "Size", "Constant"))


def folded(op: Op) -> Known | None:
    """The values of a node's result where the file settles them, else None."""
    function = FOLDS.get(op.node.op) if not op.node.domain and len(op.node.outputs) == 1 else None
    if function is None:
        return None
    if op.node.op not in OF_SHAPES and any(value is None or value.known is None for value in op.inputs):
        return None
    try:
        found = function(op)
    except (ValueError, TypeError, AttributeError, IndexError, ZeroDivisionError, OverflowError, KeyError):
        return None
    return found if found.size <= MAX_KNOWN else None
