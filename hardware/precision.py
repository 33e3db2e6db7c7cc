"""Number formats, and the precisions that users name: hardware/precision.toml, read once.

A precision says in which format weights, activations and the key-value cache are kept. What units multiply follows from
it and from the device (hardware/plan.py).
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from hardware import files
from hardware.errors import unknown
from hardware.names import known

PATH = Path(__file__).with_name("precision.toml")


class Format(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How values are kept; the fields are explained in hardware/precision.toml."""

    name: str = ""
    bits: float
    kind: str
    source: str
    block: int = 0
    scale_bits: float = 0.0
    is_unit: bool = False
    wider: tuple[str, ...] = ()
    stored: str = ""
    priced_as: str = ""

    @property
    def tensors(self) -> str:
        """The format of its tensors: another one where this is a format of multipliers."""
        return self.stored or self.name

    @property
    def bytes(self) -> float:
        """Bytes of one value in memory, its part of the scales included."""
        return (self.bits + (self.scale_bits / self.block if self.block else 0.0)) / 8.0


class Precision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The formats of weights, activations and key-value cache, by name."""

    name: str = ""
    weights: str
    activations: str
    cache: str
    aliases: tuple[str, ...] = ()

    @property
    def weight_bytes(self) -> float:
        """Bytes of a parameter."""
        return FORMATS[self.weights].bytes


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    default: str
    sweep: tuple[str, ...]
    keys: tuple[str, ...]
    formats: dict[str, Format]
    precisions: dict[str, Precision]


_TABLE = msgspec.convert(files.table(PATH), _Table)
FORMATS = {name: msgspec.structs.replace(row, name=name) for name, row in _TABLE.formats.items()}
UNITS = tuple(name for name, row in FORMATS.items() if row.is_unit)  # those that arithmetic units may take
DEFAULT = _TABLE.default
BASE = DEFAULT  # the format in which every device can do element-wise work
SWEEP = _TABLE.sweep
KEYS = _TABLE.keys
_NAMED = {name: msgspec.structs.replace(row, name=name) for name, row in _TABLE.precisions.items()}
_ALIASES = {alias: row.name for row in _NAMED.values() for alias in row.aliases}
NAMES = tuple(_NAMED)  # what is listed where a precision is asked for


@lru_cache(maxsize=1024)
def parse(text: str) -> Precision:
    """The precision that a name means; case, hyphens and underscores do not matter. RequestError for an unknown one."""
    precision = find(text)
    if precision is None:
        raise unknown("precision", text, NAMES)
    return precision


def find(text: str) -> Precision | None:
    """The precision that a name means, None where none does."""
    name = known(text, (*_NAMED, *_ALIASES))
    return None if name is None else _NAMED[_ALIASES.get(name, name)]


def canonical(text: str) -> str:
    """The one spelling of a precision. RequestError for an unknown one."""
    return parse(text).name
