"""One accounting for all architectures: cycles that exist, units that agree, hosts that start, counts before time."""

import random
import re
from collections import defaultdict

import grid
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import hwexplorer as hx
from analysis.estimate.causes import divide_host_work
from analysis.estimate.estimate import Estimate
from analysis.explore import attribution
from hardware import known_architectures
from hardware.architecture_facts import price_table
from hardware.base.errors import RequestError
from hardware.device import Device
from hardware.device_catalog import load_device
from hardware.engines.runtime import runtimes
from hardware.precision import FORMATS
from tests.sampling import for_each

SIX = ("resnet18", "mobilenet_v2", "vit_b_16", "efficientnet_b0", "bert_base", "llama3_8b:decode,kv=1024")
COUNTED = (*grid.DEFAULTS, "i9_13900k")
STARTED = tuple(name for name in grid.DEFAULTS if not grid.device(name).arch.is_host)
ROUNDING = 1 + 1e-9
SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}


def _software(on: Device) -> list[str]:
    return [*grid.ALL_MODES, *(one.id for one in runtimes().values() if on.software_class in one.runs_on)]


def _run(model: str, on: Device, batch: int, precision: str, runtime: str) -> Estimate | None:
    try:
        return grid.run(model, on, batch, precision, runtime)
    except RequestError:
        return None  # the runtime does not support the device


def _check_cycles(result: Estimate) -> None:
    """No more cycles than units x clock x time in any kernel, and no more cell cycles than cells have in all."""
    device, run = result.device, result.run
    cycles = grid.per_kernel(result, run.counts[device.arch.timed_rows].max(axis=0))
    assert (cycles <= device.units * device.clock_hz * run.kernel_s * ROUNDING).all()
    if cells := grid.event_rows(device, "cell cycle"):
        macs = run.counts[[device.arch.row[f"{device.arch.events[cells[0]].category}.mac"]]]
        rate = device.units * device.mac_rate("matrix", result.plan.matrix)
        if device.arch.id == "tpu":  # a cell may multiply several narrow values in a cycle
            idle_rate = device.units * device.arrays_per_unit * device.array_rows * device.array_columns
            spent = macs.sum() / rate + run.counts[cells].sum() / (idle_rate * device.matrix_clock_hz)
        else:
            spent = (macs.sum() + run.counts[cells].sum()) / rate
        assert spent <= result.latency_s * ROUNDING


@for_each("name", [device.id for device in grid.catalogue(False)][::28])
def test_no_more_cycles_than_the_clock_has(name: str) -> None:
    device = grid.device(name)
    for runtime in _software(device):
        for model, batch, precision in (("resnet18", 1, "fp32"), ("mobilenet_v2", 8, "int8")):
            if result := _run(model, device, batch, precision, runtime):
                _check_cycles(result)


@for_each("name", ["xeon_8490h", "xeon_8592_plus", "i7_13700k"])
def test_openvino_clocks_the_share_of_a_start_that_it_takes(name: str) -> None:
    for model in ("resnet18", "mobilenet_v2", "vit_b_16"):
        _check_cycles(grid.run(model, name, 1, "fp32", "openvino"))


def test_a_constant_prices_one_unit() -> None:
    """What several architectures share is counted in one unit, so that price x count is an energy in each of them."""
    units = defaultdict(set)
    for arch in known_architectures.ALL.values():
        for event in arch.events:
            if (
                event.family == "logic"
                and event.argument in price_table()["logic"]
                and event.argument not in arch.data.logic
            ):
                units[event.argument].add(event.count)
    units.pop("accelerator_launch")  # a step of a program, or the start of all of it
    assert {name: found for name, found in units.items() if len(found) > 1} == {}
    assert units["idle_cell"] == {"cell cycle"}


def test_cells_fill_and_drain_in_all_tiles_at_work() -> None:
    """The TPU has one schedule. The KPU chooses one by size: each cell of a tile at work idles a cycle at least."""
    kpu, tpu = grid.device("kpu_t256"), grid.device("tpu_v4")
    for device, event, side in ((kpu, "tile.idle_cell", 32), (tpu, "systolic.idle_cell", 128)):
        idle, units = [], []
        for tiles in (1, 4):
            result = grid.run(grid.toy_gemm(side, side * tiles, side), device, 1, "int8")
            idle.append(result.run.counts[device.arch.row[event]].sum())
            units.append(result.run.mapping.tiling.units.max())
            assert units[-1] >= tiles
        if device is tpu:
            assert idle[1] / units[1] == pytest.approx(idle[0] / units[0])
        assert idle[1] > idle[0] >= units[0] * device.array_rows * device.array_columns


@for_each("precision", ["fp32", "bf16", "int8"])
def test_operands_are_as_wide_as_arrays_multiply(precision: str) -> None:
    """Scratchpad and HBM bytes have the width that is stored."""
    result = grid.run(grid.toy_gemm(256, 256, 256), "tpu_v4", 1, precision)
    counts, row = result.run.counts.sum(axis=1), result.device.arch.row
    width = FORMATS[result.plan.matrix].bits / 8
    assert counts[row["systolic.operand_forward"]] == counts[row["systolic.mac"]] * width
    assert counts[row["weights.fifo_write"]] % (256 * 256 * width) == 0
    stored = result.demand.read_bytes.sum()
    assert counts[row["on_chip.scratchpad_read"]] == stored == 2 * 256 * 256 * result.plan.element_bytes
    kpu = grid.run(grid.toy_gemm(256, 256, 256), "kpu_t100", 1, precision)  # multiplies fp32 as bf16
    counts, row, width = kpu.run.counts.sum(axis=1), kpu.device.arch.row, FORMATS[kpu.plan.matrix].bits / 8
    assert counts[row["tile.operand_stream"]] == 2 * counts[row["tile.mac"]] * width
    assert counts[row["tile_memory.write"]] * kpu.plan.element_bytes == counts[row["shared_memory.read"]] * width


@for_each("name", STARTED)
def test_every_host_starts_a_call_once(name: str) -> None:
    once = grid.run("resnet18", name, 1, "int8")
    rest, host = divide_host_work(once)
    assert host is not None
    assert once.setup.call_s > 5e-6
    assert host.run.latency_s.sum() == pytest.approx(once.setup.call_s)
    assert host.energy_j == once.energy_j
    assert host.run.energy_j.sum() > 0
    assert divide_host_work(rest)[1] is None
    steps = grid.run("llama3_8b:request,in=8,out=3", name, 1, "int8")
    host = divide_host_work(steps)[1]
    assert host is not None
    each_s = steps.setup.call_s + steps.runtime.sequence_s.value
    assert host.run.latency_s.sum() == pytest.approx(3 * each_s)  # the prompt makes a token, two steps the others


def _seconds(text: str) -> list[float]:
    return [float(number) * SECONDS[unit] for number, unit in re.findall(r"([\d.]+) (ms|µs|ns|s)\b", text)]


@for_each("name", STARTED)
def test_printed_parts_of_a_kernel_add_up(name: str) -> None:
    for node in ("conv1", "layer1.0.conv1", "fc"):
        lines = repr(hx.why("resnet18", on=name, node=node)).splitlines()
        sums = [line for line in lines if " = " in line and line.strip().startswith("work ")]
        for line in sums:
            parts, total = re.sub(r"\(.*?\)", "", line).split(" = ")
            assert sum(_seconds(parts)) == pytest.approx(_seconds(total)[0], rel=0.01), line
        assert sums


def test_the_start_of_the_host_is_no_launch_of_kernels() -> None:
    gpu, kpu = (grid.run("resnet18", name, 1, "int8") for name in ("h100_sxm", "kpu_t256"))
    sentence = attribution._difference_sentence(gpu, kpu, "launch", "time")
    for side, text in zip((gpu, kpu), sentence.split("time), "), strict=True):
        launch_s, host_s = _seconds(text)
        assert host_s == pytest.approx(side.setup.call_s)
        assert launch_s + host_s == pytest.approx(side.run.overhead_s.sum(), rel=0.01)


@for_each(("name", "model"), [(name, model) for name in COUNTED for model in SIX])
def test_most_energy_stands_in_counted_events(name: str, model: str) -> None:
    """At least 60 % of what is not static, waiting loops among it: their cycles are counted beside instructions."""
    for precision in ("fp32", "int8"):
        result = grid.run(model, name, 1, precision)
        dynamic_j = result.energy_j - result.component_j["static"]
        arch = result.device.arch
        timed_j = result.event_j[arch.timed_rows].sum() - result.event_j[arch.wait_rows].sum()
        assert timed_j < 0.4 * dynamic_j, (precision, timed_j / dynamic_j)


def test_a_tpu_draws_what_its_makers_measured() -> None:
    """TPU v4: 121 W at the least, 170 in the mean, 192 at the most (Jouppi et al., ISCA 2023)."""
    watts = [
        grid.run(model, "tpu_v4", batch, "bf16").average_power_w
        for model, batch in (("resnet50", 64), ("vit_b_16", 128), ("bert_base", 64), ("resnet18", 1))
    ]
    assert np.mean(watts) == pytest.approx(170, rel=0.08)
    assert 121 < min(watts) <= max(watts) <= 192 * ROUNDING


@for_each("model", SIX)
def test_a_band_on_paper_reaches_what_silicon_spends(model: str) -> None:
    """An H100 spends 2.7 times the bottom-up price of a bf16 MAC, 4 to 16 times those of bytes."""
    result = grid.run(model, "kpu_t256", 1, "bf16")
    counted = [
        row for row, event in zip(result.run.prices.rows, result.events, strict=True) if event.family != "static"
    ]
    factors = [row.high_j / row.value_j for row in counted if "by_time" not in row.event]
    assert min(factors) >= price_table()["paper"]["high"] > 2.7
    assert result.energy_band_j[1] > 2.5 * result.energy_j
    tpu = grid.run(model, "tpu_v4").run.prices.rows  # its power at load allows no more
    assert min(row.high_j / row.value_j for row in tpu if row.group == "paper") >= 1.4 * (1 - 1e-9)


BY_ARCHITECTURE = defaultdict(list)
for one in grid.catalogue(False):
    BY_ARCHITECTURE[one.architecture].append(one)
WORK = (*grid.BLOCKS, "resnet18", "mobilenet_v2", "vit_b_16", "bert_base", "llama3_8b:decode", "llama3_8b:prefill")


@given(st.sampled_from(sorted(BY_ARCHITECTURE)), st.integers(0, 2**32), st.sampled_from(WORK), st.sampled_from("12"))
@settings(max_examples=60, deadline=None)
def test_more_clock_is_never_slower(architecture: str, seed: int, model: str, factor: str) -> None:
    """Nor where a chip may throttle: it can run at the lower clock. Not of GPUs yet where compute waits for memory, or
    a library takes other tiles at another clock and does not ask for their power."""
    draw = random.Random(seed)
    device = draw.choice(BY_ARCHITECTURE[architecture])
    software, precision = draw.choice(["auto", *_software(device)]), draw.choice(grid.PRECISIONS)
    batch, more = draw.choice([1, 3, 8, 64]), {"1": "1.3", "2": "2"}[factor]
    slow = _run(model, device, batch, precision, software)
    assume(slow is not None)
    fast = grid.run(model, load_device(f"{device.id}{{clock_hz*{more}}}"), batch, precision, software)
    assert slow is not None
    if architecture == "gpu":
        assume(np.allclose(slow.run.kernel_compute_s, float(more) * fast.run.kernel_compute_s))
    case = f"{model} {device.id} {precision} batch {batch} {software} clock x {more}"
    # Before the power limit where layers share a chip: at it, another division of the chip may take 0.2 % more.
    before_s, after_s = (
        float(each.run.unthrottled_s.sum()) if each.device.arch.places_models else each.latency_s
        for each in (slow, fast)
    )
    assert after_s <= before_s * (1 + (1e-3 if architecture == "gpu" else 1e-4)), case
