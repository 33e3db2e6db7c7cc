"""Read headers of GGUF files as data: parameters, their formats, and the configuration.

Lengths stated in a file are checked against its size."""

import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np

from analysis.model.ir.workload import Workload
from analysis.model.model_errors import ModelError, UnreadableError
from analysis.model.reading_budget import Budget
from analysis.model.transformer import hf_config
from analysis.model.transformer.config import MAX_LAYERS
from hardware.base import file_access
from hardware.base.errors import RequestError, hint, match_name
from hardware.precision import find

_TEXT_MAX = 1 << 20
_SHOWN = 4
_FEWEST = 4  # tensors of a layer
_STEPS = 5  # steps of the budget per read
# Struct formats of GGUF's scalar types, by type number.
_VALUES = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
# llama.cpp's numbers of file formats (llama.h, LLAMA_FTYPE) that mix formats of tensors.
_FILE_TYPES = {11: "q3_k_s", 12: "q3_k_m", 13: "q3_k_l", 14: "q4_k_s", 15: "q4_k_m", 16: "q5_k_s", 17: "q5_k_m"}
_SQUARES = ".in_sum2"  # names of sums of squares in an importance matrix
_MAX_RANK, _KIND_MAX = 8, 63  # sides of a tensor; ggml has 40 formats
_BROKEN = (OSError, ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError, OverflowError)


@dataclass(frozen=True, slots=True)
class WeightHeader:
    """The header of a weight file: elements by format, GGUF metadata (`facts`) and the shapes of tensors by name, of
    GGUF also their places in the file."""

    formats: dict[str, int]
    facts: dict[str, Any]
    shapes: dict[str, list[int]]
    places: dict[str, int] = field(default_factory=dict)

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
    from analysis.model.transformer import transformer_request, transformer_workload

    request = transformer_request.request_of(path.name, hf_config.parse_config(_raw(path, held)), options)
    workload = transformer_workload.build(path.name, request.config, request.run, str(path))
    notes = [f"{path.name} holds {held}; --precision says what it runs in"]
    described, most = workload.parameters * max(1, request.run.tp, request.run.ep), table()["check"]["difference"]
    if len(held.shapes) >= _FEWEST * request.config.layers and abs(held.parameters / described - 1) > most:
        notes.append(f"its metadata describe {described:,} parameters, its tensors hold {held.parameters:,}")
    return msgspec.structs.replace(workload, notes=(*workload.notes, *notes))


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
    types = hf_config.TABLE["types"]
    known = match_name(table()["architectures"].get(kind, kind), types)
    if known is None:
        near = hint(kind[:40], types)
        raise UnreadableError(
            f"{path.name} holds {held} of the architecture {kind[:40]!r}, which has no reader here"
            f"{'; ' * bool(near)}{near}; or name the folder of its config.json as hf:FOLDER"
        )
    shapes = held.shapes
    raw: dict[str, Any] = {"model_type": known, "tie_word_embeddings": "output.weight" not in shapes}
    raw["vocab_size"] = (shapes.get("token_embd.weight") or [0, 0])[1] or held.facts.get("tokenizer.ggml.tokens")
    raw |= {key: name in shapes for key, name in table()["tensors"].items() if name in shapes}
    for key, names in table()["keys"].items():
        if (value := held.facts.get(f"{kind}.{key}")) is not None:
            raw |= dict.fromkeys(names, value)
    return raw | _derived_keys(held, kind)


def _derived_keys(held: WeightHeader, kind: str) -> dict[str, Any]:
    """Return the keys of config.json that follow from several facts: kinds of layers, widths of heads and states."""
    facts = {key.removeprefix(f"{kind}."): value for key, value in held.facts.items() if key.startswith(f"{kind}.")}
    found: dict[str, Any] = {}
    if ahead := facts.get("nextn_predict_layers"):  # layers for predicting further tokens, which do not run
        found["num_hidden_layers"] = facts["block_count"] - ahead
    windows, kv_heads = facts.get("attention.sliding_window_pattern"), facts.get("attention.head_count_kv")
    if isinstance(windows, list):
        found["layer_types"] = ["sliding_attention" if has_window else "full_attention" for has_window in windows]
    elif isinstance(kv_heads, list) and 0 in kv_heads:  # 0 in layers without attention
        found["layer_types"] = ["full_attention" if heads else "linear_attention" for heads in kv_heads]
        found["num_key_value_heads"] = max(kv_heads)
    if narrow := facts.get("attention.key_length_swa"):  # the other length is that of layers without a window
        found |= {"head_dim": narrow, "global_head_dim": facts["attention.key_length"]}
        full = [layer for layer, has_window in enumerate(windows or []) if not has_window]
        found["attention_k_eq_v"] = any(f"blk.{layer}.attn_k.weight" in held.shapes for layer in full) and not any(
            f"blk.{layer}.attn_v.weight" in held.shapes for layer in full
        )
    if "attention.kv_lora_rank" in facts:
        rotary = facts["rope.dimension_count"]
        width = facts.get("attention.key_length_mla", facts.get("attention.key_length"))
        found |= {"qk_rope_head_dim": rotary, "qk_nope_head_dim": width - rotary}
        found["v_head_dim"] = facts.get("attention.value_length_mla", facts.get("attention.value_length"))
    if "shortconv.l_cache" in facts:
        found["block_auto_adjust_ff_dim"] = False  # the length is the adjusted one
    if heads := facts.get("ssm.time_step_rank"):
        found["linear_value_head_dim"] = found["mamba_head_dim"] = facts["ssm.inner_size"] // heads
    return found


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
        """Return a scalar, a text or a short list of numbers; for other lists only their length."""
        if kind in _VALUES:
            return self.number(_VALUES[kind])
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            raise ValueError
        inner, count = self.number("I"), self.number("Q")
        if inner in _VALUES and count <= MAX_LAYERS:
            return [self.number(_VALUES[inner]) for _ in range(count)]
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
    found, offsets = dict[str, list[int]](), dict[str, int]()
    for _ in range(tensors):
        if (name := reader.text()) in found:
            raise ValueError
        rank = reader.number("I")
        if rank > _MAX_RANK:
            raise ValueError
        shape = found[name] = [reader.number("Q") for _ in range(rank)]
        kind = reader.number("I")
        offsets[name] = reader.number("Q")
        if offsets[name] >= size or kind > _KIND_MAX or 0 in shape:
            raise ValueError
        formats[names[kind] if kind < len(names) else f"format {kind}"] += _elements(shape)
    aligned = max(int(facts.get("general.alignment", 32)), 1)
    begin = -(-(size - reader.left) // aligned) * aligned
    return WeightHeader(dict(formats), facts, found, {name: begin + offset for name, offset in offsets.items()})


def importance(path: Path) -> dict[str, float]:
    """Return the mean square of what each tensor of a model is multiplied with, summed over columns, by its name: of an
    importance matrix by llama.cpp, GGUF or what was written before it. Raises RequestError."""
    try:
        with file_access.open_regular(path) as file:
            if file.read(4) != b"GGUF":
                file.seek(0)
                return dict(_old_importance(file))
            header = _header(path, Budget())

            def total(name: str) -> float:
                file.seek(header.places[name])
                return _sum_floats(file, _elements(header.shapes[name]))

            sums = [name for name in header.shapes if name.endswith(_SQUARES)]
            names = [name.removesuffix(_SQUARES) for name in sums]
            return {name: total(f"{name}{_SQUARES}") / (total(f"{name}.counts") or 1.0) for name in names}
    except (ModelError, OSError, ValueError, KeyError, struct.error):
        raise RequestError(f"{path.name}: expected an importance matrix of llama.cpp (GGUF or .dat)") from None


def _old_importance(file: BinaryIO) -> Iterator[tuple[str, float]]:
    """Yield tensors of an importance matrix before GGUF: a name, the number of calls, and means times calls."""
    for _ in range(_integer(file)):
        name = file.read(_integer(file)).decode()
        calls = _integer(file)
        yield name, _sum_floats(file, _integer(file)) / max(calls, 1)


def _integer(file: BinaryIO) -> int:
    (value,) = struct.unpack("<i", file.read(4))
    if not 0 < value < 1 << 24:
        raise ValueError(value)
    return int(value)


def _sum_floats(file: BinaryIO, count: int) -> float:
    return float(np.frombuffer(file.read(4 * count), "<f4", count).sum(dtype=np.float64))
