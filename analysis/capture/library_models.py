"""Build models of libraries by their names there, with random weights and an input of the size the library states."""

import importlib
from collections.abc import Callable
from typing import Any

import torch

from analysis.model.model_errors import CaptureError
from analysis.model.names import zoo
from analysis.model.names.targets import Target
from hardware.base.errors import hint, match_name

_USUAL, _DETECTED = 224, 640  # pixels of a classifier and of a detector, if the library states none


def build(target: Target) -> tuple[Any, Any]:
    """Return the module and an example input. Raises a `CaptureError` for a name that the library lacks."""
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
