"""Tests of the rows of experts that a library of kernels moves, in an estimate."""

import msgspec
import numpy as np

from analysis.estimate.kernels import demand
from analysis.serving.deployment import open_step
from hardware.demand import WRITE, OpClass
from hardware.device_catalog import load_device
from hardware.engines.runtime import runtimes
from hardware.kernels.library import KernelUse
from hardware.mapping.expert_rows import move_expert_rows, zero_rows_s
from hardware.setup import make_setup


def test_rows_of_experts_are_copied_padded_and_added_up_as_their_library_does() -> None:
    step = open_step("mixtral_8x7b:sequence=64,tp=8,ep=8")
    moved, zeros_s = {}, {}
    for library in ("trtllm_gen", "cutlass", "deepgemm", "triton"):
        runtime = msgspec.structs.replace(runtimes()["vllm"], uses=(KernelUse(operator=("moe",), library=library),))
        setup = make_setup(load_device("h100_sxm"), "bf16", runtime)
        whole = demand(step, 1, setup.plan.widths, setup.joins)
        after = move_expert_rows(whole, setup)
        gathers = np.flatnonzero(whole.is_expert & (whole.op_class == OpClass.GATHER))[:2]
        moved[library] = [after.moved_bytes[role][op] for op, role in zip(gathers, (WRITE, 0), strict=True)]
        zeros_s[library] = zero_rows_s(whole, setup, 1.0).sum()
    copied, added = ({name: values[i] for name, values in moved.items()} for i in range(2))
    assert 0.0 == copied["trtllm_gen"] == copied["triton"] < copied["cutlass"] < copied["deepgemm"]
    assert added["cutlass"] < added["trtllm_gen"] < added["triton"]
    assert zeros_s["triton"] > 0.0 == zeros_s["cutlass"]
