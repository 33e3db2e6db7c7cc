"""Decode and check a workload from untrusted bytes: a valid workload gives finite, non-negative figures."""

import math
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.model.ir.operator_kinds import KINDS
from analysis.model.ir.workload import SCHEMA, Workload

_NAME_MAX, _TEXT_MAX = 500, 4000  # characters
_EXPONENT_MAX = 32
_SIZE_MAX = 1 << 31  # a symbolic dimension, an image size, a number of devices
_COUNT_MAX = 1e24  # operations or elements; a language model of 10^13 parameters has fewer over 10^10 tokens
_WIDEST_BYTES = 16  # complex128
_BATCHES = (1, 4096)
_ROLES = 4
_AT_LEAST = {"kv": 0, "output": 1, "sequence": 1}

# Type and shape of each array: n operators, p = n + 1, t tensors, m monomials, e input edges, f output edges.
_OPERATORS = {
    "macs": ("<f8", "nm"), "flops": ("<f8", "nm"), "special": ("<f8", "nm"), "gemm": ("<f8", "n4m"),
    "in_ptr": ("<i4", "p"), "in_tensor": ("<i4", "e"), "in_numel": ("<f8", "em"),
    "out_ptr": ("<i4", "p"), "out_tensor": ("<i4", "f"), "has_rule": ("|b1", "n"),
}  # fmt: skip
_TENSORS = {
    "role": ("<i4", "t"), "numel": ("<f8", "tm"), "fixed_bytes": ("<i4", "t"), "storage": ("<i4", "t"),
    "producer": ("<i4", "t"), "live_until": ("<i4", "t"), "is_output": ("|b1", "t"),
}  # fmt: skip


def decode(data: bytes) -> Workload:
    """Return the workload that `workload.encode` wrote. Raises ValueError with a short reason for other bytes."""
    try:
        schema, workload = msgspec.msgpack.Decoder(tuple[str, Workload], dec_hook=_array).decode(data)
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, OverflowError, RecursionError):
        raise ValueError("something unreadable") from None
    _require(schema == SCHEMA, f"a workload of a version other than {SCHEMA}")
    check(workload)
    return workload


def _array(kind: type, stored: Any) -> Any:
    # `kind` is only an alias of an array: `_arrays` checks types and shapes once all are decoded.
    if stored["dtype"] not in ("<f8", "<i4", "|b1"):
        raise ValueError(stored["dtype"])
    return np.frombuffer(stored["data"], dtype=stored["dtype"]).reshape(stored["shape"])


def check(workload: Workload) -> None:
    """Raise ValueError with a short reason for an invalid workload."""
    _names(workload)
    _sizes(workload)
    _arrays(workload)
    _edges(workload)
    _amounts(workload)


def _require(holds: Any, what: str) -> None:
    if not holds:
        raise ValueError(what)


def _names(workload: Workload) -> None:
    operators, tensors = workload.operators, workload.tensors
    n = len(operators.path)
    _require(n, "no operators")
    _require(
        len(operators.kind) == len(operators.target) == len(operators.module_type) == n, "operators without a name"
    )
    named = (workload.name, *operators.path, *operators.target)
    _require(all(0 < len(name) <= _NAME_MAX for name in named), "an empty or too long name")
    _require(workload.name.isprintable(), "an unprintable name")
    _require(all(len(name) <= _NAME_MAX for name in (*tensors.name, *operators.module_type)), "a name that is too long")
    for descriptions in (tensors.shape, tensors.dtype):
        _require(len(descriptions) in (0, len(tensors.name)), "tensors without a shape or type")
    live = (*tensors.dtype, *(size for shape in tensors.shape for size in shape if isinstance(size, str)))
    _require(all(0 < len(text) <= _NAME_MAX and text.isprintable() for text in live), "an invalid size or type")
    _require(all(kind in KINDS for kind in operators.kind), "an operator of an unknown kind")
    texts = (workload.family, workload.origin, *workload.notes, *workload.versions, *workload.versions.values())
    _require(all(len(text) <= _TEXT_MAX for text in texts), "a text that is too long")


def _sizes(workload: Workload) -> None:
    dims, rows = workload.dims, workload.monomials
    _require(rows and len(set(dims)) == len(dims) and dims[:1] == ("batch",), "invalid symbolic dimensions")
    _require(len(set(rows)) == len(rows) and all(len(row) == len(dims) for row in rows), "invalid monomials")
    _require(all(0 <= exponent <= _EXPONENT_MAX for row in rows for exponent in row), "an invalid exponent")
    least = [value - _AT_LEAST.get(name, 1) for name, value in workload.defaults.items()]
    _require(all(0 <= value < _SIZE_MAX for value in (*least, *workload.windows)), "an invalid length")
    sizes = [size for item in workload.inputs for size in item.shape]
    _require(all(0 <= size < _SIZE_MAX for size in sizes if isinstance(size, int)), "an invalid input")
    _require(workload.image_size is None or 0 < workload.image_size < _SIZE_MAX, "an invalid image size")
    _require(0 <= workload.parameters < _COUNT_MAX, "an invalid number of parameters")
    routing, parallel = workload.routing, workload.parallel
    _require(routing is None or 0 < routing.active <= routing.experts < _SIZE_MAX, "invalid experts")
    _require(
        parallel is None or (0 < parallel.degree < _SIZE_MAX and 0 <= parallel.link_bytes_per_s < math.inf),
        "an invalid number of devices",
    )


def _arrays(workload: Workload) -> None:
    operators, tensors = workload.operators, workload.tensors
    n, m = len(operators.path), len(workload.monomials)
    length = {"n": n, "p": n + 1, "4": 4, "m": m, "t": len(tensors.name)}
    length |= {"e": operators.in_tensor.size, "f": operators.out_tensor.size}
    wanted = [(name, getattr(operators, name), *form) for name, form in _OPERATORS.items()]
    wanted += [(name, getattr(tensors, name), *form) for name, form in _TENSORS.items()]
    optional = {"repeats": workload.repeats, "scratch": workload.scratch}
    wanted += [(name, array, "<f8", "nm") for name, array in optional.items() if array is not None]
    for name, array, kind, form in wanted:
        _require(array.dtype.str == kind, f"{name} of another type")
        _require(array.shape == tuple(length[each] for each in form), f"{name} of another length")
        if kind == "|b1":
            _require((array.view(np.uint8) <= 1).all(), f"{name} that is neither true nor false")


def _edges(workload: Workload) -> None:
    operators, tensors = workload.operators, workload.tensors
    n, t = len(operators.path), len(tensors.name)
    each = np.arange(n)
    for name, pointers, index in (
        ("in", operators.in_ptr, operators.in_tensor),
        ("out", operators.out_ptr, operators.out_tensor),
    ):
        steps = np.diff(pointers)
        _require(
            pointers[0] == 0 and pointers[-1] == len(index) and (steps >= 0).all(), f"{name}_ptr with invalid offsets"
        )
        _require(_is_within(index, 0, t), f"{name}_tensor with an unknown tensor")
    reader, writer = np.repeat(each, np.diff(operators.in_ptr)), np.repeat(each, np.diff(operators.out_ptr))
    _require(_is_within(tensors.role, 0, _ROLES), "an unknown role")
    _require(_is_within(tensors.fixed_bytes, 0, _WIDEST_BYTES + 1), "elements of an invalid width")
    _require(_is_within(tensors.producer, -1, n) and _is_within(tensors.live_until, -1, n), "an unknown operator")
    _require(_is_within(tensors.storage, 0, t), "an unknown storage")
    _require((tensors.storage[tensors.storage] == tensors.storage).all(), "a storage within another")
    _require((tensors.producer[operators.in_tensor] < reader).all(), "a tensor read before it is written")
    _require((tensors.producer[operators.out_tensor] == writer).all(), "a tensor written by another operator")
    _require((tensors.live_until[operators.in_tensor] >= reader).all(), "a tensor read after its end")
    _require((tensors.live_until >= tensors.producer).all(), "a tensor that ends before it begins")


def _is_within(values: NDArray[np.int32], least: int, end: int) -> bool:
    return bool(((values >= least) & (values < end)).all())


def _amounts(workload: Workload) -> None:
    """Require finite coefficients, and amounts that are not negative at batches 1 and 4096."""
    operators, tensors = workload.operators, workload.tensors
    amounts = [operators.macs, operators.flops, operators.special, operators.gemm, operators.in_numel, tensors.numel]
    amounts += [array for array in (workload.repeats, workload.scratch) if array is not None]
    _require(all(np.isfinite(array).all() for array in amounts), "an amount that is not a number")
    for batch in _BATCHES:
        try:
            point = workload.value_at(batch=batch)
        except KeyError as name:
            raise ValueError(f"a symbolic dimension {name} without a size") from None
        for array in amounts:
            with np.errstate(all="ignore"):
                there = array @ point
            _require(((there >= 0) & (there < _COUNT_MAX)).all(), "an invalid amount")
