"""Values an ONNX graph computes from sizes: `Shape -> Gather -> Concat -> Reshape`, with live dimensions kept."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from analysis.annexes.readers.onnx.onnx_file import MAX_VALUES, TensorInfo
from analysis.annexes.readers.onnx.onnx_op import Known, OnnxOp, ShapeError, as_known, positive, whole_array
from analysis.model.ir.poly import Poly, poly, product

Fold = Callable[[OnnxOp], Any]
# RuntimeError: what NumPy says of more dimensions than it can broadcast.
_REFUSED = (
    *(ValueError, TypeError, AttributeError, IndexError, ZeroDivisionError, OverflowError, KeyError),
    RuntimeError,
)
# Settled by shapes and attributes alone, whatever the tensors hold.
_OF_SHAPES = frozenset(("Shape", "Size", "Constant"))


def folded(op: OnnxOp, fold: Fold | None) -> Known | None:
    """The values of a node's result where the file settles them, else None."""
    if fold is None or op.node.domain or len(op.node.outputs) != 1:
        return None
    if op.node.op not in _OF_SHAPES and any(value is None or value.known is None for value in op.inputs):
        return None
    try:
        array = np.asarray(fold(op), dtype=object)
        return whole_array(list(array.reshape(-1)), array.shape) if array.size <= MAX_VALUES else None
    except _REFUSED:
        return None


def _few(*sizes: int) -> None:
    if math.prod(sizes) > MAX_VALUES:
        raise ShapeError("too many numbers to be sizes")


# --- numbers, any of which may be live ----------------------------------------------------------------------


def _each(function: Callable[..., Any]) -> Fold:
    """Element by element, broadcast."""

    def fold(op: OnnxOp) -> Any:
        arrays = [op.known(index) for index in range(len(op.inputs))]
        _few(*np.broadcast_shapes(*(array.shape for array in arrays)))
        return np.frompyfunc(function, len(arrays), 1)(*arrays)

    return fold


def _of_numbers(function: Callable[[Any], Any]) -> Fold:
    """One that leaves live sizes, which are whole and positive, as they are."""
    return _each(lambda item: item if isinstance(item, Poly) else function(item))


def _divide(left: Any, right: Any) -> Any:
    if isinstance(left, Poly) or isinstance(right, Poly):
        return poly(left) // right
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1) if right else 0


def _remainder(left: Any, right: Any) -> Any:
    return left - left // right * right if isinstance(left, Poly) else left % right  # nothing, or an error


def _power(base: Any, exponent: Any) -> Any:
    if not 0 <= exponent <= 64 or (isinstance(base, Poly) and exponent != int(exponent)):
        raise ShapeError("a power that is no size")
    return product([base] * int(exponent)) if isinstance(base, Poly) else base**exponent


def _certain(function: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Live sizes are at least 1; what then is not certain is not known."""

    def compare(left: Any, right: Any) -> bool:
        points = [[x.at(batch=n) if isinstance(x, Poly) else x for x in (left, right)] for n in (1, 7, 4096)]
        answers = {function(*point) for point in points}
        if len(answers) > 1:
            raise ShapeError("a comparison depends on the batch")
        return answers.pop()

    return compare


def _best(is_better: Callable[[Any, Any], bool]) -> Callable[..., Any]:
    certainly = _certain(is_better)
    return lambda *items: reduce(lambda best, item: best if certainly(best, item) else item, items)


def _picked(condition: Any, left: Any, right: Any) -> Any:
    if isinstance(condition, Poly):
        raise ShapeError("a condition is a size")
    return left if condition else right


def _reduced(function: Callable[[Any, Any], Any], *start: int) -> Fold:
    def fold(op: OnnxOp) -> Any:
        data = op.known()
        if data.ndim != 1 or (not op.axes() and op.int_attr("noop_with_empty_axes", 0)):
            raise ShapeError("a reduction of more than a list")
        return whole_array([reduce(function, data, *start)], (1,) if op.int_attr("keepdims", 1) else ())

    return fold


plus, minus, times, negative = (_each(f) for f in (operator.add, operator.sub, operator.mul, operator.neg))
divided, remainder, power, pick = (_each(f) for f in (_divide, _remainder, _power, _picked))
equal, less, greater = (_each(_certain(f)) for f in (operator.eq, operator.lt, operator.gt))
at_most, at_least = _each(_certain(operator.le)), _each(_certain(operator.ge))
least, most = _each(_best(operator.le)), _each(_best(operator.ge))
negated, root = _each(operator.not_), _each(math.sqrt)
both, either = _each(lambda left, right: bool(left and right)), _each(lambda left, right: bool(left or right))
magnitude, nearest = _of_numbers(abs), _of_numbers(lambda item: float(round(item)))
down, up = _of_numbers(lambda item: float(math.floor(item))), _of_numbers(lambda item: float(math.ceil(item)))
total, volume = _reduced(operator.add, 0), _reduced(operator.mul, 1)
lowest, highest = _reduced(_best(operator.le)), _reduced(_best(operator.ge))


def cast(op: OnnxOp) -> Any:
    to = op.int_attr("to", 1)
    kind: Callable[[Any], Any] = float if to in (1, 10, 11, 16) else bool if to == 9 else int
    return _of_numbers(kind)(OnnxOp(op.node, op.inputs[:1], op.opset))


# --- made ---------------------------------------------------------------------------------------------------


def sizes(op: OnnxOp) -> Any:
    start, end = op.int_attr("start", 0), op.int_attr("end", op.rank)
    return whole_array(op.shape()[slice(*(max(0, at + op.rank) if at < 0 else at for at in (start, end)))])


def elements(op: OnnxOp) -> Any:
    return whole_array([product(op.shape())], ())


def constant(op: OnnxOp) -> Any:
    for name, given in op.node.attributes.items():
        if isinstance(given, TensorInfo) and given.values is not None:
            return as_known(given)
        if name in ("value_int", "value_float"):
            return whole_array([given], ())
        if name in ("value_ints", "value_floats"):
            return whole_array(given)
    raise ShapeError("a constant that is no size")


def filled(op: OnnxOp) -> Any:
    shape, value = op.ints(0), op.attr("value")
    _few(*shape)
    known = as_known(value) if isinstance(value, TensorInfo) else None
    return whole_array([0.0 if known is None else known.reshape(-1)[0]] * math.prod(shape), shape)


def ranged(op: OnnxOp) -> Any:
    start, limit, step = (op.number(index) for index in range(3))
    if any(isinstance(x, Poly) for x in (start, limit, step)) or not step:
        raise ShapeError("a range of live length")
    _few(max(0, math.ceil((limit - start) / step)))
    return whole_array(np.arange(start, limit, step).tolist())


# --- moved --------------------------------------------------------------------------------------------------


def unchanged(op: OnnxOp) -> Any:
    return op.known()


def gathered(op: OnnxOp) -> Any:
    data, indices = op.known(), op.known(1)
    axis = positive(op.int_attr("axis", 0), data.ndim)
    _few(indices.size, *data.shape[:axis], *data.shape[axis + 1 :])
    return np.take(data, np.asarray(indices, dtype=np.int64), axis=axis)


def sliced(op: OnnxOp) -> Any:
    data = op.known()
    window: list[slice] = [slice(None)] * data.ndim
    for start, end, axis, step in slices_of(op):
        window[axis] = slice(start, None if step < 0 and end < -data.shape[axis] else end, step)
    return data[tuple(window)]


def slices_of(op: OnnxOp) -> list[tuple[Any, Any, int, int]]:
    """Start, end, axis and step of every slice, from inputs (newer files) or attributes; starts and ends may be
    live."""
    starts, ends = op.items(1, "starts"), op.items(2, "ends")
    axes = [positive(axis, op.rank) for axis in op.ints(3, "axes")] or range(len(starts))
    return list(zip(starts, ends, axes, op.ints(4) or [1] * len(starts), strict=True))


def reshaped(op: OnnxOp) -> Any:
    data = op.known()
    return data.reshape([data.shape[place] if size == 0 else size for place, size in enumerate(op.ints(1))])


def squeezed(op: OnnxOp) -> Any:
    return op.known().squeeze(tuple(op.axes()) or None)


def unsqueezed(op: OnnxOp) -> Any:
    return np.expand_dims(op.known(), tuple(op.ints(1, "axes")))


def transposed(op: OnnxOp) -> Any:
    return op.known().transpose(op.int_list("perm") or None)


def expanded(op: OnnxOp) -> Any:
    return np.broadcast_to(op.known(), np.broadcast_shapes(op.known().shape, tuple(op.ints(1))))


def joined(op: OnnxOp) -> Any:
    return np.concatenate([op.known(place) for place in range(len(op.inputs))], op.int_attr("axis", 0))


def tiled(op: OnnxOp) -> Any:
    _few(*op.ints(1), op.known().size)
    return np.tile(op.known(), op.ints(1))
