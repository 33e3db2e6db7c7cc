"""Memory: liveness by hand, bounds that hold for any allocator, and what savings are made of."""

import numpy as np
import pytest
import reports_grid as grid

from analysis.estimate.estimate import Estimate
from analysis.estimate.peak_memory import block_channels, workspace
from analysis.model.ir.workload import BUFFER, WEIGHT
from hardware.precision import FORMATS
from hwexplorer.reports.show.memory import memory_report
from tests.sampling import for_each

# a is held from the start to the end; c and d are large. x is the input, held to the end.
HELD = [
    ("a", "copy", ("x",), 10),
    ("b", "copy", ("a",), 1),
    ("c", "copy", ("b",), 100),
    ("d", "copy", ("c",), 1),
    ("e", "cat", ("d", "a"), 11),
]


def largest_live_set(result: Estimate) -> tuple[float, float]:
    """Bytes by stepping through the kernels: the most that operands and results of one need at once, and the sum of
    all values that ever leave a kernel."""
    asked, tensors = result.demand, result.workload.tensors
    from analysis.estimate.kernels import structure
    from analysis.estimate.peak_memory import storage_roots

    s = structure(result.workload, result.joins).moves
    size = (tensors.numel @ result.workload.value_at(batch=result.scenario.batch)) * np.where(
        tensors.fixed_bytes > 0, tensors.fixed_bytes, result.plan.element_bytes
    )
    root = storage_roots(tensors.storage)
    live: dict[int, dict[int, float]] = {}
    for t, k in zip(s.tensor.tolist(), s.kernel.tolist(), strict=True):
        if tensors.role[t] not in (WEIGHT, BUFFER):
            held = live.setdefault(k, {})
            held[root[t]] = max(held.get(root[t], 0.0), float(size[t]))
    assert len(live) <= asked.n_kernels
    return max(sum(held.values()) for held in live.values()), float(size.sum())


@for_each(("model", "device", "batch", "execution"), grid.CASES)
def test_bounds(model: str, device: str, batch: int, execution: str) -> None:
    result = grid.run(model, device, batch, execution)
    held = result.memory
    at_once, everything = largest_live_set(result)
    block = block_channels(result.device, result.execution)
    scratch = workspace(result.workload, batch, result.plan.element_bytes, block or 16.0)
    assert held.peak_bytes == pytest.approx(
        held.weight_bytes + held.activation_peak_bytes + held.workspace_peak_bytes, rel=1e-12
    )
    assert held.peak_bytes - held.weight_bytes == pytest.approx(float((held.timeline + held.workspace).max()))
    assert held.peak_bytes - held.weight_bytes >= at_once * (1 - 1e-12)
    assert held.peak_bytes <= (everything + float(scratch.max())) * (1 + 1e-12)
    if not block:
        assert not held.workspace.any()
    else:
        np.testing.assert_array_equal(held.workspace, scratch)


@for_each(("model", "device", "batch", "execution"), grid.CASES[::4])
def test_report(model: str, device: str, batch: int, execution: str) -> None:
    result = grid.run(model, device, batch, execution)
    found = memory_report(result)
    assert found.peak_bytes == result.memory.peak_bytes
    assert max(m.total_bytes for m in found.timeline) == pytest.approx(found.peak_bytes)
    assert len(found.timeline) == result.demand.n_kernels
    assert sum(v.bytes for v in found.live) == pytest.approx(found.activation_bytes)
    assert sum(v.fraction for v in found.live) == pytest.approx(1.0)
    assert [v.bytes for v in found.live] == sorted((v.bytes for v in found.live), reverse=True)
    assert found.fits == (found.peak_bytes <= found.device_bytes)
    assert found.levels[-1].peak_fits == found.fits
    for near, far in zip(found.levels, found.levels[1:], strict=False):
        if near.capacity_bytes <= far.capacity_bytes:
            assert near.kernels_that_fit <= far.kernels_that_fit


def test_savings_of_formats_and_of_recomputation() -> None:
    result = grid.run("resnet18", "gpu", 1, "auto", "fp32")
    found = memory_report(result)
    assert {saving.change for saving in found.savings} == {"fp16", "bf16", "fp8", "int8", "int4"}
    for saving in found.savings:
        assert saving.saved_bytes == found.peak_bytes - saving.peak_bytes > 0
        assert saving.energy_ratio == pytest.approx(saving.energy_j / result.energy_j)
    assert "recompute=blocks" in {saving.change for saving in memory_report(grid.run("resnet18:train", "gpu")).savings}


def test_liveness_by_hand() -> None:
    result = grid.run_toy(HELD, batch=3)
    unit = 3 * 4.0
    assert (result.memory.timeline / unit).tolist() == [11, 12, 112, 112, 23]
    assert result.memory.peak_bytes == 112 * unit
    found = memory_report(result)
    assert [v.name for v in found.live] == ["c", "a", "x", "b"]


def test_workspace_by_hand() -> None:
    """resnet18 on a CPU: conv1 reads the image as it is, so only its output is reordered; max pooling keeps int64."""
    result = grid.run("resnet18", "cpu", 4, "eager")
    by_path = dict(zip(result.workload.operators.path, result.memory.workspace.tolist(), strict=True))
    assert by_path["conv1"] == 4 * 64 * 112 * 112 * 4
    assert by_path["maxpool"] == 4 * 64 * 56 * 56 * 8
    assert by_path["layer1.0.conv1"] == (4 * 64 * 56 * 56 + 64 * 64 * 9) * 4
    narrow = grid.run("shufflenet_v2_x1_0", "cpu", 1, "eager")
    first = narrow.workload.operators.path.index("conv1.0")
    assert narrow.memory.workspace[first] == 32 * 112 * 112 * 4, "24 channels take two blocks of 16"
    assert by_path["bn1"] == by_path["fc"] == 0
    assert grid.run("resnet18", "gpu", 4, "eager").memory.workspace_peak_bytes == 0
    assert "oneDNN" in memory_report(result).workspace_rule
    assert memory_report(grid.run("resnet18", "gpu", 4)).workspace_rule == ""


@for_each("precision", ["fp32", "int4", "w4a16kv8", "nvfp4"])
@for_each("model", ["resnet18", "mobilenet_v2", "llama3_8b:decode,layers=2,kv=300", "gpt_oss_20b:decode,kv=300"])
@for_each("on", ["xeon_8490h", "h100_sxm"])
@for_each("mode", ["eager", "fused"])
def test_the_peak_is_the_sum_of_its_roles(model: str, on: str, precision: str, mode: str) -> None:
    report = memory_report(grid.run(model, on, 3, mode, precision))
    assert sum(held.bytes for held in report.roles) == pytest.approx(report.peak_bytes, rel=1e-12)
    by_role = {held.role: held for held in report.roles}
    parameters = ("weights", "other parameters", "buffers")
    assert sum(by_role[name].bytes for name in parameters if name in by_role) == pytest.approx(report.weight_bytes)
    assert by_role["weights"].bits == pytest.approx(8 * FORMATS[by_role["weights"].format].bytes)
    assert ("key-value cache" in by_role) == (":decode" in model)
