"""Trends that hold on any machine: more work is never quicker, better hardware never slower, cheaper never dearer."""

from collections.abc import Iterable
from functools import cache
from itertools import pairwise
from pathlib import Path

import grid
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from analysis.model.ir.workload import Workload
from hardware.device import Device
from hardware.device_catalog import load_device
from hardware.plan import make_plan
from tests.models import load_once
from tests.sampling import first, for_each, slow

ROUNDING = 1 + 1e-9
QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

sizes = st.one_of(st.integers(1, 300), st.sampled_from([511, 512, 768, 1000, 1023, 2048, 4095, 8192]))
names = st.sampled_from(grid.DEFAULTS)
modes = st.sampled_from(grid.MODES)
precisions = st.sampled_from(grid.PRECISIONS)


def latency(work: str | Workload, on: Device, batch: int, precision: str, mode: str) -> float:
    return grid.run(work, on, batch, precision, mode).latency_s


def scan(model: str, on: Device, precision: str, mode: str, batches: Iterable[int] | None = None) -> list[str]:
    """Return the batches at which the total latency falls, of the scan or of `batches`."""
    found, before = [], 0.0
    for batch in batches or (*range(1, 131), *(2**k for k in range(8, 13))):
        now = latency(model, on, batch, precision, mode)
        if now < before / ROUNDING:
            found.append(f"{model} {on.key} {precision} {mode} batch {batch}: {before:.6g} s -> {now:.6g} s")
        before = now
    return found


@for_each("name", grid.DEFAULTS)
@for_each("model", ["conv2d", "attention_head", "resnet18", "transformer_block"])
def test_a_few_more_are_never_quicker(model: str, name: str) -> None:
    batches = [*range(1, 10), 15, 16, 17, 32, 33, 64, 65, 128, 129, 512, 513, 4096]
    on = grid.device(name)
    cases = (("fp32", "eager"), ("int8", "eager"), ("fp16", "fused"))
    assert not [f for precision, mode in cases for f in scan(model, on, precision, mode, batches)]


@slow
@pytest.mark.parametrize("name", grid.DEFAULTS)
@pytest.mark.parametrize("model", ["conv2d", "attention_head", "resnet18", "mobilenet_v2", "transformer_block"])
def test_a_larger_batch_is_never_quicker(model: str, name: str) -> None:
    """Operators in each precision, whole models in those that run apart."""
    on = grid.device(name)
    precisions = grid.distinct_precisions(on) if model in ("conv2d", "attention_head") else ("fp32", "fp16", "int8")
    assert not [f for p in precisions for mode in grid.MODES for f in scan(model, on, p, mode)]


@slow
@pytest.mark.parametrize("name", grid.representatives())
def test_a_larger_batch_is_never_quicker_across_the_catalogue(name: str) -> None:
    on = grid.device(name)
    assert not [f for model in ("conv2d", "attention_head") for f in scan(model, on, "fp16", "auto")]


def test_weights_take_the_room_that_they_are_not_that_of_the_rows_read() -> None:
    """A table of words counted by the rows that a batch reads: from 64 sequences on no weights stayed on chip, and
    that was 8 % quicker."""
    results = [grid.run("bert_base", load_device("kpu_t768:30w"), batch, "int8", "compiled") for batch in range(61, 67)]
    assert len({float(result.demand.weight_bytes[0]) for result in results}) == 1
    assert all(one.latency_s <= more.latency_s * ROUNDING for one, more in pairwise(results))


@pytest.mark.parametrize("name", ["graviton3", "graviton4", "xeon_8490h"])
@pytest.mark.parametrize("precision", ["fp16", "int8"])
def test_a_larger_batch_of_decoding_is_never_quicker(name: str, precision: str) -> None:
    """At the power limit: eight sequences took 0.7 % less time than seven, by larger tiles and fewer reads of them."""
    model = load_once("llama3_8b:layers=2,decode,kv=512")
    results = [grid.run(model, name, batch, precision) for batch in range(1, 20)]
    assert all(one.latency_s <= more.latency_s * ROUNDING for one, more in pairwise(results))


@pytest.mark.parametrize("precision", ["fp16", "int8", "nvfp4"])
def test_tiles_are_chosen_within_the_power_limit(precision: str) -> None:
    """Columns of one result were fastest for 200 sequences but streamed so much that 201 took 3 to 6 % less time."""
    model = load_once("deepseek_v3:decode,layers=4,kv=4096")
    results = [grid.run(model, "kpu_t768", batch, precision) for batch in range(196, 206)]
    assert all(one.latency_s <= more.latency_s * ROUNDING for one, more in pairwise(results))


@given(m=sizes, n=sizes, k=sizes, grow=st.sampled_from("MNK"), name=names, mode=modes, precision=precisions)
@example(m=5, n=4095, k=511, grow="N", name="hailo8", mode="eager", precision="w4a8kv8")
@example(m=1, n=161, k=1, grow="K", name="hailo8", mode="eager", precision="int4")
@example(m=511, n=17, k=8, grow="M", name="hailo8", mode="eager", precision="int4")
@example(m=8192, n=165, k=196, grow="M", name="snapdragon_x_elite_npu", mode="eager", precision="int8")
@settings(QUICK, max_examples=80)
def test_a_larger_product_is_never_quicker(
    m: int, n: int, k: int, grow: str, name: str, mode: str, precision: str
) -> None:
    larger = {"M": m, "N": n, "K": k}
    larger[grow] += 1
    on = grid.device(name)
    before = latency(grid.toy_gemm(m, n, k), on, 1, precision, mode)
    after = latency(grid.toy_gemm(larger["M"], larger["N"], larger["K"]), on, 1, precision, mode)
    assert after >= before / ROUNDING


@given(m=sizes, n=sizes, k=sizes, batch=st.integers(1, 64), name=names, precision=precisions)
@example(m=1, n=1, k=511, batch=2, name="hailo8", precision="w4a8kv8")
@settings(QUICK, max_examples=100)
def test_a_product_knows_no_difference_between_batch_and_rows(
    m: int, n: int, k: int, batch: int, name: str, precision: str
) -> None:
    rows, batched = grid.toy_gemm(m * batch, n, k), grid.toy_gemm(m, n, k)
    assert latency(rows, grid.device(name), 1, precision, "eager") == pytest.approx(
        latency(batched, grid.device(name), batch, precision, "eager"), rel=1e-12
    )


BETTER = {
    "bandwidth": grid.faster(("memory_bandwidth",)),
    "clock": grid.faster(("clock_hz", "vector_clock_hz", "matrix_clock_hz")),
    "matrix": grid.faster(units=("matrix",)),
    "vector": grid.faster(units=("vector",)),
    "power limit": grid.faster(("tdp_w", "power_limit_w")),
}


@pytest.mark.parametrize("what", [w for w in BETTER if w != "power limit"])
@pytest.mark.parametrize("name", first(grid.representatives(), 5))
def test_better_hardware_is_never_slower(name: str, what: str, tmp_path: Path) -> None:
    """In total, at the clock of the run that keeps the power limit; before that limit where layers share a chip and its
    time."""
    original = grid.device(name)
    better = grid.altered(tmp_path, name, BETTER[what])
    worse = []
    for model in ("resnet18", "mobilenet_v2", "vit_b_16", "vgg16"):
        for precision in grid.distinct_precisions(original):
            for batch, mode in zip((1, 64), grid.MODES, strict=True):
                a, b = (grid.run(model, d, batch, precision, mode) for d in (original, better))
                kind = "unthrottled_s" if original.arch.places_models else "kernel_s"
                before, after = (float(getattr(r.run, kind).sum()) for r in (a, b))
                if after > before * ROUNDING:
                    worse.append((model, precision, batch, mode, f"x {after / before:.6f}"))
    assert not worse


@given(m=sizes, n=sizes, k=sizes, name=names, what=st.sampled_from(sorted(BETTER)), precision=precisions)
@settings(QUICK, max_examples=80)
def test_better_hardware_is_never_slower_on_products(
    m: int, n: int, k: int, name: str, what: str, precision: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    original = grid.device(name)
    better = _better(name, what, tmp_path_factory)
    work = grid.toy_gemm(m, n, k)
    for mode in grid.MODES:
        assert latency(work, better, 8, precision, mode) <= latency(work, original, 8, precision, mode) * ROUNDING


_BETTER: dict[tuple[str, str], Device] = {}


def _better(name: str, what: str, factory: pytest.TempPathFactory) -> Device:
    if (name, what) not in _BETTER:
        _BETTER[name, what] = grid.altered(factory.mktemp("better"), name, BETTER[what])
    return _BETTER[name, what]


@pytest.mark.parametrize("name", [name for name in grid.DEFAULTS if not load_device(name).arch.places_models])
def test_a_memory_bound_kernel_does_not_change_with_the_peak(name: str, tmp_path: Path) -> None:
    quick = grid.altered(tmp_path, name, grid.faster(units=("matrix", "vector"), factor=2.0))
    seen = 0
    for model in ("resnet50", "mobilenet_v2", "vit_b_16", "vgg16"):
        for precision in ("fp32", "fp16", "int8"):
            for mode in grid.MODES:
                a, b = (grid.run(model, d, 64, precision, mode) for d in (grid.device(name), quick))
                if a.part or b.part:
                    continue
                bound = a.run.bound == 1
                seen += int(bound.sum())
                np.testing.assert_array_equal(b.run.kernel_memory_s[bound], a.run.kernel_memory_s[bound])
                # The roofline is rounded where compute and memory time are within a factor of two; else exact.
                far = bound & (a.run.kernel_compute_s < 0.5 * a.run.kernel_memory_s)
                far &= b.run.overhead_s == a.run.overhead_s  # quicker kernels before leave one to wait for the host
                np.testing.assert_allclose(b.run.unthrottled_s[far], a.run.unthrottled_s[far], rtol=1e-12)
                least = a.run.kernel_memory_s + b.run.overhead_s  # quicker kernels take fewer threads
                assert (b.run.kernel_s[bound] >= least[bound] / ROUNDING).all()
    assert seen > 20


@pytest.mark.parametrize("name", [name for name in grid.DEFAULTS if load_device(name).arch.places_models])
def test_what_loads_does_not_change_with_the_peak(name: str, tmp_path: Path) -> None:
    """Where weights arrive before the work and not beside it, they are the same at any peak, and so is the time that
    the link needs for them: no model takes less."""
    quick = grid.altered(tmp_path, name, grid.faster(units=("matrix", "vector"), factor=2.0))
    for model in ("resnet50", "mobilenet_v2", "vit_b_16", "vgg16"):
        for mode in grid.MODES:
            a, b = (grid.run(model, d, 64, "int8", mode) for d in (grid.device(name), quick))
            loaded = [r.run.mapping.traffic.weight_read for r in (a, b)]
            np.testing.assert_array_equal(*loaded)
            assert b.latency_s >= loaded[1].sum() / quick.memory_bandwidth
            assert b.latency_s <= a.latency_s * ROUNDING
            assert (b.run.kernel_s >= b.demand.per_kernel(b.run.mapping.dram_s[0]) / ROUNDING).all()


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_energy_falls_with_every_price(name: str, tmp_path: Path) -> None:
    """Halving any one coefficient never raises energy or time, and lowers the energy of some."""
    original = grid.device(name)
    before = cache(lambda model, precision, mode: grid.run(model, original, 8, precision, mode))
    rows = grid.run("transformer_block", original, 8, "fp32").run.prices.rows
    for index, row in enumerate(rows):
        label = f"{row.category}.{row.event}"
        lowered = 0.0
        for precision in ("fp32", "int8"):
            runs = make_plan(original, precision)
            price = grid.run("transformer_block", original, 8, precision).run.prices.rows[index]

            def change(
                data: dict[str, object], label: str = label, unit: str = row.unit, price: float = price.value_j
            ) -> None:
                stated = data.setdefault("coefficients", {})
                assert isinstance(stated, dict)
                for key in [k for k in stated if k.partition(":")[0] == label]:
                    del stated[key]
                stated[label] = {"value": price / 2, "unit": f"J/{unit}", "source": "test", "quality": "assumed"}

            cheap = grid.altered(tmp_path, name, change, f"cheap_{index}_{precision}")
            assert make_plan(cheap, precision).matrix == runs.matrix
            # One that is too large for a chip too: what loading its weights costs.
            large = ("vgg11",) if original.arch.places_models else ()
            for turn, model in enumerate(("depthwise_separable", "transformer_block", "conv2d", *large)):
                mode = grid.MODES[turn % 2]
                a, b = before(model, precision, mode), grid.run(model, cheap, 8, precision, mode)
                assert b.energy_j <= a.energy_j * ROUNDING, label
                assert b.latency_s <= a.latency_s * ROUNDING, label
                lowered = max(lowered, 1 - b.energy_j / a.energy_j)
        if row.event not in ("host_dispatch", "sampling"):
            assert lowered > 0.0, f"{label} costs nothing anywhere"


@pytest.mark.parametrize("name", grid.DEFAULTS)
def test_narrower_numbers_never_cost_more_time(name: str) -> None:
    """int8 against the 16-bit format of the device against fp32, where the device runs each itself."""
    for model in grid.MODELS:
        for batch in (1, 64):
            for mode in grid.MODES:
                wide, half, narrow = (
                    latency(model, grid.device(name), batch, p, mode) for p in ("fp32", "bf16", "int8")
                )
                assert narrow <= half * ROUNDING
                assert half <= wide * ROUNDING
