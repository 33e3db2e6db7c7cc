"""Stored captures with one thing altered that no capture has."""

import gzip
import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

Plain = dict[str, Any]  # a workload as msgpack holds it
Change = Callable[[Plain], object]


def plain(packed: bytes) -> list[Any]:
    """Schema and workload."""
    return msgspec.msgpack.decode(gzip.decompress(packed))  # type: ignore[no-any-return]


def packed(schema_and_workload: list[Any]) -> bytes:
    return gzip.compress(msgspec.msgpack.encode(schema_and_workload), compresslevel=1, mtime=0)


def altered(whole: bytes, change: Change) -> bytes:
    """The packed workload with one thing changed."""
    both = plain(whole)
    change(both[1])
    return packed(both)


_FLOATS = ("macs", "flops", "special", "gemm", "in_numel", "numel")
_INTS = ("in_ptr", "in_tensor", "out_ptr", "out_tensor", "role", "fixed_bytes", "storage", "producer", "live_until")
_BOOLS = ("has_rule", "is_output")
_OF_TENSORS = ("numel", "role", "fixed_bytes", "storage", "producer", "live_until", "is_output")
_OWNER = {name: "tensors" if name in _OF_TENSORS else "operators" for name in (*_FLOATS, *_INTS, *_BOOLS)}


def array(workload: Plain, name: str) -> np.ndarray[Any, Any]:
    stored = workload[_OWNER[name]][name]
    return np.frombuffer(stored["data"], dtype=stored["dtype"]).reshape(stored["shape"]).copy()


def put(workload: Plain, name: str, values: np.ndarray[Any, Any]) -> None:
    stored = {"dtype": values.dtype.str, "shape": list(values.shape), "data": values.tobytes()}
    workload[_OWNER[name]][name] = stored


def each(name: str, value: float, at: int = -1) -> Change:
    """One element of an array is this."""

    def change(workload: Plain) -> None:
        values = array(workload, name)
        values.reshape(-1)[at] = value
        put(workload, name, values)

    return change


def largest(name: str, value: float) -> Change:
    """The largest element is this: one that surely counts."""

    def change(workload: Plain) -> None:
        values = array(workload, name)
        values.reshape(-1)[int(np.argmax(values))] = value
        put(workload, name, values)

    return change


def shorter(name: str) -> Change:
    return lambda workload: put(workload, name, array(workload, name)[:-1])


def other_type(name: str) -> Change:
    kind = {"f": "<i4", "i": "<f8", "b": "<i4"}
    return lambda workload: put(workload, name, array(workload, name).astype(kind[array(workload, name).dtype.kind]))


def field(name: str, value: Any) -> Change:
    return lambda workload: workload.__setitem__(name, value)


def of_operators(name: str, value: Callable[[list[Any]], list[Any]]) -> Change:
    return lambda workload: workload["operators"].__setitem__(name, value(workload["operators"][name]))


# What is wrong -> how. Each is a file that reads well as msgpack and is nonsense.
BY_HAND: dict[str, Change] = {
    **{f"{name} not a number": largest(name, math.nan) for name in _FLOATS},
    **{f"{name} infinite": largest(name, math.inf) for name in _FLOATS},
    **{f"{name} negative": largest(name, -1e9) for name in _FLOATS},
    **{f"{name} beyond all": largest(name, 1e300) for name in _FLOATS},
    **{f"{name} shorter": shorter(name) for name in (*_FLOATS, *_INTS, *_BOOLS)},
    "in_ptr goes back": each("in_ptr", 10**6, 1),
    "in_ptr begins later": each("in_ptr", 1, 0),
    "out_ptr ends beyond": each("out_ptr", 10**6),
    "in_tensor is none": each("in_tensor", 10**6),
    "in_tensor is negative": each("in_tensor", -1),
    "out_tensor is none": each("out_tensor", 10**6),
    "out_tensor of another": each("out_tensor", 0),
    "role is none": each("role", 9, 0),
    "width is negative": each("fixed_bytes", -8, 0),
    "width is large": each("fixed_bytes", 10**9, 0),
    "storage is none": each("storage", 10**6, 0),
    "storage is negative": each("storage", -5, 0),
    "produced by none": each("producer", 10**6),
    "produced by a later one": each("producer", 10**3, 0),
    "lives beyond": each("live_until", 10**6),
    "lives before it begins": each("live_until", -1),
    "neither true nor false": lambda w: w["operators"]["has_rule"].update(
        data=b"\x07" * len(w["operators"]["has_rule"]["data"])
    ),
    "amounts are whole numbers": other_type("macs"),
    "edges are fractions": other_type("in_tensor"),
    "no name": field("name", ""),
    "a name that steers": field("name", "resnet18\x1b]0;owned\x07"),
    "an endless name": field("name", "x" * 100_000),
    "parameters negative": field("parameters", -5),
    "image size negative": field("image_size", -224),
    "an input of negative size": field("inputs", [{"name": "x", "dtype": "float32", "shape": ["batch", -3]}]),
    "no symbolic dimension": field("dims", []),
    "another symbolic dimension": field("dims", ["tokens"]),
    "a dimension twice": field("dims", ["batch", "batch"]),
    "no monomials": field("monomials", []),
    "a negative power": field("monomials", [[0], [-3]]),
    "an endless power": field("monomials", [[0], [10**6]]),
    "a monomial of two": field("monomials", [[0], [1, 1]]),
    "defaults negative": field("defaults", {"kv": -5}),
    "experts of none": field("routing", {"experts": 0, "active": 0}),
    "more active than there are": field("routing", {"experts": 2, "active": 8}),
    "parallel of none": field("parallel", {"degree": 0, "link_bytes_per_s": 1e9}),
    "a link backwards": field("parallel", {"degree": 2, "link_bytes_per_s": -1.0}),
    "an endless fixed batch": field("notes", ["captured at batch " + "9" * 5000 + " alone: x"]),
    "no operators": lambda w: w["operators"].update(path=[], kind=[], target=[], module_type=[]),
    "a path fewer": of_operators("path", lambda names: names[:-1]),
    "a kind fewer": of_operators("kind", lambda names: names[:-1]),
    "a target fewer": of_operators("target", lambda names: names[:-1]),
    "an unknown kind": of_operators("kind", lambda names: ["conv9d", *names[1:]]),
    "an empty path": of_operators("path", lambda names: ["", *names[1:]]),
    "a tensor without a name": lambda w: w["tensors"].update(name=w["tensors"]["name"][:-1]),
}
