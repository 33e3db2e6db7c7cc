"""Models of timm, ultralytics, diffusers, transformers and torchvision by the names they have there, with random
weights and an input of the size that the library itself uses."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch

from analysis.workload import aliases, targets, zoo
from analysis.workload.errors import CaptureError
from analysis.workload.targets import Target
from hardware.names import hint, known

from . import configured, mlperf

_USUAL, _DETECTED = 224, 640  # pixels, where a library does not say


def has(target: Target) -> bool:
    """Whether a target is a library's model rather than a module's factory."""
    return target.is_configuration or target.path.removesuffix(".models") in aliases.libraries()


def build(target: Target) -> tuple[Any, Any]:
    """The module and an example input. Raises a `CaptureError` for a name the library lacks."""
    if target.is_configuration:
        return configured.build(targets.source(target))
    name = target.path.removesuffix(".models")
    return _BUILDERS[name](mlperf if name == "mlperf" else importlib.import_module(name), target.factory)


def _image(size: int) -> tuple[Any]:
    return (torch.zeros(1, 3, size, size),)


def _chosen(library: str, name: str, names: list[str]) -> str:
    meant = known(name, names)
    if meant is None:
        raise CaptureError(f"{library} has no model {name!r}; {hint(name, names)}".removesuffix("; "))
    return meant


def _timm(library: Any, name: str) -> tuple[Any, Any]:
    base, dot, weights = name.partition(".")
    model = library.create_model(_chosen("timm", base, library.list_models()) + dot + weights)
    return model, (torch.zeros(1, *model.pretrained_cfg.get("input_size", (3, _USUAL, _USUAL))),)


def _torchvision(library: Any, name: str) -> tuple[Any, Any]:
    name = _chosen("torchvision", name, library.models.list_models())
    info = zoo.table().get(name)
    return library.models.get_model(name, weights=None), _image((info and info.image_size) or _USUAL)


def _ultralytics(library: Any, name: str) -> tuple[Any, Any]:
    try:
        model = library.YOLO(f"{name.removesuffix('.pt').removesuffix('.yaml')}.yaml").model
    except FileNotFoundError:
        raise CaptureError(f"ultralytics has no model {name!r}") from None
    return model, _image(_USUAL if "cls" in name else _DETECTED)


def _published(library: Any, name: str) -> tuple[Any, Any]:
    """A model of the table: made from its configuration."""
    kept = library.__name__.rpartition(".")[2]
    models = zoo.libraries()[kept]
    row = models[_chosen(kept, name, list(models))]
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
    "mlperf": _published,
}
