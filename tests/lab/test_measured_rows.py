"""Rows of the measured tables as requests: language models, encoders, CPUs, accelerators, kernels."""

import re
from pathlib import Path

import pytest

from analysis.estimate import trust
from analysis.estimate.estimate import estimate
from analysis.estimate.trust import work_classes
from analysis.measured import predictions, tables
from analysis.measured.predictions import interpret_row
from analysis.measured.tables import Unpredictable
from analysis.model import store
from analysis.model.ir.workload import WORK_KINDS
from hardware import precision
from hardware.device import CATALOG
from hardware.engines.runtime import LIKE_FOR_LIKE, MODES, UNKNOWN, runtimes
from lab import judge, measured_rows
from lab.single_kernels import KERNEL_KINDS
from lab.timed_kernels import predict_kernels
from tests.models import load_once
from tests.sampling import for_each, slow

LLM = {
    "source": "me", "origin": "", "device": "h100_sxm", "n_devices": "1", "device_mode": "", "model": "llama3_8b",
    "phase": "decode", "batch": "1", "prompt_tokens": "", "output_tokens": "", "kv_tokens": "512", "note": "",
    "weights_format": "fp16", "activation_format": "fp16", "runtime": "TensorRT-LLM 0.9", "latency_s": "0.01",
    "throughput_tokens_per_s": "", "energy_j_per_token": "4",
}  # fmt: skip
BERT = {
    "source": "me", "note": "engine with plugins", "device": "a30", "n_devices": "4", "device_mode": "",
    "model": "bert_large", "framework": "TensorRT 8.6.0", "batch": "", "image_size": "", "sequence": "178",
    "precision": "int8", "scenario": "Offline", "throughput_per_s": "6400", "latency_ms": "",
}  # fmt: skip


def refused(row: dict[str, str]) -> str:
    with pytest.raises(Unpredictable) as caught:
        interpret_row(row)
    return str(caught.value)


def test_decoding_is_a_step_of_a_batch() -> None:
    row = interpret_row(LLM)
    assert (row.model, row.lengths) == ("llama3_8b:decode", {"kv": 512})
    assert (row.scenario.batch, row.scenario.precision, row.scenario.execution) == (1, "fp16", "tensorrt_llm_2024")
    assert (row.latency_s, row.energy_j, row.family) == (0.01, 4.0, "llama")
    served = interpret_row({**LLM, "batch": "31.6", "latency_s": "", "throughput_tokens_per_s": "640", "kv_tokens": ""})
    assert served.scenario.batch == 32
    assert served.latency_s == pytest.approx(32 / 640)
    assert served.lengths == {"kv": 256}


def test_energy_and_throughput_of_a_group_are_shared() -> None:
    row = interpret_row({**LLM, "n_devices": "4", "device_mode": "TP4 PP1"})
    assert row.model == "llama3_8b:decode,tp=4"
    assert row.energy_j == 4.0  # a group's energy is the group's
    bert = interpret_row(BERT)
    assert bert.latency_s == pytest.approx(64 * 4 / 6400)
    assert (bert.model, bert.scenario.execution) == ("bert_large:sequence=178", "tensorrt_plugins")


def test_experts_spread_as_the_row_says() -> None:
    row = {**LLM, "model": "meta-llama/Llama-4-Scout-17B-16E-Instruct", "n_devices": "8", "device_mode": "EP8"}
    assert interpret_row(row).model == "llama4_scout:decode,tp=8,ep=8"
    assert interpret_row({**row, "device_mode": "TP8"}).model == "llama4_scout:decode,tp=8"


def test_a_module_takes_less_than_its_board_at_the_wall() -> None:
    """53 W at the wall are 46.64 behind the supply, of which the module has all but 2.3."""
    row = BERT | {"device": "jetson_agx_orin", "n_devices": "1", "throughput_per_s": "100"}
    row["energy_mJ_per_inference"] = "530"
    assert interpret_row({**row, "note": "metered at the wall"}).energy_j == pytest.approx(0.4434)
    assert interpret_row(row).energy_j == 0.53


def test_the_power_of_a_system_is_not_that_of_its_cards() -> None:
    for device, framework in (("cloud_ai_100_pro", "Qualcomm Cloud AI SDK v1.7.1"), ("xeon_8380", "OpenVINO 2022")):
        row = {**BERT, "device": device, "framework": framework, "energy_mJ_per_inference": "30"}
        assert interpret_row(row).energy_j == 0.03
        assert interpret_row({**row, "note": "metered at the wall"}).energy_j is None


def test_a_prompt_and_a_whole_request() -> None:
    prompt = interpret_row({**LLM, "phase": "prefill", "prompt_tokens": "1024", "kv_tokens": ""})
    assert (prompt.model, prompt.lengths) == ("llama3_8b:prefill", {"sequence": 1024})
    whole = {**LLM, "phase": "end_to_end", "prompt_tokens": "128", "output_tokens": "100", "batch": "8"}
    rate = interpret_row({**whole, "latency_s": "", "throughput_tokens_per_s": "1600"})
    assert (rate.model, rate.lengths) == ("llama3_8b:request", {"sequence": 128, "output": 100})
    assert rate.latency_s == pytest.approx(8 * 100 / 1600)
    assert rate.energy_j == pytest.approx(4.0 * 100)
    result = estimate(load_once("llama3_8b:request").bound(**rate.lengths), rate.device, rate.scenario)
    spelt = estimate(load_once("llama3_8b:request,in=128,out=100"), rate.device, rate.scenario)
    assert result.latency_s == spelt.latency_s


@for_each(
    ("changes", "why"),
    [
        ({"device": "A100 (form not stated)"}, "device is not in the catalogue"),
        ({"batch": ""}, "the batch is not stated"),
        ({"runtime": "vLLM 0.5"}, "vLLM before 0.6"),
        ({"runtime": "llama.cpp (May 2024)", "n_devices": "4"}, "layers are split over devices"),
        ({"device_mode": "TP8 PP2"}, "stages of the model"),
        ({"weights_format": "ternary (2 bit)"}, "weights of ternary"),
        ({"model": "rwkv-raven-7b"}, "model is not known"),
        ({"phase": "prefill"}, "the length of the prompt is not stated"),
        ({"latency_s": ""}, "neither latency nor energy"),
        ({"device": "ryzen9_7950x", "runtime": "llama.cpp", "device_mode": "0 threads"}, "fewer threads than cores"),
        ({"runtime": "llama.cpp CPU (BLAS)"}, "matrix coprocessor"),
    ],
)
def test_what_cannot_be_predicted_says_why(changes: dict[str, str], why: str) -> None:
    assert why in refused({**LLM, **changes})


def test_language_models_on_few_threads_have_as_many_cores() -> None:
    cpu = {**LLM, "device": "ryzen9_7950x", "runtime": "llama.cpp", "weights_format": "int4"}
    rows = [interpret_row({**cpu, "device_mode": mode}) for mode in ("2 threads", "16 threads", "32 threads", "")]
    assert [row.device.units for row in rows] == [2, 16, 16, 16]
    assert {row.scenario.precision for row in rows} == {"q4_0"}
    vision = {**BERT, "device": "ryzen9_7950x", "framework": "ncnn", "model": "resnet50", "sequence": ""}
    vision |= {"scenario": "", "latency_ms": "5", "precision": "fp32", "n_devices": "1"}
    assert "fewer threads than cores" in refused({**vision, "device_mode": "7 threads"})
    assert interpret_row({**vision, "device_mode": "8 threads"}).device.units == 8


def test_a_device_file_of_the_user_runs_on_as_many_cores_as_threads(tmp_path: Path) -> None:
    text = (CATALOG / "ryzen9_7950x.toml").read_text()
    text = re.sub(r"(?m)^aliases = .*$", "", text).replace('id = "ryzen9_7950x"', 'id = "own_cpu"', 1)
    (tmp_path / "own_cpu.toml").write_text(re.sub(r"(?m)^name = .*$", 'name = "Own CPU"', text, count=1))
    row = {**LLM, "device": "own_cpu", "runtime": "llama.cpp", "weights_format": "int4", "device_mode": "8 threads"}
    assert interpret_row(row, (tmp_path,)).device.units == 8


def test_rows_of_weights_interleaved_have_their_own_runtime() -> None:
    row = {**LLM, "device": "ryzen9_7950x", "runtime": "ik_llama.cpp Dec 2024"}
    plain, repacked = (interpret_row({**row, "weights_format": name}) for name in ("Q6_K", "Q6_K_R4"))
    assert (plain.scenario.execution, repacked.scenario.execution) == ("ik_llama_cpp", "ik_llama_cpp_repacked")
    assert predictions.estimate_row(repacked).latency_s <= predictions.estimate_row(plain).latency_s


def test_servers_and_software_that_does_not_run_here() -> None:
    assert "under a bound of latency" in refused({**BERT, "scenario": "Server"})
    assert "benchmark's reference" in refused({**BERT, "precision": "fp32", "note": "precision of the reference"})
    assert "does not run on this device" in refused({**BERT, "framework": "TFLite v2.11.0 (ruy)"})
    assert "Vulkan" in refused({**BERT, "framework": "ncnn Vulkan"})


def test_formats_of_rows_exist() -> None:
    rules = tables.row_rules()
    for rule in (*rules["weights"], *rules["ran"]):
        assert precision.find(rule["is"]), rule


def test_every_name_of_the_mapping_is_one_of_ours() -> None:
    rules = tables.row_rules()
    named = [rule["is"] if isinstance(rule["is"], list) else [rule["is"]] for rule in rules["runtime"]]
    assert {name for names in named for name in names} - {""} <= {*runtimes(), LIKE_FOR_LIKE, UNKNOWN, *MODES}
    assert all("reason" in rule for rule in rules["runtime"] if not rule["is"])
    for model in rules["models"].values():
        assert store.is_ready(model), model


@slow
def test_what_is_published_of_the_classes_is_what_comes_out() -> None:
    """Bands follow from it: after a change of the model of time or energy `python -m lab.judge --write` writes it."""
    known = judge.claims()
    known.pop((trust.ENGINEERING, "latency"))
    judged = {each.name: each for each in judge.judge(judge.predict(held=True)).classes if each.claimed is not None}
    assert set(judged) == {name for name, _ in known}
    for (name, _), claimed in known.items():
        assert judged[name].rows == claimed.rows, name
        assert judged[name].median == pytest.approx(claimed.median_error, abs=0.01, rel=0.05), name


def test_published_classes_are_those_declared() -> None:
    names = [each.name for each in work_classes()]
    assert len(names) == len(set(names))
    latency = [each.name for each in trust.trust_table().classes if each.quantity == "latency"]
    assert [name for name in latency if name != trust.ENGINEERING] == [name for name in names if name in latency]
    energy = {each.name for each in trust.trust_table().classes if each.quantity == "energy"}
    assert energy >= {"energy, vision", "energy, language models"}


def test_a_class_is_of_kinds_of_work_and_software_that_exist() -> None:
    for each in work_classes():
        assert set(each.kinds) <= set(WORK_KINDS), each
        assert set(each.modes) <= {"eager", "compiled", "fused"}, each


def test_kernels_of_both_tables() -> None:
    fp32, narrow_table = judge.KERNELS
    assert {point.name for point in predict_kernels(measured_rows.shipped_rows((fp32,), held=True))[0]} == {
        "kernel, fp32"
    }
    rows = measured_rows.shipped_rows((narrow_table,))
    narrow, skipped = predict_kernels(rows)
    assert len(narrow) + skipped.total() == len(rows)
    assert {point.device for point in narrow} == {
        "a40", "a100_sxm4_80gb", "gaudi2", "gaudi3", "gh200_144gb", "h100_sxm", "h200_sxm", "mi210", "mi325x",
    }  # fmt: skip
    assert {point.family for point in narrow} <= set(KERNEL_KINDS)
    for point in narrow:
        assert point.band[0] <= point.predicted <= point.band[1]


def test_causal_attention_is_half() -> None:
    shape = {"batch": 2.0, "q": 512.0, "kv": 512.0, "heads": 8.0, "kv_heads": 2.0, "dim_qk": 64.0, "dim_v": 64.0}
    whole, causal = (KERNEL_KINDS["attention_fwd"]({**shape, "causal": c}) for c in (0.0, 1.0))
    assert whole.macs == 2 * 8 * 512 * 512 * 128
    assert causal.macs == whole.macs * 513 / 1024
    assert whole.read == causal.read == 2 * 8 * 512 * 64
    assert whole.cached == causal.cached == 2 * 2 * 512 * 128


def test_a_table_without_a_source_is_predicted() -> None:
    row = {"device": "epyc_7763", "model": "vgg16", "batch": "1", "precision": "fp32", "framework": "pytorch eager"}
    assert interpret_row({**row, "image_size": "", "latency_ms": "90"}).latency_s == pytest.approx(0.09)
