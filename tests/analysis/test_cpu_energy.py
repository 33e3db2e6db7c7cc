"""Energy of CPUs stands in counted events, and its sum is that of real cores."""

from pathlib import Path

import grid
import numpy as np
import pytest

from analysis.estimate.causes import event_rates
from analysis.explore.attribution import explain
from hardware.architectures.cpu import _matrix_instructions
from hardware.device_catalog import load_device
from hardware.event_prices import coefficients
from hardware.plan import make_plan
from tests.sampling import for_each

# W of a core above rest in a large product: half a watt at 1.5 GHz and 28 nm (Raspberry Pi 4 under load, 0.9 of its
# board), 1 to 3 of Arm servers, 5 to 12 of servers with 512 bits, up to 20 at 5 GHz and more.
BOUNDS = {
    "raspberry_pi_4": (0.3, 1.2),
    "raspberry_pi_5": (0.8, 2.2),
    "altra_q80": (0.8, 2.5),
    "graviton3": (0.7, 2.0),
    "epyc_9654": (1.5, 4.0),
    "xeon_8490h": (3.0, 6.0),
    "xeon_w2155": (8.0, 16.0),
    "i9_13900k": (10.0, 20.0),
}


@for_each("name", BOUNDS)
def test_a_core_in_a_product_draws_what_cores_draw(name: str) -> None:
    result = grid.run(grid.toy_gemm(2048, 2048, 2048), name, 1, "fp32_strict", "fused")
    low, high = BOUNDS[name]
    watts = (result.energy_j - result.component_j["static"]) / result.latency_s
    assert low <= watts / result.device.units <= high


def test_scalar_code_at_two_instructions_a_cycle_draws_watts() -> None:
    """1 to 3 W a core at 3 GHz, from 5 nm to 10 nm."""
    for name in ("epyc_9654", "epyc_7763", "xeon_8490h"):
        on = load_device(name)
        price_j = float(coefficients(on, make_plan(on, "fp32")).value @ on.arch.scalar_instruction)
        assert 0.7 <= price_j * 2.0 * 3e9 <= 3.0, name


@for_each("name", ["raspberry_pi_4", "epyc_9654", "xeon_8490h", "i9_13900k"])
def test_prices_of_a_core_are_ordered(name: str) -> None:
    """Ports cost: registers of scalars have more than those of vectors. Farther memories and writes are dearer."""
    on = load_device(name)
    rows = coefficients(on, make_plan(on, "fp32")).rows
    price = {f"{row.category}.{row.event}": row.value_j for row in rows}
    for dear, cheap in (
        ("register.scalar_read", "register.vector_read"),
        ("register.scalar_write", "register.scalar_read"),
        ("register.vector_write", "register.vector_read"),
        ("memory.l2_load", "memory.l1_load"),
        ("memory.l3_load", "memory.l2_load"),
        ("memory.dram_read", "memory.l3_load"),
        ("pipeline.rename_dispatch", "pipeline.decode"),
        ("branch.mispredicted", "branch.predicted"),
        ("pipeline.operator_dispatch", "pipeline.thread_fork_join"),
    ):
        assert price[dear] > price[cheap], (dear, cheap)


def test_a_waiting_core_loops_in_proportion_to_its_clock(tmp_path: Path) -> None:
    """Streams from memory: as many bytes and instructions, and more cycles that wait for them."""
    work = grid.toy_gemm(1, 32768, 32768)
    usual = grid.run(work, "epyc_9654", 1, "fp32_strict", "fused")
    quick = grid.altered(
        tmp_path, "epyc_9654", grid.faster(("clock_hz", "vector_clock_hz", "matrix_clock_hz"), factor=1.2)
    )
    faster = grid.run(work, quick, 1, "fp32_strict", "fused")
    waits, retired = (
        [float(grid.counted(each, name).sum()) for each in (usual, faster)] for name in ("wait_loop", "retire")
    )
    assert 1.05 < waits[1] / waits[0] < 1.21
    assert retired[1] == pytest.approx(retired[0])
    np.testing.assert_array_equal(grid.dram_bytes(usual), grid.dram_bytes(faster))


def test_instructions_follow_from_shapes_and_waiting_stands_apart() -> None:
    """241,088 of AMX, by hand in tiles of 16 x 32 by 32 x 16, with a tile loaded for each, the vectors beside them and
    their loops: 1.8 million, whatever the time. The cycles that they do not take wait."""
    result = grid.run("resnet18", "xeon_8490h", 1)
    issued = grid.counted(result, "retire").sum()
    assert issued == pytest.approx(1.78e6, rel=0.01)
    run, arch = result.run, result.device.arch
    assert _matrix_instructions(result.demand, result.setup, run.mapping.on_matrix).sum() == pytest.approx(241_088)
    cycles, waits = (run.counts[rows].sum() for rows in (arch.timed_rows[0], arch.wait_rows))
    rate = arch.constants.instructions_per_cycle  # type: ignore[attr-defined]
    assert cycles - waits == pytest.approx(issued / rate, rel=0.05)
    assert event_rates(result, np.arange(result.demand.n))["counted_energy_of_work"] == pytest.approx(0.93, abs=0.01)
    reasons = explain(grid.run("resnet18", "h100_sxm"), result, "energy").reasons
    assert "60 cores of" in next(each for each in reasons if "wait" in each)


@pytest.mark.parametrize("name", ["xeon_8490h", "i9_13900k", "raspberry_pi_5"])
def test_cores_retire_no_more_than_they_issue(name: str) -> None:
    for model in ("resnet18", "mobilenet_v2"):
        result = grid.run(model, name, 8)
        cycles, waits = (
            result.run.counts[row] for row in (result.device.arch.timed_rows[0], result.device.arch.wait_rows[0])
        )
        assert (waits >= 0).all()
        assert (waits <= cycles * (1 + 1e-9)).all()
        assert grid.counted(result, "retire").sum() / cycles.sum() <= 6.0
