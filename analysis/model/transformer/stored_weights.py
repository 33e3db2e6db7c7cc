"""Read how a checkpoint stores its weights: the packing of each part of each layer by `quantization_config`, the rules
of weight_formats.toml, and the precision that runs it so."""

import re
from collections import Counter
from collections.abc import Iterator
from fnmatch import translate
from functools import cache, lru_cache
from pathlib import Path
from types import NoneType
from typing import Any

import msgspec

from analysis.model.ir.workload import ASSUMED
from hardware.base import file_access
from hardware.base.errors import hint
from hardware.precision import EXCLUDED, IN_8_BITS, KEPT, QUANTIZED, WIDE, find, parse

PATH = Path(__file__).with_name("weight_formats.toml")
Raw = dict[str, Any]
HEAD, EMBEDDING = "lm_head", "embed_tokens"  # outside of layers
SECTIONS = ("quantization_config", "quantization")  # of transformers, of MLX
_BEFORE_LAYERS = re.compile(r"^.*?(?=layers\.)")
_EXPERT = re.compile(r"experts\.\d+")
_LOOPS = re.compile(r"\)[*+{]")  # repeated groups of an expression may take forever
_MOST_PATTERNS, _MOST_STARS = 512, 6
_WIDE_BITS = 16
_NUMBER = re.compile(r"(?:u?int)?(-?\d{1,5}(?:\.\d{1,5})?)(?:[ -]?bits?)?")


class Packing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A packing of weight_formats.toml, which explains the fields."""

    bits: float = 8
    kind: str = "int"
    group: int = 0
    scale: float = 0.0
    zero: bool = False
    activations: int = 16

    @property
    def precision(self) -> str:
        """The name of the precision whose weights are packed so."""
        if self.kind == "fp8":
            return "mxfp8" if self.group else "fp8kv16" if self.activations < _WIDE_BITS else "w8a16"
        if self.kind != "int":
            return self.kind
        scale_bits = self.scale + self.bits * self.zero
        name = f"w{self.bits:g}a{max(self.activations, 8)}"
        plain = f"{name}g0" * (self.bits == 4) or name
        named = f"{name}g{self.group}s{scale_bits:g}" if self.group and scale_bits else plain
        return {"w4a16g128s20": "w4a16", "w4a8g128s20": "w4a8"}.get(named, named)


class Checkpoint(msgspec.Struct, frozen=True):
    """The formats that a checkpoint stores: the precision of most weights, '' if it is unknown, and the role of parts
    that differ, by path, of all layers or of one. `notes` are for the user."""

    precision: str = ""
    parts: tuple[tuple[str, int], ...] = ()
    notes: tuple[str, ...] = ()


@cache
def table() -> dict[str, Any]:
    """Return the rules of weight_formats.toml."""
    rows = file_access.shipped(PATH)
    return rows | {name: msgspec.convert(rows[name], dict[str, Packing]) for name in ("methods", "words")}


@cache
def part_names() -> dict[str, tuple[str, ...]]:
    """Return the names in checkpoints of each part of a layer, by its path."""
    rows = table()
    return {
        f"{module}.{leaf}": tuple(
            f"{name}.{end}" for name in rows["modules"][module] for end in rows["spellings"].get(leaf, (leaf,))
        )
        for module, leaves in rows["leaves"].items()
        for leaf in leaves
    }


@cache
def _modules() -> frozenset[str]:
    """Return the last words of the names of modules that hold several layers."""
    return frozenset(name.rpartition(".")[2] for names in table()["modules"].values() for name in names)


class _Rules:
    """Packings by names of modules, whole or from some word on, and by patterns; the first that fits counts."""

    def __init__(self) -> None:
        self._names: dict[str, Packing | None] = {}
        self._patterns: dict[str, Packing | None] = {}

    def add(self, name: str, packing: Packing | None) -> None:
        """Add the name, glob or `re:` expression of modules that are packed so; None: not packed."""
        is_pattern = not {*name}.isdisjoint("*?[") or name.startswith("re:")
        text = name if name.startswith("re:") else _BEFORE_LAYERS.sub("", _EXPERT.sub("experts.0", name)).rstrip(".")
        (self._patterns if is_pattern else self._names).setdefault(text, packing)

    def find(self, names: tuple[str, ...], layer: str) -> tuple[Packing | None] | None:
        """Return the packing that is stated for one of the names of a part, None if none is."""
        for name in names:
            for piece in _pieces(name, layer):
                if piece in self._names:
                    return (self._names[piece],)
        for text, packing in [*self._patterns.items()][:_MOST_PATTERNS]:
            tops, pattern = ("model.", "", "language_model.") if text.startswith("re:") else ("",), _pattern(text)
            if pattern and any(pattern.match(f"{top}{layer}{name}") for name in names for top in tops):
                return (packing,)
        return None


@lru_cache(4096)
def _pieces(name: str, layer: str) -> tuple[str, ...]:
    """Return the runs of whole words of a dotted name, and those from the layer on."""
    words = name.split(".")
    runs = [".".join(words[i:j]) for i in range(len(words)) for j in range(len(words), i, -1)]
    return (*(f"{layer}{'.'.join(words[:j])}".rstrip(".") for j in range(len(words), -1, -1) if layer or j), *runs)


@lru_cache(1024)
def _pattern(text: str) -> re.Pattern[str] | None:
    """Return the expression of a `re:` or a glob, None if it is wrong or may take forever."""
    if not text.startswith("re:"):
        glob = translate(re.sub(r"[*]+", "*", text))[:-2]
        return re.compile(rf"(?:.*\.)?{glob}(?:\..*)?\Z", re.DOTALL)
    if _LOOPS.search(text) or sum(map(text.count, "*+{")) > _MOST_STARS:
        return None
    try:
        return re.compile(text[3:])
    except (re.error, OverflowError, RecursionError):
        return None


def read(raw: Raw, layers: int) -> Checkpoint:
    """Return what the checkpoint of a configuration stores. The last few are remembered."""
    return _read(msgspec.json.encode({key: raw.get(key) for key in (*SECTIONS, "expert_dtype")}), layers)


@lru_cache(32)
def _read(section: bytes, layers: int) -> Checkpoint:
    raw = msgspec.json.decode(section)
    stated: Any = next((raw[key] for key in SECTIONS if raw.get(key) is not None), None)
    if stated is None and raw.get("expert_dtype") is None:
        return Checkpoint()
    if not isinstance(stated, dict | NoneType):
        return Checkpoint(notes=(f"{ASSUMED}: it is not a table, so weights count 2 byte a value (bf16)",))
    is_mlx = raw.get("quantization") is not None  # MLX states it twice
    is_stated, stated = stated is not None, stated or {}
    method = str(stated.get("quant_method", "mlx" if is_mlx else ""))[:40].lower()
    rules, usual = _stated_rules(raw, stated, method)
    parts = dict(_packings(rules, usual, layers))
    main, beside = _main_packing(parts, usual)
    if main is None:
        return Checkpoint(notes=(_unknown(method),)) if is_stated else Checkpoint()
    by_width = {main: QUANTIZED, None: EXCLUDED if main.bits <= 4 else KEPT}
    roles = {path: by_width.get(packing, IN_8_BITS) for path, packing in parts.items()}
    name = _precision_name(main, beside, _cache_bits(stated))
    precision = find(name)
    if precision is None:
        return Checkpoint(notes=(_unknown(method),))
    notes = (*_notes(method, precision.name), *_assumed(stated, method)) if is_stated else ()
    return Checkpoint(precision.name, tuple(_merged(roles, layers)), notes)


def _stated_rules(raw: Raw, stated: Raw, method: str) -> tuple[_Rules, Packing | None]:
    """Return the packings by name, and that of all other parts."""
    keys, rules = table()["keys"], _Rules()
    usual = _packing(stated, method)
    maps = [found for key in keys["maps"] if isinstance(found := value_at(stated, key), dict)]
    listed = stated.get("config_groups")
    groups = [group for group in (listed.values() if isinstance(listed, dict) else ()) if isinstance(group, dict)]
    if method == "mlx":
        maps.append({name: value for name, value in stated.items() if isinstance(value, dict | bool)})
    if raw.get("expert_dtype") is not None:  # of DeepSeek-V4: lists of ModelOpt name what it left as it was
        experts = next((_packing(value, "") for found in maps for value in found.values()), None)
        rules.add("experts", experts or table()["words"].get(f"experts {raw['expert_dtype']}"))
        return rules, table()["methods"]["fp8"]
    if groups:
        usual = None
    for name in (name for key in keys["wide"] for name in _names(value_at(stated, key))):
        if not groups or name.rpartition(".")[2] not in _modules():  # compressed-tensors ignores layers by whole names
            rules.add(name, None)
    for name, value in ((str(name), value) for found in maps for name, value in found.items()):
        sign, colon, expression = name.partition(":")
        is_dynamic = bool(colon) and sign in "+-"
        if name == "_default":
            usual = _packing(value, method)
        else:
            rules.add(f"re:.*?{expression}" if is_dynamic else name, None if sign == "-" else _packing(value, method))
    for group in groups:
        packing = _of_group(group)
        targets = _names(group.get("targets"))
        usual = packing if "Linear" in targets or not targets else usual
        for name in targets:
            rules.add(name, packing)
    if stated.get("quantized_layers"):
        usual = None
    head = _number(stated, ("head_bits",))
    if stated.get(HEAD) is True or head:
        rules.add(HEAD, msgspec.structs.replace(usual, bits=head or usual.bits) if usual else None)
    if usual is not None and method == "mlx":
        for name in (HEAD, EMBEDDING):
            rules.add(name, usual)
    return rules, usual


def _packing(stated: Any, method: str) -> Packing | None:
    """Return the packing that a table states, None for values that are not packed or an unknown method."""
    if stated is False or stated is None:
        return None
    rows = table()
    words: dict[str, Packing] = rows["words"]
    usual: Packing | None = rows["methods"].get(method)
    if not isinstance(stated, dict):
        return words.get(str(stated).lower(), usual)
    inner = next((part for key in rows["keys"]["nested"] if isinstance(part := value_at(stated, key), dict)), {})
    flat = {key: value for key, value in (inner | stated).items() if key != "bnb_4bit_quant_type"}
    if stated.get("load_in_4bit"):
        flat["bnb_4bit_quant_type"] = stated.get("bnb_4bit_quant_type", "fp4")
    said = [str(flat.get(key, inner.get(key, ""))).lower() for key in rows["keys"]["word"]]
    usual = next((words[word] for word in said if word in words), usual)
    bits, group = (_number(flat, rows["keys"][key]) for key in ("bits", "group"))
    if bits and "num_bits" in flat:  # of compressed-tensors
        usual = _of_tensor(flat, bits, group)
    if usual is None or (bits or usual.bits) >= _WIDE_BITS:
        return None
    if method == "quark" and usual == words["fp4"]:
        return words["mxfp4"]
    changes: Raw = {"bits": bits} if bits and usual.kind == "int" else {}
    changes |= {"group": max(int(group), 0)} if group is not None and usual.kind == "int" and usual.scale else {}
    changes |= {"scale": 8 + 32 / 256} if flat.get("bnb_4bit_use_double_quant") else {}
    return msgspec.structs.replace(usual, **changes)


def _of_tensor(weights: Raw, bits: float, stated: float | None) -> Packing:
    group = max(int(stated or 0), 0)
    if weights.get("type") == "float" and bits == 4:
        return Packing(4, "mxfp4" if group == 32 else "nvfp4")
    if weights.get("type") == "float":
        return Packing(8, "fp8", 32 if group == 32 else 0)
    zero = weights.get("symmetric", True) is False
    return Packing(8, "int", group, 16.0 * (group > 0), zero and group > 0)


def _of_group(group: Raw) -> Packing | None:
    """Return the packing of a group of compressed-tensors."""
    weights, inputs = group.get("weights"), group.get("input_activations")
    packing = _packing(weights, "") if isinstance(weights, dict) and _number(weights, ("num_bits",)) else None
    if packing is None:
        return None
    bits = _number(inputs, ("num_bits",)) if isinstance(inputs, dict) else None
    return msgspec.structs.replace(packing, activations=int(bits) if bits in (4, 8) else _WIDE_BITS)


def _packings(rules: _Rules, usual: Packing | None, layers: int) -> Iterator[tuple[str, Packing | None]]:
    for layer in (f"layers.{i}." for i in range(layers)):
        for part, names in part_names().items():
            found = rules.find(names, layer)
            yield f"{layer}{part}", usual if found is None else found[0]
    for name in (HEAD, EMBEDDING):
        if (found := rules.find((name,), "")) and found[0] is not None:
            yield name, found[0]


def _main_packing(parts: dict[str, Packing | None], usual: Packing | None) -> tuple[Packing | None, Packing | None]:
    """Return the narrowest packing, of most weights, and the most frequent of the others."""
    packed = Counter(packing for packing in parts.values() if packing is not None)
    if not packed:
        return usual, None
    main = min(packed, key=lambda packing: (packing.bits, -packed[packing]))
    others = [packing for packing, _ in packed.most_common() if packing.bits > main.bits]
    return main, others[0] if others else None


def _precision_name(main: Packing, beside: Packing | None, cache_bits: int) -> str:
    wider = f"x{beside.bits:g}" if beside and main.kind == beside.kind == "int" and beside.bits < _WIDE_BITS else ""
    name = main.precision
    if wider and "g" not in name:  # the short names have no parts in other widths
        name += f"g{main.group}s{main.scale + main.bits * main.zero:g}"
    base = name.removesuffix("kv16") if cache_bits else name
    return f"{base}{wider}kv{cache_bits}" if cache_bits else f"{base}{wider}"


def _merged(roles: dict[str, int], layers: int) -> Iterator[tuple[str, int]]:
    """Merge roles of parts that are alike in all layers, and modules whose parts are alike."""
    for name in (HEAD, EMBEDDING):
        if name in roles:
            yield name, roles[name]
    for module, leaves in table()["leaves"].items():
        of_leaf = {leaf: [roles[f"layers.{layer}.{module}.{leaf}"] for layer in range(layers)] for leaf in leaves}
        if len({tuple(found) for found in of_leaf.values()}) == 1:
            of_leaf = {"": next(iter(of_leaf.values()))}
        for leaf, found in of_leaf.items():
            path = f"{module}.{leaf}".rstrip(".")
            if len({*found}) == 1:
                if found[0] != QUANTIZED or "." in module:
                    yield path, found[0]
                continue
            yield from ((f"layers.{layer}.{path}", role) for layer, role in enumerate(found))


def _cache_bits(stated: Raw) -> int:
    """Return the bits of a value of the stored format of the key-value cache, 0 if none is stated."""
    for value in (value_at(stated, key) for key in table()["keys"]["cache"]):
        if isinstance(value, int | str) and (digits := re.search(r"(?<!\d)([48])(?!\d)", str(value))):
            return int(digits[1])
    return 0


def _notes(method: str, name: str) -> tuple[str, ...]:
    means = parse(name)
    kept = "bf16" if means.activations in (means.weights, WIDE) else means.activations
    other = "" if kept == means.activations or means.activations == WIDE else f" (its activations stay {kept})"
    return (
        f"stored by {method or 'ModelOpt'} with weights in {means.weights}, activations {means.activations}, "
        f"cache {means.cache}: --precision {name}{other}",
    )


def _assumed(stated: Raw, method: str) -> Iterator[str]:
    """Return a note for each size that is stated and is no number."""
    for key in (*table()["keys"]["bits"], *table()["keys"]["group"]):
        if (value := value_at(stated, key)) is not None and _number(stated, (key,)) is None:
            yield f"{ASSUMED} in part: {key} {str(value)[:40]!r} is not a number, so the usual one of {method} counts"


def _unknown(method: str) -> str:
    known = table()["methods"]
    reason = (
        f"it states no narrow weights for {method}"
        if method in known
        else f"{method or 'no method is named'} has no reader here"
    )
    right = "" if method in known else f"; {hint(method, known, f'{len(known)} methods are read')}"
    return f"{ASSUMED}: {reason}, so weights count 2 byte a value (bf16) unless --precision is given{right}"


def value_at(raw: Any, path: str) -> Any:
    """Return the value at a dotted path, None if it is missing."""
    for key in path.split("."):
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw


def _names(found: Any) -> list[str]:
    return [name for name in found if isinstance(name, str) and name] if isinstance(found, list) else []


def _number(stated: Raw, keys: tuple[str, ...]) -> float | None:
    """Return the first number that is stated under one of the keys, as such or as text: 4, "4", "int4", "4bit"."""
    found = [_NUMBER.fullmatch(str(value_at(stated, key))) for key in keys]
    return next((float(number[1]) for number in found if number), None)
