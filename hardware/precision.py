"""Number formats, and the precisions that users name: the formats of weights, activations and cache (precision.toml).
The formats that units multiply follow from the precision and the device (hardware/plan.py)."""

import re
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import Any

import msgspec

from hardware.base import file_access
from hardware.base.errors import match_name, unknown
from hardware.base.text import Unit

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
    beside: str = "fp8"

    @property
    def tensors(self) -> str:
        """The format in which tensors are stored: another one if this is a format of multipliers."""
        return self.stored or self.name

    @property
    def bytes(self) -> float:
        """Bytes of one value in memory, including its share of the scales."""
        return (self.bits + (self.scale_bits / self.block if self.block else 0.0)) / 8.0


ACTIVATION, QUANTIZED, KEPT, CACHE, EXCLUDED, IN_8_BITS = range(6)  # the roles of tensors


class Widths(msgspec.Struct, frozen=True):
    """Bytes of a value in memory by the role of its tensor; `kept` are parameters that stay wide, `excluded` those that
    stay wide if the others have 4 bits, `in_8_bits` those that have 8 bits then; `parts` are by place in FILE_ROLES.
    Before a value can be multiplied it takes `unpack_weights` or `unpack_cache` vector operations."""

    activations: float
    weights: float
    kept: float
    cache: float
    excluded: float
    in_8_bits: float
    parts: tuple[float, ...] = ()
    unpack_weights: float = 0.0
    unpack_cache: float = 0.0

    @property
    def by_role(self) -> tuple[float, ...]:
        """The bytes in the order of the roles, then of the parts of files."""
        return self.activations, self.weights, self.kept, self.cache, self.excluded, self.in_8_bits, *self.parts


def uniform(value_bytes: float) -> Widths:
    """Return widths with the same bytes for every role and nothing to unpack."""
    return Widths(*(value_bytes,) * 6, parts=(value_bytes,) * len(FILE_ROLES))


class Precision(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The formats of weights, activations and key-value cache, by name; `is_strict` where the runtime's defaults
    for the format are switched off. `layers` are paths of layers, or of modules, with precisions of their own: the last
    that names a layer counts."""

    name: str = ""
    weights: str
    activations: str
    cache: str
    kept: str = ""
    is_strict: bool = False
    aliases: tuple[str, ...] = ()
    layers: tuple[tuple[str, str], ...] = ()

    @property
    def is_uniform(self) -> bool:
        """True if all tensors have one format that units multiply, as with the short names."""
        return self.weights == self.activations == self.cache == self.kept and FORMATS[self.weights].is_unit

    @property
    def multiplied(self) -> str:
        """The format that units multiply: the one that weights are unpacked into, else that of the activations."""
        weights, activations = FORMATS[self.weights], FORMATS[self.activations]
        return weights.unpacked or activations.unit or activations.name

    def suits(self, work: str) -> bool:
        """Return True if the precision is customary for a kind of work: only language models use formats by role, and
        training floats."""
        is_float = FORMATS[self.weights].kind == "float"
        return is_float and self.is_uniform if work == "training" else self.is_uniform or work == "language"

    @property
    def widths(self) -> Widths:
        """Bytes of tensors if all are stored as requested."""
        return make_widths(self.activations, self.weights, self.kept, self.cache)


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    default: str
    base: str
    sweep: tuple[str, ...]
    keys: tuple[str, ...]
    kept: str
    narrower: tuple[str, ...]
    gguf: dict[str, str]
    caches: dict[str, str]
    parts: tuple[str, ...]
    mixes: dict[str, tuple[float, ...]]
    formats: dict[str, Format]
    precisions: dict[str, Precision]


_TABLE = msgspec.convert(file_access.table(PATH), _Table)
_GROUPED = re.compile(r"int([1-8](?:[.][0-9]{1,3})?)_g([0-9]{1,5})_s([0-9]{1,2}(?:[.][0-9]{1,3})?)(?:_x([1-8]))?")


class _Formats(dict[str, Format]):
    """The formats of the table, and integers in groups by name: `int4_g64_s32` has 32 bits beside 64 values of 4 bits,
    `int4_g64_s32_x6` also parts in 6 bits."""

    def __missing__(self, name: str) -> Format:
        if (match := _GROUPED.fullmatch(name)) is None:
            raise KeyError(name)
        bits, group, scale = float(match[1]), int(match[2]), float(match[3]) * (match[2] != "0")
        like = self["int8" if bits == self["int8"].bits else "int4_g128"]
        changes = {"is_unit": False, "is_packed": False, "host_multiplies": False, "wider": ()}
        beside = f"int{match[4] or 8}_g{group}_s{match[3]}"
        return msgspec.structs.replace(
            like, name=name, bits=bits, block=group, scale_bits=scale, beside=beside, **changes
        )


FORMATS = _Formats({name: msgspec.structs.replace(row, name=name) for name, row in _TABLE.formats.items()})
UNIT_FORMATS = tuple(name for name, row in FORMATS.items() if row.is_unit)  # those that arithmetic units may take
DEFAULT, BASE = _TABLE.default, _TABLE.base
WIDE = _TABLE.kept  # what stays wide where weights are narrow
# The roles of weights in a file of llama.cpp: by the name of their layer, and whether rows are whole blocks.
FILE_ROLES = {(part, odd): IN_8_BITS + 1 + i for i, (odd, part) in enumerate(product((False, True), _TABLE.parts))}
SWEEP = _TABLE.sweep
KEYS = _TABLE.keys
NARROWER = _TABLE.narrower
TABLES = ("embed_tokens", "lm_head")
_HEADLINE = 40  # letters
_PACKED = re.compile(
    r"w([1-8](?:[.][0-9]{1,3})?)a(8|16)(?:g([0-9]{1,5})(?:s([0-9]{1,2}(?:[.][0-9]{1,3})?))?)?(?:x([1-8]))?",
    re.IGNORECASE,
)
_CACHE = re.compile(r"(.+?)[-_. ]?kv[-_. ]?([0-9]{1,2})", re.IGNORECASE)


def make_widths(activations: str, weights: str, kept: str, cache: str) -> Widths:
    """Return the bytes of values in these formats."""
    form = FORMATS[weights]
    wide = (kept, form.beside) if form.bits <= FORMATS["fp4"].bits else (weights, weights)
    parts = tuple(bits / 8.0 for bits in _TABLE.mixes.get(weights, ()))
    parts = parts or tuple(FORMATS[kept if part in TABLES else weights].bytes for part, _ in FILE_ROLES)
    values: list[Any] = [FORMATS[name].bytes for name in (activations, weights, kept, cache, *wide)]
    values.append(parts)
    return Widths(*values)


def _complete(name: str, row: Precision) -> Precision:
    """Return the row with its name and the format of parameters that are not quantised."""
    narrow = msgspec.structs.replace(row, name=name, kept=row.kept or row.weights)
    weights = FORMATS[row.weights]
    if narrow.is_uniform or weights.whole_file or weights.bits >= FORMATS[WIDE].bits:
        return narrow
    return msgspec.structs.replace(narrow, kept=WIDE)


def _packed_precision(match: re.Match[str]) -> Precision:
    """Return the precision with integers of other bits or groups than those named: `w4a16g32`, `w3a16g64s32`."""
    bits, activations, group, scale, beside = match.groups()
    scale, other = scale or f"{16 + float(bits):g}", f"x{beside}" if beside else ""  # AWQ: a scale and a zero point
    name = f"w{float(bits):g}a{activations}{f'g{int(group)}s{scale}' if group else ''}{other}"
    form = f"int{float(bits):g}_g{int(group or 0)}_s{scale}{other and '_' + other}"
    kind = "fp16" if activations == "16" else "int8"
    return _complete(name, Precision(weights=form, activations=kind, cache=_TABLE.gguf["cache"]))


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
    f"any with {', '.join('kv' + bits for bits in _TABLE.caches)} for the cache, as w4a16kv8; "
    "integers in groups, as w3a16g64; by layer, as int8+conv1=bf16 or mixed=FILE"
)


@lru_cache(maxsize=1024)
def parse(text: str) -> Precision:
    """Return the precision that a name means; case, hyphens and underscores do not matter. Raises RequestError."""
    precision = find(text)
    if precision is None:
        raise unknown("precision", text, NAMES)
    return precision


@lru_cache(maxsize=1024)
def find(text: str) -> Precision | None:
    """Return the precision that a name means, or None."""
    if "+" in text:
        return _by_layer(*text.split("+"))
    name = match_name(text, (*_NAMED, *_ALIASES))
    if name is not None:
        return _NAMED[_ALIASES.get(name, name)]
    if packed := _PACKED.fullmatch(text):
        return _packed_precision(packed)
    match = _CACHE.fullmatch(text)
    base = find(match[1]) if match and match[2] in _TABLE.caches else None
    return _with_cache(base, match[2]) if match and base else None


def _by_layer(rest: str, *layers: str) -> Precision | None:
    """Return the precision with some layers in others: `int8`, `conv1=bf16`."""
    found = [(path, find(form)) for path, _, form in (layer.rpartition("=") for layer in layers)]
    base, named = find(rest), tuple((path, form.name) for path, form in found if path and form and not form.layers)
    if base is None or len(named) < len(layers):
        return None
    name = "+".join([base.name, *(f"{path}={form}" for path, form in named)])
    return msgspec.structs.replace(base, name=name, layers=named)


def _with_cache(precision: Precision, bits: str) -> Precision:
    """Return the precision with a cache of so many bits: the format of the activations if it is that wide."""
    mine = FORMATS[precision.activations]
    cache = mine.name if mine.is_unit and mine.bits == float(bits) else _TABLE.caches[bits]
    if cache == precision.cache:
        return precision
    return _complete(f"{precision.name}kv{bits}", msgspec.structs.replace(precision, cache=cache))


def short(name: str) -> str:
    """Return the name of a precision for a headline: of many layers their number alone."""
    rest, *layers = name.split("+")
    return name if len(name) <= _HEADLINE else f"{rest}+{len(layers)} layers"


def runs_otherwise(asked: str, run: str) -> bool:
    """Return True if a format was requested for all numbers and products run in another one."""
    precision = parse(asked)
    return not precision.layers and precision.is_uniform and precision.weights != run


def runs_wider(asked: str, run: str) -> bool:
    """Return True if a network of 8 bits or fewer was requested and products run in a wider format."""
    bits = FORMATS[parse(asked).weights].bits
    return runs_otherwise(asked, run) and bits < min(FORMATS[WIDE].bits, FORMATS[run].bits)


def canonical(text: str) -> str:
    """Return the one spelling of a precision. Raises RequestError for an unknown one."""
    return parse(text).name


def rate_unit(name: str) -> Unit:
    """Return the unit of a rate in a format: OP/s for integers, else FLOP/s."""
    return "OP/s" if name in FORMATS and FORMATS[name].kind == "integer" else "FLOP/s"
