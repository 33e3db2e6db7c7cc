"""Tests of what a library of kernels moves in an estimate: rows of experts, keys of query heads."""

import msgspec
import numpy as np

from analysis.estimate.kernels import demand
from analysis.model import store
from analysis.serving.deployment import open_step
from hardware.demand import WRITE, OpClass
from hardware.device_catalog import load_device
from hardware.engines.runtime import runtimes
from hardware.execute import execute
from hardware.kernels.library import KernelUse
from hardware.mapping.expert_rows import move_expert_rows, zero_rows_s
from hardware.setup import make_setup

_DECODE = ("attention_decode",)


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


def test_query_heads_decode_in_blocks_of_their_own_if_a_library_does_not_pack_them() -> None:
    """71 heads of Falcon 7B share keys: each has a block of 64 rows of an H100's instructions."""
    step, latency_s = store.ready("falcon_7b:decode,layers=1", None).bound(sequence=1, kv=2048), list[float]()
    for library in ("default", "unpacked"):
        runtime = msgspec.structs.replace(runtimes()["vllm"], uses=(KernelUse(operator=_DECODE, library=library),))
        setup = make_setup(load_device("h100_sxm"), "bf16", runtime)
        latency_s.append(float(execute(demand(step, 64, setup.plan.widths, setup.joins), setup).kernel_s.sum()))
    assert latency_s[1] > 1.04 * latency_s[0]
