"""Parse sizes given as expressions of symbols without evaluating code, and decide which reshapes copy."""

import ast
from collections.abc import Callable, Mapping, Sequence
from math import prod

from analysis.model.ir.poly import Poly, SizeError, check_size, poly

_MAX_EXPRESSION = 4000
_MAX_SIZE = 1 << 48
_MAX_POWER = 8
REFERENCE = 7  # the value of a symbolic dimension at which strides are compared


def expression(text: str, symbols: Mapping[str, Poly]) -> Poly:
    """Return a size like `2*s77`: only symbols, integers, sums, products, small powers and exact floor divisions;
    anything else raises SizeError."""
    if len(text) > _MAX_EXPRESSION:
        raise SizeError("a shape expression is too long")
    try:
        parsed = ast.parse(text, mode="eval").body  # only parsed, never run
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SizeError(f"{text[:60]!r} is not a shape expression") from None
    return _size(parsed, symbols)


def _size(node: ast.expr, symbols: Mapping[str, Poly]) -> Poly:
    match node:
        case ast.Constant(value=int(number)) if abs(number) <= _MAX_SIZE:
            return poly(int(number))
        case ast.Name(id=name) if name in symbols:
            return symbols[name]
        case ast.Name(id=name):
            raise SizeError(f"a tensor size depends on the data ({name[:40]})")
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _size(operand, symbols) * -1
        case ast.BinOp(left=left, op=sign, right=right) if type(sign).__name__ in _STEPS:
            return check_size(_STEPS[type(sign).__name__](_size(left, symbols), _size(right, symbols)))
    raise SizeError(f"a shape expression has a {type(node).__name__}")


def _power(base: Poly, exponent: Poly) -> Poly:
    count = exponent.constant()
    if not 0 < count <= _MAX_POWER:
        raise SizeError(f"a shape expression has a power of {str(count)[:20]}")
    result = base
    for _ in range(count - 1):
        result = check_size(result * base)
    return result


_STEPS: dict[str, Callable[[Poly, Poly], Poly]] = {
    "Add": Poly.__add__,
    "Sub": Poly.__sub__,
    "Mult": Poly.__mul__,
    "FloorDiv": Poly.__floordiv__,
    "Pow": _power,
}


Layout = tuple[tuple[int, ...], tuple[int, ...]]  # sizes and strides at the reference point


def layout(sizes: Sequence[Poly], strides: Sequence[int]) -> Layout:
    """Return sizes and strides at the reference point of symbolic dimensions."""
    return tuple(size.value_at(batch=REFERENCE) for size in sizes), tuple(strides)


def is_viewable(held: Layout, new: Sequence[int]) -> bool:
    """Return True if a tensor of this layout can have the sizes `new` without a copy: no new dimension may span two
    groups of contiguous dimensions."""
    sizes, strides = held
    if prod(sizes) != prod(new) or 0 in sizes:
        return 0 in sizes
    old = [(size, stride) for size, stride in zip(sizes, strides, strict=True) if size != 1]
    wanted = [size for size in new if size != 1]
    position = len(wanted) - 1
    run = 1
    for index in range(len(old) - 1, -1, -1):
        run *= old[index][0]
        joined = index > 0 and old[index - 1][1] == old[index][0] * old[index][1]
        if joined:
            continue
        while position >= 0 and run > 1 and run % wanted[position] == 0:
            run //= wanted[position]
            position -= 1
        if run != 1:
            return False
    return position < 0
