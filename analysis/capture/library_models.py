"""Build models of libraries by their names there, with random weights and an input of the size the library states."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from analysis.model.model_errors import CaptureError
from analysis.model.names import targets, zoo
from analysis.model.names.targets import Target
from hardware.base.errors import hint, match_name

_USUAL, _DETECTED = 224, 640  # pixels of a classifier and of a detector, if the library states none


def build(target: Target) -> tuple[Any, Any]:
    """Return the module and an example input. Raises a `CaptureError` for a name that the library lacks."""
    if target.is_configuration:
        return _configured(targets.source(target))
    return _BUILDERS[target.path](importlib.import_module(target.path), target.factory)


def _image(size: int) -> tuple[Any]:
    return (torch.zeros(1, 3, size, size),)


def _find_name(library: str, name: str, names: list[str]) -> str:
    meant = match_name(name, names)
    if meant is None:
        raise CaptureError(f"{library} has no model {name!r}; {hint(name, names)}".removesuffix("; "))
    return meant


def _timm(library: Any, name: str) -> tuple[Any, Any]:
    base, dot, weights = name.partition(".")
    model = library.create_model(_find_name("timm", base, library.list_models()) + dot + weights)
    return model, (torch.zeros(1, *model.pretrained_cfg.get("input_size", (3, _USUAL, _USUAL))),)


def _torchvision(library: Any, name: str) -> tuple[Any, Any]:
    name = _find_name("torchvision", name, library.models.list_models())
    info = zoo.table().get(name)
    return library.models.get_model(name, weights=None), _image((info and info.image_size) or _USUAL)


def _ultralytics(library: Any, name: str) -> tuple[Any, Any]:
    try:
        model = library.YOLO(f"{name.removesuffix('.pt').removesuffix('.yaml')}.yaml").model
    except FileNotFoundError:
        raise CaptureError(f"ultralytics has no model {name!r}") from None
    # As the library predicts and exports: without batch norms, branches and heads that only training needs.
    return model.fuse(verbose=False), _image(_USUAL if "cls" in name else _DETECTED)


def _published(library: Any, name: str) -> tuple[Any, Any]:
    """Return a model of libraries.toml, built from its configuration."""
    kept = library.__name__.rpartition(".")[2]
    models = zoo.libraries()[kept]
    row = models[_find_name(kept, name, list(models))]
    kind = getattr(library, row["class"])
    config = row["config"]
    model = kind._from_config(kind.config_class(**config)) if hasattr(kind, "config_class") else kind(**config)
    return model, {key: _zeros(key, shape) for key, shape in row["inputs"].items()}


def _zeros(name: str, shape: Any) -> Any:
    if isinstance(shape, dict):
        return {key: _zeros(key, inner) for key, inner in shape.items()}
    return torch.zeros(shape, dtype=torch.int64 if name.endswith("_ids") and name != "time_ids" else torch.float32)


_BUILDERS: dict[str, Callable[[Any, str], tuple[Any, Any]]] = {
    "timm": _timm,
    "torchvision": _torchvision,
    "ultralytics": _ultralytics,
    "diffusers": _published,
    "transformers": _published,
}


_TOKENS, _ANSWER = 128, 64  # tokens of an input, and of an unfinished answer
_PIXELS, _SAMPLES = 224, 16_000  # if a configuration states none; samples of one second of sound


def _configured(file: Path) -> tuple[Any, Any]:
    """Return the model of a Hugging Face configuration, or only its language model if it has several parts. It is
    built by transformers: no code of the folder is executed and nothing is downloaded."""
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
    """Return example inputs by name. Raises a CaptureError if the shape of the main input is unknown."""
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


_SHAPES = {
    "input_ids": lambda config: (1, _TOKENS),
    "pixel_values": _pixels,
    "input_values": lambda config: (
        (1, config.max_length, config.num_mel_bins) if getattr(config, "num_mel_bins", None) else (1, _SAMPLES)
    ),
    "input_features": lambda config: (1, config.num_mel_bins, 2 * config.max_source_positions),
}
