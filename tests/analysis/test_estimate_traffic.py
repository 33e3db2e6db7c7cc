"""DRAM bytes of toys by hand from shapes: what enters, what leaves, and what the last on-chip level keeps."""

import grid
import numpy as np
import pytest

from analysis.estimate.estimate import Estimate
from hardware.demand import READ_WEIGHT
from hardware.engines.runtime import format_rule
from hardware.mapping.common import usable_last_level_bytes
from tests.sampling import for_each

# conv2d: x (64, 56, 56) -> conv -> bn -> relu, all of one size; 36,864 weights, 4 x 64 of the normalisation.
ACTIVATION, FILTER, NORM = 64 * 56 * 56, 64 * 64 * 9, 4 * 64


def capacity(result: Estimate) -> float:
    return usable_last_level_bytes(result.device)


def room(result: Estimate, weights: float) -> float:
    """What is left for activations: a compiler may keep small weights in the scratchpad that it manages for good."""
    most = capacity(result) * result.device.arch.constants.pinned_share
    pinned = keeps_weights(result) and result.device.arch.is_managed and weights <= most
    return capacity(result) - (weights if pinned else 0.0)


def keeps_weights(result: Estimate) -> bool:
    """Whether weights that fit are still on chip at the next inference: in caches, and where a compiler says so."""
    return result.runtime.resident or not result.device.arch.is_managed


def reordered(result: Estimate, read: float, written: float, weights: float) -> float:
    """CPU libraries rearrange operands of a convolution into their own layout: what is read of that again at most."""
    if result.device.architecture != "cpu":
        return 0.0
    return result.device.arch.constants.reorder_passes * (read + written + weights)


def boundary_transfers(result: Estimate) -> int:
    return int((result.demand.transfers.role != READ_WEIGHT).sum())


@for_each("precision", ["fp32", "int8"])
@for_each("name", grid.DEFAULTS)
def test_conv_bn_relu_fused(name: str, precision: str) -> None:
    """One kernel: the input is read, the output written, nothing else leaves the chip."""
    for batch in (1, 64, 512, 4096):
        result = grid.run("conv2d", name, batch, precision, "fused")
        width = result.plan.element_bytes
        tensor = batch * ACTIVATION * width
        assert result.demand.n_kernels == 1
        assert boundary_transfers(result) == 2
        assert grid.counted(result, "dram_write").sum() == tensor
        reads = grid.counted(result, "dram_read").sum()
        weights = (FILTER + NORM) * width
        # Between two inferences only this kernel runs, so a cache still holds the weights.
        assert weights < capacity(result)
        entering = tensor if keeps_weights(result) else tensor + weights
        assert entering <= reads <= entering + reordered(result, tensor, tensor, weights)


@pytest.mark.parametrize("precision", ["fp32", "int8"])
@pytest.mark.parametrize("name", grid.KEEPING)
def test_conv_bn_relu_eager(name: str, precision: str) -> None:
    """Three kernels, six transfers of one tensor; what exceeds the last level goes to DRAM."""
    for batch in (1, 64, 512, 4096):
        result = grid.run("conv2d", name, batch, precision, "eager")
        if result.part:  # its parts stay on chip: test_waves.py
            continue
        width = result.plan.element_bytes
        assert width == (4 if precision == "fp32" else 2 if result.device.arch.id == "gpu" else 1)
        tensor = batch * ACTIVATION * width
        assert result.demand.n_kernels == 3
        assert boundary_transfers(result) == 6
        # The input comes from memory and the output goes there; the two values between are written and read,
        # and each passes through the chip as far as it fits.
        weights = (FILTER + NORM) * width
        beyond = max(tensor - room(result, weights), 0.0)
        assert grid.counted(result, "dram_write").sum() == pytest.approx(tensor + 2 * beyond, rel=1e-12)
        reads = grid.counted(result, "dram_read").sum()
        assert tensor + 2 * beyond <= reads * (1 + 1e-12)
        assert reads <= (tensor + 2 * beyond + weights + reordered(result, tensor, beyond, weights)) * (1 + 1e-12)
        if tensor > 20 * capacity(result):  # from DRAM once the tensors exceed the last cache
            assert grid.dram_bytes(result).sum() > 0.9 * 6 * tensor


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_small_product_moves_each_operand_once(name: str) -> None:
    m, n, k = 256, 512, 128
    for precision in ("fp32", "int8"):
        result = grid.run(grid.toy_gemm(m, n, k), name, 1, precision)
        width = result.plan.element_bytes
        is_wide = format_rule(result.device, result.runtime.formats, result.plan.stored, "residual") is not None
        activation = 2.0 if is_wide and width < 2 else width  # TensorRT's int8 keeps 16 bits around products
        assert grid.counted(result, "dram_write").sum() == m * n * activation
        weights = 0.0 if keeps_weights(result) else k * n * width  # they stayed since the last inference
        assert grid.counted(result, "dram_read").sum() == m * k * activation + weights


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_product_larger_than_the_chip(name: str) -> None:
    """At least every operand once; at most what blocking for the last level must read."""
    m = n = k = 16384
    result = grid.run(grid.toy_gemm(m, n, k), name, 1, "fp32")
    width = result.plan.element_bytes
    size = m * n * width
    reads = grid.counted(result, "dram_read").sum()
    assert grid.counted(result, "dram_write").sum() == size
    assert reads >= 2 * size - capacity(result)
    # The known lower bound of any schedule (Hong and Kung): 2 M N K / sqrt(capacity in elements) words.
    words = 2.0 * m * n * k / np.sqrt(result.device.last_level_bytes / width)
    assert reads >= 0.3 * min(words * width, 2 * size)
    assert reads <= 2 * size * (1 + 2 * size / capacity(result))


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_weight_heavy_layer_at_batch_1_is_bound_by_its_weights(name: str) -> None:
    """VGG-16's first linear layer: 411 MB of fp32 weights for one row, more than any cache here."""
    result = grid.run("vgg16", name, 1, "fp32")
    work = result.workload
    layer = work.operators.path.index("classifier.0")
    packing = result.device.values.get("weight_packing", 1.0)
    weights = 25088 * 4096 * result.plan.element_bytes * packing
    moved = grid.dram_bytes(result)[layer]
    assert weights <= moved <= weights * 1.01
    kernel = int(result.demand.kernel[layer])
    if name != "kpu_t256":  # 9 TFLOP/s of fp32 on 256 GB/s still balance at 36 FLOP per byte
        assert result.run.bound[kernel] == 1
    assert result.run.kernel_s[kernel] >= weights / result.device.memory_bandwidth


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_weights_amortise_over_the_batch(name: str) -> None:
    """DRAM bytes per inference fall with the batch while the weights dominate."""
    per_inference = [grid.dram_bytes(grid.run("vgg16", name, b, "fp32", "fused")).sum() / b for b in (1, 2, 4, 8)]
    assert per_inference == sorted(per_inference, reverse=True)
    assert per_inference[-1] < per_inference[0] / 3


@pytest.mark.parametrize(("model", "streamed_mib"), [("resnet50", 18.43), ("googlenet", 0.0), ("mobilenet_v2", 0.0)])
def test_the_edge_tpu_streams_what_activations_leave_no_room_for(model: str, streamed_mib: float) -> None:
    """The compiler's own log of ResNet-50: 6.25 MiB of parameters stay, 18.43 MiB are streamed in each call."""
    result = grid.run(model, "coral_edge_tpu", 1, "int8", "auto")
    assert result.run.mapping.traffic.weight_read.sum() / 2**20 == pytest.approx(streamed_mib, rel=0.05)
