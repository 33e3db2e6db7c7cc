"""Lifetimes of values against eager execution: every tensor's memory, watched from creation to release."""

import weakref
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from analysis.capture.torch_settings import export_settings, without_weights
from analysis.capture.torchvision_models import _torchvision
from analysis.model import store
from analysis.model.ir.workload import ACTIVATION, Workload
from analysis.model.names import zoo

BATCH = 4


class Watch(TorchDispatchMode):
    """Counts the bytes of live storages after every operator."""

    def __init__(self, ignore: list[torch.Tensor]) -> None:
        super().__init__()
        self.ignored = {tensor.untyped_storage()._cdata for tensor in ignore}
        self.holders: dict[int, int] = {}
        self.live = self.peak = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.hold(tensor)
        self.peak = max(self.peak, self.live)
        return result

    def hold(self, tensor: torch.Tensor) -> None:
        storage, size = tensor.untyped_storage()._cdata, tensor.untyped_storage().nbytes()
        if storage in self.ignored:
            return
        self.holders[storage] = self.holders.get(storage, 0) + 1
        self.live += size if self.holders[storage] == 1 else 0
        weakref.finalize(tensor, self.drop, storage, size)

    def drop(self, storage: int, size: int) -> None:
        self.holders[storage] -= 1
        self.live -= size if self.holders[storage] == 0 else 0


def eager_peak(name: str) -> int:
    info = zoo.table()[name]
    with without_weights():
        model = _torchvision(info, info.image_size).eval().to("meta")
    x = torch.empty(BATCH, *info.input, device="meta")
    watch = Watch([*model.parameters(), *model.buffers(), x])
    with export_settings(), watch:
        model(x)
    return watch.peak


def captured_peak(workload: Workload) -> float:
    tensors = workload.tensors
    size = tensors.numel @ workload.value_at(batch=BATCH) * np.where(tensors.fixed_bytes, tensors.fixed_bytes, 4)
    live = np.zeros(workload.n_operators)
    for first in np.flatnonzero(tensors.role == ACTIVATION):
        if tensors.storage[first] == first:
            versions = tensors.storage == first
            last = tensors.live_until[versions].max()
            live[tensors.producer[first] : last + 1] += size[versions].max()
    return float(live.max())


@pytest.mark.parametrize(
    ("name", "tolerance"),
    [
        ("resnet50", 0.001),
        ("mobilenet_v2", 0.001),
        ("vgg16", 0.001),
        ("convnext_tiny", 0.001),
        ("regnet_y_400mf", 0.001),
        ("squeezenet1_0", 0.07),  # the indices of max pooling
        ("densenet121", 0.17),  # a local variable that outlives its last use
    ],
)
def test_peak_of_live_activations(name: str, tolerance: float) -> None:
    assert captured_peak(store.load(name)) == pytest.approx(eager_peak(name), rel=tolerance)
