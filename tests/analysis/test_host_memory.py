"""Layers and experts in the memory of the host, against measured rates, and laws of what is where."""

import numpy as np
import pytest

from analysis.explore.divided_run import ALONE, EXPERTS, HOST, LAYERS, describe_way, find_offload, host_bandwidth
from hardware.base.errors import RequestError
from hwexplorer import engine
from hwexplorer.reports.show.offload import VERB, _summary
from hwexplorer.state import State

# Tokens/s of llama.cpp with Q4_K_M (MXFP4 for gpt-oss) on a Core i9-10900X with 62 GB: pull requests 755, 773, 774, 775
# and 778 of AlexsJones/llmfit. `-ngl` counts layers on the GPU. The catalogue has a sister of the CPU.
MEASURED = (
    ("gemma3_12b", LAYERS, 48 - 44, 26.1), ("qwen3_14b", LAYERS, 40 - 32, 16.9), ("phi4_14b", LAYERS, 40 - 32, 16.7),
    ("gemma2_9b", LAYERS, 42 - 36, 23.7), ("qwen2_5_14b", LAYERS, 48 - 42, 20.8),
    ("mistral_small_24b", LAYERS, 40 - 16, 5.2), ("gpt_oss_20b", EXPERTS, 12, 36.4),
    ("deepseek_v2_lite", EXPERTS, 16, 49.6), ("qwen3_30b_a3b", EXPERTS, 36, 36.7), ("qwen3_8b", ALONE, 0, 69.3),
)  # fmt: skip


def _sides(model, precision="q4_k_m", unit="rtx_2080", host="i9_10920x", **lengths):
    state = State(model=model, precision=precision, execution="llama_cpp", **lengths)
    return engine.result(state, unit), engine.result(state, host)


def test_measured_rates_are_met():
    errors = []
    for model, way, layers, rate in MEASURED:
        sides = _sides(f"{model}:decode", "mxfp4" if "gpt" in model else "q4_k_m", kv=300)
        errors.append(describe_way(*sides, way, layers).tokens_per_s / rate - 1.0)
    assert np.median(np.abs(errors)) < 0.12
    assert max(map(abs, errors)) < 0.3


def test_what_is_held_adds_up_and_more_layers_on_the_host_are_slower():
    result, host = _sides("qwen3_30b_a3b:decode")
    for way in (LAYERS, EXPERTS):
        rows = [describe_way(result, host, way, n) for n in range(1, 49, 8)]
        assert len({round(row.device_bytes + row.host_bytes) for row in rows}) == 1
        assert np.all(np.diff([row.tokens_per_s for row in rows]) < 0.0)
        assert np.all(np.diff([row.device_bytes for row in rows]) < 0.0)
    alone, whole = describe_way(result, host, ALONE, 0), describe_way(result, host, HOST, 48)
    assert alone.latency_s == pytest.approx(result.latency_s)
    assert whole.latency_s == pytest.approx(host.latency_s)


def test_layers_on_a_second_device_take_its_time():
    """Two alike take as long as one that has the room; layers move between unlike ones at the time of each."""
    alike = _sides("qwen3_8b:decode", host="rtx_2080")
    assert describe_way(*alike, LAYERS, 10).latency_s == pytest.approx(alike[0].latency_s, rel=0.01)
    unlike = _sides("qwen3_8b:decode", unit="rtx_5080", host="rtx_2080")
    rows = [describe_way(*unlike, LAYERS, n) for n in range(0, 37, 6)]
    assert np.all(np.diff([row.latency_s for row in rows]) > 0.0)
    assert unlike[0].latency_s < rows[3].latency_s < unlike[1].latency_s
    assert (rows[3].way, rows[3].option) == ("layers on rtx_2080", "-ts 18,18")


def test_the_least_that_has_to_leave_leaves():
    report = find_offload(*_sides("qwen3_30b_a3b:decode"))
    best = report.ways[0]
    assert (best.way, best.fits) == (EXPERTS, True)
    assert best.device_bytes <= report.device_bytes
    assert not describe_way(*_sides("qwen3_30b_a3b:decode"), EXPERTS, best.layers - 1).fits
    assert not any(way.fits for way in report.ways if way.way == ALONE)


def test_a_split_that_is_asked_for_is_shown_beside_the_best():
    """llmfit pull request 778 states `-ngl 42` of 48 layers, 773 `--n-cpu-moe 36`."""
    for model, words, way, layers in (
        ("qwen2_5_14b", {"ngl": 42}, LAYERS, 6), ("qwen3_30b_a3b", {"moe": 36}, EXPERTS, 36)
    ):  # fmt: skip
        sides = _sides(f"{model}:decode")
        asked = find_offload(*sides, **words).ways[-1]
        assert (asked.way, asked.layers) == (f"as asked: {way}", layers)
        assert asked.tokens_per_s == describe_way(*sides, way, layers).tokens_per_s
    for words in ({"moe": 4}, {"ngl": 10, "moe": 4}):
        with pytest.raises(RequestError, match="name layers on the device, or experts"):
            find_offload(*_sides("gemma2_9b:decode"), **words)


@pytest.mark.parametrize(
    ("load", "says"), [("rate=0.01", "keeps up, "), ("rate=50", "falls behind, "), ("concurrency=4", "each")]
)
def test_a_load_is_served_one_request_after_another(load, says):
    state = State(model="qwen3_30b_a3b", precision="q4_k_m", load=load, devices=("rtx_2080",))
    reports = [
        VERB.document(state, "i9_10920x")
        for state in (state, State(model="qwen3_30b_a3b:request", precision="q4_k_m", devices=("rtx_2080",)))
    ]
    assert says in next(line for line in _summary(reports[0], state) if line.startswith(f"under {load}"))
    assert len({report.ways[0].option for report in reports}) == 1


def test_prompts_read_weights_over_the_link():
    result, host = _sides("llama3_70b", sequence=512)
    way = describe_way(result, host, LAYERS, 40)
    link_s = way.host_bytes / host_bandwidth(result.device)
    assert link_s < way.latency_s < 0.5 * host.latency_s


@pytest.mark.parametrize(("model", "unit"), [("resnet18", "rtx_2080"), ("llama3_8b:decode", "jetson_agx_orin")])
def test_other_models_and_devices_are_refused(model, unit):
    state = State(model=model)
    with pytest.raises(RequestError, match="name a language model and a device beside"):
        find_offload(engine.result(state, unit), engine.result(state, "i9_10920x"))
