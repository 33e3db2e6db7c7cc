"""NPUs: what their makers publish, and parts of a network that take turns on a chip against every way to cut it."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from hardware.architectures.npu import Room, Steps, quickest
from hardware.device_catalog import load_device
from tests.models import load_once


def run(model: str, on: str, batch: int = 1) -> Estimate:
    return estimate(load_once(model), load_device(on), Scenario(batch=batch, precision="int8"))


# Images/s: Hailo Model Zoo (analysis/measured/tables), NVIDIA/Deep-Learning-Accelerator-SW for the DLA.
PUBLISHED = [
    ("hailo8", "regnet_x_800mf", 1, 3498), ("hailo8", "googlenet", 8, 2454), ("hailo8", "r3d_18", 8, 78),
    ("hailo8l", "squeezenet1_1", 1, 1730), ("hailo8l", "googlenet", 1, 313), ("hailo8l", "resnext50_32x4d", 8, 348),
    ("hailo10h", "mobilenet_v2", 1, 2944), ("hailo10h", "resnet18", 8, 2709), ("hailo10h", "resnext50_32x4d", 8, 578),
    ("hailo15l", "resnext50_32x4d", 1, 133), ("hailo15l", "resnet18", 8, 780),
]  # fmt: skip


def test_rates_are_those_that_makers_publish() -> None:
    """Half within a fifth, all within a half."""
    errors = [abs(run(model, on, batch).throughput_per_s / rate - 1) for on, model, batch, rate in PUBLISHED]
    assert np.median(errors) < 0.2
    assert max(errors) < 0.5


@pytest.mark.parametrize(("on", "typical_w"), [("hailo8", 2.5), ("hailo8l", 1.5), ("hailo10h", 2.5)])
def test_power_is_about_what_makers_call_typical(on: str, typical_w: float) -> None:
    power = [run(model, on, 8).average_power_w for model in ("resnet50", "mobilenet_v2", "regnet_x_1_6gf")]
    assert typical_w / 1.4 < min(power) <= max(power) < typical_w * 1.4


def test_what_fits_is_loaded_once() -> None:
    """ResNet-50 fits on a Hailo-8, so a batch does not speed it up; on a Hailo-8L, of half the memory, it does not."""
    fits, too_large = ([run("resnet50", on, batch) for batch in (1, 8)] for on in ("hailo8", "hailo8l"))
    assert fits[1].throughput_per_s < 1.05 * fits[0].throughput_per_s
    assert too_large[1].throughput_per_s > 2 * too_large[0].throughput_per_s
    for result in (*fits, *too_large):
        resident = result.run.mapping.is_resident
        assert resident is not None
        assert resident.all() == (result.device.id == "hailo8")
        loaded = float(result.run.mapping.traffic.weight_read.sum())
        assert (loaded == 0.0) == bool(resident.all())


def test_transformers_keep_eight_bits() -> None:
    """Convolutional networks that do not fit are packed to 0.7 of 8 bits; the Hailo Model Zoo leaves that off for
    transformers, whose loads and products together give 21 and 60 images/s at batches of 1 and 8."""
    for model, least, most in (("resnet50", 0.5, 0.75), ("vit_b_16", 0.95, 1.05), ("swin_t", 0.95, 1.05)):
        result = run(model, "hailo8l")
        assert least < result.run.mapping.traffic.weight_read.sum() / result.workload.parameters < most
    for batch, rate in ((1, 21), (8, 60)):
        assert run("vit_b_16", "hailo8l", batch).throughput_per_s == pytest.approx(rate, rel=0.2)


def test_a_larger_chip_loads_no_more() -> None:
    loaded = [float(run("vgg16", on).run.mapping.traffic.dram_read.sum()) for on in ("hailo15l", "hailo8l", "hailo8")]
    assert loaded == sorted(loaded, reverse=True)


def test_the_next_frame_enters_before_this_one_has_left() -> None:
    """A chip that a network fits on delivers more frames than one over the latency of a frame."""
    result = run("mobilenet_v2", "hailo8")
    assert result.throughput_per_s > 2 / result.latency_s
    apart = run("mobilenet_v2", "jetson_orin_dla")  # one layer at a time: nothing to overlap
    assert apart.throughput_per_s == pytest.approx(1 / apart.latency_s)


seconds = st.floats(0.0, 10.0).map(lambda x: round(x, 3))


# From a kernel to a later one, whether this reads it or the other writes it for it, and seconds at two batches.
Handed = list[tuple[int, int, bool, tuple[float, float]]]


@st.composite
def chips(draw: st.DrawFn) -> tuple[Steps, Handed, Room]:
    n = draw(st.integers(1, 7))
    two = st.tuples(seconds, seconds)
    row, rows = (st.lists(each, min_size=n, max_size=n).map(np.array) for each in (seconds, two))
    of_batch = {name: draw(rows) for name in ("need_s", "least_s", "stream_s", "lag")}
    steps = Steps(weight_bytes=draw(row), **of_batch)
    handed = [
        (draw(st.integers(0, end - 1)), end, draw(st.booleans()), draw(two))
        for end in range(1, n)
        for _ in range(draw(st.integers(0, 2)))
    ]
    room = Room(weight_bytes=draw(st.floats(1, 20)), layers=draw(st.integers(2, 7)), switch_s=draw(seconds), byte_s=1.0)
    return steps, handed, room


def cost(steps: Steps, handed: Handed, room: Room, begins: tuple[int, ...], batch: int) -> float:
    """Seconds of one way to cut, straight from what a part is."""
    n = len(steps.need_s)
    part = np.searchsorted(begins, np.arange(n), side="right")
    total = 0.0
    crossing = [
        (part[end if is_read else begin], each) for begin, end, is_read, each in handed if part[begin] < part[end]
    ]
    for one in np.unique(part):
        mine = part == one
        if mine.sum() > 1 and (mine.sum() > room.layers or steps.weight_bytes[mine].sum() > room.weight_bytes):
            return np.inf
        least = steps.least_s[mine, batch].sum() + sum(each[batch] for at, each in crossing if at == one)
        pace = max(steps.need_s[mine, batch].sum(), least, steps.stream_s[mine, batch].max())
        total += pace * (1.0 + steps.lag[mine, batch].sum()) + room.switch_s
    return float(total)


@given(chips())
@settings(max_examples=75, deadline=None)
def test_no_way_to_cut_is_quicker(chip: tuple[Steps, Handed, Room]) -> None:
    steps, handed, room = chip
    n = len(steps.need_s)
    begins, ends = (np.array([each[i] for each in handed], dtype=np.int64) for i in (0, 1))
    ways = begins, ends, np.array([each[2] for each in handed], dtype=np.bool_)
    found = quickest(steps, ways, np.array([each[3] for each in handed]).reshape(-1, 2), room)
    every = [(0, *rest) for count in range(n) for rest in combinations(range(1, n), count)]
    for batch, parts in enumerate(found):
        chosen = cost(steps, handed, room, tuple(sorted(parts)), batch)
        least = min(cost(steps, handed, room, each, batch) for each in every)
        assert chosen == pytest.approx(least, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("precision", ["q5_0", "iq2_xxs", "w4a16"])
@pytest.mark.parametrize("name", ["hailo10h", "hailo15l"])
def test_a_larger_batch_is_never_quicker_where_weights_are_unpacked(name: str, precision: str) -> None:
    """They are unpacked once for all frames: a batch saves that, but not what a batch of one more needs."""
    device, mlp = load_device(name), load_once("mlp")
    seconds = [estimate(mlp, device, Scenario(batch, precision, "hailort")).latency_s for batch in range(1, 20)]
    assert all(more >= less * (1 - 1e-9) for less, more in pairwise(seconds))


def test_weights_of_every_layer_are_read_at_the_rate_of_products() -> None:
    """A chip that runs layer by layer fetches weights ahead and in order; activations move at the lower rate."""
    device = load_device("rk3588_npu")
    shares = device.software.bandwidth
    assert shares["GEMM"][0] > 1.2 * shares["other"][0]
    result = estimate(load_once("vgg16"), device, Scenario(1, "int8"))
    mapping = result.run.mapping
    moved = mapping.traffic.dram_read + mapping.traffic.dram_write
    convolutions = result.demand.is_convolution & (moved > 0)
    reached = moved[convolutions] / mapping.dram_s[0, convolutions] / device.memory_bandwidth
    weights = (mapping.traffic.weight_read / np.maximum(moved, 1.0))[convolutions]
    assert np.all((reached > 0.999 * shares["other"][0]) & (reached < 1.001 * shares["GEMM"][0]))
    assert reached[np.argmax(weights)] > reached[np.argmin(weights)]


def test_weights_of_4_bits_are_as_quick_as_their_bytes() -> None:
    """Arrays multiply them: decoding is not slower than in 8 bits, and takes less memory traffic."""
    device, model = load_device("rk3576_npu"), load_once("tinyllama_1_1b:decode,kv=64")
    narrow_s, wide_s = (estimate(model, device, Scenario(1, each)).latency_s for each in ("w4a16", "w8a8"))
    assert narrow_s < 0.8 * wide_s


LAYER_BY_LAYER = "snapdragon_8_gen_3_npu"


def test_a_host_waits_for_each_call_of_a_chip_that_runs_layer_by_layer() -> None:
    quick, slow = (run("resnet50", f"{LAYER_BY_LAYER}{{dispatch_s={start_s}}}") for start_s in ("0.00006", "0.00106"))
    assert slow.latency_s - quick.latency_s == pytest.approx(1e-3, rel=0.01)


def test_results_leave_a_chip_that_streams_while_its_layers_work() -> None:
    """A tenth of the link is still enough for the results of YOLOv8 at the pace of its layers."""
    quick, slow = (run("yolov8s", f"hailo8{{memory_bandwidth={rate}}}", 8) for rate in ("4e11", "4e9"))
    assert slow.throughput_per_s > 0.99 * quick.throughput_per_s


def test_a_layer_alone_has_all_units() -> None:
    result = run("resnet50", LAYER_BY_LAYER)
    assert result.run.mapping.tiling.units.max() == result.device.units
    assert run("resnet50", "hailo8").run.mapping.units.max() < load_device("hailo8").units


def test_images_in_16_bits_are_converted() -> None:
    """The first layer of a network in 16 bits converts the image on the lanes; in 8 bits it is used as it is."""
    for precision, converts in (("fp16", True), ("int8", False)):
        result = estimate(load_once("mobilenet_v2"), load_device(LAYER_BY_LAYER), Scenario(precision=precision))
        assert (result.run.mapping.vector_s[0, 0] > 1e-5) == converts


def test_a_batch_beyond_the_memory_of_a_chip_runs_in_parts() -> None:
    """ResNet-50's weights fit: a larger batch passes no activations through DRAM, and takes no longer per image."""
    device = load_device("cloud_ai_100_pro")
    runs = [estimate(load_once("resnet50"), device, Scenario(batch, "int8")) for batch in (16, 64, 256)]
    each = [run.latency_s_per_inference for run in runs]
    assert each[0] > each[1] > each[2]
    small, large = runs[0].run.mapping.traffic, runs[2].run.mapping.traffic
    assert large.dram_bytes.sum() < 17.0 * small.dram_bytes.sum()
