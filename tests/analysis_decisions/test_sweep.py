"""Sweeps: the best batch and the crossover are what evaluation finds; `--all` gives the bits of a single run."""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from decisions import DEFAULTS, MODELS, device, hwexplorer, run, workload

from analysis.estimate.estimate import estimate, estimate_batches, evaluate, evaluate_in_parts, make_bundle
from analysis.estimate.figures import figures
from analysis.estimate.metrics import ADDITIVE, METRICS
from analysis.estimate.peak_memory import block_channels, peak_memory
from analysis.estimate.scenario import Scenario
from analysis.explore import catalogue_sweep, grid
from analysis.explore.catalogue_sweep import COLUMNS, Chunk, chunks, header, run_chunk
from hardware.base.errors import RequestError
from hardware.device_catalog import catalogue_devices
from hardware.engines.runtime import LIKE_FOR_LIKE
from hardware.setup import make_setup, resolve_runtime, runtime_of_mode
from hwexplorer.reports.sweep import AIMS
from tests.sampling import every, for_each

SOME = (
    "resnet18", "vit_b_16", "maskrcnn_resnet50_fpn_v2", "swin_v2_t", "raft_small", "mobilenet_v3_small", "gemm",
    "llama3_8b:decode,layers=2,kv=300",
)  # fmt: skip


@for_each("on", DEFAULTS)
@for_each("precision", ["fp32", "int8", "w4a8kv4"])
@for_each(("execution", "batch"), [("eager", 6), (LIKE_FOR_LIKE, 1)])
def test_many_models_at_once_have_the_bits_of_each_alone(on: str, precision: str, execution: str, batch: int) -> None:
    loaded = [workload(name) for name in SOME]
    setup = make_setup(device(on), precision, resolve_runtime(device(on), execution, "vision"))
    widths = setup.plan.widths
    asked = make_bundle(loaded, (batch,), widths, setup.joins)
    block = block_channels(device(on), execution)
    held = [peak_memory(one, batch, widths, setup.joins, block).peak_bytes for one in loaded]
    found = evaluate_in_parts(asked, loaded, setup).totals
    formats = [setup.plan.precision_run(mostly) for mostly in asked.mostly_convolution]
    for i, one in enumerate(loaded):
        alone = estimate(one, device(on), Scenario(batch, precision, execution))
        assert (found.latency_s[i], found.energy_j[i]) == (alone.latency_s, alone.energy_j), one.name
        assert (found.utilization[i], found.bound[i]) == (alone.utilization, alone.bound)
        assert (formats[i], held[i]) == (alone.precision_run, alone.memory.peak_bytes)


@every(36)
@for_each("name", (*SOME, "llama3_8b:request,in=64,out=8,layers=2"))
def test_batches_at_once_have_the_figures_of_each_alone(nth: int, name: str) -> None:
    batches, model = (1, 6, 64), workload(name)
    for place, on in enumerate(catalogue_devices()[::nth]):
        base = Scenario(precision=("fp32", "fp16", "int8")[place % 3])
        together = estimate_batches(model, on, base, batches)
        for batch, found in zip(batches, together, strict=True):
            alone = estimate(model, on, msgspec.structs.replace(base, batch=batch))
            assert figures(found) == figures(alone), (on.key, batch)


def test_the_order_of_models_does_not_matter() -> None:
    setup = make_setup(device("h100_sxm"), "fp16", runtime_of_mode(device("h100_sxm"), "eager"))
    loaded = [workload(name) for name in SOME]
    there, back = (
        evaluate(make_bundle(order, (3,), setup.plan.widths, "eager"), setup).totals for order in (loaded, loaded[::-1])
    )
    assert np.array_equal(there.latency_s, back.latency_s[::-1])
    assert np.array_equal(there.energy_j, back.energy_j[::-1])


def _small(form: str = "csv") -> list[Chunk]:
    return _of_models(SOME[:4], chunks((1, 8), ("fp32", "int8"), DEFAULTS, Scenario(), (), form)[0])


def _of_models(names: Sequence[str], chunk: Chunk) -> list[Chunk]:
    """Return chunks of two of the models each."""
    return [msgspec.structs.replace(chunk, models=tuple(names[i : i + 2])) for i in range(0, len(names), 2)]


def test_rows_of_all_equal_single_estimates() -> None:
    text = header("csv") + "".join(map(run_chunk, _small()))
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == len(SOME[:4]) * len(DEFAULTS) * 2 * 2
    for row in rows:
        alone = run(row["model"], row["device"], int(row["batch"]), row["precision"])
        assert float(row["latency_s"]) == alone.latency_s
        assert float(row["energy_j"]) == alone.energy_j
        assert float(row["edp_js"]) == alone.edp_js
        assert float(row["average_power_w"]) == alone.average_power_w
        assert float(row["throughput_per_s"]) == alone.throughput_per_s
        assert (row["bound"], row["precision_run"], row["execution"]) == (
            alone.bound, alone.precision_run, alone.execution
        )  # fmt: skip
        assert row["fits"] == str(alone.fits)


def test_all_as_json_round_trips() -> None:
    rows = [json.loads(line) for chunk in _small("jsonl") for line in run_chunk(chunk).splitlines()]
    assert len(rows) == len(SOME[:4]) * len(DEFAULTS) * 2 * 2
    assert tuple(rows[0]) == COLUMNS


def test_processes_give_the_same_text() -> None:
    work = _of_models(SOME[:4], chunks((1,), ("fp16",), DEFAULTS[:2], Scenario(), (), "csv")[0])
    assert len(work) == 2
    with catalogue_sweep.processes(2) as executor:
        assert list(executor.map(run_chunk, work)) == [run_chunk(chunk) for chunk in work]


# --- one model --------------------------------------------------------------------------------------------


def _axes(model: str, devices: Sequence[str], batches: tuple[int, ...], precisions: tuple[str, ...]) -> grid.Axes:
    return grid.Axes((workload(model),), tuple(map(device, devices)), batches, precisions)


@pytest.mark.parametrize("name", MODELS[:3])
def test_the_best_batch_is_the_best_of_those_swept(name: str) -> None:
    found = grid.evaluate(_axes(name, DEFAULTS, (1, 4, 64), ("fp32", "fp16")))
    assert len(found) == len(DEFAULTS) * 3 * 2
    for best in found.best_by(tuple(AIMS)):
        rows = [r for r in found if (r.device, r.precision) == (best.device, best.precision) and r.fits]
        values = {
            "energy": [r.energy_j_per_inference for r in rows],
            "efficiency": [-1 / r.energy_j_per_inference for r in rows],
            "throughput": [-r.throughput_per_s for r in rows],
            "edp": [r.edp_js for r in rows],
        }[best.aim]
        assert abs(best.value) == abs(min(values))


@pytest.mark.parametrize("name", ADDITIVE)
def test_the_crossover_is_where_the_winner_changes(name: str) -> None:
    axes = _axes("resnet18", DEFAULTS, (1, 128), ("fp32",))
    pairs = grid.evaluate(axes).crossings(axes, (name,))
    assert len(pairs) == len(DEFAULTS) * (len(DEFAULTS) - 1) // 2
    for cross in pairs:
        batches = (1, 128) if cross.batch is None else (cross.batch - 1, cross.batch)
        ahead = [
            METRICS[name].figure(run("resnet18", cross.before, b))
            <= METRICS[name].figure(run("resnet18", cross.after, b))
            for b in batches
        ]
        assert ahead == ([True, True] if cross.batch is None else [True, False])


def test_power_modes_and_image_sizes_are_swept() -> None:
    found = hwexplorer(
        "sweep", "conv2d", "--on", "kpu", "--batches", "2,1", "--power-modes", "--format", "json"
    ).json()  # fmt: skip
    assert found["batches"] == [1, 2]
    assert {row["device"] for row in found["rows"]} >= {"kpu_t256", "kpu_t256:15w"}
    assert msgspec.json.decode(msgspec.json.encode(found)) == found


def test_formats_agree() -> None:
    words = ("sweep", "resnet18", "--on", "gpu,kpu", "--batches", "1,4")
    document = hwexplorer(*words, "--format", "json").json()
    rows = list(csv.DictReader(io.StringIO(hwexplorer(*words, "--format", "csv").out)))
    for name in ("latency_s", "energy_j_per_inference", "edp_js"):
        assert [float(row[name]) for row in rows] == [row[name] for row in document["rows"]]
    for row in document["rows"]:
        assert row["edp_js"] == pytest.approx(row["latency_s"] * row["energy_j_per_inference"], rel=1e-9)


def test_a_device_it_does_not_fit_on_is_never_ahead() -> None:
    axes = _axes("vgg16", ("coral_edge_tpu", "h100_sxm"), (1, 512), ("fp32",))
    found = grid.evaluate(axes)
    fits = {(p.device, p.batch): p.fits for p in found}
    for cross in found.crossings(axes, ADDITIVE):
        if cross.batch is None:
            assert fits[cross.before, 512] or not fits[cross.after, 512]
    for best in found.best_by(tuple(AIMS)):
        assert fits[best.device, best.batch]


def test_devices_of_a_folder_are_swept(tmp_path) -> None:  # type: ignore[no-untyped-def]
    from hardware.device_catalog import CATALOG

    text = (CATALOG / "kpu_t256.toml").read_text(encoding="utf-8").replace('id = "kpu_t256"', 'id = "mine"')
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    work = _of_models(("resnet18",), chunks((1,), ("int8",), ("mine",), Scenario(), (tmp_path,), "csv")[0])
    (line,) = run_chunk(work[0]).splitlines()
    assert line.startswith("resnet18,mine,1,int8")


def test_nothing_to_sweep_is_said() -> None:
    with pytest.raises(RequestError, match="no batch"):
        _axes("conv2d", ("gpu",), (), ("fp32",))


def _capped_search(*words: str) -> tuple[list[dict[str, Any]], str]:
    """Return the candidates that a search with caps finds, and its text."""
    asked = ("search", *words, "--on", "h100_sxm", "--cap", "--sort", "energy")
    return hwexplorer(*asked, "--format", "json").json()["found"], hwexplorer(*asked).out


@pytest.mark.parametrize("model", ["resnet50@b64,fp16", "llama3_8b:decode,kv=1024"])
def test_a_search_finds_a_cap_with_less_energy_within_the_latency(model: str) -> None:
    free = hwexplorer("compare", model, "--on", "h100_sxm", "--format", "json").json()["rows"][0]
    batch, precision, limit_s = str(free["batch"]), free["precision"], free["latency_s"] * 1.1
    words = (model, "--batches", batch, "--precisions", precision, "--max-latency", f"{limit_s}s")
    found, text = _capped_search(*words)
    points = found
    assert "@" in points[0]["device"]
    assert points[0]["energy_j_per_inference"] < free["energy_j_per_inference"]
    assert all(point["latency_s"] <= limit_s and point["silicon"] for point in points)
    assert {point["device"] for point in points} >= {"h100_sxm", points[0]["device"]}
    assert f"at {points[0]['device'].partition('@')[2].removesuffix('W')} W" in text
    assert "without a cap" in text
    # What keeps a tighter limit is no slower cap.
    tighter, _ = _capped_search(*words[:-1], f"{free['latency_s'] * 1.001}s")
    assert tighter[0]["latency_s"] <= points[0]["latency_s"] * (1 + 1e-9)
