"""Number formats, and the precisions that users name: the formats of weights, activations and cache (precision.toml).
What units multiply follows from it and from the device (hardware/plan.py)."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import msgspec

from hardware import file_access
from hardware.errors import unknown
from hardware.names import match_name
from hardware.quantity import Unit

PATH = Path(__file__).with_name("precision.toml")


class Format(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way to store a value; the fields are explained in hardware/precision.toml."""

    name: str = ""
    bits: float
    kind: str
    source: str
    block: int = 0
    scale_bits: float = 0.0
    unit: str = ""
    unpacked: str = ""
    unpack_ops: float = 0.0
    whole_file: bool = False
    is_unit: bool = False
    is_packed: bool = False
    wider: tuple[str, ...] = ()
    stored: str = ""
    priced_as: str = ""
    host_multiplies: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def tensors(self) -> str:
        """The format of its tensors: another one where this is a format of multipliers."""
        return self.stored or self.name

    @property
    def bytes(self) -> float:
        """Bytes of one value in memory, its part of the scales included."""
        return (self.bits + (self.scale_bits / self.block if self.block else 0.0)) / 8.0


ACTIVATION, QUANTIZED, KEPT, CACHE = range(4)  # what a tensor is to a precision


class Widths(msgspec.Struct, frozen=True):
    """Bytes of a value in memory by the role of its tensor; `kept` are parameters that stay wide. `unpack_weights` and
    `unpack_cache` are vector operations on each value before it can be multiplied."""

    activations: float
    weights: float
    kept: float
    cache: float
    unpack_weights: float = 0.0
    unpack_cache: float = 0.0

    @property
    def by_role(self) -> tuple[float, float, float, float]:
        """In the order of the roles."""
        return self.activations, self.weights, self.kept, self.cache

    @property
    def is_uniform(self) -> bool:
        """True if values of all roles are of one width."""
        return self.activations == self.weights == self.kept == self.cache


def uniform(value_bytes: float) -> Widths:
    """Every value of one width, multiplied as it is."""
    return Widths(value_bytes, value_bytes, value_bytes, value_bytes)


class Precision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The formats of weights, activations and key-value cache, by name; `is_strict` where the runtime's defaults
    for the format are switched off."""

    name: str = ""
    weights: str
    activations: str
    cache: str
    kept: str = ""
    is_strict: bool = False
    aliases: tuple[str, ...] = ()

    @property
    def is_uniform(self) -> bool:
        """True if all tensors are of one format that units take: the short names."""
        return self.weights == self.activations == self.cache == self.kept and FORMATS[self.weights].is_unit

    @property
    def multiplied(self) -> str:
        """The format that units multiply: that of both operands, else that which weights are unpacked into."""
        weights, activations = FORMATS[self.weights], FORMATS[self.activations]
        return weights.unpacked or activations.unit or activations.name

    def suits(self, work: str) -> bool:
        """Return whether it is customary for this kind of work: only language models have formats by role."""
        return self.is_uniform or work == "language"

    @property
    def widths(self) -> Widths:
        """Bytes of tensors where all are stored as asked."""
        return Widths(*(FORMATS[name].bytes for name in (self.activations, self.weights, self.kept, self.cache)))


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    default: str
    language: str
    sweep: tuple[str, ...]
    keys: tuple[str, ...]
    kept: str
    narrower: tuple[str, ...]
    timed: tuple[str, ...]
    gguf: dict[str, str]
    caches: dict[str, str]
    formats: dict[str, Format]
    precisions: dict[str, Precision]


_TABLE = msgspec.convert(file_access.table(PATH), _Table)
FORMATS = {name: msgspec.structs.replace(row, name=name) for name, row in _TABLE.formats.items()}
UNITS = tuple(name for name, row in FORMATS.items() if row.is_unit)  # those that arithmetic units may take
DEFAULT, LANGUAGE = _TABLE.default, _TABLE.language
BASE = DEFAULT  # the format in which every device can do element-wise work
WIDE = _TABLE.kept  # what stays wide where weights are narrow
SWEEP = _TABLE.sweep
KEYS = _TABLE.keys
NARROWER, TIMED = _TABLE.narrower, _TABLE.timed
_CACHE = re.compile(r"(.+?)[-_. ]?kv[-_. ]?([0-9]{1,2})", re.IGNORECASE)


def _complete(name: str, row: Precision) -> Precision:
    """The row with its name, and the format of parameters that are not quantised."""
    narrow = msgspec.structs.replace(row, name=name, kept=row.weights)
    if narrow.is_uniform or FORMATS[row.weights].whole_file:
        return narrow
    return msgspec.structs.replace(narrow, kept=WIDE)


_FILES = {
    name: Precision(
        weights=name, activations=_TABLE.gguf["activations"], cache=_TABLE.gguf["cache"], aliases=row.aliases
    )
    for name, row in FORMATS.items()
    if row.whole_file
}
_NAMED = {name: _complete(name, row) for name, row in {**_TABLE.precisions, **_FILES}.items()}
_ALIASES = {alias: row.name for row in _NAMED.values() for alias in row.aliases}
NAMES = tuple(_NAMED)
# What is listed where a precision is asked for.
LISTED = (
    f"{', '.join(_TABLE.precisions)}; files of llama.cpp by name, as q4_k_m; "
    f"any with {', '.join('kv' + bits for bits in _TABLE.caches)} for the cache, as w4a16kv8"
)


@lru_cache(maxsize=1024)
def parse(text: str) -> Precision:
    """The precision that a name means; case, hyphens and underscores do not matter. RequestError for an unknown one."""
    precision = find(text)
    if precision is None:
        raise unknown("precision", text, NAMES)
    return precision


@lru_cache(maxsize=1024)
def find(text: str) -> Precision | None:
    """The precision that a name means, None where none does."""
    name = match_name(text, (*_NAMED, *_ALIASES))
    if name is not None:
        return _NAMED[_ALIASES.get(name, name)]
    match = _CACHE.fullmatch(text)
    base = match_name(match[1], (*_NAMED, *_ALIASES)) if match else None
    if match is None or base is None or match[2] not in _TABLE.caches:
        return None
    return _with_cache(_NAMED[_ALIASES.get(base, base)], match[2])


def _with_cache(precision: Precision, bits: str) -> Precision:
    """The same with a cache of so many bits: in the format of the activations where that is so wide."""
    mine = FORMATS[precision.activations]
    cache = mine.name if mine.is_unit and mine.bits == float(bits) else _TABLE.caches[bits]
    if cache == precision.cache:
        return precision
    return msgspec.structs.replace(precision, name=f"{precision.name}kv{bits}", cache=cache)


def runs_wider(asked: str, run: str) -> bool:
    """Return whether a network of 8 bits or fewer was asked for, and products run in a wider format."""
    precision = parse(asked)
    return precision.is_uniform and FORMATS[precision.weights].bits < min(FORMATS[WIDE].bits, FORMATS[run].bits)


def canonical(text: str) -> str:
    """The one spelling of a precision. RequestError for an unknown one."""
    return parse(text).name


def rate_unit(name: str) -> Unit:
    """Return the unit of a rate in a format: integers are multiplied by operations, not by FLOPs."""
    return "OP/s" if name in FORMATS and FORMATS[name].kind == "integer" else "FLOP/s"
