"""Capture of torchvision models and building blocks: build without weights, export, lower."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch

from analysis.capture import block_modules, torchvision_inputs
from analysis.capture.exporter import export
from analysis.capture.torch_settings import import_torchvision, without_weights
from analysis.model.ir.workload import Workload
from analysis.model.lowering.graph_lowering import lower_graph
from analysis.model.names import zoo
from analysis.model.reading_budget import Progress


def capture(spec: zoo.Spec, progress: Progress = lambda phase, fraction: None) -> Workload:
    """Return the workload of a torchvision model or building block."""
    progress("build", 0.35)
    with without_weights():
        if spec.is_block:
            module, shape = block_modules.build(spec.name, dict(spec.parameters))
            inputs, names = [torch.empty(2, *shape, device="meta")], ["a" if spec.name == "gemm" else "x"]
        else:
            info = zoo.table()[zoo.architecture(spec.name)]
            module = torchvision_inputs.adapt(_torchvision(info, spec.image_size), info)
            inputs, names = torchvision_inputs.inputs(info, spec.image_size)
    progress("export", 0.45)
    with torchvision_inputs.patches():
        graph = export(module, inputs, names)
    if spec.is_block:
        graph = replace(graph, versions={"torch": graph.versions["torch"]})
    else:
        graph = replace(graph, notes=zoo.notes(spec.name))
    progress("lower", 0.95)
    origin = "building block" if spec.is_block else "torchvision"
    return lower_graph(graph, str(spec), spec.family, origin, spec.image_size)


def _torchvision(info: zoo.ModelInfo, size: int | None) -> Any:
    """Return the model as its default weights configure it, or as the constructor does if they would fix another image
    size."""
    models = import_torchvision().models
    if size != info.image_size and info.name.startswith("vit_"):
        return models.get_model(info.name, weights=None, image_size=size)
    if size != info.image_size and info.name.startswith("maxvit"):
        return models.get_model(info.name, weights=None, input_size=(size, size))
    if size != info.image_size and info.name.startswith("mvit"):
        return _mvit(models, info.name, size)
    return models.get_model(info.name, weights="DEFAULT")


def _mvit(models: Any, name: str, size: int | None) -> Any:
    """Return a model at an image size that the public constructors of this family would fix."""
    from torchvision.models.video import mvit

    build = mvit._mvit
    sized = {"spatial_size": (size, size)}
    with patch.object(mvit, "_mvit", lambda *args, **kwargs: build(*args, **{**kwargs, **sized})):
        return models.get_model(name, weights=None)
