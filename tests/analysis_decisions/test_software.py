"""A ratio between devices says how much of it is the software that they run with."""

import math

import pytest
from decisions import run

from analysis.explore.attribution import attribute_to_software, explain
from analysis.explore.comparison import insights
from hardware.engines.runtime import LIKE_FOR_LIKE


@pytest.mark.parametrize("runtime", ["auto", "fused"])
def test_usual_software_is_what_one_would_deploy(runtime: str) -> None:
    names = {
        on: run("resnet50", on, execution=runtime).runtime.name
        for on in ("xeon_8490h", "h100_sxm", "tpu_v4", "kpu_t256")
    }
    assert names == {"xeon_8490h": "OpenVINO", "h100_sxm": "TensorRT", "tpu_v4": "XLA", "kpu_t256": "KPU compiler"}
    assert run("llama3_8b:decode", "h100_sxm").runtime.name == "vLLM"
    assert run("llama3_8b:decode", "jetson_agx_orin").runtime.name == "llama.cpp"


@pytest.mark.parametrize("runtime", ["auto", "pytorch_eager"])
def test_software_and_chip_multiply_to_the_ratio(runtime: str) -> None:
    gpu, tpu = run("resnet50", "h100_sxm", execution=runtime), run("resnet50", "tpu_v4", execution=runtime)
    parts = attribute_to_software(gpu, tpu)
    assert parts is not None
    assert math.isclose(parts.software * parts.chip, gpu.latency_s / tpu.latency_s)
    of_gpu, of_tpu = (run("resnet50", on, execution=LIKE_FOR_LIKE).latency_s for on in ("h100_sxm", "tpu_v4"))
    assert math.isclose(parts.chip, of_gpu / of_tpu)
    assert parts.software > 1
    assert (parts.cause == "host dispatch") == (runtime == "pytorch_eager")
    assert any(parts.describe(of_quicker=True) in line for line in insights([gpu, tpu], gpu))
    assert any(parts.describe() in line for line in explain(gpu, tpu, "latency").reasons)


def test_like_for_like_is_the_chip_alone() -> None:
    gpu, tpu = run("resnet50", "h100_sxm", execution=LIKE_FOR_LIKE), run("resnet50", "tpu_v4", execution=LIKE_FOR_LIKE)
    assert attribute_to_software(gpu, tpu) is None
    assert not any("software" in line for line in insights([gpu, tpu], gpu))
