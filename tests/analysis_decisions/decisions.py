"""What the tests of the decisions share: workloads, devices, and the command line."""

from functools import cache

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from hardware import known_architectures
from hardware.device import Device
from hardware.device_catalog import load_device
from tests.command import hwexplorer as hwexplorer
from tests.models import load_once as workload

MODELS = (
    "resnet18", "resnet50", "mobilenet_v2", "vit_b_16", "swin_t", "efficientnet_b0", "densenet121", "inception_v3",
    "squeezenet1_1", "convnext_tiny",
)  # fmt: skip
DEFAULTS = tuple(known_architectures.classes()[name] for name in ("cpu", "gpu", "tpu", "kpu"))


@cache
def device(name: str) -> Device:
    return load_device(name)


@cache
def run(model: str, on: str, batch: int = 1, precision: str = "fp32", execution: str = "auto") -> Estimate:
    return estimate(workload(model), device(on), Scenario(batch, precision, execution))
