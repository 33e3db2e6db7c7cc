"""Read the fields of a `Config` from a Hugging Face configuration by a row of hf_config.toml."""

import re
from math import prod
from typing import Any

import msgspec

from analysis.model.model_errors import ModelSpecError
from analysis.model.transformer import hf_layers
from analysis.model.transformer.config import MAX_LAYERS, Config, family
from analysis.model.transformer.hf_layers import TABLE, Raw, value_at

_DEFAULTS = {field.name: field.default for field in msgspec.structs.fields(Config) if not field.required}
_RULES_BY_WINDOW = ("full", "windowed")  # sub-tables of a row: rules of layers without and with a window


def config_fields(raw: Raw, kind: str) -> Raw:
    """Return the fields of the configuration, `per_layer` among them. Raises KeyError for a missing key."""
    rules = row(raw, kind)
    by_window = [rules.pop(name, {}) for name in _RULES_BY_WINDOW]
    fields = _sizes(raw, rules)
    letters = hf_layers.letters(raw)
    layers = fields["layers"] = fields["layers"] or len(letters)
    if letters and "pattern" not in fields:
        fields["pattern"] = letters.replace("w", "a").replace("W", "A")
    elif "mixer" in fields and "pattern" not in fields:
        fields["pattern"] = hf_layers.recurrent_pattern(raw)
    windows = _windows(fields, letters)
    changes = hf_layers.changes(raw, layers) if isinstance(layers, int) and 0 < layers <= 1 << 10 else []
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
    if (sparse := hf_layers.sparse_layers(raw, min(layers, MAX_LAYERS))) and fields.get("experts"):
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
    for sizes in own[len(own) - shared :] if shared else ():
        wide = 2 if raw.get("use_double_wide_mlp") else 1
        sizes |= {"reuses_cache": 1, "ffn": wide * sizes.get("ffn", usual)}
    for sizes in own[: len(own) - shared] if shared else ():
        sizes |= {"reuses_cache": 0}


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
    factors: list[Any] = [int(name) if name.isdecimal() else value_at(raw, name) for name in names]
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
        case "grok-1" if raw.get("residual_moe"):
            return {"shared_ffn": raw["intermediate_size"]}
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
            if raw.get("word_embed_proj_dim", raw["hidden_size"]) != raw["hidden_size"]:
                raise ModelSpecError("config.json: an embedding narrower than the model (opt-350m) is not supported")
            return {"positions": raw["max_position_embeddings"] + 2}  # OPT's table starts at 2
    return {}
