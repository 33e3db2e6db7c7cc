"""A ratio between devices says how much of it is the software that they run with."""

import math

import pytest
from decisions import run

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.explore.attribution import attribute_to_software, explain
from analysis.explore.comparison import insights
from hardware.device_catalog import load_device
from hardware.engines.runtime import LIKE_FOR_LIKE
from tests.models import load_once


def asked(on: str, runtime: str) -> Estimate:
    return estimate(load_once("resnet50"), load_device(on), Scenario(1, "fp32", runtime))


@pytest.mark.parametrize("runtime", ["auto", "fused"])
def test_usual_software_is_what_one_would_deploy(runtime: str) -> None:
    names = {on: asked(on, runtime).runtime.name for on in ("xeon_8490h", "h100_sxm", "tpu_v4", "kpu_t256")}
    assert names == {"xeon_8490h": "OpenVINO", "h100_sxm": "TensorRT", "tpu_v4": "XLA", "kpu_t256": "KPU compiler"}
    assert run("llama3_8b:decode", "h100_sxm").runtime.name == "vLLM"
    assert run("llama3_8b:decode", "jetson_agx_orin").runtime.name == "llama.cpp"


@pytest.mark.parametrize("runtime", ["auto", "pytorch_eager"])
def test_software_and_chip_multiply_to_the_ratio(runtime: str) -> None:
    gpu, tpu = asked("h100_sxm", runtime), asked("tpu_v4", runtime)
    parts = attribute_to_software(gpu, tpu)
    assert parts is not None
    assert math.isclose(parts.software * parts.chip, gpu.latency_s / tpu.latency_s)
    assert math.isclose(
        parts.chip, asked("h100_sxm", LIKE_FOR_LIKE).latency_s / asked("tpu_v4", LIKE_FOR_LIKE).latency_s
    )
    assert parts.software > 1
    assert (parts.cause == "host dispatch") == (runtime == "pytorch_eager")
    assert any(parts.describe(of_quicker=True) in line for line in insights([gpu, tpu], gpu))
    assert any(parts.describe() in line for line in explain(gpu, tpu, "latency").reasons)


def test_like_for_like_is_the_chip_alone() -> None:
    gpu, tpu = asked("h100_sxm", LIKE_FOR_LIKE), asked("tpu_v4", LIKE_FOR_LIKE)
    assert attribute_to_software(gpu, tpu) is None
    assert not any("software" in line for line in insights([gpu, tpu], gpu))
