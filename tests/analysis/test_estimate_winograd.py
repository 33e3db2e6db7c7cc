"""Winograd's F(4 x 4, 3 x 3): where a GPU library would use it, what it saves, and that nothing else changes."""

from itertools import pairwise

import grid
import msgspec
import numpy as np
import pytest

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.estimate.tree_figures import tree
from analysis.wording import operator_reason
from hardware.execute import execute
from tests.sampling import for_each

OLD_CARDS = ("v100_pcie_32gb", "t4", "quadro_rtx_5000")


def run(model: str, name: str, batch: int = 32, precision: str = "fp32", execution: str = "eager") -> Estimate:
    return estimate(grid.workload(model), grid.device(name), Scenario(batch, precision, execution))


def eligible(result: Estimate) -> list[str]:
    return [p for p, tiles in zip(result.partition.operator_id, result.demand.patches, strict=True) if tiles]


def test_eligible_convolutions_of_vgg_are_its_thirteen() -> None:
    result = run("vgg16", "v100_pcie_32gb")
    kinds = result.workload.operators.kind
    assert len(eligible(result)) == 13 == kinds.count("conv")
    # 224 x 224 results in 56 x 56 patches per image.
    assert result.demand.patches[0] == 32 * 56 * 56


def test_strides_windows_and_groups_are_told_apart() -> None:
    resnet = run("resnet18", "v100_pcie_32gb")
    # 16 of 3 x 3, of which 3 have stride 2; the stem is 7 x 7 at stride 2, the shortcuts are 1 x 1.
    assert len(eligible(resnet)) == 13
    assert not eligible(run("resnext50_32x4d", "v100_pcie_32gb")), "grouped convolutions are none of its products"
    assert not eligible(run("mobilenet_v2", "v100_pcie_32gb")), "nor depthwise ones"


@pytest.mark.parametrize("name", OLD_CARDS)
def test_a_quarter_of_the_multiplications_and_never_slower(name: str) -> None:
    result = run("vgg16", name)
    used = result.run.mapping.is_reduced
    assert used.sum() >= 10
    assert not used[0], "three input channels do not pay for the transforms"
    events = [event.name for event in result.events]
    macs = result.run.counts[events.index("cuda_core_mac")]
    ratio = macs[used] / result.demand.macs[used]
    assert (ratio >= 0.25 - 1e-12).all()
    assert (ratio <= 0.36).all(), "patches of 4 x 4 waste little of 14 x 14 results"
    unpatched = msgspec.structs.replace(result.demand, patches=np.zeros_like(result.demand.patches))
    direct = execute(unpatched, result.setup)
    assert (result.run.unthrottled_s <= direct.unthrottled_s * 1.1).all()
    assert result.latency_s < 0.8 * float(direct.kernel_s.sum())
    assert result.energy_j < float(direct.energy_j.sum())


@pytest.mark.parametrize(
    ("name", "precision"),
    [
        ("v100_pcie_32gb", "fp16"),
        ("h100_sxm", "fp32"),
        ("a100_pcie_40gb", "tf32"),
        ("t4", "int8"),
        ("i9_10940x", "fp32"),
    ],
)
def test_tensor_cores_and_cpus_multiply_as_they_are_told(name: str, precision: str) -> None:
    assert not run("vgg16", name, precision=precision).run.mapping.is_reduced.any()


@for_each("name", OLD_CARDS)
@for_each("execution", ["eager", "compiled", "fused"])
@for_each("model", ["vgg16", "resnet18"])
def test_a_larger_batch_is_never_faster(name: str, execution: str, model: str) -> None:
    latencies = [run(model, name, batch, execution=execution).latency_s for batch in (1, 2, 3, 5, 8, 13, 32, 100, 256)]
    assert all(a <= b * (1 + 1e-9) for a, b in pairwise(latencies)), latencies


@pytest.mark.parametrize(
    ("model", "precision", "execution"), [("resnet18", "iq3_skv8", "compiled"), ("conv2d", "w4a16", "tensorrt_enqueue")]
)
def test_packed_weights_are_not_transformed(model: str, precision: str, execution: str) -> None:
    runs = [run(model, "p40", batch, precision, execution) for batch in (16, 17)]
    assert not any(each.run.mapping.is_reduced.any() for each in runs)
    assert runs[0].latency_s < runs[1].latency_s


def test_the_reason_says_so() -> None:
    result = run("vgg16", "v100_pcie_32gb")
    reasons = [operator_reason(tree(result), int(i)) for i in np.flatnonzero(result.run.mapping.is_reduced)]
    assert reasons
    assert all("Winograd" in reason for reason in reasons)
