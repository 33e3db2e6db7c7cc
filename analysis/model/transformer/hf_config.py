"""`hf:FOLDER_OR_NAME`: a Hugging Face `config.json`, in a folder or in the local cache of the hub, read as plain data
by a row of hf_config.toml. No code of the folder is executed. Layers may differ in kind, window, experts and sizes.
"""

import json
import os
import re
from fnmatch import fnmatchcase
from itertools import takewhile
from math import prod
from pathlib import Path
from typing import Any

import msgspec

from analysis.model.ir.workload import ALONE
from analysis.model.model_errors import ModelSpecError
from analysis.model.transformer import stored_weights
from analysis.model.transformer.config import MAX_LAYERS, Config, family
from hardware.base import file_access
from hardware.base.errors import hint, match_name
from hardware.precision import find

TABLE = file_access.table(Path(__file__).with_name("hf_config.toml"))
TABLE["types"] |= {kind: {"like": like} for like, kinds in TABLE["alike"].items() for kind in kinds}
_DENSE = ("dense", "mlp", 0, False)
_EXPERTS = ("moe", "E")  # parts of layers of Nemotron
_LETTER_OF_BLOCK = {(True, True): "a", (True, False): "A", (False, True): "M", (False, False): "n"}  # attention, FFN
_BLOCK_STEP = 256  # widths of the FFNs of Nemotron-NAS are multiples of it
Raw = dict[str, Any]


def layer_letters(raw: Raw) -> str:
    """Return a letter of config.LETTERS for each layer, 'w' or 'W' for attention with a window; '' if the configuration
    does not list its layers. Raises a `ModelSpecError` for an unknown kind of layer."""
    for key in TABLE["layers"]["kinds"]:
        words = raw.get(key)
        if not words:
            continue
        known = TABLE["letters"] | TABLE["letters_of"].get(key, {})
        if unknown := {*map(str, words)} - {*known}:
            raise ModelSpecError(f"config.json: layers of kind {min(unknown)[:40]!r} are not supported")
        return "".join(known[str(word)] for word in words)
    parts = [(not block["attention"].get("no_op"), not block["ffn"].get("no_op")) for block in _blocks(raw)]
    return "".join(_LETTER_OF_BLOCK[pair] for pair in parts)


def _blocks(raw: Raw) -> list[Raw]:
    """Return the blocks of a model whose architecture was searched (Nemotron-NAS), one a layer."""
    blocks: list[Raw] = raw.get("block_configs") or []
    if any(part.get("replace_with_linear") for block in blocks for part in (block["attention"], block["ffn"])):
        raise ModelSpecError("config.json: blocks with replace_with_linear are not supported")
    return blocks


def _block_sizes(raw: Raw, block: Raw) -> Raw:
    """Return the heads of keys and values of a block, and the width of its FFN as the library rounds it."""
    queries, factor = block["attention"].get("n_heads_in_group"), block["ffn"].get("ffn_mult")
    wide = int(2 * factor * raw["hidden_size"] / 3) if factor else 0
    return ({"num_key_value_heads": raw["num_attention_heads"] // queries} if queries else {}) | (
        {"intermediate_size": -(-wide // _BLOCK_STEP) * _BLOCK_STEP} if factor else {}
    )


def recurrent_pattern(raw: Raw) -> str:
    """Return the letters of recurrent and attention layers from the period or the places of attention."""
    layers = min(raw["num_hidden_layers"], MAX_LAYERS)
    every = raw.get("attn_layer_period") or raw.get("full_attention_interval") or 1
    of_kimi = [layer - 1 for layer in raw.get("linear_attn_config", {}).get("full_attn_layers", ())]
    if "attn_layer_indices" in raw and not raw["attn_layer_indices"]:
        return "r"
    attends = of_kimi or raw.get("attn_layer_indices") or raw.get("full_attn_idxs")
    attends = attends or range(raw.get("attn_layer_offset", every - 1), layers, every)
    return "".join("a" if layer in attends else "r" for layer in range(layers))


def sparse_layers(raw: Raw, layers: int) -> list[int]:
    """Return 1 for each layer with experts and 0 for others; [] if the configuration does not list them."""
    kinds, stated, named = raw.get("mlp_layer_types"), raw.get("moe_layer_freq", 1), raw.get("moe_layers_enum")
    parts = [str(word) for word in raw.get("layers_block_type") or raw.get("hybrid_override_pattern") or ()]
    if not {*parts}.isdisjoint(_EXPERTS):
        return [int(word in _EXPERTS) for word in parts]
    if kinds or isinstance(stated, list):
        return [int(kind not in _DENSE) for kind in kinds or stated]
    if named:  # "4,5,6" or [4, 5, 6]
        chosen = {int(layer) for layer in (named.split(",") if isinstance(named, str) else named)}
        return [int(layer in chosen) for layer in range(layers)]
    dense, step = raw.get("mlp_only_layers") or [], raw.get("decoder_sparse_step") or 1
    if stated != 1:  # every so many layers from the first sparse one on
        first = raw.get("first_k_dense_replace") or 0
        return [int(layer >= first and layer % stated == 0) for layer in range(layers)]
    if dense or step != 1:
        return [int(layer not in dense and (layer + 1) % step == 0) for layer in range(layers)]
    return []


def layer_changes(raw: Raw, layers: int) -> list[Raw]:
    """Return the values that each layer has instead of those of the whole configuration, by key."""
    lists = {key: raw[key] for key in TABLE["layers"]["sizes"] if isinstance(raw.get(key), list)}
    own = [{key: values[layer % len(values)] for key, values in lists.items() if values} for layer in range(layers)]
    for change, block in zip(own, _blocks(raw), strict=False):
        change |= _block_sizes(raw, block)
    for layer, row in (raw.get("per_layer_config") or {}).items():
        own[int(layer)] |= row
    for key, by_word in TABLE["layers"]["words"].items():
        for change, word in zip(own, stored_weights.value_at(raw, key) or (), strict=False):
            change |= by_word.get(str(word), {})
    for key, change in TABLE["layers"]["first"].items():
        for layer_change in own[: raw.get(key) or 0]:
            layer_change |= change
    return own


def file(where: str) -> Path:
    """Return the path of the configuration of a folder, a `config.json`, or a model in the local hub cache."""
    try:
        path = Path(where).expanduser()
        if path.is_dir():
            path = path / "config.json"
        if path.is_file():
            return path
    except (OSError, ValueError, RuntimeError):  # RuntimeError: unknown home folder
        raise ModelSpecError(f"{where[:80]!r} cannot be opened") from None
    if not where or where.startswith((".", "/", "~")) or not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", where):
        raise ModelSpecError(f"hf: no config.json in {where[:80]!r}")
    return _cached(where)


def is_here(where: str) -> bool:
    """Return True if `where` is a folder or a file, or a model in the local hub cache."""
    try:
        return os.path.exists(os.path.expanduser(where)) or bool(_snapshots(where))
    except (OSError, ValueError):
        return False


def _snapshots(name: str) -> list[Path]:
    home = os.environ.get("HF_HOME", "~/.cache/huggingface")
    hub = Path(os.path.expanduser(os.environ.get("HF_HUB_CACHE", os.path.join(home, "hub"))))
    return list((hub / f"models--{name.replace('/', '--')}" / "snapshots").glob("*/config.json"))


def _cached(name: str) -> Path:
    """Return the configuration of the newest snapshot in the hub cache, without downloading."""
    snapshots = _snapshots(name)
    if not snapshots:
        raise ModelSpecError(
            f"hf: {name[:80]} is neither a folder nor in the local hub cache; save its config.json in a folder and "
            "name hf:FOLDER"
        )
    return max(snapshots, key=lambda path: path.stat().st_mtime)


_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(Config) if not field.required}
_RULES_BY_WINDOW = ("full", "windowed")  # sub-tables of a row: rules of layers without and with a window


def config_fields(raw: Raw, kind: str) -> Raw:
    """Return the fields of the configuration, `per_layer` among them. Raises KeyError for a missing key."""
    rules = row(raw, kind)
    by_window = [rules.pop(name, {}) for name in _RULES_BY_WINDOW]
    fields = _sizes(raw, rules)
    letters = layer_letters(raw)
    layers = fields["layers"] = fields["layers"] or len(letters)
    if letters and "pattern" not in fields:
        fields["pattern"] = letters.replace("w", "a").replace("W", "A")
    elif "mixer" in fields and "pattern" not in fields:
        fields["pattern"] = recurrent_pattern(raw)
    windows = _windows(fields, letters)
    changes = layer_changes(raw, layers) if isinstance(layers, int) and 0 < layers <= 1 << 10 else []
    layers_by_rule = [(change, window > 0) for change, window in zip(changes, windows, strict=False)]
    distinct = {repr(layer): layer for layer in layers_by_rule}  # most layers are like another one
    sizes_of = {
        text: _sizes(raw | change, rules | by_window[is_windowed]) if change or any(by_window) else {}
        for text, (change, is_windowed) in distinct.items()
    }
    own = [sizes_of[repr(layer)].copy() for layer in layers_by_rule]
    _share_caches(raw, own, fields["ffn"])
    usual = _DEFAULTS | fields
    varied = {name for sizes in own for name, value in sizes.items() if value != usual.get(name, 0)}
    per_layer = {
        name: [int(sizes.get(name, usual.get(name, 0))) for sizes in own]
        for name in sorted(varied - {"layers", "pattern"})
    }
    if letters:
        fields |= {"full_every": 0}
        per_layer |= {"window": windows}
    if (sparse := sparse_layers(raw, min(layers, MAX_LAYERS))) and fields.get("experts"):
        dense = sparse.index(1) if 1 in sparse else len(sparse)
        is_prefix = all(sparse[dense:])
        fields["dense_layers"] = dense if is_prefix else 0
        per_layer |= {} if is_prefix else {"sparse": sparse}
    for name, values in list(per_layer.items()):
        if len({*values}) == 1:  # equal in all layers
            fields[name] = type(_DEFAULTS.get(name, 0))(per_layer.pop(name)[0])
    return fields | ({"per_layer": [[name, values] for name, values in per_layer.items()]} if per_layer else {})


def _windows(fields: Raw, letters: str) -> list[int]:
    """Return the window of each layer, 0 without one."""
    window, every = fields.get("window") or 0, fields.get("full_every") or 0
    if letters:
        return [window if letter in "wW" else 0 for letter in letters]
    return [0 if every and (layer + 1) % every == 0 else window for layer in range(min(fields["layers"], MAX_LAYERS))]


def _share_caches(raw: Raw, own: list[Raw], usual: int) -> None:
    """Add the fields of the last layers, which attend to caches of earlier ones (Gemma 3n and 4)."""
    shared = raw.get("num_kv_shared_layers") or 0
    if 0 < len(own) <= shared:
        raise ModelSpecError("config.json: all layers attend to caches of another model, which is not supported")
    wide = 2 if raw.get("use_double_wide_mlp") else 1
    for layer, sizes in enumerate(own if shared else ()):
        sizes["reuses_cache"] = int(layer >= len(own) - shared)
        if sizes["reuses_cache"]:
            sizes["ffn"] = wide * sizes.get("ffn", usual)


def row(raw: Raw, kind: str) -> Raw:
    """Return the row of a model_type merged over the row that it is `like`. `["", value]` states a constant."""
    own: Raw = (TABLE["types"].get(kind) or TABLE["shared"][kind]).copy()
    like, of_family = own.pop("like", ""), own.pop("family", "")
    constants = (family(of_family) if of_family else {}) | _derived_fields(raw, kind)
    return (row(raw, like) if like else {}) | {name: ["", value] for name, value in constants.items()} | own


def keys_of(rules: Raw) -> tuple[set[str], set[str]]:
    """Return the keys that rules require, and those that they read if present."""
    required, optional = set[str](), set[str]()
    for rule in rules.values():
        if isinstance(rule, dict):
            optional |= {key for keys in keys_of(rule) for key in keys}
        elif keys := rule if isinstance(rule, str) else rule[0] if isinstance(rule, list) else "":
            read = {key.partition(".")[0] for key in re.split(r"[ */]|=\S+", keys)}
            (required if isinstance(rule, str) and len(read) == 1 else optional).update(read)
    return required, optional


def _sizes(raw: Raw, rules: Raw) -> Raw:
    """Return the fields that rules give."""
    fields = {name: _value(raw, name, rule) for name, rule in rules.items()}
    share = fields.pop("_rotary_share", 0)
    if fields.get("experts") == 1:  # a single expert is the FFN
        fields |= {"experts": 0, "active": 0}
    if "experts" in fields and not fields["experts"]:
        fields |= {"active": 0, "expert_ffn": 0, "shared_ffn": 0}
    if fields.get("kv_lora"):  # a head has a rotated and an unrotated part
        rotary = raw["qk_rope_head_dim"]
        return fields | {"head_dim": raw["qk_nope_head_dim"] + rotary, "rotary": rotary, "kv_heads": 0}
    usual = fields["hidden"] // (fields["heads"] or 1)
    if not fields.get("head_dim") and usual * fields["heads"] != fields["hidden"] > usual:
        fields["head_dim"] = usual
    if share and not fields.get("rotary"):
        fields["rotary"] = int(float(share) * (fields.get("head_dim") or usual))
    return fields


def _value(raw: Raw, name: str, rule: Any) -> Any:
    if isinstance(rule, str):
        if (needed := _alternative(raw, rule)) is None:
            raise KeyError(rule.partition(" ")[0])
        return needed
    if not isinstance(rule, list):
        return rule
    keys, default = rule
    if not keys:
        return default
    if name == "window" and not raw.get("use_sliding_window", True):
        return default
    value = default if (value := _alternative(raw, keys)) is None else value
    if name != "activation":
        return bool(value) if isinstance(default, bool) else value
    if (known := TABLE["activations"]).get(str(value)) is None:
        raise ModelSpecError(f"config.json: activation {str(value)[:40]!r}; supported: {', '.join(known)}")
    return known[str(value)]


def _alternative(raw: Raw, keys: str) -> Any:
    """Return the value of the first alternative of a rule that is stated, else None."""
    return next((value for key in keys.split() if (value := _value_of(raw, key)) is not None), None)


def _value_of(raw: Raw, key: str) -> Any:
    """Return the value of a key, a product, a quotient or a comparison. None if a key is missing."""
    key, equals, word = key.partition("=")
    key, _, divisor = key.partition("/")
    names = [name for name in (*key.split("*"), divisor) if name]
    factors: list[Any] = [int(name) if name.isdecimal() else stored_weights.value_at(raw, name) for name in names]
    # A list has one value per layer.
    values = [value[0] if isinstance(value, list) and value else value for value in factors]
    if equals:
        return values[0] == word or None
    if None in values or len(values) == 1:
        return None if None in values else values[0]
    return values[0] // values[1] if divisor else prod(values)


def _derived_fields(raw: Raw, kind: str) -> Raw:
    """Return the fields that follow from several keys. Raises a `ModelSpecError` for an unsupported structure."""
    match kind:
        case "longcat_flash":  # a layer has two attentions and FFNs; experts that do nothing take part in the choice
            idle_share = (raw.get("zero_expert_num") or 0) / raw["n_routed_experts"]
            return {"active": max(1, round(raw["moe_topk"] / (1 + idle_share)))}
        case "jamba":
            hidden, rank = raw["hidden_size"], raw.get("mamba_dt_rank", "auto")
            return {
                "state_heads": raw.get("mamba_expand", 2) * hidden,
                "state_rank": rank if isinstance(rank, int) else -(-hidden // 16),
            }
        case "nemotron_h":
            return {"state_fp32": raw.get("mamba_ssm_cache_dtype", "float32") == "float32"}
        case "rwkv7":
            ranks = [raw[f"{gate}_low_rank_dim"] for gate in ("decay", "gate", "a", "v")]
            heads = raw["hidden_size"] // raw.get("head_dim", 64)
            ffn = raw.get("intermediate_size") or int(raw.get("hidden_ratio", 4) * raw["hidden_size"])
            return {"heads": heads, "state_heads": heads, "state_rank": sum(ranks), "ffn": ffn}
        case "lfm2" if raw.get("block_auto_adjust_ff_dim", True):
            width, step = int(2 * raw.get("block_ff_dim", 12288) / 3), raw.get("block_multiple_of", 256)
            return {"ffn": -(-int(width * raw.get("block_ffn_dim_multiplier", 1)) // step) * step}
        case "exaone4":  # "LLLG": every fourth layer is global
            pattern = raw.get("sliding_window_pattern") or 4
            return {"full_every": len(pattern) if isinstance(pattern, str) else pattern}
        case "falcon":
            kv_heads = int(raw.get("multi_query", True))
            return {"kv_heads": raw.get("num_kv_heads", 8) if raw.get("new_decoder_architecture") else kv_heads}
        case "opt":
            if raw.get("word_embed_proj_dim", 0) not in (0, raw.get("hidden_size")):
                raise ModelSpecError("config.json: an embedding narrower than the model (opt-350m) is not supported")
            return {"positions": raw["max_position_embeddings"] + 2}  # OPT's table starts at 2
    return {}


_MAX_BYTES = 4 << 20
_ALIKE = 4  # letters that names of one family have in common, as in qwen3_5 and qwen3_7
_BUILT = "a function of your own that returns transformers' (model, inputs) opens as net.py:make"
_SIZE = re.compile(r"^num_|_(size|dim|layers|heads|experts|rank) is ")  # a key of a number, in a message


def config(where: str) -> Config:
    """Return the configuration of a folder, a `config.json`, or a model in the local hub cache."""
    return parse_config(_read_at(where))


def stored_precision(where: str) -> str:
    """Return the precision in which the weights of a configuration are stored, '' if it is unknown or not supported."""
    raw = _read_at(where)
    layers = raw.get("num_hidden_layers") or raw.get("n_layer")
    stored = stored_weights.read(raw, min(layers, MAX_LAYERS) if isinstance(layers, int) else 1)
    if stored.precision or stored.notes:
        return stored.precision
    known = find(str(raw.get("torch_dtype", raw.get("dtype", ""))).removeprefix("torch."))
    return known.name if known is not None else ""


def parse_config(raw: Raw) -> Config:
    """Return the configuration that a `config.json` describes. Raises a `ModelSpecError`."""
    stated = _kind(raw)
    kind, unread = (stated, []) if stated in TABLE["types"] else _nearest_kind(raw, stated)
    if not kind or unread:
        raise ModelSpecError(_unsupported(stated, raw, kind, unread))
    instead = (
        f"model_type {stated[:40]!r} is unknown here: read as {kind}, which has all its fields; norms and gates that "
        "no field states are not counted"
    )
    try:
        fields = config_fields(raw, kind)
        stored = stored_weights.read(raw, min(fields["layers"], MAX_LAYERS))
        notes = [*([] if kind == stated else [instead]), *_notes(raw), *stored.notes]
        fields |= {"notes": notes, "wide": stored.parts, "labels": _labels(raw)}
        return msgspec.convert(fields, Config)
    except KeyError as error:
        raise ModelSpecError(f"config.json of type {kind!r} has no {error.args[0]}") from None
    except (msgspec.ValidationError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError) as error:
        if isinstance(error, ModelSpecError):
            raise
        sizes = (f"{key[:40]} is {value[:40]!r}" for key, value in raw.items() if isinstance(value, str))
        wrong = next((size for size in sizes if _SIZE.search(size)), "")
        reason = f"{wrong}: expected a number" if wrong else " ".join(str(error).split())[:160]
        raise ModelSpecError(f"config.json of type {kind!r}: {reason}") from None


def _kind(raw: Raw) -> str:
    """Return the model_type of a configuration, or the type of its architecture if only that is supported."""
    kind, named = str(raw.get("model_type", "")), raw.get("architectures")
    if kind in TABLE["types"] or not isinstance(named, list) or not named:
        return kind
    return match_name(str(named[0]).lower().partition("for")[0], TABLE["types"]) or kind


def _labels(raw: Raw) -> int:
    """Return the outputs of the head of a checkpoint whose class says that it classifies, else 0."""
    if not str(raw.get("architectures")).endswith("Classification']"):
        return 0
    return len(raw.get("id2label") or ("no", "yes"))


def _unsupported(kind: str, raw: Raw, nearest: str, unread: list[str]) -> str:
    shown = kind[:40] or "nothing"
    if raw.get("is_encoder_decoder") is True:
        known = "transformers:t5_base, transformers:whisper_base and transformers:whisper_large_v3 are here"
        return f"config.json: {shown!r} is an encoder-decoder: {_BUILT} ({known})"
    if unread:
        names = ", ".join(unread[:4]) + (", .." if len(unread) > 4 else "")
        right = f"the nearest, {nearest}, has no {names}"
    else:
        right = hint(kind.removesuffix("_text"), TABLE["types"])
    return f"config.json: model_type {shown!r} is not supported{'; ' * bool(right)}{right}; {_BUILT}"


def _read_at(where: str) -> Raw:
    path = file(where.strip())
    raw = _read_json(path)
    for name, (method, key) in TABLE["beside"].items():
        beside = path.with_name(name)
        if raw.get("quantization_config") is None and beside.is_file() and key in (stated := _read_json(beside)):
            raw["quantization_config"] = {"quant_method": method} | (stated.get("quantization") or stated)
    # A model with several parts (vision and text) states the language model's sizes in `text_config`.
    text = raw.get("text_config")
    if not isinstance(text, dict) or "hidden_size" in raw or "n_embd" in raw:
        return raw
    kind, keys = raw.get("model_type", ""), (*TABLE["parts"], *stored_weights.SECTIONS)
    whole = {key: value for key, value in raw.items() if key in keys}
    return {"model_type": kind} | text | whole | ({"model_type": kind} if kind in TABLE["types"] else {})


def _read_json(path: Path) -> Raw:
    try:
        raw = json.loads(file_access.text(file_access.read(path, _MAX_BYTES)))
    except OSError as error:
        raise ModelSpecError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        if isinstance(error, ModelSpecError):
            raise
        raise ModelSpecError(f"{path} is not valid JSON") from None
    if not isinstance(raw, dict):
        raise ModelSpecError(f"{path} is not a model configuration")
    return raw


def _notes(raw: Raw) -> list[str]:
    parts = [name for key, name in TABLE["parts"].items() if isinstance(raw.get(key), dict)]
    left_out = [f"{ALONE}: without its {' and its '.join(parts)}"] if parts else []
    kind, stated = _kind(raw), raw.get("model_type")
    by_name = [f"read as {kind}, by the name of its architecture"] if kind != stated and kind in TABLE["types"] else []
    special = [said for key, said in TABLE["said"].items() if raw.get(key)]
    return left_out + by_name + special


# --- the nearest known type ---------------------------------------------------------------------------------


def _nearest_kind(raw: Raw, stated: str) -> tuple[str, list[str]]:
    """Return the known type that leaves the fewest fields of a configuration unread, first of those whose names begin
    alike, and these fields; '' if no type is like it."""
    unread = {kind: _unread_keys(raw, kind) for kind in _candidates(raw, stated)}
    return min(unread.items(), key=lambda entry: len(entry[1]), default=("", []))


def _candidates(raw: Raw, stated: str) -> list[str]:
    if raw.get("is_encoder_decoder") or not all(raw.get(key) for key in TABLE["usual"]["needs"]):
        return []
    letters = {kind: zip(kind, stated, strict=False) for kind in TABLE["types"]}
    alike = {kind: len([*takewhile(lambda pair: pair[0] == pair[1], pairs)]) for kind, pairs in letters.items()}
    nearest = max(alike, key=lambda kind: (alike[kind], -abs(len(kind) - len(stated))))
    first = [nearest] if alike[nearest] >= _ALIKE else []
    kinds = [kind for kind in dict.fromkeys((*first, *TABLE["usual"]["types"])) if _has_keys(raw, kind)]
    if raw.get("hidden_act") in TABLE["usual"]["ungated"]:  # their FFNs have no gate
        kinds = [kind for kind in kinds if row(raw, kind).get("gated", True) in (False, ["", False])]
    return kinds


def _has_keys(raw: Raw, kind: str) -> bool:
    try:
        return keys_of(row(raw, kind))[0] <= raw.keys()
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return False


def _unread_keys(raw: Raw, kind: str) -> list[str]:
    """Return the keys of a configuration that may change its structure and that the row of a type does not read."""
    required, optional = keys_of(row(raw, kind))
    read = required | optional | {*TABLE["layers"]["kinds"], *TABLE["layers"]["sizes"], *TABLE["usual"]["read"]}
    plain = ("_*", *TABLE["usual"]["ignored"])
    return sorted(
        key for key, value in raw.items() if value and key not in read and not any(fnmatchcase(key, p) for p in plain)
    )
