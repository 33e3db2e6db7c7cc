"""`hf:FOLDER_OR_NAME`: a Hugging Face `config.json` read as plain data. No code of the folder is executed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from analysis.model.ir.coverage import ALONE
from analysis.model.model_errors import ModelSpecError
from analysis.model.transformer import hub_files, presets
from analysis.model.transformer.config import MAX_LAYERS, Config
from hardware import file_access
from hardware.names import hint, match_name
from hardware.precision import find, parse

_MAX_BYTES = 4 << 20
_TABLE = file_access.table(Path(__file__).with_suffix(".toml"))
_FORMATS = Path(__file__).with_name("weight_formats.toml")
Raw = dict[str, Any]


def config(where: str) -> Config:
    """Return the configuration of a folder, a `config.json`, or a model in the local hub cache."""
    return parse_config(_read_at(where))


def has_reader(where: str) -> bool:
    """Return True if hf_config.toml supports the architecture of a configuration."""
    return _kind(_read_at(where)) in _TABLE["types"]


def notes(where: str) -> tuple[str, ...]:
    """Return the notes of a configuration: omitted parts, an inferred architecture, formats of the weights."""
    return tuple(_notes(_read_at(where)))


def stored_precision(where: str) -> str:
    """Return the precision in which the weights of a configuration are stored, '' if it is unknown or not supported."""
    raw = _read_at(where)
    stated = raw.get("quantization_config")
    if isinstance(stated, dict):
        return _precision_of(stated) or ""
    known = find(str(raw.get("torch_dtype", raw.get("dtype", ""))).removeprefix("torch."))
    return known.name if known is not None else ""


def parse_config(raw: Raw) -> Config:
    """Return the configuration that a `config.json` describes. Raises a `ModelSpecError`."""
    kind = _kind(raw)
    if kind not in _TABLE["types"]:
        raise ModelSpecError(_unsupported(kind, raw))
    try:
        fields = {name: _value(raw, name, stated) for name, stated in _row(raw, kind).items()}
        fields["notes"] = _notes(raw)
        if "mixer" in fields and "pattern" not in fields:
            fields["pattern"] = _pattern(raw)
        return msgspec.convert(fields, Config)
    except KeyError as error:
        raise ModelSpecError(f"config.json of type {kind!r} has no {error.args[0]}") from None
    except (msgspec.ValidationError, TypeError, ValueError, ArithmeticError, AttributeError) as error:
        if isinstance(error, ModelSpecError):
            raise
        raise ModelSpecError(f"config.json of type {kind!r}: {' '.join(str(error).split())[:160]}") from None


def _kind(raw: Raw) -> str:
    """Return the model_type of a configuration, or the type of its architecture if only that is supported."""
    kind, named = str(raw.get("model_type", "")), raw.get("architectures")
    if kind in _TABLE["types"] or not isinstance(named, list) or not named:
        return kind
    return match_name(str(named[0]).lower().partition("for")[0], _TABLE["types"]) or kind


def _pattern(raw: Raw) -> str:
    """Return the letters of recurrent and attention layers (`Config.pattern`)."""
    keys = ("layer_types", "layers_block_type", "attn_type_list", "hybrid_override_pattern")
    if words := next((raw[key] for key in keys if raw.get(key)), None):
        if unknown := {*map(str, words)} - {*_TABLE["letters"]}:
            raise ModelSpecError(f"config.json: layers of kind {min(unknown)[:40]!r} are not supported")
        return "".join(_TABLE["letters"][str(word)] for word in words)
    layers, every = (
        min(raw["num_hidden_layers"], MAX_LAYERS),
        raw.get("attn_layer_period") or raw.get("full_attention_interval") or 1,
    )
    of_kimi = [layer - 1 for layer in raw.get("linear_attn_config", {}).get("full_attn_layers", ())]
    attends = of_kimi or raw.get("attn_layer_indices") or raw.get("full_attn_idxs")
    attends = attends or range(raw.get("attn_layer_offset", every - 1), layers, every)
    return "".join("a" if layer in attends else "r" for layer in range(layers))


def _unsupported(kind: str, raw: Raw) -> str:
    shown = kind[:40] or "nothing"
    if raw.get("is_encoder_decoder") is True:
        known = "transformers:t5_base, transformers:whisper_base and transformers:whisper_large_v3 are here without it"
        return f"config.json: {shown!r} is an encoder-decoder: install transformers to capture it ({known})"
    right = hint(kind.removesuffix("_text"), _TABLE["types"])
    other = "hf_config.toml lists all that are; others need transformers here, and take no parameters after ':'"
    return f"config.json: model_type {shown!r} is not supported{'; ' * bool(right)}{right} ({other})"


def _read_at(where: str) -> Raw:
    path = hub_files.file(where.strip())
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
    # A model with several parts (vision and text) states the language model's sizes in `text_config`.
    text = raw.get("text_config")
    if not isinstance(text, dict) or "hidden_size" in raw or "n_embd" in raw:
        return raw
    return text | {key: value for key, value in raw.items() if key in (*_TABLE["parts"], "quantization_config")}


def _notes(raw: Raw) -> list[str]:
    parts = [name for key, name in _TABLE["parts"].items() if isinstance(raw.get(key), dict)]
    left_out = [f"{ALONE}: without its {' and its '.join(parts)}"] if parts else []
    kind, stated = _kind(raw), raw.get("model_type")
    by_name = [f"read as {kind}, by the name of its architecture"] if kind != stated and kind in _TABLE["types"] else []
    special = [said for key, said in _TABLE["said"].items() if raw.get(key)]
    return left_out + by_name + special + _weight_notes(raw)


# --- fields -----------------------------------------------------------------------------------------------


def _row(raw: Raw, kind: str) -> Raw:
    """Return the row of a model_type merged over the row that it is `like`. `["", value]` states a constant."""
    row: Raw = (_TABLE["types"].get(kind) or _TABLE["shared"][kind]).copy()
    like, family = row.pop("like", ""), row.pop("family", "")
    constants = (presets.family(family) if family else {}) | _derived_fields(raw, kind)
    return (_row(raw, like) if like else {}) | {name: ["", value] for name, value in constants.items()} | row


def _value(raw: Raw, name: str, stated: Any) -> Any:
    if isinstance(stated, str):
        for key in stated.split("."):
            raw = raw[key]
        return raw
    if not isinstance(stated, list):
        return stated
    keys, default = stated
    if not keys:
        return default
    if keys == "sliding_window" and not raw.get("use_sliding_window", True):
        return default
    value = next((raw[key] for key in keys.split() if raw.get(key) is not None), default)
    value = value[0] if isinstance(value, list) and value else value  # a list has one value per layer
    if name != "activation":
        return bool(value) if isinstance(default, bool) else value
    if (known := _TABLE["activations"]).get(str(value)) is None:
        raise ModelSpecError(f"config.json: activation {str(value)[:40]!r}; supported: {', '.join(known)}")
    return known[str(value)]


def _derived_fields(raw: Raw, kind: str) -> Raw:
    """Return the fields that follow from several keys. Raises a `ModelSpecError` for an unsupported structure."""
    stated = raw.get("moe_layer_freq", 1)  # a list has a number per layer, 0 without experts
    is_mixed = stated != sorted(stated) if isinstance(stated, list) else stated != 1
    if raw.get("mlp_only_layers") or raw.get("decoder_sparse_step", 1) != 1 or is_mixed:
        raise ModelSpecError("config.json: layers with and without experts in turn are not supported")
    match kind:
        case "deepseek" | "ernie4_5_moe" | "afmoe":
            keys = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
            shared = next((raw[key] for key in keys if raw.get(key)), 0)
            return {"shared_ffn": shared and raw["moe_intermediate_size"] * shared}
        case "deepseek_v2":  # a head has a rotated and an unrotated part
            width = raw["qk_nope_head_dim"] + raw["qk_rope_head_dim"]
            return {"head_dim": width, "router_bias": raw.get("topk_method") == "noaux_tc"}
        case "glm" | "glm4_moe" | "qwen3_next" | "stablelm" | "mimo_v2_flash":
            head_dim = raw.get("head_dim") or raw["hidden_size"] // raw["num_attention_heads"]
            rotary = int(float(raw.get("partial_rotary_factor", 0.5)) * head_dim)
            dense = {"dense_layers": stated.count(0)} if isinstance(stated, list) else {}
            is_fp32 = raw.get("mamba_ssm_dtype") == "float32"
            fields = {"rotary": rotary, "state_fp32": is_fp32} | dense
            return fields | ({"qk_norm": "head"} if raw.get("use_qk_norm") else {})
        case "step3_text":  # states which layers have experts; if not, all but the first
            layers, sparse = raw["num_hidden_layers"], raw.get("moe_layers_enum")  # "4,5,6" or [4, 5, 6]
            return {"dense_layers": layers - str(sparse).count(",") - 1 if sparse else 1}
        case "longcat_flash":  # a layer has two attentions and FFNs; experts that do nothing take part in the choice
            idle_share = (raw.get("zero_expert_num") or 0) / raw["n_routed_experts"]
            return {"layers": 2 * raw["num_layers"], "active": max(1, round(raw["moe_topk"] / (1 + idle_share)))}
        case "grok-1" if raw.get("residual_moe"):
            return {"shared_ffn": raw["intermediate_size"]}
        case "jamba":
            hidden, rank = raw["hidden_size"], raw.get("mamba_dt_rank", "auto")
            return {
                "state_heads": raw.get("mamba_expand", 2) * hidden,
                "state_rank": rank if isinstance(rank, int) else -(-hidden // 16),
            }
        case "nemotron_h":  # a layer is one part
            return {
                "pattern": _pattern(raw).upper(),
                "state_fp32": raw.get("mamba_ssm_cache_dtype", "float32") == "float32",
            }
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
        case "hunyuan_v1_moe":
            shared = raw.get("num_shared_expert") or 0
            return {"shared_ffn": raw["intermediate_size"] * (shared[0] if isinstance(shared, list) else shared)}
        case "gpt2" | "gptj" | "codegen":
            return {"ffn": raw.get("n_inner") or 4 * raw["n_embd"]}
        case "bloom":
            return {"ffn": 4 * (raw.get("hidden_size") or raw["n_embed"])}
        case "mpt":
            return {"ffn": raw.get("expansion_ratio", 4) * raw["d_model"]}
        case "falcon":
            kv_heads = int(raw.get("multi_query", True))
            kv_heads = raw.get("num_kv_heads", 8) if raw.get("new_decoder_architecture") else kv_heads
            return {"ffn": raw.get("ffn_hidden_size") or 4 * raw["hidden_size"], "kv_heads": kv_heads}
        case "opt":
            if raw.get("word_embed_proj_dim", raw["hidden_size"]) != raw["hidden_size"]:
                raise ModelSpecError("config.json: an embedding narrower than the model (opt-350m) is not supported")
            return {"positions": raw["max_position_embeddings"] + 2}  # OPT's table starts at 2
        case "gpt_neox" | "phi":
            share = raw.get("rotary_pct" if kind == "gpt_neox" else "partial_rotary_factor")
            share = float(share or (0.25 if kind == "gpt_neox" else 0.5))
            return {"rotary": int(share * (raw["hidden_size"] // raw["num_attention_heads"]))}
    return {}


# --- formats of the weights -------------------------------------------------------------------------------


def _precision_of(stated: Raw) -> str | None:
    """Return the precision of a `quantization_config`, None if it is not supported."""
    key = "{} {} {}".format(*_stored_format(str(stated.get("quant_method", ""))[:40], stated))
    name: str | None = file_access.shipped(_FORMATS)["precisions"].get(key)
    return name


def _weight_notes(raw: Raw) -> list[str]:
    """Return a note with the precision of `quantization_config` and its formats by role, or why it has none."""
    stated = raw.get("quantization_config")
    if not isinstance(stated, dict):
        return [] if stated is None else ["its quantization_config is not a table"]
    method = str(stated.get("quant_method", ""))[:40]
    bits, kind, activations = _stored_format(method, stated)
    name = _precision_of(stated)
    if name is None:
        known = ", ".join(file_access.shipped(_FORMATS)["methods"])
        said = f"{bits} bit {kind}, activations {activations} bit" if bits else f"a method without a reader ({known})"
        return [f"its quantization_config is {method or 'unnamed'}: {said}; no precision matches: choose one"]
    means = parse(name)
    kept = "bf16" if activations == 16 and means.activations == means.weights else means.activations
    other = "" if kept == means.activations else f" (its activations stay {kept})"
    return [
        f"stored by {method} with weights in {means.weights}, activations {means.activations}, cache {means.cache}: "
        f"--precision {name}{other}"
    ]


def _stored_format(method: str, stated: Raw) -> tuple[int, str, int]:
    """Return the bits of weights, their number format and the bits of activations; 0 bits if unknown."""
    if method == "compressed-tensors":
        return _compressed(stated)
    usual = file_access.shipped(_FORMATS)["methods"].get(method)
    if usual is None:
        return 0, "", 0
    if stated.get("load_in_4bit"):
        return 4, str(stated.get("bnb_4bit_quant_type", "fp4"))[:8], 16
    bits = stated.get("bits", stated.get("w_bit", usual.get("bits", 4)))
    return bits if isinstance(bits, int) else 0, usual["kind"], usual["activations"]


def _compressed(stated: Raw) -> tuple[int, str, int]:
    groups = stated.get("config_groups")
    group: Any = next(iter(groups.values()), {}) if isinstance(groups, dict) else {}
    group = group if isinstance(group, dict) else {}
    weights, inputs = group.get("weights"), group.get("input_activations")
    if not isinstance(weights, dict) or not isinstance(weights.get("num_bits"), int):
        return 0, "", 0
    activations = inputs.get("num_bits") if isinstance(inputs, dict) else 16
    kind = "nvfp4" if group.get("format") == "nvfp4-pack-quantized" else str(weights.get("type", "int"))[:8]
    return weights["num_bits"], kind, activations if isinstance(activations, int) else 16
