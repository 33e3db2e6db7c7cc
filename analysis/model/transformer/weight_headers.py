"""Read headers of GGUF files as data: parameters, their formats, and the configuration.

Lengths stated in a file are checked against its size."""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from analysis.model.ir.workload import Workload
from analysis.model.model_errors import ModelError, UnreadableError
from analysis.model.reading_budget import Budget
from hardware import file_access
from hardware.precision import find

_TEXT_MAX = 1 << 20
_SHOWN = 4
_STEPS = 5  # steps of the budget per read
# Struct formats of GGUF's scalar types, by type number.
_VALUES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
# llama.cpp's numbers of file formats (llama.h, LLAMA_FTYPE) that mix formats of tensors.
_FILE_TYPES = {11: "q3_k_s", 12: "q3_k_m", 13: "q3_k_l", 14: "q4_k_s", 15: "q4_k_m", 16: "q5_k_s", 17: "q5_k_m"}
_MAX_RANK, _KIND_MAX = 8, 63  # sides of a tensor; ggml has 40 formats
_BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError, OverflowError)


@dataclass(frozen=True, slots=True)
class WeightHeader:
    """The header of a weight file: elements by format, GGUF metadata (`facts`) and the names of tensors."""

    formats: dict[str, int]
    facts: dict[str, Any]
    names: frozenset[str]

    @property
    def parameters(self) -> int:
        """The number of elements in all formats."""
        return sum(self.formats.values())

    def __str__(self) -> str:
        most = sorted(self.formats.items(), key=lambda entry: -entry[1])[:_SHOWN]
        return f"{self.parameters:,} parameters ({', '.join(f'{count:,} {name}' for name, count in most)})"


@cache
def table() -> dict[str, Any]:
    """Return the table weight_headers.toml."""
    return file_access.table(Path(__file__).with_suffix(".toml"))


def stored_precision(path: Path) -> str:
    """Return the precision in which most weights of a file are stored, '' if it is not supported. Raises a
    `ModelError`."""
    held = _header(path, Budget())
    if not held.formats:
        return ""
    kind = _FILE_TYPES.get(held.facts.get("general.file_type", -1), "")
    known = find(kind or max(held.formats, key=lambda name: held.formats[name]))
    return known.name if known is not None else ""


def load(path: Path, options: str, budget: Budget) -> Workload:
    """Return the workload of the transformer in a weight file. Raises a `ModelError` that describes the file."""
    held = _header(path, budget)
    from analysis.model.transformer import hf_config, transformer_request, transformer_workload

    request = transformer_request.request_of(path.name, hf_config.parse_config(_raw(path, held)), options)
    workload = transformer_workload.build(path.name, request.config, request.run, str(path))
    note = f"{path.name} holds {held}; --precision says what it runs in"
    return msgspec.structs.replace(workload, notes=(*workload.notes, note))


def _header(path: Path, budget: Budget) -> WeightHeader:
    try:
        with file_access.open_regular(path) as file:
            return _gguf(file, path.stat().st_size, budget)
    except _BROKEN as error:
        if isinstance(error, ModelError):
            raise
        raise UnreadableError(f"{path.name} is not a GGUF file, or is damaged") from None


def _raw(path: Path, held: WeightHeader) -> dict[str, Any]:
    kind = str(held.facts.get("general.architecture", ""))
    known = table()["architectures"]
    if kind not in known:
        raise UnreadableError(
            f"{path.name} holds {held} of the architecture {kind[:40]!r}, which has no reader here (those with one: "
            f"{', '.join(known)})"
        )
    raw: dict[str, Any] = {"model_type": known[kind], "tie_word_embeddings": "output.weight" not in held.names}
    raw["vocab_size"] = held.facts.get("tokenizer.ggml.tokens")
    for key, names in table()["keys"].items():
        if (value := held.facts.get(f"{kind}.{key}")) is not None:
            raw |= dict.fromkeys(names, value)
    return raw


def _elements(shape: Any) -> int:
    if len(shape) > _MAX_RANK or not all(isinstance(side, int) and 0 <= side < 1 << 40 for side in shape):
        raise ValueError
    return prod(shape)


class _Gguf:
    """The header of a GGUF file, value by value."""

    def __init__(self, file: BinaryIO, size: int, budget: Budget) -> None:
        self.file, self.left, self.budget = file, size, budget

    def bytes(self, count: int) -> bytes:
        """Read `count` bytes. Raises ValueError beyond the end of the file."""
        self.left -= count
        self.budget.spend(_STEPS + count // 50)
        if self.left < 0:
            raise ValueError
        return self.file.read(count)

    def number(self, kind: str) -> Any:
        """Read one number in the format `kind` of struct."""
        (value,) = struct.unpack(f"<{kind}", self.bytes(struct.calcsize(f"<{kind}")))
        return value

    def text(self) -> str:
        """Read a string with its length."""
        length = self.number("Q")
        if length > _TEXT_MAX:
            raise ValueError
        return self.bytes(length).decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        """Return a scalar or text; for a list only its length, since no list is used otherwise."""
        if kind in _VALUES:
            return self.number(_VALUES[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise ValueError
        inner, count = self.number("I"), self.number("Q")
        if inner in _VALUES:
            size = count * struct.calcsize(f"<{_VALUES[inner]}")
            self.left -= size
            if self.left < 0:
                raise ValueError
            self.file.seek(size, 1)
        elif inner == _STRING:
            for _ in range(count):
                self.text()
        else:  # writers of GGUF do not nest lists
            raise ValueError
        return count


def _gguf(file: BinaryIO, size: int, budget: Budget) -> WeightHeader:
    reader = _Gguf(file, size, budget)
    if reader.bytes(4) != b"GGUF" or not 2 <= reader.number("I") <= 3:
        raise ValueError
    tensors, facts = reader.number("Q"), {}
    for _ in range(reader.number("Q")):
        key = reader.text()
        facts[key] = reader.value(reader.number("I"))
    names, formats = table()["formats"]["names"], Counter[str]()
    found = set()
    for _ in range(tensors):
        if (name := reader.text()) in found:
            raise ValueError
        found.add(name)
        rank = reader.number("I")
        if rank > _MAX_RANK:
            raise ValueError
        shape = [reader.number("Q") for _ in range(rank)]
        kind = reader.number("I")
        if reader.number("Q") >= size or kind > _KIND_MAX or 0 in shape:
            raise ValueError
        formats[names[kind] if kind < len(names) else f"format {kind}"] += _elements(shape)
    return WeightHeader(dict(formats), facts, frozenset(found))
