"""Sizes in an exported program: its shape expressions, read without evaluating anything, and which reshapes copy."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from math import prod

from analysis.model.ir.poly import Poly, SizeError, check_size, poly

_MAX_EXPRESSION = 4000
_MAX_SIZE = 1 << 48
_MAX_POWER = 8
REFERENCE = 7  # the value of a live dimension at which strides are compared


def expression(text: str, symbols: Mapping[str, Poly]) -> Poly:
    """Return a size as written by torch: `2*s77`, or `Mul(Integer(2), Symbol('s77', positive=True, integer=True))`.
    Only symbols, integers, sums, products, small powers and exact floor divisions; anything else raises SizeError."""
    return _size(_parsed(text), symbols)


def stride(text: str, symbols: Mapping[str, Poly]) -> int:
    """Return a stride at the reference point. Strides may choose the lesser or greater of two."""
    return _number(_parsed(text), symbols)


def _parsed(text: str) -> ast.expr:
    if len(text) > _MAX_EXPRESSION:
        raise SizeError("a shape expression is too long")
    try:
        return ast.parse(text, mode="eval").body  # parses, never runs
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SizeError(f"{text[:60]!r} is no shape expression") from None


def _number(node: ast.expr, symbols: Mapping[str, Poly]) -> int:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        values = [_number(argument, symbols) for argument in node.args] if node.func.id in _NUMBERS else []
        if values:
            return _NUMBERS[node.func.id](values)
    return _size(node, symbols).value_at(batch=REFERENCE)


_NUMBERS: dict[str, Callable[[list[int]], int]] = {"Min": min, "Max": max, "Mul": prod, "Add": sum}


def whole(value: object) -> Poly:
    """Return a plain size. Raises SizeError."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MAX_SIZE:
        raise SizeError(f"{str(value)[:40]!r} is no size")
    return poly(value)


def _size(node: ast.expr, symbols: Mapping[str, Poly]) -> Poly:
    match node:
        case ast.Constant(value=int(number)) if abs(number) <= _MAX_SIZE:
            return poly(int(number))
        case ast.Name(id=name) | ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]):
            return _symbol(name, symbols)
        case ast.Call(func=ast.Name(id="Integer"), args=[number]):
            return _size(number, symbols)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _size(operand, symbols) * -1
        case ast.BinOp(left=left, op=sign, right=right):
            name, parts = type(sign).__name__, [left, right]
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as parts):
            pass
        case _:
            raise SizeError(f"a shape expression has a {type(node).__name__}")
    if name not in _STEPS:
        raise SizeError(f"a shape expression calls {name[:40]}")
    result = _size(parts[0], symbols)
    for part in parts[1:]:
        result = check_size(_STEPS[name](result, _size(part, symbols)))
    return result


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
    **dict.fromkeys(("Mul", "Mult"), Poly.__mul__),
    **dict.fromkeys(("FloorDiv", "CleanDiv"), Poly.__floordiv__),
    "Pow": _power,
}


def symbols_in(text: str) -> list[str]:
    """Return the names of the symbols of a shape expression."""
    nodes = list(ast.walk(_parsed(text)))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    quoted = [
        node.args[0].value
        for node in nodes
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant)
    ]
    plain = [node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in called]
    return [*(name for name in quoted if isinstance(name, str)), *plain]


def _symbol(name: str, symbols: Mapping[str, Poly]) -> Poly:
    if name not in symbols:
        raise SizeError(f"a tensor size depends on the data ({name[:40]})")
    return symbols[name]


Layout = tuple[tuple[int, ...], tuple[int, ...]]  # sizes and strides at the reference point


def layout(sizes: Sequence[Poly], strides: Sequence[int]) -> Layout:
    """Return sizes and strides at the reference point of live dimensions."""
    return tuple(size.value_at(batch=REFERENCE) for size in sizes), tuple(strides)


def is_viewable(held: Layout, new: Sequence[int]) -> bool:
    """Return True if a tensor of this layout can have the sizes `new` without a copy: every run of dimensions that lie
    contiguously must be cut at the same places."""
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
