"""Formulas of the core computed once more by hand: each of these lines could change unseen by the tests of its room."""

import math

import msgspec
import numpy as np
import pytest

from hardware.area import PATH, area
from hardware.base import file_access
from hardware.base.errors import hint
from hardware.demand import OpClass
from hardware.device_catalog import load_device
from hardware.engines.runtime import runtimes
from hardware.map_demand import map_demand
from hardware.mapping.common import BLOCKS, PASSES, TileChoices, fastest_tiles, reread
from hardware.precision import uniform
from hardware.setup import make_setup
from lab.single_kernels import SingleKernel, kernel_demand


def test_the_dies_of_a_wafer_cover_less_than_the_wafer() -> None:
    """The edge cuts dies: fewer fit than its area has room for, all the fewer the larger they are."""
    wafer = file_access.shipped(PATH)["wafer"]
    room_mm2 = math.pi * (file_access.shipped(PATH)["rules"]["wafer_mm"]["value"] / 2) ** 2
    used = []
    for name in ("tpu_v1", "tpu_v4"):
        device = load_device(f"{name}{{process_nm=7}}")
        die = area(device)
        dies = wafer["usd"][wafer["nodes"].index(7)] / (die.cost_usd * die.yield_share)
        used.append(dies * die.total_mm2 / room_mm2)
    assert 0.5 < used[1] < used[0] < 1.0


@pytest.mark.parametrize(
    ("name", "technology"), [("h200_sxm", "HBM3E"), ("tpu_v5p", "HBM2E"), ("v100_sxm2_16gb", "HBM")]
)
def test_the_phy_is_that_of_the_longest_name_that_fits(name: str, technology: str) -> None:
    device, rates = load_device(name), file_access.shipped(PATH)["phy_mm2_per_gb_s"]
    assert area(device).phy_mm2 == pytest.approx(device.memory_bandwidth / 1e9 * rates[technology])


def test_a_changed_fact_keeps_its_relative_spread() -> None:
    before, after = (load_device(name).facts["idle_w"] for name in ("h100_sxm", "h100_sxm{idle_w*0.5}"))
    assert before.low is not None
    assert before.high is not None
    assert (after.value, after.low, after.high) == (before.value / 2, before.low / 2, before.high / 2)


def test_a_kernel_without_a_product_starts_with_fewer_cycles_and_on_a_host_in_less_time() -> None:
    for name in ("h100_sxm", "xeon_8490h"):
        device = load_device(name)
        share, cycles_s = device.arch.constants.light_launch, device.launch_cycles / device.clock_hz
        fixed_s = device.launch_s * (share if device.arch.is_host else 1.0)
        assert device.light_start_s == pytest.approx(fixed_s + share * cycles_s)


def test_a_runtime_does_not_run_on_devices_of_a_vendor_that_it_excludes() -> None:
    vllm, devices = runtimes()["vllm"], [load_device(name) for name in ("h100_sxm", "mi300x")]
    assert all(device.software_class in vllm.runs_on for device in devices)
    assert [vllm.fits(device, "language") for device in devices] == [True, False]


def test_a_single_name_is_suggested_though_it_is_far() -> None:
    names = ["efficientnet_b0", "vgg11", "swin_t"]
    assert hint("swinging", names) == "did you mean swin_t?"
    assert hint("bertish_thing", names) == ""
    assert hint("0", names) == ""
    many = [f"smollm3_{size}b" for size in range(99)]  # one of many is always somewhat similar
    assert hint("smolvla", many) == ""
    assert hint("smollm3_5b_it", many).startswith("did you mean smollm3_5b ")


def test_panels_of_a_product_that_does_not_fit_are_read_once_per_part_of_the_other_operand() -> None:
    """1 MiB of weights and half of that memory for them (the other half holds results): two passes over the rows."""
    rows, side, room = 102_400.0, 512.0, float(1 << 20)
    left, right = rows * side * 4.0, side * side * 4.0
    product = SingleKernel(OpClass.GEMM, (1.0, rows, side, side), 0.0, 0.0, rows * side, side * side, rows * side)
    demand = kernel_demand([product], uniform(4.0))
    again = reread(demand, np.array([left + right]), room)
    assert again == pytest.approx([left * (2.0 * right / room - 1.0)])


def test_a_tile_waits_for_the_values_of_its_rows_and_its_columns() -> None:
    device, values, second_each = load_device("h100_sxm"), 100.0, 1e-9
    tiles = TileChoices(np.array([[128.0, 64.0, 1.0]]), (1,), device, 1e30, 1.0, operand_s=second_each)
    seconds = fastest_tiles(np.array([[1.0], [128.0], [64.0], [values]]), tiles).seconds
    assert seconds == pytest.approx(values * (128 + 64) * second_each)


@pytest.mark.parametrize(("rows", "columns", "blocks"), [(3072.0, 768.0, 24 * 6), (49.0, 32.0, 1), (129.0, 32.0, 2)])
def test_rules_choose_the_largest_tile_that_a_matrix_fills(rows: float, columns: float, blocks: float) -> None:
    sides = [(m, n, 1.0) for m in (32.0, 64.0, 128.0, 256.0) for n in (32.0, 64.0, 128.0, 256.0)]
    tiles = TileChoices(np.array(sides), (1,), load_device("h100_sxm"), 1e12, 1.0, ruled_side=128.0)
    assert fastest_tiles(np.array([[1.0], [rows], [columns], [64.0]]), tiles).blocks.tolist() == [blocks]


def test_weights_are_unpacked_at_the_efficiency_of_their_product() -> None:
    device = load_device("l4")
    setup = make_setup(device, "w4a16", runtimes()["vllm"])
    product = SingleKernel(OpClass.GEMM, (1.0, 64.0, 4096.0, 4096.0), 0.0, 0.0, 2.6e5, 1.7e7, 2.6e5)
    demand = kernel_demand([product], uniform(2.0)).with_values(unpack_ops=np.array([5.0 * 4096 * 4096]))
    rates = device.software.efficiency
    slower = msgspec.structs.replace(rates, compute=rates.compute / 2)
    alone, halved = (map_demand(demand, setup, each).vector_s for each in (rates, slower))
    assert halved == pytest.approx(2 * alone)
    assert (alone > 0).all()


def test_the_last_tile_of_a_group_is_half_full_on_average() -> None:
    tiles = TileChoices(np.array([[128.0, 64.0, 1.0]]), (1,), load_device("h100_sxm"), 1e12, 1.0, step_s=1e-9)
    rows = np.array([10.0, 192.0])
    blocks = fastest_tiles(np.stack([np.full(2, 4.0), rows, np.full(2, 64.0), np.full(2, 100.0)]), tiles).blocks
    assert blocks.tolist() == [4.0, 8.0]


def test_a_block_of_attention_loads_its_queries_and_first_keys_and_stores_its_results() -> None:
    """Twice the width of a head moves twice the queries, first keys and results of a block, at the bandwidth of one
    unit."""
    device = load_device("h100_sxm")
    setup, rows, width = make_setup(device, "fp16", runtimes()["tensorrt"]), 128.0, 64.0
    waited_s = []
    for each in (width, 2 * width):
        block = SingleKernel(OpClass.ATTENTION, (1.0, rows, 4096.0, each), 1e6, 1e6, 1e6, 0.0, 1e6)
        serial_s = map_demand(kernel_demand([block], uniform(2.0)), setup, device.software.efficiency).serial_s
        assert serial_s is not None
        waited_s.append(serial_s[BLOCKS, 0])
    tile_rows = min(rows, device.arch.constants.attention_rows)
    carried = 2.0 * tile_rows * width * 2.0  # bytes of queries and of results, 2 a value
    carried += device.arch.constants.attention_columns * width * 2.0  # a product without values: keys alone
    more_s = carried / device.bytes_per_clock_per_unit / device.clock_hz
    assert waited_s[1] - waited_s[0] == pytest.approx(more_s)


def test_rounding_reads_wide_activations_twice_and_writes_them_narrow() -> None:
    """The second half of a large operand does not fit in the cache: it crosses the memory interface."""
    device = load_device("h100_sxm")
    setup, rates = make_setup(device, "fp8", runtimes()["vllm"]), device.software.efficiency
    passes_s = []
    for rows in (1e6, 2e6):
        product = SingleKernel(OpClass.GEMM, (1.0, rows, 4096.0, 4096.0), 0.0, 0.0, rows * 4096, 4096.0**2, rows * 4096)
        demand = kernel_demand([product], setup.plan.widths)
        serial_s = map_demand(demand, setup, rates).serial_s
        assert serial_s is not None
        passes_s.append(serial_s[PASSES, 0])
    assert setup.plan.operand != setup.plan.stored
    moved = 1e6 * 4096 * (2 * 2.0 + 1.0)
    reached = device.memory_bandwidth * rates.bandwidth[0, OpClass.ROW_NORM]
    assert passes_s[1] - passes_s[0] == pytest.approx(moved / reached, rel=1e-3)


def test_packed_weights_of_few_rows_are_padded_to_an_instruction_and_not_to_a_tile() -> None:
    device = load_device("l4")
    setup, rates = make_setup(device, "w4a16", runtimes()["vllm"]), device.software.efficiency
    product = SingleKernel(OpClass.GEMM, (1.0, 1.0, 4096.0, 4096.0), 0.0, 0.0, 4096.0, 4096.0**2, 4096.0)
    plain = kernel_demand([product], uniform(2.0))
    packed = plain.with_values(unpack_ops=np.array([4096.0**2]))
    few_s, tiled_s = (map_demand(demand, setup, rates).matrix_s[0, 0] for demand in (packed, plain))
    assert few_s < 0.6 * tiled_s


def test_a_stated_die_area_wins_over_the_rule() -> None:
    assert (area(load_device("h100_sxm")).total_mm2, area(load_device("rtx_4090")).total_mm2) == (814, 608.5)
    assert area(load_device("h100_sxm"), True).total_mm2 < 700
