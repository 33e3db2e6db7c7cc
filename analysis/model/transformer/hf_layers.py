"""Read how the layers of a Hugging Face configuration differ: their kind, window, experts and sizes."""

from pathlib import Path
from typing import Any

from analysis.model.model_errors import ModelSpecError
from analysis.model.transformer.config import MAX_LAYERS
from hardware.base import file_access

TABLE = file_access.table(Path(__file__).with_name("hf_config.toml"))
_DENSE = ("dense", "mlp", 0, False)
_EXPERTS = ("moe", "E")  # parts of layers of Nemotron
_LETTER_OF_BLOCK = {(True, True): "a", (True, False): "A", (False, True): "M", (False, False): "n"}  # attention, FFN
_BLOCK_STEP = 256  # widths of the FFNs of Nemotron-NAS are multiples of it
Raw = dict[str, Any]


def letters(raw: Raw) -> str:
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
    layers, every = (
        min(raw["num_hidden_layers"], MAX_LAYERS),
        raw.get("attn_layer_period") or raw.get("full_attention_interval") or 1,
    )
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


def changes(raw: Raw, layers: int) -> list[Raw]:
    """Return the values that each layer has instead of those of the whole configuration, by key."""
    lists = {key: raw[key] for key in TABLE["layers"]["sizes"] if isinstance(raw.get(key), list)}
    own = [{key: values[layer % len(values)] for key, values in lists.items() if values} for layer in range(layers)]
    for change, block in zip(own, _blocks(raw), strict=False):
        change |= _block_sizes(raw, block)
    for layer, row in (raw.get("per_layer_config") or {}).items():
        own[int(layer)] |= row
    for key, by_word in TABLE["layers"]["words"].items():
        for change, word in zip(own, value_at(raw, key) or (), strict=False):
            change |= by_word.get(str(word), {})
    for key, change in TABLE["layers"]["first"].items():
        for layer_change in own[: raw.get(key) or 0]:
            layer_change |= change
    return own


def value_at(raw: Any, path: str) -> Any:
    """Return the value at a dotted path, None if it is missing."""
    for key in path.split("."):
        raw = raw.get(key) if isinstance(raw, dict) else None
    return raw
