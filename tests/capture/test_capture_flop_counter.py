"""The count of contractions against PyTorch's own, which takes 2 FLOPs for a multiply-accumulate, for one input."""

from typing import Any

import pytest
from capture_toys import lowered
from ten_models import ten
from torch.utils.flop_counter import FlopCounterMode

from analysis.capture.torch_settings import export_settings, import_torchvision, without_weights
from analysis.capture.torchvision_models import _torchvision, adapt, inputs, patches
from analysis.model import store
from analysis.model.ir.workload import Workload
from analysis.model.names import zoo
from tests.sampling import slow

TEN = ten()
TORCHVISION = [
    "alexnet", "convnext_tiny", "deeplabv3_resnet50", "densenet121", "efficientnet_b0", "efficientnet_v2_s",
    "fasterrcnn_resnet50_fpn", "fcos_resnet50_fpn", "googlenet", "inception_v3", "maxvit_t", "mnasnet1_0",
    "mobilenet_v3_large", "mvit_v1_b", "r3d_18", "raft_small", "regnet_y_400mf", "resnet50", "shufflenet_v2_x1_0",
    "squeezenet1_1", "ssd300_vgg16", "swin_v2_t", "vgg11", "vit_b_16",
]  # fmt: skip
# FLOPs that the counter leaves out: it has no formula for fused attention and LSTMs on the CPU.
LEFT_OUT = {"diffusion": 2 * 2 * 64 * 7 * 8, "lstm": 2 * 5 * 80 * 72}


def compare(workload: Workload, module: Any, given: list[Any], left_out: int = 0) -> None:
    counter = FlopCounterMode(display=False)
    with export_settings(), patches(), counter:
        module(*(value[:1] for value in given))
    assert 2 * (workload.operators.macs @ workload.value_at(batch=1)).sum() == counter.get_total_flops() + left_out


@slow
@pytest.mark.parametrize("name", TORCHVISION)
def test_torchvision_agrees(name: str) -> None:
    info = zoo.table()[name]
    import_torchvision()
    with without_weights():
        module = adapt(_torchvision(info, info.image_size), info).eval().to("meta")
    compare(store.load(name), module, inputs(info, info.image_size)[0])


@slow
@pytest.mark.parametrize("name", TEN)
def test_ten_written_models_agree(name: str) -> None:
    module, given, *_ = TEN[name]
    compare(lowered(module.eval(), *given), module, given, LEFT_OUT.get(name, 0))
