"""Accelerators that their files describe: what silicon and papers say of them, what is conserved, and what grows."""

import os
import tomllib
from collections.abc import Iterator
from functools import cache
from itertools import permutations
from itertools import product as iterated
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.operator_facts import windows
from analysis.estimate.scenario import Scenario
from hardware import known_architectures
from hardware.base.errors import RequestError
from hardware.demand import Floats
from hardware.device import Device
from hardware.device_catalog import load_device, load_devices
from hardware.device_file import read_device_file
from hardware.event_prices import coefficients
from hardware.hierarchy import LOOPS
from hardware.plan import make_plan
from hardware.spatial.costs import Costs, Power, find_needs, moved_on_chip
from hardware.spatial.loop_nest import Nest, Problem, count_moves
from hardware.spatial.machine import find_machine
from hardware.spatial.mapping_search import Operator, _footprints, _spread, search
from hwexplorer.cli import main
from tests.models import load_once
from tests.sampling import for_each, slow

SPATIAL = tuple(device.id for device in load_devices()[0] if device.file.nest is not None)
BLOCKS = ("conv2d", "transformer_block", "depthwise_separable", "pooling")
PUBLISHED = tomllib.loads(Path(__file__).with_name("eyeriss.toml").read_text())


def costs(device: Device, spared: Floats) -> Costs:
    """Of operators that are kernels of their own, at full rates and unlimited power."""
    one, none = np.ones(len(spared)), np.zeros(len(spared))
    value, events = (
        coefficients(device, make_plan(device, "fp16")).value,
        ("memory.dram_read", find_machine(device).events[0]),
    )
    power = Power(*(float(value[device.arch.row[label]]) for label in events), 0.0, np.inf)
    seconds = one / device.clock_hz, one / device.memory_bandwidth
    return Costs(*seconds, spared, one, none, none, none, 1 / device.clock_hz, 0.0, power)


def relative(device: Device) -> tuple[float, ...]:
    """Prices of events on chip over that of the first."""
    value = coefficients(device, make_plan(device, "fp16")).value
    prices = [value[device.arch.row[label]] for label in find_machine(device).events]
    return tuple(price / prices[0] for price in prices)


@cache
def chip(network: str) -> dict[str, Floats]:
    """What the mappings of Eyeriss do for each convolution of a network: ms, elements at work, MB moved at the buffer
    and in memory, mJ on the chip."""
    device, spec = load_device("eyeriss"), PUBLISHED[network]
    layers = np.array(spec["layers"], dtype=np.float64).T
    sizes, stride, side = layers[:8], layers[8], layers[9]
    part = np.minimum((side / ((sizes[4] - 1) * stride + sizes[6])) ** 2, 1.0)
    problem, hardware = Problem(sizes, stride, part), find_machine(device)
    n = sizes.shape[1]
    value_bytes = np.full((3, n), 2.0)
    nest, _ = search(hardware, problem, value_bytes, relative(device), costs(device, np.zeros(n)))
    found = count_moves(problem, nest, hardware.stations)
    on_chip = moved_on_chip(hardware, found, value_bytes)
    memories = [memory for place in hardware.places for memory in place.memories]
    moved = {memory.name: [on_chip[event] for event in memory.events] for memory in memories}
    off_chip = sum((found.moves[0, t].reads + found.moves[0, t].updates) * 2.0 for t in range(3))
    works = 1.0 - np.array(spec["zeros"])
    prices = {
        event.label: price * (works if event.label in device.file.hierarchy.gated else 1.0)
        for event, price in zip(device.arch.events, coefficients(device, make_plan(device, "fp16")).value, strict=True)
    }
    macs = np.prod(sizes, axis=0)
    busy_s = np.maximum(found.cycles / device.clock_hz, sum(moved["glb"]) / 2 / device.glb_width / device.clock_hz)
    parts = {
        "arithmetic": macs * prices["array.mac"],
        "clock, leakage": busy_s * (device.active_w + device.idle_w),
        "network": on_chip["network.pes"] * prices["network.pes"],
    }
    for name, (read_bytes, written) in moved.items():
        part = "buffer" if name == "glb" else "pads"
        spent = read_bytes * prices[f"{name}.read"] + written * prices[f"{name}.write"]
        parts[part] = parts.get(part, 0.0) + spent
    energy = sum(parts.values(), np.zeros(n))
    return {
        **{part: spent / energy for part, spent in parts.items()},
        "ms": found.cycles / device.clock_hz * 1e3,
        "elements": found.instances[-1],
        "glb_mb": sum(moved["glb"]) / 1e6,
        "dram_mb": np.asarray(off_chip) / 1e6,
        "mj": energy * 1e3,
        "gmac": macs / 1e9,
    }


def ratio(network: str, what: str) -> Floats:
    """Ours over published, layer by layer."""
    found: Floats = chip(network)[what] / np.array(PUBLISHED[network][what])
    return found


def total(network: str, what: str) -> float:
    return float(chip(network)[what].sum() / sum(PUBLISHED[network][what]))


def test_eyeriss_does_the_work_that_it_was_measured_with() -> None:
    for network in PUBLISHED:
        assert ratio(network, "gmac") == pytest.approx(1.0, abs=0.02)


def test_eyeriss_takes_as_long_for_alexnet_as_the_chip() -> None:
    """The chip also waits: it is 4 to 17 % slower than its own active elements would be."""
    assert (ratio("alexnet", "ms") > 0.8).all()
    assert (ratio("alexnet", "ms") < 1.02).all()
    assert total("alexnet", "ms") == pytest.approx(0.9, abs=0.05)
    assert ratio("alexnet", "elements") == pytest.approx(1.0, abs=0.15)


def test_eyeriss_moves_as_much_for_alexnet_as_the_chip() -> None:
    """At the buffer within 2 of each layer and 30 % of all; of memory, which the chip codes, as much where no input is
    zero (CONV1), up to 2.7 times as much where most are."""
    assert (np.abs(np.log2(ratio("alexnet", "glb_mb"))) < 1.0).all()
    assert total("alexnet", "glb_mb") == pytest.approx(1.0, abs=0.3)
    assert ratio("alexnet", "dram_mb")[0] == pytest.approx(1.0, abs=0.05)
    assert (ratio("alexnet", "dram_mb")[1:] > 1.0).all()
    assert (ratio("alexnet", "dram_mb") < 2.7).all()


def test_eyeriss_draws_as_much_power_for_alexnet_as_the_chip() -> None:
    """With the zeros of each layer gated, all layers take about the same share of the published energy; that counts
    another 30 % of time, in which data are loaded. The power is within 15 % of 278 mW."""
    shares = ratio("alexnet", "mj")
    assert shares.max() < 1.2 * shares.min()
    assert total("alexnet", "mj") == pytest.approx(0.7, abs=0.05)
    assert chip("alexnet")["mj"].sum() / chip("alexnet")["ms"].sum() == pytest.approx(0.278, rel=0.15)


def test_eyeriss_could_run_vgg_better_than_the_chip_did() -> None:
    """The chip keeps its elements busy for a fifth to a half of the time on VGG-16: it adds up 9 or 18 products between
    visits of a partial sum to the buffer, and waits for the buses. A search finds mappings that add up more."""
    cycles = np.array(PUBLISHED["vgg16"]["ms"]) * 1e-3 * load_device("eyeriss").clock_hz
    products = np.array([9, 9, 9, 9, 18, 18, 18])
    sums_per_cycle = chip("vgg16")["gmac"] * 1e9 / products / cycles
    assert sums_per_cycle == pytest.approx(0.95 * 4, rel=0.01)
    for what in ("ms", "glb_mb", "mj"):
        assert (ratio("vgg16", what) < 1.0).all()
    assert (ratio("vgg16", "dram_mb") > 1.0).all()
    assert (ratio("vgg16", "dram_mb") < 2.0).all()


# TOP/s of layers that wait for weights (Jouppi et al., ISCA 2017, Table 3); other cycles take the part said there.
WAITING = {"MLP0": (200, 12.3, 0.175), "MLP1": (168, 9.7, 0.319), "LSTM0": (64, 3.7, 0.179)}


def tops(rows: int) -> float:
    """Of a layer of 2,048 by 2,048 weights on TPU v1."""
    device = load_device("tpu_v1_nest")
    sizes = np.ones((8, 1))
    sizes[2], sizes[3], sizes[4] = 2048, 2048, rows
    value_bytes = np.array([[1.0], [1.0], [4.0]])
    on_chip = np.array([rows * 2048.0 * 5])  # inputs and results stay in the unified buffer
    problem, hardware = Problem(sizes, np.ones(1), np.ones(1)), find_machine(device)
    nest, _ = search(hardware, problem, value_bytes, relative(device), costs(device, on_chip))
    found = count_moves(problem, nest, hardware.stations)
    weight_s = float(found.moves[0, 1].reads[0]) / device.memory_bandwidth
    return 2e-12 * float(np.prod(sizes)) / max(weight_s, float(found.cycles[0]) / device.clock_hz)


@pytest.mark.parametrize(("rows", "published", "other"), WAITING.values(), ids=WAITING)
def test_tpu_v1_waits_for_weights_as_measured(rows: int, published: float, other: float) -> None:
    assert published < tops(rows) < published / (1 - other) * 1.05


def _rows(*rows: tuple[str, ...]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in (rows[0], ("---",) * len(rows[0]), *rows[1:]))


def _published() -> str:
    """The tables of docs/accelerators.md."""
    parts = ("arithmetic", "pads", "buffer", "network", "clock, leakage")
    shown = {"ms": "Time, ms", "elements": "Elements at work", "glb_mb": "Buffer, MB", "dram_mb": "DRAM, MB"}
    shown["mj"] = f"Energy, mJ ({', '.join(parts)})"
    layers = [("Eyeriss, here / measured", *shown.values())]
    for network, spec in PUBLISHED.items():
        found = chip(network)
        for i, name in enumerate(spec["names"]):
            figures = [f"{found[one][i]:.3g} / {spec[one][i]:.4g} ({ratio(network, one)[i]:.2f})" for one in shown]
            figures[-1] += f" ({', '.join(f'{found[part][i]:.0%}' for part in parts)})"
            layers.append((f"{network} {name}", *figures))
    waiting = [("TPU v1, 2,048 x 2,048 weights", "TOP/s here", "measured", "cycles with other work")]
    for name, (rows, measured, other) in WAITING.items():
        waiting.append((f"{name}, {rows} rows", f"{tops(rows):.3g}", f"{measured}", f"{other:.0%}"))
    return f"{_rows(*layers)}\n\n{_rows(*waiting)}"


def test_the_page_of_accelerators_says_what_is_found(tmp_path: Path) -> None:
    """Its table, and that the file it shows runs as it stands."""
    page = Path("docs/accelerators.md")
    text = page.read_text(encoding="utf-8")
    before, begin, rest = text.partition("pytest tests/hardware/test_spatial.py -->\n")
    now = f"{before}{begin}\n{_published()}\n\n{rest[rest.index('<!-- end of published') :]}"
    if os.environ.get("HWEXPLORER_GOLDEN"):
        page.write_text(text := now, encoding="utf-8")
    assert text == now
    (tmp_path / "mine.toml").write_text(text.partition("```toml\n")[2].partition("```")[0], encoding="utf-8")
    assert main(["compare", "conv2d", "--on", "mine", "--devices-dir", str(tmp_path)]) == 0


@pytest.mark.parametrize("model", ["resnet50", "vgg16"])
def test_the_mapping_of_tpus_and_the_search_agree_on_the_same_chip(model: str) -> None:
    nests, shipped = (
        estimate(load_once(model), load_device(name), Scenario(8, "int8")) for name in ("tpu_v1_nest", "tpu_v1")
    )
    busy_s, shipped_s = (found.run.mapping.matrix_s[0].sum() for found in (nests, shipped))
    assert busy_s == pytest.approx(shipped_s, rel=0.1)
    assert nests.run.counts[nests.device.arch.row["array.mac"]].sum() == pytest.approx(
        shipped.run.counts[shipped.device.arch.row["systolic.mac"]].sum()
    )


def _tiny(folder: Path, stationary: str) -> Device:
    """The accelerator of docs/accelerators.md, 2 x 2 elements of little memory."""
    text = Path("docs/accelerators.md").read_text(encoding="utf-8").partition("```toml\n")[2].partition("```")[0]
    for old, new in {
        '"row"': f'"{stationary}"', '["RC", "RK"]': '["K"]', '["PK", "KP"]': '["C"]', "shares_windows = true": "",
        "value = 168": "value = 4", "value = 14,": "value = 2,", "value = 12,": "value = 2,",
        "value = 131072": "value = 64", "value = 512": "value = 2", "value = 64,": "value = 8,",
    }.items():  # fmt: skip
        assert old in text
        text = text.replace(old, new)
    (folder / "mine.toml").write_text(text, encoding="utf-8")
    return load_device("mine", (folder,))


@pytest.mark.parametrize("stationary", ["weight", "output"])
@pytest.mark.parametrize("product", [(2, 1, 4), (4, 2, 2), (3, 4, 2), (4, 4, 1)])
def test_no_mapping_of_a_tiny_product_is_quicker(product: tuple[int, ...], stationary: str, tmp_path: Path) -> None:
    """Of all tiles that fit, in all orders: of results K, channels C and rows P."""
    device = _tiny(tmp_path, stationary)
    hardware, prices, loops = find_machine(device), relative(device), [LOOPS.index(loop) for loop in "KCP"]
    sizes, value_bytes = np.ones((8, 1)), np.array([[1.0], [1.0], [4.0]])
    sizes[loops, 0] = product
    problem = Problem(sizes, np.ones(1), np.ones(1))
    chains = [(sizes,)]
    for place in hardware.places[1:]:
        held = np.array([memory.holds for memory in place.memories])
        room = np.array([[memory.size_bytes] for memory in place.memories])
        chains = [
            (*chain, tile)
            for chain in chains
            for tile in _tiles(chain[-1], loops)
            if (held @ (_footprints(1.0, tile) * value_bytes) <= room).all()
        ]
    inner = {"weight": "KCP CKP", "output": "KPC PKC"}[stationary].split()
    ordered = [(chain, orders) for chain in chains for orders in iterated(map("".join, permutations("KCP")), inner)]
    tiles = [np.hstack([chain[s] for chain, _ in ordered]) for s in range(len(hardware.places))]
    by = [
        np.array([[*(set(range(8)) - set(loops)), *map(LOOPS.index, orders[s])] for _, orders in ordered]).T
        for s in (0, 1)
    ]
    inward = [*tiles[1:], np.ones_like(tiles[0])]
    spread = tuple(_spread(*each)[:, 0] for each in zip(hardware.places, tiles, inward, strict=True))
    each, at_rest = np.zeros(len(ordered), dtype=np.intp), costs(device, np.zeros(1))
    runs = count_moves(problem.take(each), Nest(tuple(tiles[1:]), spread, (*by, by[-1])), hardware.stations)
    every = find_needs(hardware, runs, value_bytes[:, each], prices).seconds(at_rest, each).max(axis=0)
    nest, _ = search(hardware, problem, value_bytes, prices, at_rest)
    found = (
        find_needs(hardware, count_moves(problem, nest, hardware.stations), value_bytes, prices)
        .seconds(at_rest, 0)
        .max()
    )
    assert found == pytest.approx(every.min(), rel=1e-9)


def _tiles(within: Floats, loops: list[int]) -> Iterator[Floats]:
    for extents in iterated(*(range(1, int(within[loop, 0]) + 1) for loop in loops)):
        tile = np.ones((8, 1))
        tile[loops, 0] = extents
        yield tile


@given(data=st.data(), name=st.sampled_from(SPATIAL), stride=st.integers(1, 3), power=st.sampled_from((1.0, np.inf)))
@settings(max_examples=20, deadline=None)
def test_what_is_not_counted_is_no_quicker(data: Any, name: str, stride: int, power: float) -> None:
    """Within a power limit and without: the mapping found and its figures are those of all that are listed."""
    device = load_device(name)
    sizes = np.array([float(data.draw(st.integers(1, bound))) for bound in (4, 2, 40, 40, 30, 30, 5, 5)])[:, None]
    problem, each = Problem(sizes, np.array([float(stride)]), np.ones(1)), np.zeros(1, dtype=np.intp)
    value_bytes = np.array([[1.0], [1.0], [device.accumulator_bytes]])
    spent = costs(device, np.zeros(1))
    spent = msgspec.structs.replace(spent, power=msgspec.structs.replace(spent.power, budget_w=power))
    tried = Operator(find_machine(device), problem, value_bytes, relative(device), 0)
    found, _ = tried.fastest(spent)
    tried.count(np.flatnonzero(tried.uncounted))
    best, _ = tried.fastest(spent)
    for name in Nest.__struct_fields__:
        assert all(map(np.array_equal, getattr(found, name), getattr(best, name)))
    assert all((tile[:, each] <= sizes).all() for tile in best.tiles)


@cache
def fastest(name: str, sizes: tuple[float, ...], stride: float) -> float:
    """Seconds of one operator at full rates and unlimited power."""
    device = load_device(name)
    hardware, problem = find_machine(device), Problem(np.array(sizes)[:, None], np.array([stride]), np.ones(1))
    value_bytes = np.array([[1.0], [1.0], [device.accumulator_bytes]])
    nest, _ = search(hardware, problem, value_bytes, relative(device), costs(device, np.zeros(1)))
    needs = find_needs(hardware, count_moves(problem, nest, hardware.stations), value_bytes, relative(device))
    return float(needs.seconds(costs(device, np.zeros(1)), 0).max())


def growing(device: Device) -> list[str]:
    assert device.file.hierarchy is not None
    memories = (f"{level.name}_bytes" for level in device.file.hierarchy.levels)
    return [*device.file.hierarchy.axes, *memories, "memory_bandwidth", "clock_hz"]


@given(data=st.data(), name=st.sampled_from(SPATIAL), stride=st.integers(1, 2), times=st.sampled_from((2, 3, 8)))
@settings(max_examples=25, deadline=None)
def test_more_of_anything_is_never_slower(data: Any, name: str, stride: int, times: int) -> None:
    fact = data.draw(st.sampled_from(growing(load_device(name))))
    bounds = (4, 2, 200, 200, 60, 60, 5, 5)
    sizes = tuple(float(data.draw(st.integers(1, bound))) for bound in bounds)
    assert fastest(f"{name}{{{fact}*{times}}}", sizes, stride) <= fastest(name, sizes, stride) * (1 + 1e-9)


@given(data=st.data(), name=st.sampled_from(SPATIAL), is_image=st.booleans())
@settings(max_examples=15, deadline=None)
def test_a_larger_batch_is_never_quicker(data: Any, name: str, is_image: bool) -> None:
    """More images of a convolution; more rows of a product, or more of them."""
    bounds = (9, 2, 200, 200, 60, 60, 5, 5) if is_image else (1, 9, 1000, 1000, 1000, 1, 1, 1)
    sizes = tuple(float(data.draw(st.integers(1, bound))) for bound in bounds)
    longer, more = data.draw(st.sampled_from(("N",) if is_image else ("G", "P"))), data.draw(st.integers(1, 20))
    larger = tuple(size + more * (loop == longer) for loop, size in zip(LOOPS, sizes, strict=True))
    assert fastest(name, larger, 1) >= fastest(name, sizes, 1) * (1 - 1e-9)


@cache
def result(name: str, model: str, precision: str, batch: int) -> Estimate:
    return estimate(load_once(model), load_device(name), Scenario(batch, precision))


@for_each("name", SPATIAL)
@for_each("model", BLOCKS)
def test_sums_and_limits_hold(name: str, model: str) -> None:
    check_limits(name, model, "int8", 16)


@for_each("name", SPATIAL)
@for_each(("model", "precision", "batch"), [("conv2d", "fp32", 1), ("mlp", "w4a16", 4)])
def test_sums_and_limits_hold_in_other_widths(name: str, model: str, precision: str, batch: int) -> None:
    check_limits(name, model, precision, batch)


@slow
@for_each("name", SPATIAL)
@for_each("model", BLOCKS)
@for_each(("precision", "batch"), [("fp32", 1), ("w4a16", 4)])
def test_sums_and_limits_hold_for_every_block_and_width(name: str, model: str, precision: str, batch: int) -> None:
    check_limits(name, model, precision, batch)


def check_limits(name: str, model: str, precision: str, batch: int) -> None:
    found = result(name, model, precision, batch)
    device = found.device
    assert found.energy_j == pytest.approx(float(found.event_energy_j.sum()), rel=1e-9)
    assert found.latency_s == pytest.approx(float(found.run.latency_s.sum()), rel=1e-9)
    assert found.average_power_w <= device.power_limit_w * (1 + 1e-9)
    assert (found.run.utilization <= 1 + 1e-9).all()
    assert (found.run.counts >= 0).all()
    assert np.isfinite(found.run.counts).all()
    assert found.run.counts[device.arch.row["array.mac"]].sum() == pytest.approx(found.demand.macs.sum())
    moved = found.run.mapping.traffic.dram_read + found.run.mapping.traffic.dram_write
    assert (found.demand.per_kernel(moved) <= found.run.kernel_s * device.memory_bandwidth * (1 + 1e-9)).all()


@pytest.mark.parametrize("name", SPATIAL)
def test_every_level_and_network_is_used(name: str) -> None:
    counts = sum(result(name, model, "int8", 16).run.counts.sum(axis=1) for model in ("conv2d", "transformer_block"))
    labels = load_device(name).arch.row
    assert not [label for label, row in labels.items() if np.asarray(counts)[row] <= 0]


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("alexnet", {(55, 11, 4), (27, 5, 1), (13, 3, 1)}),
        ("vgg16", {(side, 3, 1) for side in (224, 112, 56, 28, 14)}),
        ("convnext_tiny", {(56, 7, 1), (28, 7, 1), (14, 7, 1), (7, 7, 1)}),
    ],
)
def test_windows_follow_from_sizes(model: str, expected: set[tuple[int, int, int]]) -> None:
    """Those of the papers: rows of results, of the window, stride; patches that do not overlap are channels."""
    found = windows(load_once(model)).T
    assert {(int(p), int(r), int(u)) for p, _, r, _, u, *_ in found if r > 1} == expected


VERBS = (
    "compare conv2d --on eyeriss,h100_sxm --level detailed", "tree conv2d --on eyeriss", "events conv2d --on eyeriss",
    "why conv2d --on eyeriss --node relu", "mapping conv2d --on simba", "roofline conv2d --on eyeriss",
    "energy conv2d --on eyeriss", "memory conv2d --on eyeriss", "edp conv2d --on eyeriss",
    "report conv2d --on ws_32x32", "sweep conv2d --on eyeriss --batches 1,2", "coefficients --on eyeriss",
    "explain conv2d eyeriss kpu --metric energy", "device eyeriss", "advise conv2d --on eyeriss",
    "structure conv2d --on eyeriss",
)  # fmt: skip


@for_each("words", VERBS)
def test_verbs_take_them(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words.split()) == 0
    assert len(capsys.readouterr().out) > 40


CHANGES = {
    'takes = ["RCG", "RKG"]': ('takes = ["RX"]', "'RX' is not a way to spread loops"),
    'name = "filter"': ('name = "glb"', "'glb' names two things"),
    'stationary = "row"': ('stationary = "weigth"', "at `hierarchy.stationary` (did you mean weight"),
    "shares_windows = true": ("share_windows = true", "`share_windows`"),
    'architecture = "spatial"': ('architecture = "tpu"', "devices of architecture tpu have none"),
    'name = "ifmap"': ('name = "ifmap"\nports = ["read"]', "ifmap: no port takes 'write input'"),
    "filter_width = { value = 2,": ("filter_width = { value = 0,", "facts.filter_width: must be greater than 0"),
    "clock_hz = { value = 2": (
        "vector_clock_hz = { value = 0, unit = 'Hz', source = '', quality = 'assumed' }\nclock_hz = { value = 2",
        "facts.vector_clock_hz: must be greater than 0",
    ),
    'name = "psum"': ('name = "psum"\ntile = "K0"', "psum: 'K0' is not a tile"),
    'name = "psum"\n': ('name = "ifmap"\n', "'ifmap' names two things"),
    'holds = ["weight"]': ('holds = ["weight"]\norder = "KC"', "filter: 'KC' is not an order"),
    'kind = "register"': ('kind = "register"\nports = ["reads"]', "ifmap: 'reads' is not a port"),
    "glb_bytes = {": ("glb_byte = {", "did you mean glb_bytes"),
    "units = { value = 168": ("units = { value = 160", "facts.units: 160 are not the 168 elements of the arrays"),
}


@pytest.mark.parametrize("old", CHANGES)
def test_a_wrong_file_is_refused_in_a_line(old: str, tmp_path: Path) -> None:
    text = (Path(known_architectures.__file__).parent / "catalog" / "eyeriss.toml").read_text()
    assert old in text
    path = tmp_path / "eyeriss.toml"
    path.write_text(text.replace(old, CHANGES[old][0], 1))
    with pytest.raises(RequestError) as refused:
        read_device_file(path)
    assert CHANGES[old][1] in str(refused.value)
    assert "\n" not in str(refused.value)
