"""Tensor sizes before the batch is known: polynomials in the symbolic dimensions, the text of such a size, read without
evaluating code, and which reshapes of tensors with such sizes copy.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from math import prod

from analysis.model import request_bounds

Monomial = tuple[str, ...]  # dimension names, sorted, repeated for powers; () is the constant
Coefficient = int | Fraction  # a causal mask leaves half of a square and half of its diagonal
Terms = Mapping[Monomial, Coefficient]

# Sizes that must be ordered (the distinct elements of a view) are compared at this value of every symbolic
# dimension. If two sizes cross, they do so at smaller values.
_REFERENCE = 64
# Limits for untrusted files: the coefficients of a size, and its symbolic factors (products of sizes may have more).
_MAX_NUMBER = 1 << 64
_MAX_DEGREE = 8
_MAX_PRODUCT_DEGREE = 32


class SizeError(ValueError):
    """An invalid tensor size or size expression."""


@dataclass(frozen=True, slots=True)
class Poly:
    """`sum(coefficient * product(dimensions))`; zero terms are never stored, so equality is structural."""

    terms: Terms = field(default_factory=dict)

    def __add__(self, other: Size) -> Poly:
        terms = dict(self.terms)
        for monomial, value in poly(other).terms.items():
            terms[monomial] = terms.get(monomial, 0) + value
        return Poly({key: value for key, value in terms.items() if value})

    def __sub__(self, other: Size) -> Poly:
        return self + poly(other) * -1

    def __mul__(self, other: Size) -> Poly:
        if isinstance(other, int):  # most sizes are plain numbers
            return Poly({key: value * other for key, value in self.terms.items()} if other else {})
        terms: dict[Monomial, Coefficient] = {}
        for left, a in self.terms.items():
            for right, b in other.terms.items():
                if len(left) + len(right) > _MAX_PRODUCT_DEGREE:
                    raise SizeError("a size grows with too high a power of the batch")
                key = tuple(sorted(left + right))
                terms[key] = terms.get(key, 0) + a * b
        return Poly({key: value for key, value in terms.items() if value})

    def __floordiv__(self, other: Size) -> Poly:
        """Divide by a monomial exactly. Raises ValueError for a remainder."""
        divisor = poly(other)
        if len(divisor.terms) != 1:
            raise ValueError(f"cannot divide {self} by {other}")
        ((monomial, scale),) = divisor.terms.items()
        terms: dict[Monomial, Coefficient] = {}
        for key, value in self.terms.items():
            rest = list(key)
            for name in monomial:
                if name not in rest:
                    raise ValueError(f"{self} is not a multiple of {other}")
                rest.remove(name)
            if value % scale:
                raise ValueError(f"{self} is not a multiple of {other}")
            terms[tuple(rest)] = value // scale
        return Poly(terms)

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Size) -> Poly:
        return self * -1 + other

    def __neg__(self) -> Poly:
        return self * -1

    def __hash__(self) -> int:
        return hash(sum(self.terms.values()))  # does not depend on the order of the terms

    @property
    def is_constant(self) -> bool:
        """True if the size has no symbolic dimension."""
        return not any(self.terms)

    def constant(self) -> int:
        """Return the value of a size without symbolic dimensions."""
        if not self.is_constant:
            raise ValueError(f"{self} depends on a symbolic dimension")
        return int(self.terms.get((), 0))

    @property
    def label(self) -> int | str:
        """The size as shown in a shape: a number, `batch` or a sum of products."""
        return self.constant() if self.is_constant else str(self)

    def __truediv__(self, parts: int) -> Poly:
        """Return a part of the size, with fractional coefficients: n (n + 1) / 2 is whole although they are not."""
        return self if parts == 1 else Poly({key: Fraction(value, parts) for key, value in self.terms.items()})

    def value_at(self, **dims: int) -> int:
        """Return the size at these values of the symbolic dimensions."""
        return int(sum(value * prod(dims[name] for name in key) for key, value in self.terms.items()))

    def __str__(self) -> str:
        words = ["*".join((*(() if value == 1 else (str(value),)), *key)) if key else str(value)
                 for key, value in sorted(self.terms.items())]  # fmt: skip
        return " + ".join(words) or "0"


Size = Poly | int


def poly(size: Size) -> Poly:
    """Return a size as a polynomial."""
    if isinstance(size, Poly):
        return size
    return Poly({(): size} if size else {})


def dim(name: str) -> Poly:
    """Return a symbolic dimension."""
    return Poly({(name,): 1})


def product(sizes: Iterable[Size]) -> Poly:
    """Return the product of sizes."""
    return _product(tuple(sizes))


@lru_cache(4096)  # the shapes of a model are few
def _product(sizes: tuple[Size, ...]) -> Poly:
    number: Coefficient = 1
    live: Poly | None = None
    for size in sizes:
        if isinstance(size, int):
            number *= size
        elif size.is_constant:  # most sizes are plain numbers
            number *= size.terms.get((), 0)
        else:
            live = size if live is None else live * size
    terms: Terms = {(): 1} if live is None else live.terms
    return Poly({key: value * number for key, value in terms.items()} if number else {})


def check_size(size: Poly) -> Poly:
    """Return the size unchanged. Raises `SizeError` if a coefficient or the degree exceeds its limit."""
    terms = size.terms.items()
    if any(len(key) > _MAX_DEGREE or not -_MAX_NUMBER <= value <= _MAX_NUMBER for key, value in terms):
        raise SizeError("a number is too large to be a size")
    return size


def is_negative(size: Poly) -> bool:
    """Return True if a size is negative with every symbolic dimension at 1, 64 or 4096."""
    if not size.terms or min(size.terms.values()) >= 0:  # most are
        return False
    return any(_value(size, count) < 0 for count in (1, _REFERENCE, request_bounds.BATCH))


def smaller(left: Poly, right: Poly, reference: int = _REFERENCE) -> Poly:
    """Return the smaller of two sizes, with every symbolic dimension at `reference`; `left` if they are equal."""
    return left if _value(left, reference) <= _value(right, reference) else right


def _value(size: Poly, reference: int) -> float:
    return float(sum(value * reference ** len(key) for key, value in size.terms.items()))


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
