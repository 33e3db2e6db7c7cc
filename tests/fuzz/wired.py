"""Protocol buffers altered as what they are, trees of messages: what comes out is one too, so a reader gets far."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from tests.attack.messages import varint

_NUMBERS = (0, 1, 2, 3, 6, 7, 8, 9, 10, 16, 23, 64, 127, 128, 255, 4096, 4097, 1 << 20, 1 << 31, 1 << 48, 1 << 62)
_NASTY = (*_NUMBERS, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 2)


@dataclass
class Field:
    """`value` is a whole number, bytes, or the fields of a message."""

    number: int
    wire: int
    value: int | bytes | list[Field]


def parsed(data: bytes, depth: int = 0) -> list[Field] | None:
    """The fields of a message; None where the bytes are none."""
    fields, at = list[Field](), 0
    try:
        while at < len(data):
            key, at = _varint(data, at)
            if key >> 3 == 0 or key >> 3 > 500:
                return None
            value: int | bytes | list[Field]
            if key & 7 == 0:
                value, at = _varint(data, at)
            else:
                size, at = _varint(data, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
                value, at = data[at : at + size], at + size
                if at > len(data):
                    return None
                inner = parsed(value, depth + 1) if (key & 7 == 2 and not value.isascii()) or b"\n" in value else None
                value = inner or value
            fields.append(Field(key >> 3, key & 7, value))
    except (IndexError, KeyError):
        return None
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 0x80:
            return value, at


def written(fields: Sequence[Field]) -> bytes:
    data = bytearray()
    for field in fields:
        data += varint(field.number << 3 | field.wire)
        if isinstance(field.value, int):
            data += varint(field.value)
        else:
            body = written(field.value) if isinstance(field.value, list) else field.value
            data += varint(len(body)) + body if field.wire == 2 else body
    return bytes(data)


def altered(random: Random, seeds: Sequence[list[Field]], words: Sequence[str]) -> bytes:
    """One of the messages, copied, with one to a dozen changes somewhere in it."""
    made = parsed(written(random.choice(seeds))) or []
    for _ in range(min(12, 1 + int(random.expovariate(0.6)))):
        lists = _lists(made)
        fields = random.choice(lists)
        if fields:
            _change(random, fields, random.choice(_lists(random.choice(seeds))), words)
    return written(made)


def _lists(fields: list[Field]) -> list[list[Field]]:
    inner = [found for field in fields if isinstance(field.value, list) for found in _lists(field.value)]
    return [fields, *inner]


def _change(random: Random, fields: list[Field], other: list[Field], words: Sequence[str]) -> None:
    at = random.randrange(len(fields))
    field = fields[at]
    kind = random.randrange(7)
    if kind == 0:
        del fields[at]
    elif kind == 1:
        fields[at:at] = [field] * random.choice((1, 1, 2, 40))
    elif kind == 2 and other:
        fields[at] = random.choice(other)
    elif kind == 3:
        other_at = random.randrange(len(fields))
        fields[at], fields[other_at] = fields[other_at], field
    elif isinstance(field.value, int):
        field.value = random.choice(_NASTY) if random.random() < 0.8 else max(0, field.value + random.randint(-3, 3))
    elif isinstance(field.value, bytes):
        field.value = _bytes(random, field.value, words)


def _bytes(random: Random, value: bytes, words: Sequence[str]) -> bytes:
    """A name, or numbers of eight bytes, as constants that shapes follow from have them."""
    if len(value) % 8 == 0 and value and random.random() < 0.5:
        numbers = [
            random.choice(_NASTY) if random.random() < 0.3 else number for (number,) in struct.iter_unpack("<Q", value)
        ]
        return b"".join(struct.pack("<Q", number) for number in numbers)
    return random.choice((random.choice(words).encode(), value[: len(value) // 2], value + value, b""))
