"""Fused or separate: Conv-BN-ReLU, base EDP, the architectural modifier, and what fusing is worth."""

import grid
import numpy as np
import pytest
from grid import EXACT

from analysis.estimate.estimate import Estimate
from analysis.estimate.kernels import structure
from analysis.estimate.peak_memory import peak_memory
from analysis.estimate.tree_figures import TELLING_WORK, tree
from analysis.model.ir.workload import Workload
from hardware.plan import make_plan
from hwexplorer.reports.tree.tree import node
from tests.models import load_once
from tests.sampling import for_each, slow

BATCHES = (1, 64, 512)


@for_each("name", grid.representatives())
def test_two_transfers_fused_six_separate(name: str) -> None:
    for mode, transfers in (("fused", 2), ("eager", 6)):
        for batch in BATCHES:
            root = node(grid.run("conv2d", name, batch, "fp32", mode))
            assert root.boundary_transfers == transfers
            assert root.children[0].boundary_transfers == transfers
            assert [c.type for c in root.children[0].children] == ["conv", "batch_norm", "relu"]
            assert all(c.is_fused == (mode == "fused") for c in root.children[0].children)


def relu_figures(result: Estimate) -> tuple[float, float, float]:
    """Architectural modifier, attributed EDP and fusion benefit of the ReLU of `conv2d`."""
    level = tree(result).operators
    i = result.workload.operators.kind.index("relu")
    return float(level.modifier[i]), float(level.share[i]) * result.edp_js, float(level.fusion_benefit_js[i])


@pytest.mark.parametrize("nth", [18, pytest.param(1, marks=slow)])
def test_relu_pays_when_separate_and_hides_when_fused(nth: int) -> None:
    """Each device in every `nth` of its precisions, of the default devices in all.

    Above 1 wherever arithmetic is cheaper than bytes. A small Arm CPU beside a GPU's memory is no such place:
    with more than a byte per 50 FLOP the convolution is the dear part, fused or not. So it is on an NPU whose one call
    to the host, which the first kernel bears, is more than a tenth of the time, or that reaches less than a tenth of
    its peak."""
    strict = 0
    for turn, on in enumerate(grid.catalogue(modes=False)):
        for i, precision in enumerate(grid.distinct_precisions(on)):
            if (turn + i) % nth and on.id not in grid.DEFAULTS:
                continue
            for batch in BATCHES if on.id in grid.DEFAULTS else (BATCHES[(turn + i) % len(BATCHES)],):
                deployed = grid.run("conv2d", on, batch, precision, "fused")
                eager, fused = (relu_figures(deployed.in_mode(mode)) for mode in grid.MODES)
                what = (on.key, precision, batch)
                # Lanes that unpack weights as a convolution runs may be what it waits for, and a ReLU needs them too:
                # as do those of a CPU that multiplies int8 four times as fast as it does all else.
                plan = make_plan(on, precision)
                if not plan.widths.unpack_weights and (plan.vector == plan.stored or not on.arch.is_host):
                    assert fused[0] < 1.0, what
                assert eager[0] > fused[0], what
                assert eager[1] > fused[1], what
                assert eager[2] == pytest.approx(eager[1] - fused[1], rel=1e-6), what
                is_slow = deployed.utilization < 0.1 or on.dispatch_s > 0.1 * deployed.in_mode("eager").latency_s
                if on.arch.id == "npu" and is_slow:
                    continue
                peak = on.peaks[make_plan(on, precision).convolution]
                if on.memory_bandwidth / peak < 0.02 or on.id in grid.DEFAULTS:
                    strict += 1
                    assert relu_figures(grid.run("conv2d", on, batch, precision, "eager"))[0] > 1.0, what
    assert strict >= 30


@for_each("mode", grid.MODES)
@for_each("name", grid.DEFAULTS)
@for_each("model", ["conv2d", "resnet18", "mobilenet_v2", "transformer_block", "swin_t"])
def test_base_edp_of_operators_sums_to_what_their_subgraph_is_given(model: str, name: str, mode: str) -> None:
    for batch in (1, 64):
        result = grid.run(model, name, batch, "bf16", mode)
        figures = tree(result)
        given = figures.subgraphs.share * result.edp_js
        for s, members in enumerate(result.partition.members):
            base = figures.operators.base_edp_js[list(members)]
            assert base.sum() == pytest.approx(given[s], rel=EXACT, abs=0)
            modifier = figures.operators.modifier[list(members)]
            said = ~np.isnan(modifier)
            attributed = figures.operators.edp_js[list(members)]
            np.testing.assert_allclose((base * modifier)[said], attributed[said], rtol=EXACT)
            little = base < TELLING_WORK / len(members) * given[s]
            assert (little == ~said).all() or given[s] == 0, (
                "no modifier where there is next to no work, and only there"
            )
        assert figures.subgraphs.base_edp_js.sum() == pytest.approx(result.edp_js, rel=EXACT)


def test_base_share_is_the_same_on_every_device_and_in_every_mode() -> None:
    """A property of the model: each operator's part of its subgraph's work."""
    reference = None
    for name in grid.DEFAULTS:
        for mode in grid.MODES:
            result = grid.run("resnet18", name, 8, "bf16", mode)
            figures = tree(result)
            subgraph = result.partition.subgraph
            given = figures.subgraphs.share * result.edp_js
            share = figures.operators.base_edp_js / given[subgraph]
            reference = share if reference is None else reference
            np.testing.assert_allclose(share, reference, rtol=EXACT)


@for_each("name", grid.DEFAULTS)
@for_each("model", ["conv2d", "resnet18", "mobilenet_v2", "attention_head"])
def test_fusion_benefit_is_the_difference_of_both_modes(model: str, name: str) -> None:
    def attributed(result: Estimate) -> grid.Floats:
        energy = result.run.energy_j / result.energy_j
        time = result.run.latency_s / result.latency_s
        return (energy + time) / 2 * (result.energy_j / result.scenario.batch) * result.latency_s

    for batch in (1, 64):
        deployed = grid.run(model, name, batch, "fp16")
        eager, fused = (deployed.in_mode(mode) for mode in grid.MODES)
        expected = attributed(eager) - attributed(fused)
        for result in (eager, fused):
            figures = tree(result)
            scale = eager.edp_js
            np.testing.assert_allclose(figures.operators.fusion_benefit_js, expected, rtol=0, atol=EXACT * scale)
            assert figures.fusion_benefit_js == pytest.approx(eager.edp_js - fused.edp_js, abs=EXACT * scale)
            for s, members in enumerate(result.partition.members):
                total = figures.operators.fusion_benefit_js[list(members)].sum()
                assert figures.subgraphs.fusion_benefit_js[s] == pytest.approx(total, abs=EXACT * scale)


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_partition_does_not_depend_on_device_or_mode(name: str) -> None:
    work = grid.workload("inception_v3")
    ids = {grid.run(work, name, batch, "fp16", mode).partition.id for batch in (1, 8) for mode in grid.MODES}
    assert ids == {grid.run(work, "h100_sxm").partition.id}


@for_each("mode", grid.ALL_MODES)
@for_each("model", [*grid.MODELS, *grid.BLOCKS])
def test_kernels_run_in_an_order_that_exists(model: str, mode: str) -> None:
    """A kernel reads only what earlier kernels wrote: fusion never makes a cycle."""
    result = grid.run(model, "h100_sxm", 1, "fp16", mode)
    ops, tensors, kernel = result.workload.operators, result.workload.tensors, result.demand.kernel
    for i in range(result.workload.n_operators):
        for t in ops.in_tensor[ops.in_ptr[i] : ops.in_ptr[i + 1]]:
            producer = int(tensors.producer[t])
            assert producer < 0 or kernel[producer] <= kernel[i]
            assert producer < i
    heads = np.bincount(kernel, result.demand.head, minlength=result.demand.n_kernels)
    assert (heads == 1).all(), "one head per kernel"


def test_pytorch_on_a_gpu_adds_the_bias_of_a_convolution_in_a_kernel_of_its_own() -> None:
    """cuDNN does not, oneDNN does; it is added in place."""
    gpu, cpu = (grid.run("alexnet", on, 4, "fp32", "pytorch_eager") for on in ("t4", "i7_6700"))
    assert gpu.demand.n_kernels == cpu.demand.n_kernels + 5
    held = [peak_memory(gpu.workload, 4, gpu.plan.widths, how).peak_bytes for how in ("eager", gpu.joins)]
    assert held[0] == held[1]


def test_narrow_values_leave_bandwidth_unused_in_eager_kernels_of_elements_alone() -> None:
    wide, narrow = (grid.run("resnet_block", "t4", 4096, precision, "pytorch_eager") for precision in ("fp32", "fp16"))
    kinds = wide.workload.operators.kind
    for kind, times in (("relu", 0.9), ("batch_norm", 1.0)):
        rates = []
        for found in (wide, narrow):
            flow = found.run.mapping.traffic
            seconds = found.run.mapping.dram_s[0]
            rates.append(((flow.dram_read + flow.dram_write) / np.where(seconds > 0, seconds, 1.0))[kinds.index(kind)])
        assert rates[1] == pytest.approx(times * rates[0]), kind


@pytest.mark.parametrize("runtime", ["tensorrt", "tensorrt_enqueue", "pytorch_eager", "torch_compile"])
def test_fusion_is_judged_by_one_software_on_both_sides(runtime: str) -> None:
    result = grid.run("resnet50", "h100_pcie", 1, "fp32", runtime)
    apart, fused = result.in_mode("eager"), result.in_mode("fused")
    assert {apart.runtime.id, fused.runtime.id} == {runtime}
    assert apart.demand.n_kernels > fused.demand.n_kernels == len(result.partition.id)
    starts_s = (apart.demand.n_kernels - fused.demand.n_kernels) * apart.latency_s / apart.demand.n_kernels
    assert 0 < apart.latency_s - fused.latency_s < 1.5 * starts_s  # kernels saved, not another dispatcher


def test_smooth_activations_leave_products_where_the_runtime_joins_clamps_alone() -> None:
    smooth, clamps = (grid.workload(name) for name in ("efficientnet_b0", "mobilenet_v2"))
    count = sum(kind in ("silu", "sigmoid") for kind in smooth.operators.kind)
    kernels = {mode: structure(smooth, mode).n_kernels for mode in ("fused", "clamped")}
    assert 0 < kernels["clamped"] - kernels["fused"] <= count
    assert structure(clamps, "clamped").n_kernels == structure(clamps, "fused").n_kernels
    runtimes = ("fused", "onnxruntime")
    on_cpu = [grid.run("efficientnet_b0", "xeon_8380", 64, "fp32", mode).latency_s for mode in runtimes]
    assert on_cpu[1] > 1.1 * on_cpu[0]


def test_activations_in_parts_move_their_value_again() -> None:
    """SiLU as a sigmoid and a product writes one value more and reads two more."""
    work = grid.workload("efficientnet_b0")
    one = work.value_at(batch=1)
    eager, split = (structure(work, mode).moves for mode in ("eager", "split"))
    size = [float((moves.numel @ one).sum()) for moves in (eager, split)]
    silu = [t for t in range(len(work.tensors.producer)) if _kind(work, t) == "silu"]
    assert size[1] - size[0] == pytest.approx(3.0 * float((work.tensors.numel[silu] @ one).sum()))


def test_norms_of_python_modules_pass_their_values_again() -> None:
    """LlamaRMSNorm in 16 bits writes seven tensors before its result and reads eight more, rotation four and five."""
    work = load_once("llama3_2_1b")
    one, ops = work.value_at(batch=1), work.operators
    eager, modules = (structure(work, mode).moves for mode in ("eager", "modules"))
    size = [float((moves.numel @ one).sum()) for moves in (eager, modules)]
    passes = [
        15 * (kind == "norm") + 9 * ("rotary" in target) for kind, target in zip(ops.kind, ops.target, strict=True)
    ]
    assert size[1] - size[0] == pytest.approx(float(passes @ (structure(work, "eager").elements @ one)))


def _kind(work: Workload, tensor: int) -> str:
    producer = int(work.tensors.producer[tensor])
    return work.operators.kind[producer] if producer >= 0 else ""
