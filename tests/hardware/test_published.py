"""Accelerators described from their papers, and what a file can say of one: ports, tiles, orders, banks."""

from pathlib import Path

import numpy as np
import pytest

from analysis.estimate.deviations import describe_deviations
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from hardware.area import area, element_pitch_mm
from hardware.base.errors import RequestError
from hardware.device import Device
from hardware.device_catalog import load_device
from hardware.spatial import mapping_search
from hardware.spatial.machine import find_machine
from tests import published
from tests.waiting import never_endless

LARGE = (published.MACHINES / "nvdla_large.toml").read_text(encoding="utf-8")


def run(folder: Path, *changes: tuple[str, str], model: str = "conv2d") -> Estimate:
    """A model on the large NVDLA with its file changed."""
    text = LARGE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / "nvdla_large.toml").write_text(text, encoding="utf-8")
    return estimate(store.load(model), load_device("nvdla_large", (folder,)), Scenario(16, "int8"))


def test_machines_of_papers_are_near_to_what_these_publish() -> None:
    """Time, traffic and area within 1.3 times; energy, which the papers estimate themselves, within 1.6; power 2."""
    within = {"chip_j": 1.6, "chip_w": 2.0}
    found = published.rows(lambda row: row["device"] == "nvdla_small" or row["model"].endswith("=1024"))
    ratios = {(name, figure): ours / theirs for name, _, figure, ours, theirs in found}
    assert len(ratios) == 7
    for (name, figure), ratio in ratios.items():
        most = within.get(figure, 1.3)
        assert 1 / most < ratio < most, (name, figure)


def test_the_most_power_of_nvdla_is_as_published() -> None:
    """The average of its makers is 0.37 of the most on every size, whatever the share of the array at work."""
    ratios = [ours / theirs for _, _, _, ours, theirs in published.rows(lambda row: "peak_w" in row["published"])]
    assert len(ratios) == 5
    assert all(1 / 1.4 < ratio < 1.2 for ratio in ratios)


def changed(folder: Path, name: str, *changes: tuple[str, str]) -> Device:
    """A machine of the folder with its file changed."""
    text = (published.MACHINES / f"{name}.toml").read_text(encoding="utf-8")
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (folder / f"{name}.toml").write_text(text, encoding="utf-8")
    return load_device(name, (folder,))


def test_weights_that_stay_on_chip_are_not_read_again(tmp_path: Path) -> None:
    """All of a model that fits; of one that does not, the part that fits."""
    streams = ("keeps_weights = true", "keeps_weights = false")
    for model, share in (("mobilenet_v2", 0.0), ("vgg16", 0.97)):
        ours, without = (
            np.sum(estimate(store.load(model), device, Scenario(1, "int8")).run.mapping.traffic.weight_read)
            for device in (load_device("edge_tpu", (published.MACHINES,)), changed(tmp_path, "edge_tpu", streams))
        )
        assert ours == pytest.approx(share * without, rel=0.03)


def test_a_systolic_array_that_loads_several_rows_in_a_cycle_waits_less(tmp_path: Path) -> None:
    """Layers of 49 positions wait for 320 rows of weights, unless eight rows come in a cycle."""
    slow = changed(tmp_path, "groq_tsp", ("load_rows = 8", "load_rows = 1"))
    model = store.load("resnet50")
    fast_s, slow_s = (
        np.max(estimate(model, device, Scenario(1, "int8")).run.mapping.matrix_s[0][-60:])
        for device in (load_device("groq_tsp", (published.MACHINES,)), slow)
    )
    assert fast_s < 0.6 * slow_s
    with pytest.raises(RequestError, match="load_rows"):
        changed(tmp_path, "groq_tsp", ("load_rows = 8", "load_rows = 0"))


def test_the_bandwidth_of_the_outermost_memories_follows_from_their_width() -> None:
    simba = load_device("simba")
    assert simba.last_level_bandwidth == pytest.approx(36 * 2 * 64 * simba.clock_hz)
    for change in ("glb_width*2", "chiplets*2", "clock_hz*2"):
        assert load_device(f"simba{{{change}}}").last_level_bandwidth == pytest.approx(2 * simba.last_level_bandwidth)
    assert load_device("simba{memory_bandwidth*2}").last_level_bandwidth == simba.last_level_bandwidth
    assert load_device("tpu_v1_nest").last_level_bandwidth == 1.792e11  # stated


def test_a_machine_of_three_large_memories_answers_in_time(tmp_path: Path) -> None:
    """A GPU-like one: a cache, shared memory in each processor and registers in each core. It keeps its cores busy."""
    device = load_device("gpu_like", (published.MACHINES,))
    with never_endless():  # 2 s; without bounds over 10 min
        result = estimate(store.load("bert_base:sequence=512"), device, Scenario(8, "int8"))
    big = result.demand.gemm[1] == 4096
    ideal_s = result.demand.macs[big] / device.units / device.clock_hz
    assert (result.run.mapping.matrix_s[0][big] < 1.5 * ideal_s).all()


def test_a_result_that_leaves_complete_is_as_wide_as_an_input() -> None:
    """An element of ShiDianNao adds up a whole result: the width of its sum is none of the buffer behind it."""
    wide, narrow = (
        estimate(store.load("conv2d"), load_device(name, (published.MACHINES,)), Scenario(1, "int16"))
        for name in ("shidiannao{accumulator_bytes=4}", "shidiannao")
    )
    row = narrow.device.arch.row["nbout.write"]
    assert wide.run.counts[row].sum() <= narrow.run.counts[row].sum()


def test_the_buffers_of_all_chiplets_keep_a_tensor_for_the_next_layer() -> None:
    device = load_device("simba")
    assert device.last_level_bytes == 36 * device.values["glb_bytes"]


def test_power_that_no_file_says_does_not_follow_a_limit_with_much_room(tmp_path: Path) -> None:
    near, far = (run(tmp_path, ("tdp_w = { value = 5", f"tdp_w = {{ value = {watts}")) for watts in (5, 500))
    assert far.energy_j == pytest.approx(near.energy_j)
    assert far.device.facts["idle_w"].source.startswith("rule: area")


def test_zeros_that_gate_multipliers_cost_no_arithmetic_and_no_less_time(tmp_path: Path) -> None:
    said = 'zero_inputs = { value = 0.44, unit = "share", low = 0.3, high = 0.6'
    dense, half = (run(tmp_path, (said, f'zero_inputs = {{ value = {at}, unit = "share"')) for at in (0.0, 0.5))
    gated = [dense.device.arch.row[label] for label in ("array.mac", "network.macs", "cell.read")]
    spent = dense.event_energy_j.sum(axis=1)
    saved = spent - half.event_energy_j.sum(axis=1)
    assert saved[gated] == pytest.approx(spent[gated] / 2)
    assert np.delete(saved, gated) == pytest.approx(0.0)
    assert half.latency_s == pytest.approx(dense.latency_s)
    with pytest.raises(RequestError, match=r"allowed: 0, or .* to 1"):
        run(tmp_path, (said, 'zero_inputs = { value = 1.5, unit = "share"'))
    with pytest.raises(RequestError, match="allowed: 0 to 1 share"):
        load_device("eyeriss{zero_inputs=1.5}")


def test_zeros_gate_a_product_whose_price_the_file_states() -> None:
    dense, half = (estimate(store.load("conv2d"), load_device(name), Scenario(4, "fp16")).event_energy_j.sum(axis=1)
                   for name in ("eyeriss{tdp_w*2}", "eyeriss{tdp_w*2,zero_inputs=0.5}"))  # fmt: skip
    row = load_device("eyeriss").arch.row
    for label, share in {"array.mac": 0.5, "filter.read": 0.5, "psum.write": 0.5, "ifmap.read": 1.0, "glb.read": 1.0,
                         "filter.write": 1.0, "array.elements_by_time": 1.0}.items():  # fmt: skip
        assert half[row[label]] == pytest.approx(share * dense[row[label]]), label


def test_a_second_memory_of_a_tensor_holds_a_tile_of_its_own(tmp_path: Path) -> None:
    """The memory near the array is too small for a layer; the one behind it holds all, so nothing is loaded again."""
    said = 'source = "an entry is one atom of inputs", quality = "published" }'
    level = '[[hierarchy.levels]]\nname = "sums"'
    near = f'[[hierarchy.levels]]\nname = "near"\nholds = ["input", "weight"]\n\n{level}'
    size = 'near_bytes = { value = 4096, unit = "byte", source = "test", quality = "assumed" }'
    both = run(tmp_path, (said, f"{said}\n{size}"), (level, near))
    alone = run(tmp_path, ("cbuf_bytes = { value = 524288", "cbuf_bytes = { value = 4096"))
    one = run(tmp_path)
    moved = [np.sum(r.run.mapping.traffic.dram_read) for r in (one, both, alone)]
    assert moved[0] == pytest.approx(moved[1])
    assert moved[2] > 2 * moved[0]
    reads = [r.event_energy_j[r.device.arch.row["cbuf.read"]].sum() for r in (one, both)]
    assert reads[1] < reads[0] / 2


def test_lanes_and_multipliers_of_16_bits_need_no_floating_point(tmp_path: Path) -> None:
    """A wide product takes narrow lanes several passes; an element grows with its width, not with its square."""
    lanes = LARGE.index("[fma_per_clock.matrix]"), LARGE.index("[hierarchy]")
    rate = '{ value = 1, unit = "FMA/clock", source = "test", quality = "assumed" }'
    sizes = {}
    for name in ("int8", "int16", "fp16"):
        tables = f"[fma_per_clock.matrix]\n{name} = {rate}\n[fma_per_clock.vector]\n{name} = {rate}\n"
        (tmp_path / "nvdla_large.toml").write_text(LARGE[: lanes[0]] + tables + LARGE[lanes[1] :], encoding="utf-8")
        device = load_device("nvdla_large", (tmp_path,))
        sizes[name] = area(device).compute_mm2
        narrow = {"int8": 16, "int16": 4, "fp16": 4}[name]
        assert device.file.fma_per_clock["vector"]["fp32"].value == pytest.approx(1 / narrow)
        assert estimate(store.load("conv2d"), device, Scenario(1, name)).setup.plan.matrix == name
    assert 1.5 < sizes["int16"] / sizes["int8"] < 3
    assert sizes["int16"] < sizes["fp16"] < 4 * sizes["int8"]


def test_a_wider_model_is_converted_to_what_the_arrays_multiply(tmp_path: Path) -> None:
    result = estimate(store.load("conv2d"), load_device("nvdla_large", (published.MACHINES,)), Scenario(1, "fp32"))
    assert result.setup.plan.convolution == ("matrix", "int8")
    assert "the arrays multiply int8 at most" in result.setup.plan.marks[0]


def test_the_sides_of_an_array_say_how_many_elements_there_are() -> None:
    device = load_device("eyeriss{rows*2}")
    assert device.units == 336
    assert device.peaks["matrix", "fp16"] == pytest.approx(2 * load_device("eyeriss").peaks["matrix", "fp16"])
    with pytest.raises(RequestError, match="units: they are the elements of the arrays; change rows or columns"):
        load_device("eyeriss{units*2}")


def test_small_memories_take_more_area_a_byte_than_large_ones_and_registers_most(tmp_path: Path) -> None:
    def grown(fact: str, size: int) -> float:
        changed = f"{fact}_bytes = {{ value = {size}"
        base = {"cbuf": 524288, "cell": 2}[fact]
        more = run(tmp_path, (f"{fact}_bytes = {{ value = {base}", changed))
        return (area(more.device).memory_mm2 - area(run(tmp_path).device).memory_mm2) / (size - base)

    cells = grown("cell", 4) / 2048
    assert grown("cbuf", 1048576) < cells / 5
    more_banks = run(tmp_path, ("cbuf_banks = { value = 16", "cbuf_banks = { value = 256")).device
    assert area(more_banks).memory_mm2 > 1.3 * area(run(tmp_path).device).memory_mm2


def test_one_port_for_everything_takes_longer_than_three(tmp_path: Path) -> None:
    three = run(tmp_path)
    one = run(tmp_path, ('ports = ["read input", "read weight", "write"]', 'ports = ["read write"]'))
    assert np.max(one.run.mapping.chip_s) > 1.2 * np.max(three.run.mapping.chip_s)


def test_a_tile_and_an_order_that_the_file_states_are_those_of_every_mapping_with_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nests = []
    search = mapping_search.Operator.fastest
    monkeypatch.setattr(mapping_search.Operator, "fastest", lambda *words: nests.append(search(*words)) or nests[-1])
    run(tmp_path, ('holds = ["input", "weight"]', 'holds = ["input", "weight"]\ntile = "K8 C16"\norder = "GNPQCRSK"'))
    assert nests
    for nest, _ in nests:
        k, c = nest.tiles[0][[2, 3], 0]
        assert k <= 8
        assert c <= 16
        assert "".join(mapping_search.LOOPS[loop] for loop in nest.orders[0][:, 0]) == "GNPQCRSK"


def test_a_tile_without_room_leaves_the_search_free(tmp_path: Path) -> None:
    free, huge = run(tmp_path), run(tmp_path, ('holds = ["output"]', 'holds = ["output"]\ntile = "K4096 P112 Q112"'))
    assert huge.latency_s == pytest.approx(free.latency_s, rel=0.5)


def test_banks_make_a_byte_of_a_large_memory_cheaper(tmp_path: Path) -> None:
    banks, one = run(tmp_path), run(tmp_path, ("cbuf_banks = { value = 16", "cbuf_banks = { value = 1"))
    row = banks.device.arch.row["cbuf.read"]
    assert 0.4 < banks.setup.prices.value[row] / one.setup.prices.value[row] < 0.95


def test_a_byte_on_a_wire_costs_more_by_the_voltage_and_not_by_the_logic(tmp_path: Path) -> None:
    """From 10 to 40 nm a multiplication takes 4 times the energy; a mm of wire 310 / 200 times (Keckler et al.)."""
    per_mm, product = [], []
    for process_nm in (10, 40):
        device = changed(
            tmp_path, "nvdla_large", ("process_nm = { value = 16", f"process_nm = {{ value = {process_nm}")
        )
        result = estimate(store.load("conv2d"), device, Scenario(1, "int8"))
        row = device.arch.row
        per_mm.append(result.setup.prices.value[row["network.macs"]] / element_pitch_mm(device, "macs"))
        product.append(result.setup.prices.value[row["array.mac"]])
    assert per_mm[1] / per_mm[0] == pytest.approx(310 / 200, rel=0.02)
    assert product[1] / product[0] > 2


def test_a_core_without_phys_is_smaller(tmp_path: Path) -> None:
    core, whole = (area(run(tmp_path, ("phy_mm2 = { value = 0", f"phy_mm2 = {{ value = {at}")).device) for at in (0, 1))
    assert whole.total_mm2 / (whole.compute_mm2 + whole.memory_mm2 + 1.0) == pytest.approx(1.46)  # links and pads
    assert core.total_mm2 / (core.compute_mm2 + core.memory_mm2) == pytest.approx(1.22)


def test_a_search_that_ends_early_says_so_and_does_not_depend_on_earlier_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other clocks count other mappings first: what they counted does not change the mapping that is found."""
    monkeypatch.setattr(mapping_search, "_EFFORT", 500)
    model = store.load("transformer_block")

    def early(name: str) -> Estimate:
        return estimate(model, load_device(name, (published.MACHINES,)), Scenario(1, "int8"))

    mapping_search._searches.cache_clear()
    fresh = early("gpu_like")
    mapping_search._searches.cache_clear()
    monkeypatch.setattr(mapping_search, "_EFFORT", 32768)
    early("gpu_like{clock_hz=2e9}")
    monkeypatch.setattr(mapping_search, "_EFFORT", 500)
    later = early("gpu_like{memory_bytes=81e9}")
    assert later.latency_s == fresh.latency_s
    assert any("the search ended early" in phrase for phrase in describe_deviations(fresh))
    assert not any("the search ended early" in phrase for phrase in describe_deviations(early("nvdla_small")))


def test_ways_that_differ_in_loops_of_one_step_are_one_way() -> None:
    machine = find_machine(load_device("gpu_like", (published.MACHINES,)))
    few = mapping_search._fewer_ways(machine, np.array([1.0, 1.0, 64.0, 64.0, 7.0, 7.0, 1.0, 1.0]))
    assert [len(place.ways) for place in machine.places] == [1, 4, 3, 2]
    assert [len(place.ways) for place in few.places] == [1, 2, 3, 2]


@pytest.mark.parametrize(
    ("said", "written", "near"),
    [
        ('stationary = "weight"', 'stationary = "weights"', "weight"),
        ('kind = "register"', 'kind = "registers"', "register"),
        ("ports = [", "port = [", "ports"),
    ],
)
def test_a_wrong_word_of_a_hierarchy_names_the_nearest(said: str, written: str, near: str, tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=rf"did you mean {near}\b"):
        run(tmp_path, (said, written))
