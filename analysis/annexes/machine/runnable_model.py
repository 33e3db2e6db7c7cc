"""Models prepared to run here, with weights (random where they have none of their own) and inputs of a batch.

The code of the user's own model runs: only in a subprocess under limits."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_map_only

from analysis.capture import block_modules, failure_text, torchvision_models
from analysis.capture.torch_settings import import_torchvision
from analysis.capture.user_model import build_model, inputs_at, run_with
from analysis.model.model_errors import CaptureError
from analysis.model.names import targets, zoo
from analysis.model.names.model_ref import ModelRef
from hardware.architectures.known_architectures import TORCH_HOST

ModelCall = tuple[Any, tuple[Any, ...], dict[str, Any]]  # a module in evaluation mode, its arguments and keywords


def prepare_model(ref: ModelRef, batch: int, device: str = TORCH_HOST, dtype: Any = torch.float32) -> ModelCall:
    """Build the module of a name and its inputs, on the device. Raises CaptureError for a model that cannot run."""
    torch.manual_seed(0)
    if isinstance(ref, targets.Target):
        module, arguments, keywords = _prepare_own_model(ref, batch)
    elif isinstance(ref, zoo.Spec):
        module, arguments, keywords = _prepare_named_model(ref, batch)
    else:
        raise CaptureError(f"{ref.label} is written from its configuration: there is no module of it to run")

    def place(value: Any) -> Any:
        return value.to(device=device, dtype=dtype if value.is_floating_point() else value.dtype)

    with torch.no_grad():
        return module.eval().to(device=device, dtype=dtype), *tree_map_only(torch.Tensor, place, (arguments, keywords))


def _prepare_named_model(spec: zoo.Spec, batch: int) -> ModelCall:
    if spec.is_block:
        module, shape = block_modules.build(spec.name, dict(spec.parameters))
        for parameter in module.parameters():
            torch.nn.init.normal_(parameter, std=0.02)
        return module, (torch.rand(batch, *shape),), {}
    info = zoo.table()[spec.name]
    if info.family in ("detection", "quantized"):
        raise CaptureError(f"{spec.name} is estimated without what depends on its images: a run of it is another model")
    sized = {"image_size": spec.image_size} if info.name.startswith("vit_") else {}
    module = import_torchvision().models.get_model(info.name, weights=None, **sized)
    inputs, _ = torchvision_models.inputs(info, spec.image_size)
    return module, tuple(torch.rand(batch, *value.shape[1:]) for value in inputs), {}


def _prepare_own_model(target: targets.Target, batch: int) -> ModelCall:
    if not target.runs_code:
        raise CaptureError(f"{target.label} is read as data, not run: name the Python that makes the module")
    file = targets.source(target)
    failure_text.add_user_folder(file.parent)
    module, given = build_model(target, file)
    arguments, keywords = inputs_at(module, target, given, batch)
    run_with(module, arguments, keywords)
    return module, arguments, keywords
