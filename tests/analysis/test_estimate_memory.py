"""Peak memory against bounds that hold for any allocator, and against liveness recomputed step by step."""

import grid
import numpy as np
import pytest

from analysis.estimate.figures import describe_deviations
from analysis.estimate.kernels import structure
from analysis.estimate.peak_memory import lifetimes, peak_memory, storage_roots
from analysis.model.ir.workload import BUFFER, WEIGHT, Workload
from hardware.precision import uniform
from tests.sampling import for_each

ALL = (*grid.MODELS, *grid.BLOCKS)


def sizes(work: Workload, batch: int, width: float) -> grid.Floats:
    """Bytes of every tensor."""
    tensors = work.tensors
    counted: grid.Floats = (tensors.numel @ work.value_at(batch=batch)) * np.where(
        tensors.fixed_bytes > 0, tensors.fixed_bytes, width
    )
    return counted


def operand_peak(work: Workload, batch: int, width: float) -> float:
    """The most that one operator's activations, inputs and results, take at once; in place counts once."""
    size, ops, tensors = sizes(work, batch, width), work.operators, work.tensors
    constant = np.isin(tensors.role, (WEIGHT, BUFFER))
    most = 0.0
    for i in range(work.n_operators):
        touched = {
            *ops.in_tensor[ops.in_ptr[i] : ops.in_ptr[i + 1]],
            *ops.out_tensor[ops.out_ptr[i] : ops.out_ptr[i + 1]],
        }
        storages: dict[int, float] = {}
        for t in touched:
            if not constant[t]:
                base = int(tensors.storage[t])
                storages[base] = max(storages.get(base, 0.0), size[t])
        if "bias" not in work.operators.kind[i : i + 2]:  # added in the kernel of its product, without a value between
            most = max(most, sum(storages.values()))
    return most


@for_each("model", ALL)
def test_bounds(model: str) -> None:
    work = grid.workload(model)
    for width in (4.0, 1.0):
        before = dict.fromkeys(grid.ALL_MODES, 0.0)
        for batch in (1, 2, 8, 64, 512):
            size = sizes(work, batch, width)
            constant = np.isin(work.tensors.role, (WEIGHT, BUFFER))
            eager, compiled, fused = by_mode = [
                peak_memory(work, batch, uniform(width), mode) for mode in grid.ALL_MODES
            ]
            for mode, held in zip(grid.ALL_MODES, by_mode, strict=True):
                assert held.weight_bytes == pytest.approx(size[constant].sum())
                assert held.peak_bytes == held.weight_bytes + held.activation_peak_bytes
                assert held.peak_bytes <= size.sum() * (1 + 1e-12)
                assert (held.timeline >= 0).all()
                assert held.activation_peak_bytes == held.timeline.max()
                assert held.peak_bytes >= before[mode], "a larger batch never needs less"
                before[mode] = held.peak_bytes
            assert fused.peak_bytes <= compiled.peak_bytes * (1 + 1e-12)
            assert compiled.peak_bytes <= eager.peak_bytes * (1 + 1e-12)
            assert eager.activation_peak_bytes >= operand_peak(work, batch, width) * (1 - 1e-12)
            inputs = size[work.tensors.role == 1].sum()
            outputs = size[work.tensors.is_output].sum()
            assert fused.activation_peak_bytes >= max(inputs, outputs) * (1 - 1e-12)


def test_toy_by_hand() -> None:
    """conv2d: at most two of the three values are alive (the ReLU works on a copy); fused: input and output."""
    tensor = 64 * 56 * 56 * 4.0
    work = grid.workload("conv2d")
    for batch in (1, 16):
        eager, fused = (peak_memory(work, batch, uniform(4.0), mode) for mode in grid.MODES)
        assert fused.activation_peak_bytes == 2 * tensor * batch
        # Three where the caller's input must be kept beside a result and its successor.
        assert eager.activation_peak_bytes in (2 * tensor * batch, 3 * tensor * batch)
        assert eager.weight_bytes == fused.weight_bytes == (64 * 64 * 9 + 4 * 64) * 4.0


@pytest.mark.parametrize(("model", "megabytes"), [("resnet50", 102.5), ("vgg16", 553.4), ("mobilenet_v2", 14.0)])
def test_weights_of_known_models(model: str, megabytes: float) -> None:
    """fp32 parameters times four: 25.6, 138.4 and 3.5 million (torchvision), buffers of the normalisation beside."""
    held = peak_memory(grid.workload(model), 1, uniform(4.0), "eager").weight_bytes / 1e6
    assert held == pytest.approx(megabytes, rel=0.015)


def test_what_does_not_fit_says_so() -> None:
    small = grid.run("vit_b_16", "tpu_v4", 4096, "fp32", "eager")
    assert small.memory.peak_bytes > 0
    huge = grid.run("densenet121", "tpu_v4", 4096, "fp32", "eager")
    assert huge.fits == (huge.memory.peak_bytes <= huge.device.memory_bytes)
    for result in (small, huge):
        assert result.fits != any("does not fit" in mark for mark in describe_deviations(result))
    assert not grid.run("convnext_tiny", "tpu_v4", 4096, "fp32", "eager").fits, "19 GB per residual at batch 4096"


@for_each("model", ["resnet18", "mvit_v2_s", "swin_v2_t", "llama3_8b:decode,layers=2,kv=300"])
def test_an_allocation_is_as_large_as_its_largest_value(model: str) -> None:
    work = grid.workload(model)
    size = work.tensors.numel @ work.value_at(**dict.fromkeys(work.dims, 2))
    root = np.array(storage_roots(work.tensors.storage))
    for mode in ("eager", "fused"):
        lives, leaves = lifetimes(work, mode), np.unique(structure(work, mode).moves.tensor)
        largest = np.zeros(len(size))
        np.maximum.at(largest, root[leaves], size[leaves])
        np.testing.assert_array_equal(size[lives.tensor], largest[root[lives.tensor]])
