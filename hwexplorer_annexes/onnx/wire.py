"""Reader of the wire format of ONNX files (protocol buffers), one window at a time. Weights are skipped.

Nothing is mapped into memory, so a file that is truncated during reading gives an error, not a signal."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import field
from functools import cache
from typing import Any, BinaryIO, TypeVar

from hwexplorer.extend import reading_budget

Span = tuple[int, int]  # start, end
T = TypeVar("T")
_WINDOW = 1 << 16  # bytes
_WORD = (1 << 64) - 1
_MAX_TEXT = 1 << 16
_MESSAGE_STEPS = 30


class Wire:
    """An open file, the remaining budget of reading it, and the nesting depth of graphs at the current place."""

    def __init__(self, file: BinaryIO, budget: reading_budget.Budget) -> None:
        self.file, self.budget = file, budget
        self.size = file.seek(0, 2)
        self.depth = 0
        self._window, self._start = b"", 0

    def bytes(self, at: int, end: int) -> bytes:
        """Read bytes of the file. Raises IndexError if the file is shorter."""
        if not self._start <= at <= end <= self._start + len(self._window):
            self.budget.report("read", at / max(1, self.size))
            self.file.seek(at)
            self._window, self._start = self.file.read(max(_WINDOW, end - at)), at
            if len(self._window) < end - at:
                raise IndexError("the file is truncated")
        return self._window[at - self._start : end - self._start]

    def varint(self, at: int, end: int) -> tuple[int, int]:
        """Return a whole number and the offset after it. Raises IndexError if it is truncated."""
        value = shift = 0
        place = at - self._start
        if at < end and 0 <= place < len(self._window) and self._window[place] < 0x80:  # the common case
            return self._window[place], at + 1
        for byte in self.bytes(at, min(end, at + 10)):
            value |= (byte & 0x7F) << shift
            at += 1
            if byte < 0x80:
                return value & _WORD, at
            shift += 7
        raise IndexError("a whole number is truncated")

    def fields(self, span: Span) -> Iterator[tuple[int, Any]]:
        """Yield number and value of each field of a message: a whole number, or the span of anything longer."""
        at, end = span
        while at < end:
            self.budget.spend()
            key, at = self.varint(at, end)
            wire_type = key & 7
            if wire_type == 0:
                value, at = self.varint(at, end)
                yield key >> 3, value
                continue
            if wire_type == 2:
                size, at = self.varint(at, end)
            elif wire_type in (1, 5):
                size = 8 if wire_type == 1 else 4
            else:
                raise IndexError("no such wire type")
            if at + size > end:
                raise IndexError("a field is truncated")
            yield key >> 3, (at, at + size)
            at += size


Reader = Callable[[Wire, Any], Any]


def single(readers: dict[int, Reader], default: Any = None) -> Any:
    """Declare a field of a message: a reader for each of its numbers on the wire. The last value counts."""
    return field(default=default, metadata=readers)


def repeated(readers: dict[int, Reader]) -> Any:
    """Declare a repeated field. A reader may return several items as a list."""
    return field(default_factory=list, metadata=readers)


@cache
def _readers(kind: Any) -> dict[int, tuple[str, Reader]]:
    parts = kind.__dataclass_fields__.values()
    return {number: (part.name, reader) for part in parts for number, reader in part.metadata.items()}


def message(kind: Callable[[], T], wire: Wire, span: Span) -> T:
    """Fill a dataclass of `single` and `repeated` fields from the wire. Other fields are skipped."""
    wire.budget.spend(_MESSAGE_STEPS)
    filled, readers = kind(), _readers(kind)
    for number, stored in wire.fields(span):
        if number in readers:
            name, reader = readers[number]
            value, held = reader(wire, stored), getattr(filled, name)
            if not isinstance(held, list):
                setattr(filled, name, value)
            elif isinstance(value, list):
                held.extend(value)
            else:
                held.append(value)
    return filled


def parts(wire: Wire, span: Span) -> dict[int, Any]:
    """Return the last value of each field of a small message."""
    wire.budget.spend(_MESSAGE_STEPS)
    return dict(wire.fields(span))


def text(wire: Wire, span: Span) -> str:
    """Read a name. Text longer than any name (blobs such as compiled engines) is cut."""
    at, end = span
    wire.budget.spend((end - at) >> 5)
    data = wire.bytes(at, min(end, at + _MAX_TEXT))
    return data.decode(errors="strict" if len(data) < _MAX_TEXT else "replace")


def plain(wire: Wire, value: Any) -> Any:
    """Return a number or span as it is stored."""
    return value


def signed(wire: Wire, value: int) -> int:
    """Return a stored number as a signed one."""
    return value - (1 << 64) if value >= 1 << 63 else value


def number(wire: Wire, span: Span) -> float:
    """Read one float."""
    return numbers(wire, span)[0]


def numbers(wire: Wire, span: Span, code: str = "<f") -> list[float]:
    """Read repeated numbers of a fixed width."""
    wire.budget.spend((span[1] - span[0]) // 4)
    return [item[0] for item in struct.iter_unpack(code, wire.bytes(*span))]


def doubles(wire: Wire, span: Span) -> list[float]:
    """Read repeated doubles."""
    return numbers(wire, span, "<d")


def whole_numbers(wire: Wire, value: int | Span) -> list[int]:
    """Read whole numbers: a single one, or several packed ones."""
    if isinstance(value, int):
        return [signed(wire, value)]
    at, end = value
    unpacked = []
    while at < end:
        wire.budget.spend()
        item, at = wire.varint(at, end)
        unpacked.append(signed(wire, item))
    return unpacked
