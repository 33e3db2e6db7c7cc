"""Capture torchvision models, with inputs and forward passes that can be exported."""

import types
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch

from analysis.capture.exporter import export
from analysis.capture.torch_settings import import_torchvision, without_weights
from analysis.model.ir.workload import Workload
from analysis.model.lowering.graph_lowering import lower_graph
from analysis.model.names import zoo
from analysis.model.reading_budget import Progress

_META = "meta"
_kept: list[Any] = []


def capture(spec: zoo.Spec, progress: Progress = lambda phase, fraction: None) -> Workload:
    """Return the workload of a torchvision model."""
    progress("build", 0.35)
    with without_weights():
        info = zoo.table()[zoo.architecture(spec.name)]
        module = adapt(_torchvision(info, spec.image_size), info)
        examples, names = inputs(info, spec.image_size)
    progress("export", 0.45)
    with patches():
        graph = replace(export(module, examples, names), notes=zoo.notes(spec.name))
    progress("lower", 0.95)
    return lower_graph(graph, str(spec), spec.family, "torchvision", spec.image_size)


def _torchvision(info: zoo.ModelInfo, size: int | None) -> Any:
    """Return the model as its default weights configure it, or as the constructor does at another image size."""
    models = import_torchvision().models
    if size != info.image_size and info.name.startswith("vit_"):
        return models.get_model(info.name, weights=None, image_size=size)
    if size != info.image_size and info.name.startswith("maxvit"):
        return models.get_model(info.name, weights=None, input_size=(size, size))
    if size != info.image_size and info.name.startswith("mvit"):
        return _mvit(models, info.name, size)
    return models.get_model(info.name, weights="DEFAULT")


def _mvit(models: Any, name: str, size: int | None) -> Any:
    """Return an MViT at an image size. Its public constructors fix the size, so their builder is patched."""
    from torchvision.models.video import mvit

    make_mvit = mvit._mvit
    sized = {"spatial_size": (size, size)}
    with patch.object(mvit, "_mvit", lambda *args, **kwargs: make_mvit(*args, **{**kwargs, **sized})):
        return models.get_model(name, weights=None)


def inputs(info: zoo.ModelInfo, size: int | None) -> tuple[list[Any], list[str]]:
    """Return example inputs with batch 2, and their names."""
    image = torch.empty(2, *zoo.input_shape(info.name, size), device=_META)
    if info.family == "optical_flow":
        return [image, torch.empty_like(image)], ["image1", "image2"]
    proposals = zoo.PROPOSALS.get(info.name)
    if proposals is None:
        return [image], ["x"]
    named = {"rois": proposals.boxes, "mask_rois": proposals.masks, "keypoint_rois": proposals.keypoints}
    extra = {name: torch.empty(2, count, 5, device=_META) for name, count in named.items() if count}
    return [image, *extra.values()], ["images", *extra]


def adapt(model: Any, info: zoo.ModelInfo) -> Any:
    """Return the model with the part of its forward pass that has static shapes. Module names stay."""
    if info.family == "detection":
        if info.name in zoo.PROPOSALS:
            model.forward = types.MethodType(_two_stage, model)
        else:
            model.forward = lambda images: model.head(list(_levels(model, images).values()))
    return model


def _levels(model: Any, images: Any) -> dict[str, Any]:
    features = model.backbone(images)
    return {"0": features} if isinstance(features, torch.Tensor) else features


def _two_stage(model: Any, images: Any, rois: Any, more: Any = None) -> Any:
    """Run backbone and heads on given boxes: the steps between them (box decoding, top-k, NMS) depend on the data."""
    features = _levels(model, images)
    heads = model.roi_heads
    results = [model.rpn.head(list(features.values()))]
    results.append(heads.box_predictor(heads.box_head(_pool(heads.box_roi_pool, features, rois))))
    if heads.has_mask() and more is not None:
        pooled = _pool(heads.mask_roi_pool, features, more)
        results.append(heads.mask_predictor(heads.mask_head(pooled)))
    if heads.has_keypoint() and more is not None:
        pooled = _pool(heads.keypoint_roi_pool, features, more)
        results.append(heads.keypoint_predictor(heads.keypoint_head(pooled)))
    return results


def _pool(pool: Any, features: dict[str, Any], rois: Any) -> Any:
    """Apply RoI align with the boxes spread evenly over the pyramid's levels (the real spread depends on the data)."""
    levels = [features[name] for name in pool.featmap_names if name in features]
    counts = [rois.shape[1] // len(levels) + (i < rois.shape[1] % len(levels)) for i in range(len(levels))]
    parts, start = [], 0
    for level, count in zip(levels, counts, strict=True):
        if count:
            boxes = rois[:, start : start + count].reshape(-1, 5)
            parts.append(roi_align()(level, boxes, *pool.output_size, pool.sampling_ratio))
            start += count
    return torch.cat(parts)


def roi_align() -> Any:
    """Return an operator with the shape rule of torchvision's `roi_align`, which may fail to load."""
    if not _kept:
        library = torch.library.Library("hwexplorer", "FRAGMENT")
        library.define("roi_align(Tensor input, Tensor rois, int height, int width, int samples) -> Tensor")

        def _fake(input: Any, rois: Any, height: int, width: int, samples: int) -> Any:
            return input.new_empty(rois.shape[0], input.shape[1], height, width)

        library.impl("roi_align", _fake, "Meta")
        _kept.append(library)
    return torch.ops.hwexplorer.roi_align.default


@contextmanager
def patches() -> Iterator[None]:
    """Replace `chunk` of a symbolic size by `narrow`, which does not ask whether the parts are equal (RAFT)."""
    original = torch.chunk

    def _chunk(tensor: Any, chunks: int, dim: int = 0) -> Any:
        size = tensor.shape[dim]
        if not isinstance(size, torch.SymInt):
            return original(tensor, chunks, dim)
        part = size // chunks
        return tuple(tensor.narrow(dim, index * part, part) for index in range(chunks))

    with patch.object(torch, "chunk", _chunk):
        yield
