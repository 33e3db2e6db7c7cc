"""Folding of values that an ONNX graph computes from sizes (`Shape -> Gather -> Concat`), symbolic ones included."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from functools import partial, reduce
from typing import Any

import numpy as np

from hwexplorer_annexes.onnx.graph_parts import Poly, poly, product
from hwexplorer_annexes.onnx.onnx_file import MAX_VALUES, StoredTensor
from hwexplorer_annexes.onnx.onnx_op import Known, OnnxOp, ShapeError, known_values, positive_axis, whole_array

Fold = Callable[[OnnxOp], Any]
# NumPy raises RuntimeError for more dimensions than it can broadcast.
_REFUSED = (
    *(ValueError, TypeError, AttributeError, IndexError, ZeroDivisionError, OverflowError, KeyError),
    RuntimeError,
)
# Operators whose values follow from shapes and attributes alone.
_OF_SHAPES = frozenset(("Shape", "Size", "Constant"))


def fold_values(op: OnnxOp, fold: Fold | None) -> Known | None:
    """Return the values of a node's result if the file fixes them, else None."""
    if fold is None or op.node.domain or len(op.node.outputs) != 1:
        return None
    if op.node.op not in _OF_SHAPES and any(value is None or value.known is None for value in op.inputs):
        return None
    try:
        array = np.asarray(fold(op), dtype=object)
        return whole_array(list(array.reshape(-1)), array.shape) if array.size <= MAX_VALUES else None
    except _REFUSED:
        return None


def _check_count(*sizes: int) -> None:
    if math.prod(sizes) > MAX_VALUES:
        raise ShapeError("too many numbers to be sizes")


def _fold_elements(function: Callable[..., Any], op: OnnxOp) -> Any:
    arrays = [op.known_input(index) for index in range(len(op.inputs))]
    _check_count(*np.broadcast_shapes(*(array.shape for array in arrays)))
    return np.frompyfunc(function, len(arrays), 1)(*arrays)


def _fold_numbers(function: Callable[[Any], Any], op: OnnxOp) -> Any:
    """Apply a function to every number. Symbolic sizes are whole and positive, so they stay unchanged."""
    return _fold_elements(lambda item: item if isinstance(item, Poly) else function(item), op)


def _divide(left: Any, right: Any) -> Any:
    if isinstance(left, Poly) or isinstance(right, Poly):
        return poly(left) // right
    if isinstance(left, float) or isinstance(right, float):
        return left / right
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1) if right else 0


def _remainder(left: Any, right: Any) -> Any:
    return left - left // right * right if isinstance(left, Poly) else left % right  # of a Poly: 0, or an error


def _power(base: Any, exponent: Any) -> Any:
    if not 0 <= exponent <= 64 or (isinstance(base, Poly) and exponent != int(exponent)):
        raise ShapeError("a power that is not a size")
    return product([base] * int(exponent)) if isinstance(base, Poly) else base**exponent


def _compare(function: Callable[[Any, Any], bool], left: Any, right: Any) -> bool:
    """Return the result of a comparison. Raises ShapeError if it differs between batches."""
    points = [[x.value_at(batch=n) if isinstance(x, Poly) else x for x in (left, right)] for n in (1, 7, 4096)]
    answers = {function(*point) for point in points}
    if len(answers) > 1:
        raise ShapeError("a comparison depends on the batch")
    return answers.pop()


def _best(is_better: Callable[[Any, Any], bool], *items: Any) -> Any:
    return reduce(lambda best, item: best if _compare(is_better, best, item) else item, items)


def _select(condition: Any, left: Any, right: Any) -> Any:
    if isinstance(condition, Poly):
        raise ShapeError("a condition depends on a size")
    return left if condition else right


def _reduce(function: Callable[[Any, Any], Any], start: tuple[int, ...], op: OnnxOp) -> Any:
    data = op.known_input()
    if data.ndim != 1 or (not op.axes() and op.int_attr("noop_with_empty_axes", 0)):
        raise ShapeError("a reduction of a tensor with several dimensions")
    return whole_array([reduce(function, data, *start)], (1,) if op.int_attr("keepdims", 1) else ())


def _cast(op: OnnxOp) -> Any:
    to = op.int_attr("to", 1)
    kind: Callable[[Any], Any] = float if to in (1, 10, 11, 16) else bool if to == 9 else int
    return _fold_numbers(kind, OnnxOp(op.node, op.inputs[:1], op.opset))


def _sizes(op: OnnxOp) -> Any:
    start, end = op.int_attr("start", 0), op.int_attr("end", op.rank)
    return whole_array(op.shape()[slice(*(max(0, at + op.rank) if at < 0 else at for at in (start, end)))])


def _constant(op: OnnxOp) -> Any:
    for name, given in op.node.attributes.items():
        if isinstance(given, StoredTensor) and given.values is not None:
            return known_values(given)
        if name in ("value_int", "value_float"):
            return whole_array([given], ())
        if name in ("value_ints", "value_floats"):
            return whole_array(given)
    raise ShapeError("a constant that is not a size")


def _fill(op: OnnxOp) -> Any:
    shape, value = op.ints(0), op.attr("value")
    _check_count(*shape)
    known = known_values(value) if isinstance(value, StoredTensor) else None
    return whole_array([0.0 if known is None else known.reshape(-1)[0]] * math.prod(shape), shape)


def _range(op: OnnxOp) -> Any:
    start, limit, step = (op.number(index) for index in range(3))
    if any(isinstance(x, Poly) for x in (start, limit, step)) or not step:
        raise ShapeError("a range whose length is a symbolic dimension")
    _check_count(max(0, math.ceil((limit - start) / step)))
    return whole_array(np.arange(start, limit, step).tolist())


def _gather(op: OnnxOp) -> Any:
    data, indices = op.known_input(), op.known_input(1)
    axis = positive_axis(op.int_attr("axis", 0), data.ndim)
    _check_count(indices.size, *data.shape[:axis], *data.shape[axis + 1 :])
    return np.take(data, np.asarray(indices, dtype=np.int64), axis=axis)


def _slice(op: OnnxOp) -> Any:
    data = op.known_input()
    window: list[slice] = [slice(None)] * data.ndim
    for start, end, axis, step in slices_of(op):
        window[axis] = slice(start, None if step < 0 and end < -data.shape[axis] else end, step)
    return data[tuple(window)]


def slices_of(op: OnnxOp) -> list[tuple[Any, Any, int, int]]:
    """Return start, end (either may be symbolic), axis and step of every slice, from inputs or attributes."""
    starts, ends = op.items(1, "starts"), op.items(2, "ends")
    axes = [positive_axis(axis, op.rank) for axis in op.ints(3, "axes")] or range(len(starts))
    return list(zip(starts, ends, axes, op.ints(4) or [1] * len(starts), strict=True))


def _reshape(op: OnnxOp) -> Any:
    data = op.known_input()
    return data.reshape([data.shape[place] if size == 0 else size for place, size in enumerate(op.ints(1))])


def _tile(op: OnnxOp) -> Any:
    _check_count(*op.ints(1), op.known_input().size)
    return np.tile(op.known_input(), op.ints(1))


_ELEMENTS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negate": operator.neg,
    "divide": _divide,
    "remainder": _remainder,
    "power": _power,
    "select": _select,
    "equal": partial(_compare, operator.eq),
    "less": partial(_compare, operator.lt),
    "greater": partial(_compare, operator.gt),
    "less_equal": partial(_compare, operator.le),
    "greater_equal": partial(_compare, operator.ge),
    "minimum": partial(_best, operator.le),
    "maximum": partial(_best, operator.ge),
    "not": operator.not_,
    "and": lambda left, right: bool(left and right),
    "or": lambda left, right: bool(left or right),
    "root": math.sqrt,
}
_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "absolute": abs,
    "round": lambda item: float(round(item)),
    "floor": lambda item: float(math.floor(item)),
    "ceil": lambda item: float(math.ceil(item)),
}
# Rules for the values of a result with known inputs, by their name in operator_table.toml.
FOLDS: dict[str, Fold] = {
    **{name: partial(_fold_elements, function) for name, function in _ELEMENTS.items()},
    **{name: partial(_fold_numbers, function) for name, function in _NUMBERS.items()},
    "sum": partial(_reduce, operator.add, (0,)),
    "product": partial(_reduce, operator.mul, (1,)),
    "reduce_minimum": partial(_reduce, partial(_best, operator.le), ()),
    "reduce_maximum": partial(_reduce, partial(_best, operator.ge), ()),
    "cast": _cast,
    "sizes": _sizes,
    "size": lambda op: whole_array([product(op.shape())], ()),
    "constant": _constant,
    "fill": _fill,
    "range": _range,
    "identity": lambda op: op.known_input(),
    "gather": _gather,
    "slice": _slice,
    "reshape": _reshape,
    "squeeze": lambda op: op.known_input().squeeze(tuple(op.axes()) or None),
    "unsqueeze": lambda op: np.expand_dims(op.known_input(), tuple(op.ints(1, "axes"))),
    "transpose": lambda op: op.known_input().transpose(op.int_list("perm") or None),
    "expand": lambda op: np.broadcast_to(
        op.known_input(), np.broadcast_shapes(op.known_input().shape, tuple(op.ints(1)))
    ),
    "concatenate": lambda op: np.concatenate(
        [op.known_input(i) for i in range(len(op.inputs))], op.int_attr("axis", 0)
    ),
    "tile": _tile,
}
