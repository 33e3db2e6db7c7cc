"""Preparation of torchvision models and building blocks to run here, with random weights and inputs."""

from typing import Any

import torch

from analysis.capture import block_modules, torchvision_models
from analysis.capture.exporter import export as export
from analysis.capture.torch_settings import import_torchvision
from analysis.model.model_errors import CaptureError
from analysis.model.names import zoo
from analysis.model.names.model_ref import ModelRef
from analysis.model.names.model_ref import refer as refer
from hardware.known_architectures import TORCH_HOST

RunnableModel = tuple[Any, tuple[Any, ...]]  # a module in evaluation mode, its inputs


def prepare_model(ref: ModelRef, batch: int, device: str = TORCH_HOST, dtype: Any = torch.float32) -> RunnableModel:
    """Build the module of a model and its inputs on the device. Raises CaptureError for a model that cannot run."""
    torch.manual_seed(0)
    if not isinstance(ref, zoo.Spec) or (not ref.is_captured and ref.name != "gemm"):
        raise CaptureError(f"{ref.label} is not timed here: name models of torchvision or building blocks")
    module, inputs = _prepare_block(ref, batch) if ref.is_block else _prepare_torchvision(ref, batch)
    with torch.no_grad():
        return module.eval().to(device=device, dtype=dtype), tuple(
            each.to(device=device, dtype=dtype) for each in inputs
        )


def _prepare_block(spec: zoo.Spec, batch: int) -> RunnableModel:
    module, shape = block_modules.build(spec.name, dict(spec.parameters))
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.02)
    return module, (torch.rand(batch, *shape),)


def _prepare_torchvision(spec: zoo.Spec, batch: int) -> RunnableModel:
    info = zoo.table()[spec.name]
    if info.family in ("detection", "quantized"):
        raise CaptureError(f"{spec.name} is estimated without what depends on its images: a run of it is another model")
    sized = {"image_size": spec.image_size} if info.name.startswith("vit_") else {}
    module = import_torchvision().models.get_model(info.name, weights=None, **sized)
    inputs, _ = torchvision_models.inputs(info, spec.image_size)
    return module, tuple(torch.rand(batch, *value.shape[1:]) for value in inputs)
