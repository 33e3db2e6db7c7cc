"""More models that bench_captures.py tries, of other libraries and architectures than captured_families.py."""

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from examples.corpus import captured_families as families
from examples.corpus.captured_families import Build
from hardware.base import file_access

_NAMES: dict[str, Any] = file_access.table(Path(__file__).with_suffix(".toml"))
_LARGE = ("huge", "giant", "_xl", "so400", "_large_", "gigantic", "enormous")
_PLACE = 4  # every fourth of timm's modules


def _image(size: int = 224) -> Any:
    return torch.zeros(1, 3, size, size)


def _timm() -> dict[str, Build]:
    """The last name of a module, the newest and largest but for those that are huge."""
    import timm

    listed = [timm.list_models(module=module) for module in timm.list_modules()[1::_PLACE]]
    names = [names[-1] for names in listed if len(names) > 1]
    return families._named("timm", [name for name in names if not any(word in name for word in _LARGE)])


def _torchvision() -> dict[str, Build]:
    from torchvision import models

    def segmentation(name: str) -> tuple[Any, Any]:
        return getattr(models.segmentation, name)(weights=None, weights_backbone=None), _image()

    def video(name: str, size: int) -> tuple[Any, Any]:
        return getattr(models.video, name)(weights=None), torch.zeros(1, 3, 16, size, size)

    def flow() -> tuple[Any, Any]:
        return models.optical_flow.raft_small(weights=None), (_image(128), _image(128))

    return {
        **{name: partial(segmentation, name) for name in _NAMES["segmentation"]},
        **{name: partial(video, name, size) for name, size in _NAMES["video"].items()},
        "raft_small": flow,
    }


def _segmentation() -> dict[str, Build]:
    import segmentation_models_pytorch as smp

    def build(model: str, encoder: str) -> tuple[Any, Any]:
        return getattr(smp, model)(encoder, encoder_weights=None), _image(256)

    return {f"{model}-{encoder}": partial(build, model, encoder) for encoder, model in _NAMES["encoders_of"].items()}


def _graph(names: str = "graph") -> dict[str, Build]:
    import torch_geometric.nn

    ring = torch.arange(100)

    def build(name: str, *sizes: Any) -> tuple[Any, Any]:
        edges = torch.stack([ring, (ring + 1) % len(ring)])
        return getattr(torch_geometric.nn, name)(*sizes), {"x": torch.rand(len(ring), 16), "edge_index": edges}

    return {name: partial(build, name, *sizes) for name, sizes in _NAMES[names].items()}


def _monai(names: str = "monai") -> dict[str, Build]:
    import monai.networks.nets

    def build(name: str, sizes: list[Any], named: dict[str, Any]) -> tuple[Any, Any]:
        return getattr(monai.networks.nets, name)(*sizes, **named), torch.zeros(1, 1, 64, 64, 64)

    return {name: partial(build, name, *row) for name, row in _NAMES[names].items()}


def _vit_pytorch(names: str = "vit") -> dict[str, Build]:
    importlib.import_module("vit_pytorch")

    def build(name: str, row: dict[str, Any]) -> tuple[Any, Any]:
        common = _NAMES["vit_shape"] if row.get("is_plain") else {}
        module = importlib.import_module(f"vit_pytorch.{row['module']}")
        config = {
            key: tuple(value) if isinstance(value, list) else value for key, value in row.get("config", {}).items()
        }
        return getattr(module, name)(num_classes=1000, **common, **config), _image(row.get("size", 224))

    return {name: partial(build, name, row) for name, row in _NAMES[names].items()}


def _x_transformers() -> dict[str, Build]:
    import x_transformers

    def build(kind: str, **config: Any) -> tuple[Any, Any]:
        layers = getattr(x_transformers, kind)(dim=256, depth=3, heads=4, **config)
        text = torch.zeros(1, 128, dtype=torch.int64)
        return x_transformers.TransformerWrapper(num_tokens=1000, max_seq_len=256, attn_layers=layers), text

    return {name: partial(build, **row) for name, row in _NAMES["x_transformers"].items()}


def _diffusers() -> dict[str, Build]:
    import diffusers

    def build(name: str, row: dict[str, Any]) -> tuple[Any, Any]:
        inputs = {key: torch.zeros(shape) for key, shape in row["inputs"].items()}
        inputs |= {key: torch.zeros(1, dtype=torch.int64) for key in row.get("whole", ())}
        return getattr(diffusers, name)(**row.get("config", {})), inputs

    return {name: partial(build, name, row) for name, row in _NAMES["diffusers"].items()}


def _features(config: Any, model: Any) -> dict[str, Any]:
    names = ("num_mel_bins", "input_feat_per_channel", "feature_projection_input_dim")
    width = next((getattr(config, name) for name in names if getattr(config, name, None)), 80)
    return {"input_features": torch.zeros(1, 200, width)}


ALL: dict[str, Callable[[], dict[str, Build]]] = {
    "vit_pytorch": _vit_pytorch,
    "x-transformers": _x_transformers,
    "torch_geometric, layers": _graph,
    "monai": _monai,
    "segmentation_models_pytorch, encoders": _segmentation,
    "torchvision, segmentation and video": _torchvision,
    "timm, newest": _timm,
    "diffusers, transformers": _diffusers,
    "transformers, more encoders": partial(families._transformers, _NAMES["encoders"], "AutoModel", families._tokens),
    "transformers, more images": partial(families._transformers, _NAMES["images"], "AutoModel", families._pixels),
    "transformers, more pairs": partial(families._transformers, _NAMES["pairs"], "AutoModel", families._two_texts),
    "transformers, more language": partial(
        families._transformers, _NAMES["language"], "AutoModelForCausalLM", families._tokens
    ),
    "transformers, language of 2026": partial(
        families._transformers, _NAMES["newest_language"], "AutoModelForCausalLM", families._tokens
    ),
    "transformers, images of 2026": partial(
        families._transformers, _NAMES["newest_images"], "AutoModel", families._pixels
    ),
    "transformers, texts of 2026": partial(
        families._transformers, _NAMES["newest_texts"], "AutoModel", families._tokens
    ),
    "timm, further": partial(families._named, "timm", _NAMES["further_timm"]),
    "vit_pytorch, further": partial(_vit_pytorch, "further_vit"),
    "monai, further": partial(_monai, "further_monai"),
    "torch_geometric, further layers": partial(_graph, "further_graph"),
    "transformers, further language": partial(
        families._transformers, _NAMES["further_language"], "AutoModel", families._tokens
    ),
    "transformers, further images": partial(
        families._transformers, _NAMES["further_images"], "AutoModel", families._pixels
    ),
    "transformers, sound of 2026": partial(families._transformers, _NAMES["newest_sound"], "AutoModel", _features),
}
