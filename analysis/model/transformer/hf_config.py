"""`hf:FOLDER_OR_NAME`: a Hugging Face `config.json` read as plain data. No code of the folder is executed."""

from __future__ import annotations

import json

import msgspec

from analysis.model.ir.coverage import ALONE
from analysis.model.model_errors import ModelSpecError
from analysis.model.transformer import hf_nearest, hub_files
from analysis.model.transformer.config import Config
from analysis.model.transformer.hf_fields import config_fields
from analysis.model.transformer.hf_layers import TABLE as _TABLE
from analysis.model.transformer.hf_layers import Raw
from analysis.model.transformer.hf_weights import precision_of, weight_notes
from hardware import file_access
from hardware.names import hint, match_name
from hardware.precision import find

_MAX_BYTES = 4 << 20


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
        return precision_of(stated) or ""
    known = find(str(raw.get("torch_dtype", raw.get("dtype", ""))).removeprefix("torch."))
    return known.name if known is not None else ""


def parse_config(raw: Raw) -> Config:
    """Return the configuration that a `config.json` describes. Raises a `ModelSpecError`."""
    stated = _kind(raw)
    kind = stated if stated in _TABLE["types"] else hf_nearest.nearest_kind(raw, stated)
    if not kind:
        raise ModelSpecError(_unsupported(stated, raw))
    try:
        notes = _notes(raw) if kind == stated else [hf_nearest.note(stated, kind), *_notes(raw)]
        return msgspec.convert(config_fields(raw, kind) | {"notes": notes}, Config)
    except KeyError as error:
        raise ModelSpecError(f"config.json of type {kind!r} has no {error.args[0]}") from None
    except (msgspec.ValidationError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError) as error:
        if isinstance(error, ModelSpecError):
            raise
        raise ModelSpecError(f"config.json of type {kind!r}: {' '.join(str(error).split())[:160]}") from None


def _kind(raw: Raw) -> str:
    """Return the model_type of a configuration, or the type of its architecture if only that is supported."""
    kind, named = str(raw.get("model_type", "")), raw.get("architectures")
    if kind in _TABLE["types"] or not isinstance(named, list) or not named:
        return kind
    return match_name(str(named[0]).lower().partition("for")[0], _TABLE["types"]) or kind


def _unsupported(kind: str, raw: Raw) -> str:
    shown = kind[:40] or "nothing"
    if raw.get("is_encoder_decoder") is True:
        known = "transformers:t5_base, transformers:whisper_base and transformers:whisper_large_v3 are here without it"
        return f"config.json: {shown!r} is an encoder-decoder: install transformers to capture it ({known})"
    nearest, unread = hf_nearest.nearest_unread(raw, kind)
    if unread:
        names = ", ".join(unread[:4]) + (", .." if len(unread) > 4 else "")
        right = f"the nearest, {nearest}, has no {names}"
    else:
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
    return left_out + by_name + special + weight_notes(raw)
