"""The wire format of ONNX files (protocol buffers): field numbers, and whole numbers or spans of bytes."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator
from typing import Any

Buffer = mmap.mmap | bytes
Span = tuple[int, int]


def varint(data: Buffer, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            break
    raise IndexError("varint")


def fields(data: Buffer, span: Span) -> Iterator[tuple[int, Any]]:
    """Field numbers and values of a message: whole numbers, or the span of anything longer."""
    at, end = span
    while at < end:
        key, at = varint(data, at, end)
        wire = key & 7
        if wire == 0:
            value, at = varint(data, at, end)
            yield key >> 3, value
            continue
        if wire == 2:
            size, at = varint(data, at, end)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise IndexError("wire type")
        if at + size > end:
            raise IndexError("a field is cut short")
        yield key >> 3, (at, at + size)
        at += size


def signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value


def text(data: Buffer, span: Span) -> str:
    return data[span[0] : span[1]].decode()


def whole(data: Buffer, value: int | Span) -> list[int]:
    """A repeated integer: one, or many packed."""
    if isinstance(value, int):
        return [signed(value)]
    at, end = value
    found = []
    while at < end:
        item, at = varint(data, at, end)
        found.append(signed(item))
    return found


def floats(data: Buffer, span: Span) -> list[float]:
    return [item[0] for item in struct.iter_unpack("<f", data[span[0] : span[1]])]
