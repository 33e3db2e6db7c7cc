"""A copy of an ONNX file (protocol buffers) without its weights, small enough for the library to parse. Only the parts
that it keeps are read, and each field spends from the budget.

Nothing is mapped into memory, so a file that is truncated during reading gives an error, not a signal."""

from collections.abc import Iterator
from typing import Any, BinaryIO

from hwexplorer.extend import reading_budget
from hwexplorer_annexes.onnx.graph_parts import UnreadableError

_WINDOW = 1 << 16  # bytes
_MESSAGE_STEPS = 30
_MAX_NESTING = 90  # messages; the library itself stops at 100


class Wire:
    """An open file, and the remaining budget of reading it. Fields longer than `longest` bytes are weights."""

    def __init__(self, file: BinaryIO, budget: reading_budget.Budget, longest: int) -> None:
        self.file, self.budget, self.longest = file, budget, longest
        self.size = file.seek(0, 2)
        self._window, self._start = b"", 0

    def without_weights(self, kind: Any, at: int, end: int, depth: int = 0) -> bytes:
        """Return a copy of a message, by its descriptor, without the fields that are unknown or too long.
        Raises ValueError for text that is not UTF-8."""
        if depth > _MAX_NESTING:
            raise UnreadableError("graphs are nested too deeply")
        self.budget.spend(_MESSAGE_STEPS)
        kept = bytearray()
        for number, start, place, after in self._fields(at, end):
            field = kind.fields_by_number.get(number)
            if field is None:
                continue
            if field.message_type is not None:
                inner = self.without_weights(field.message_type, place, after, depth + 1)
                kept += _encoded(number << 3 | 2) + _encoded(len(inner)) + inner
            elif after - place <= self.longest:
                kept += self._bytes(start, after)
                if field.type == field.TYPE_STRING:
                    self._bytes(place, after).decode()
        return bytes(kept)

    def _fields(self, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield the number of each field of a message, and where the field, its value and the next field start."""
        while at < end:
            self.budget.spend()
            start = at
            key, at = self._varint(at, end)
            place, wire_type = at, key & 7
            if wire_type == 0:
                _, at = self._varint(at, end)
            elif wire_type == 2:
                size, place = self._varint(at, end)
                at = place + size
            elif wire_type in (1, 5):
                at += 8 if wire_type == 1 else 4
            else:
                raise IndexError("no such wire type")
            if at > end:
                raise IndexError("a field is truncated")
            yield key >> 3, start, place, at

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        """Return a whole number and the offset after it. Raises IndexError if it is truncated."""
        value = 0
        for shift, byte in enumerate(self._bytes(at, min(end, at + 10))):
            value |= (byte & 0x7F) << 7 * shift
            if byte < 0x80:
                return value, at + shift + 1
        raise IndexError("a whole number is truncated")

    def _bytes(self, at: int, end: int) -> bytes:
        """Read bytes of the file. Raises IndexError if the file is shorter."""
        if not self._start <= at <= end <= self._start + len(self._window):
            self.budget.report("read", at / max(1, self.size))
            self.file.seek(at)
            self._window, self._start = self.file.read(max(_WINDOW, end - at)), at
            if len(self._window) < end - at:
                raise IndexError("the file is truncated")
        return self._window[at - self._start : end - self._start]


def _encoded(number: int) -> bytes:
    """Return a whole number as it is stored."""
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)
