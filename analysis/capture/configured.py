"""Models that a configuration of Hugging Face names, built by transformers itself: random weights, its own code alone,
nothing of the folder runs and nothing is downloaded."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import torch

from analysis.workload.errors import CaptureError

_TOKENS, _ANSWER = 128, 64  # that go in, and of an answer that is being written
_PIXELS, _SAMPLES = 224, 16_000  # where a configuration does not say; a second of sound


def build(file: Path) -> tuple[Any, Any]:
    """The module and an example input: of a model of several parts the language model alone."""
    transformers: Any = importlib.import_module("transformers")

    try:
        config = transformers.AutoConfig.from_pretrained(str(file), trust_remote_code=False, local_files_only=True)
    except (ValueError, KeyError):
        raise CaptureError(
            f"transformers {transformers.__version__} does not know it without code of its folder, which is not run: "
            "name that code, as net.py:make"
        ) from None
    text = getattr(config, "text_config", config)
    named = getattr(transformers, next(iter(config.architectures or ()), ""), None)
    if text is not config:
        model = transformers.AutoModelForCausalLM.from_config(text)
    else:
        model = named._from_config(config) if named is not None else transformers.AutoModel.from_config(config)
    return model, _inputs(model, text)


def _inputs(model: Any, config: Any) -> dict[str, Any]:
    """By the name of what goes in first."""
    first = model.main_input_name
    shape = _SHAPES.get(first, lambda config: None)(config)
    if shape is None:
        raise CaptureError(f"{type(model).__name__} takes {first}: give its shape, as --input {first}=1x128")
    given = {first: torch.zeros(shape, dtype=torch.int64 if first == "input_ids" else torch.float32)}
    if getattr(config, "is_encoder_decoder", False):
        given["decoder_input_ids"] = torch.zeros(1, _ANSWER, dtype=torch.int64)
    return given


def _pixels(config: Any) -> tuple[int, ...]:
    size = getattr(config, "image_size", None) or _PIXELS
    return (1, getattr(config, "num_channels", 3), *(size if isinstance(size, (list, tuple)) else (size, size)))


def _sound(config: Any) -> tuple[int, ...]:
    bins = getattr(config, "num_mel_bins", None)
    return (1, config.max_length, bins) if bins else (1, _SAMPLES)


_SHAPES = {
    "input_ids": lambda config: (1, _TOKENS),
    "pixel_values": _pixels,
    "input_values": _sound,
    "input_features": lambda config: (1, config.num_mel_bins, 2 * config.max_source_positions),
}
