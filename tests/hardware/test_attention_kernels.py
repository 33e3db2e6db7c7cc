"""One table of attention kernels serves estimates and measured operators."""

from __future__ import annotations

from itertools import product

import pytest

from hardware import file_access
from hardware.device_catalog import load_device
from hardware.kernels import attention_kernels as attention
from hardware.runtime import runtimes
from hardware.setup import make_setup
from tests.sampling import for_each

TABLE = file_access.shipped(attention._TABLE)
ENGINES = sorted({runtime.kernels_of for runtime in runtimes().values()} - {""})


def test_each_constant_exists_and_each_engine_has_a_default() -> None:
    known = set(load_device("h100_sxm").arch.data.assumptions) | {"parts", "rate"}
    for rule in TABLE["attention"]:
        for changes in (rule.get("runtime", {}), rule.get("runtime_of_single", {})):
            assert set(changes.get("attention", {})) <= known, rule["source"]
            assert set(changes) <= {"attention", "asynchronous", "dispatch"}
    assert set(TABLE["default"]) == set(ENGINES)


@for_each(("engine", "generation"), list(product(ENGINES, ("hopper", "blackwell", "ampere"))))
def test_a_default_is_a_kernel_of_a_rule(engine: str, generation: str) -> None:
    for operator in ("attention_decode", "attention_prefill"):
        cells = {"engine": engine, "generation": generation, "operator": operator, "cache_format": "bf16"}
        assert attention.attention_rule({**cells, "kernel": TABLE["default"][engine][generation]})


@pytest.mark.parametrize(
    ("device", "runtime", "step", "prompt"),
    [
        ("h100_sxm", "vllm", {"instruction_rows": 64}, {}),
        ("gb200", "vllm", {}, {"attention_rows": 256, "decoding_blocks": 1, "rate": 0.8}),
        ("a100_sxm4_80gb", "vllm", {"instruction_rows": 64, "rate": 0.5}, {}),
        ("h100_sxm", "tensorrt_llm", {"attention_start_cycles": 12000, "parts": 16}, {"attention_rows": 256}),
        ("h100_sxm", "tensorrt_llm_2024", {}, {}),
        ("mi300x", "vllm_rocm", {}, {}),
    ],
)
def test_an_estimate_has_the_kernel_of_its_engine(
    device: str, runtime: str, step: dict[str, float], prompt: dict[str, float]
) -> None:
    setup = make_setup(load_device(device), "bf16", runtimes()[runtime])
    assert setup.attention_kernel(True).constants == step
    assert prompt.items() <= setup.attention_kernel(False).constants.items()
    assert bool(prompt) == bool(setup.attention_kernel(False).constants)
