"""`hf:FOLDER_OR_NAME`: a Hugging Face `config.json` read as plain data. Nothing of the folder is ever executed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from analysis.model.ir.coverage import ALONE
from analysis.model.model_errors import ModelSpecError
from analysis.model.transformer import hub_files, presets, weight_formats
from analysis.model.transformer.config import Config
from hardware import file_access, policy
from hardware.names import hint

_MAX_BYTES = 4 << 20
_ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}

# Parts of a model beside its text.
_PARTS = {
    "vision_config": "vision tower",
    "audio_config": "audio encoder",
    "speech_config": "speech encoder",
    "talker_config": "speech decoder",
}

Raw = dict[str, Any]


def config(where: str) -> Config:
    """Return the model of a folder, of a `config.json`, or of the local hub cache."""
    policy.require_unserved(f"reading {where}", where)
    return parse_config(_read(hub_files.file(where.strip())))


def has_reader(where: str) -> bool:
    """Return True if the architecture of a configuration has a reader here."""
    policy.require_unserved(f"reading {where}", where)
    return _read(hub_files.file(where)).get("model_type", "") in _READERS


def notes(where: str) -> tuple[str, ...]:
    """Return the notes of a configuration: parts left out, formats of the weights."""
    raw = _read(hub_files.file(where))
    return (*_left_out(raw), *weight_formats.notes(raw))


def parse_config(raw: Raw) -> Config:
    """Return the model that a `config.json` describes. Raises a `ModelSpecError`."""
    kind = str(raw.get("model_type", ""))
    reader = _READERS.get(kind)
    if reader is None:
        raise ModelSpecError(_unsupported(kind))
    try:
        return msgspec.convert(reader(raw) | {"notes": [*_left_out(raw), *weight_formats.notes(raw)]}, Config)
    except KeyError as error:
        raise ModelSpecError(f"config.json of type {kind!r} has no {error.args[0]}") from None
    except (msgspec.ValidationError, TypeError, ValueError, ZeroDivisionError) as error:
        if isinstance(error, ModelSpecError):
            raise
        raise ModelSpecError(f"config.json of type {kind!r}: {' '.join(str(error).split())[:160]}") from None


def _unsupported(kind: str) -> str:
    shown = kind[:40] or "nothing"
    right = hint(kind, _READERS)
    said = f"; {right}" if right else ""
    other = "others need transformers here, and take no parameters after ':'"
    return (
        f"config.json: model_type {shown!r} is not supported{said} (supported: {', '.join(sorted(_READERS))}; {other})"
    )


def _read(path: Path) -> Raw:
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
    # A model with several parts (vision and text) keeps the language model's sizes apart.
    text = raw.get("text_config")
    if not isinstance(text, dict) or "hidden_size" in raw or "n_embd" in raw:
        return raw
    return text | {key: value for key, value in raw.items() if key in (*_PARTS, "quantization_config")}


def _left_out(raw: Raw) -> list[str]:
    parts = [name for key, name in _PARTS.items() if isinstance(raw.get(key), dict)]
    return [f"{ALONE}: without its {' and its '.join(parts)}"] if parts else []


def _activation(raw: Raw, *keys: str, default: str = "silu") -> str:
    name = next((str(raw[key]) for key in keys if raw.get(key)), default)
    if name not in _ACTIVATIONS:
        raise ModelSpecError(f"config.json: activation {name[:40]!r}; supported: {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]


def _llama(raw: Raw) -> Raw:
    """Read Llama, Mistral, Qwen, and other types with their keys."""
    kind = raw["model_type"]
    bias = bool(raw.get("attention_bias", kind == "qwen2"))
    return {
        "hidden": raw["hidden_size"],
        "layers": raw["num_hidden_layers"],
        "heads": raw["num_attention_heads"],
        "kv_heads": raw.get("num_key_value_heads") or raw["num_attention_heads"],
        "head_dim": raw.get("head_dim") or 0,
        "ffn": raw["intermediate_size"],
        "vocab": raw["vocab_size"],
        "tied": bool(raw.get("tie_word_embeddings", False)),
        "activation": _activation(raw, "hidden_act", "hidden_activation"),
        "qkv_bias": bias,
        "o_bias": bias and kind in ("llama", "mistral"),
        "mlp_bias": bool(raw.get("mlp_bias", False)),
        "window": _window(raw),
        "qk_norm": "head" if kind.startswith("qwen3") else "none",
    }


def _window(raw: Raw) -> int:
    return int(raw.get("sliding_window") or 0) if raw.get("use_sliding_window", True) else 0


def _gemma(raw: Raw) -> Raw:
    activation = _activation(raw, "hidden_activation", default="gelu_pytorch_tanh")
    return _llama(raw) | presets.family("gemma_family") | {"activation": activation}


def _gemma2(raw: Raw) -> Raw:
    return _gemma(raw) | presets.family("gemma2_family") | {"window": _window(raw)}


def _gemma3(raw: Raw) -> Raw:
    pattern = raw.get("sliding_window_pattern") or raw.get("_sliding_window_pattern") or 6
    return _gemma2(raw) | {"qk_norm": "head", "full_every": pattern}


def _gpt_oss(raw: Raw) -> Raw:
    experts = {"expert_ffn": raw["intermediate_size"], "active": raw["num_experts_per_tok"]}
    return presets.family("gpt_oss_family") | {
        **{key: value for key, value in _llama(raw).items() if not key.endswith("_bias")},
        **experts,
        "experts": raw["num_local_experts"],
    }


def _latent(raw: Raw) -> Raw:
    """Read DeepSeek's latent attention: a head is a part that is rotated and one that is not."""
    return _deepseek(raw) | {
        "kv_heads": 0,
        "head_dim": raw["qk_nope_head_dim"] + raw["qk_rope_head_dim"],
        "value_dim": raw["v_head_dim"],
        "rotary": raw["qk_rope_head_dim"],
        "kv_lora": raw["kv_lora_rank"],
        "q_lora": raw.get("q_lora_rank") or 0,
        "router_bias": raw.get("topk_method") == "noaux_tc" or raw["model_type"] == "deepseek_v3",
    }


def _llama4(raw: Raw) -> Raw:
    return _llama(raw) | {
        "ffn": raw["intermediate_size_mlp"],
        "expert_ffn": raw["intermediate_size"],
        "shared_ffn": raw["intermediate_size"],
        "experts": raw["num_local_experts"],
        "active": raw["num_experts_per_tok"],
        "sparse_every": raw.get("interleave_moe_layer_step", 1),
        "window": raw.get("attention_chunk_size") or 0,
        "full_every": 4,
    }


def _starcoder2(raw: Raw) -> Raw:
    return _llama(raw) | presets.family("starcoder2_family") | {"window": _window(raw)}


def _phi3(raw: Raw) -> Raw:
    return _llama(raw) | {"fused_qkv": True}


def _mixtral(raw: Raw) -> Raw:
    return _llama(raw) | {"experts": raw["num_local_experts"], "active": raw["num_experts_per_tok"]}


def _qwen3_moe(raw: Raw) -> Raw:
    if raw.get("mlp_only_layers") or raw.get("decoder_sparse_step", 1) != 1:
        raise ModelSpecError("config.json: layers with and without experts in turn are not supported")
    return _llama(raw) | {
        "experts": raw["num_experts"],
        "active": raw["num_experts_per_tok"],
        "expert_ffn": raw["moe_intermediate_size"],
    }


def _olmoe(raw: Raw) -> Raw:
    experts = {"experts": raw["num_experts"], "active": raw["num_experts_per_tok"]}
    return _llama(raw) | experts | {"qk_norm": "full"}


def _deepseek(raw: Raw) -> Raw:
    if raw.get("moe_layer_freq", 1) != 1:
        raise ModelSpecError("config.json: layers with and without experts in turn are not supported")
    return _llama(raw) | {
        "experts": raw["n_routed_experts"],
        "active": raw["num_experts_per_tok"],
        "expert_ffn": raw["moe_intermediate_size"],
        "shared_ffn": raw["moe_intermediate_size"] * (raw.get("n_shared_experts") or 0),
        "dense_layers": raw.get("first_k_dense_replace", 0),
    }


def _gpt2(raw: Raw) -> Raw:
    return presets.family("gpt2_family") | {
        "hidden": raw["n_embd"],
        "layers": raw["n_layer"],
        "heads": raw["n_head"],
        "ffn": raw.get("n_inner") or 4 * raw["n_embd"],
        "vocab": raw["vocab_size"],
        "positions": raw.get("n_positions", 1024),
        "tied": bool(raw.get("tie_word_embeddings", True)),
        "activation": _activation(raw, "activation_function", default="gelu_new"),
    }


def _opt(raw: Raw) -> Raw:
    if raw.get("word_embed_proj_dim", raw["hidden_size"]) != raw["hidden_size"]:
        raise ModelSpecError("config.json: an embedding narrower than the model (opt-350m) is not supported")
    return presets.family("opt_family") | {
        "hidden": raw["hidden_size"],
        "layers": raw["num_hidden_layers"],
        "heads": raw["num_attention_heads"],
        "ffn": raw["ffn_dim"],
        "vocab": raw["vocab_size"],
        "positions": raw["max_position_embeddings"] + 2,  # OPT's table starts at 2
        "tied": bool(raw.get("tie_word_embeddings", True)),
        "activation": _activation(raw, "activation_function", default="relu"),
    }


def _plain(raw: Raw) -> Raw:
    """Return the keys that GPT-NeoX, Phi and BERT share."""
    return {
        "hidden": raw["hidden_size"],
        "layers": raw["num_hidden_layers"],
        "heads": raw["num_attention_heads"],
        "ffn": raw["intermediate_size"],
        "vocab": raw["vocab_size"],
        "activation": _activation(raw, "hidden_act", default="gelu"),
    }


def _rotated(raw: Raw, *keys: str, default: float) -> int:
    share = next((float(raw[key]) for key in keys if raw.get(key)), default)
    return int(share * (raw["hidden_size"] // raw["num_attention_heads"]))


def _neox(raw: Raw) -> Raw:
    rotary = {"rotary": _rotated(raw, "rotary_pct", default=0.25), "tied": bool(raw.get("tie_word_embeddings", False))}
    parallel = {"parallel": bool(raw.get("use_parallel_residual", True))}
    return presets.family("pythia_family") | _plain(raw) | rotary | parallel


def _phi(raw: Raw) -> Raw:
    heads = {"kv_heads": raw.get("num_key_value_heads") or 0}
    rotary = {"rotary": _rotated(raw, "partial_rotary_factor", default=0.5)}
    return presets.family("phi_family") | _plain(raw) | heads | rotary


def _bert(raw: Raw) -> Raw:
    tables = {"positions": raw["max_position_embeddings"], "token_types": raw.get("type_vocab_size", 2)}
    return presets.family("bert_family") | _plain(raw) | tables


_READERS: dict[str, Callable[[Raw], Raw]] = {
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3"), _llama),
    "gemma": _gemma,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "gpt_oss": _gpt_oss,
    **dict.fromkeys(("deepseek_v2", "deepseek_v3"), _latent),
    "llama4_text": _llama4,
    "starcoder2": _starcoder2,
    "phi3": _phi3,
    "mixtral": _mixtral,
    "qwen3_moe": _qwen3_moe,
    "olmoe": _olmoe,
    "deepseek": _deepseek,
    "gpt2": _gpt2,
    "opt": _opt,
    "gpt_neox": _neox,
    "phi": _phi,
    **dict.fromkeys(("bert", "roberta"), _bert),
}
