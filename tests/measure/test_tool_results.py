"""Results of tools, rebuilt from the fields that these publish, are measurements for `validate` and `calibrate`."""

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from analysis.explore.odds import describe_measurement
from analysis.measured.predictions import interpret_row
from analysis.measured.services import interpret_served_row
from analysis.measured.tables import Unpredictable, read_rows
from hardware.base.errors import RequestError
from hwexplorer.cli import main
from hwexplorer_annexes.traces import trace_file, trace_record
from tests.analysis import grid
from tests.command import document
from tests.sampling import for_each

LLAMA_BENCH = [
    {"gpu_info": "NVIDIA GeForce RTX 4090", "model_filename": "m/Meta-Llama-3-8B-Instruct-Q4_K_M.gguf", "n_prompt": n,
     "n_gen": m, "avg_ts": speed}
    for n, m, speed in ((512, 0, 12190.0), (0, 128, 150.2))
]  # fmt: skip
TRTEXEC = """&&&& RUNNING TensorRT.trtexec # trtexec --onnx=m/resnet50.onnx --fp16 --shapes=input:8x3x224x224
[I] Selected Device: NVIDIA L4
[I] === Performance summary ===
[I] GPU Compute Time: min = 2.41 ms, max = 2.9 ms, mean = 2.55 ms, median = 2.54 ms
"""
VLLM = {
    "date": "20260901-101010", "endpoint_type": "vllm", "model_id": "meta-llama/Meta-Llama-3-8B", "num_prompts": 100,
    "device": "h100_sxm", "request_rate": 4.0, "max_concurrency": None, "duration": 26.1, "completed": 100,
    "total_input_tokens": 102400, "total_output_tokens": 12800, "output_throughput": 490.4, "median_ttft_ms": 55.0,
    "median_tpot_ms": 9.0, "median_itl_ms": 8.4,
}  # fmt: skip
AIPERF = {
    "input_config": {"endpoint": {"model_names": ["meta-llama/Llama-3.1-8B-Instruct"]}, "loadgen": {"concurrency": 32}},
    "device": "h100_sxm", "request_count": {"avg": 256}, "input_sequence_length": {"avg": 1024.0},
    "output_sequence_length": {"avg": 256.0}, "time_to_first_token": {"avg": 240.0, "p50": 186.0, "unit": "ms"},
    "inter_token_latency": {"avg": 12.8, "p50": 12.5, "unit": "ms"}, "output_token_throughput": {"avg": 2228.5},
}  # fmt: skip
GENAI = AIPERF | {"input_config": {"model": ["Qwen/Qwen3-8B"], "backend": "tensorrtllm", "concurrency": [32]}}
INFERENCEX = {
    "hw": "h200-nv", "model": "openai/gpt-oss-120b", "framework": "trt", "precision": "fp4", "tp": 2, "ep": 1,
    "conc": 64, "isl": 1024, "osl": 1024, "median_ttft": 0.21, "median_tpot": 0.0118, "median_itl": 0.011,
    "joules_per_output_token": 0.16,
}  # fmt: skip
SUMMARY = """MLPerf Results Summary
SUT name : LWIS_Server
Scenario : Offline
Samples per second: 704000
50.00 percentile latency (ns)   : 16325180169
"""
DETAIL = "\n".join(
    f':::MLLOG {{"key": "{key}", "value": {value}, "time_ms": 0.0}}'
    for key, value in (("effective_scenario", '"SingleStream"'), ("result_50.00_percentile_latency_ns", 640000))
)
RUN = "performance/run_1/mlperf_log"
# File -> its text, then the model and batch of the first row, and the seconds of that row.
FILES: dict[str, tuple[Any, str, str, float]] = {
    "llama.json": (LLAMA_BENCH, "llama3_8b", "1", 512 / 12190),
    "trtexec.log": (TRTEXEC, "resnet50", "8", 2.54e-3),
    "vllm.json": (VLLM, "llama3_8b", "4", 8.4e-3),
    "profile_export_aiperf.json": (AIPERF, "llama3_8b", "32", 12.5e-3),
    "profile_export_genai_perf.json": (GENAI, "qwen3_8b", "32", 12.5e-3),
    "agg.json": ([INFERENCEX], "gpt_oss_120b", "64", 11e-3),
    f"H100-SXM-80GBx8_TRT/resnet/Offline/{RUN}_summary.txt": (SUMMARY, "resnet50", "", 64 * 8 / 704000),
    f"h100_sxm_PyTorch/resnet50/SingleStream/{RUN}_detail.txt": (DETAIL, "resnet50", "", 0.64e-3),
    f"jetson_agx_orin_TRT/resnet50/SingleStream/{RUN}_detail.txt": (DETAIL, "resnet50", "", 0.64e-3),
}


def write(folder: Path, name: str) -> Path:
    text = FILES[name][0]
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
    return file


@pytest.mark.parametrize("name", FILES)
def test_results_of_tools_are_rows(name: str, tmp_path: Path) -> None:
    file, (_, model, batch, seconds) = write(tmp_path, name), FILES[name]
    rows = read_rows([file])
    assert (rows[0]["model"].partition(":")[0], rows[0]["batch"]) == (model, batch)
    read = interpret_row({"device_mode": "", **rows[0]})
    assert read.latency_s == pytest.approx(seconds)
    assert "PyTorch" not in name or read.scenario.precision == "fp32"
    found = document("validate", str(file))
    assert not found["skipped"]
    assert main(["calibrate", "h100_sxm", str(file), "--name", "own", "--to", str(tmp_path)]) == 0


@pytest.mark.parametrize(
    ("model", "device", "precision", "batch"),
    [
        ("llama3_8b:decode", "apple_m4_pro_gpu", "q4_k_m", 1), ("llama3_8b:decode,kv=512", "rtx_4090", "bf16", 4),
        ("gpt_oss_20b:decode,kv=64", "h100_sxm", "mxfp4", 16), ("resnet50", "h100_sxm", "int8", 8),
        ("resnet50", "jetson_agx_orin", "fp16", 1), ("bert_base", "l4", "fp16", 2),
    ],
)  # fmt: skip
def test_the_command_that_settles_a_doubt_is_read_back(
    model: str, device: str, precision: str, batch: int, tmp_path: Path
) -> None:
    result = grid.run(model, device, batch, precision)
    command = describe_measurement(result, "latency").split("`")[1]
    words, file = shlex.split(command), tmp_path / "result"
    value = dict(pairwise(words))
    if words[0] == "llama-bench":
        made = {"gpu_info": device, "model_filename": value["-m"], "n_prompt": 0, "n_gen": int(value["-n"]),
                "n_depth": int(value["-d"]), "avg_ts": 100.0}  # fmt: skip
        file.write_text(json.dumps([made]))
    elif words[0] == "vllm":
        lengths = [10 * int(value[f"--random-{way}-len"]) for way in ("input", "output")]
        stated = dict(word.split("=", 1) for word in words[words.index("--metadata") + 1 :])
        made = VLLM | {"completed": 10, "total_input_tokens": lengths[0], "total_output_tokens": lengths[1]}
        made |= {"model_id": value["--model"], "max_concurrency": int(value["--max-concurrency"]), **stated}
        file.write_text(json.dumps(made | {"request_rate": "inf"}))
    else:
        file.write_text("\n".join([command, *TRTEXEC.splitlines()[1:]]).replace("NVIDIA L4", device))
    row = interpret_row({"device_mode": "", **read_rows([file])[0]})
    asked = result.scenario
    assert (row.model.partition(":")[0], row.device.id) == (model.partition(":")[0], device)
    assert (row.scenario.batch, row.scenario.precision, row.scenario.execution) == (
        asked.batch, asked.precision, result.runtime.id,
    )  # fmt: skip
    if "sequence" in row.model:
        assert row.model == "bert_base:sequence=512"


def test_columns_of_a_tool_are_read_as_its_documents(tmp_path: Path) -> None:
    lines = [",".join(map(str, values)) for values in (LLAMA_BENCH[0], *(test.values() for test in LLAMA_BENCH))]
    (tmp_path / "x.csv").write_text("\n".join(lines))
    (tmp_path / "x.json").write_text(json.dumps(LLAMA_BENCH))
    assert read_rows([tmp_path / "x.csv"]) == read_rows([tmp_path / "x.json"])


def test_services_are_compared_under_their_load(tmp_path: Path) -> None:
    (open_row,) = read_rows([write(tmp_path, "vllm.json")], ("load_kind",))
    load = interpret_served_row(open_row).load
    assert (load.requests, load.concurrency, load.arrivals_per_s) == (100, 0, pytest.approx(4.0, rel=0.3))
    (closed_row,) = read_rows([write(tmp_path, "agg.json")], ("load_kind",))
    served = interpret_served_row(closed_row)
    assert (served.deployment.device.id, served.deployment.layout.tp, served.load.concurrency) == ("h200_sxm", 2, 64)
    assert (served.deployment.runtime, served.deployment.precision) == ("tensorrt_llm", "mxfp4")
    assert served.measured == {"TTFT": 0.21, "TPOT": 0.0118, "energy": 0.16}
    (tmp_path / "dp.json").write_text(json.dumps(INFERENCEX | {"dp_attention": "true", "ep": 2}))
    (apart,) = read_rows([tmp_path / "dp.json"], ("load_kind",))
    assert interpret_served_row(apart).deployment.layout.ep == 2
    with pytest.raises(Unpredictable, match="accepted"):
        interpret_served_row(apart | {"flag": "mtp"})


@pytest.mark.parametrize(
    ("result", "says"),
    [
        ([LLAMA_BENCH[0] | {"n_gen": 128}], "a result of llama-bench without a figure"),
        ("| model | test |              t/s |", "without a figure or a model: write it with -o json"),
        ("&&&& FAILED TensorRT.trtexec # trtexec --onnx=a.onnx", "a result of trtexec without a figure"),
    ],
)
def test_a_result_without_a_figure_says_so(result: Any, says: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text(result if isinstance(result, str) else json.dumps(result))
    with pytest.raises(RequestError, match=says):
        read_rows([tmp_path / "x"])


def test_rows_of_runs_that_failed_or_sent_tokens_at_once(tmp_path: Path) -> None:
    failed = VLLM | {"completed": 0, "total_output_tokens": 0}
    bunched = VLLM | {"median_itl_ms": 0.02, "model_id": "/data/models--Qwen--Qwen3-8B/snapshots/0a1b/"}
    (tmp_path / "runs.jsonl").write_text(f"{json.dumps(failed)}\n{json.dumps(bunched)}\n")
    steps = read_rows([tmp_path / "runs.jsonl"])
    assert [(row["model"], row["latency_s"]) for row in steps[1:]] == [("qwen3_8b", "0.009000000000000001")]
    with pytest.raises(Unpredictable, match="lengths of the requests"):
        interpret_served_row(read_rows([tmp_path / "runs.jsonl"], ("load_kind",))[0])


_TEXTS = {  # the first lines of what tools print, and their names
    "total duration: 5.21s\neval rate:            58.54 tokens/s\n": "ollama",
    "llama_perf_context_print:        eval time =    5090.00 ms /   298 runs": "llama.cpp",
    "prompt eval time =     123.45 ms /   512 tokens (    0.24 ms per token)": "llama.cpp",
    "Throughput: 12.34 requests/s, 5678.90 total tokens/s": "vllm bench",
    "Message Name,Message ID,Average,Max,Min\nTotal Inference Time,0,5123,6000,4900": "QNN",
    "Median prediction time: 3.21 ms": "Core ML",
    '{"model": "llama3:8b", "done": true, "eval_count": 259, "eval_duration": 4800000000}': "ollama",
    '{"elapsed_time": 58.1, "num_requests": 200, "total_num_tokens": 86204}': "vllm bench",
    "# gpu    pwr  gtemp     sm\n# Idx      W      C      %\n    0    312     61     99": "nvidia-smi",
    " -- Measuring prompt speed...\n ** Length   512 tokens:   8123.4 t/s": "ExLlama",
    "Inference timings in us: Init: 5685, First inference: 18535, Inference (avg): 14462.3": "benchmark_model",
    "Network Name: yolov8n\nFPS     (hw_only)                 = 491.2": "hailortcli",
    "I RKNN: [08:00:00.000] RKNN API version: 2.3.0": "RKNN Toolkit",
    "Accelerator (execute) time: 1234 us\nNetRun: 5678 us": "QNN",
    "RAM 4722/7620MB (lfb 25x4MB) CPU [12%@1510,9%@1510] EMC_FREQ 0% GR3D_FREQ 99%": "tegrastats",
    "[Step 11/11] Dumping statistics report\n[ INFO ] Throughput:   320.71 FPS": "benchmark_app",
    "timestamp, power.draw [W], utilization.gpu [%]\n2026/11/28 10:00:00.000, 71.20 W, 98 %": "nvidia-smi",
    "====== Serving Benchmark Result ======\nSuccessful requests:   1000": "vllm bench serve",
    "loop_count = 10\n          squeezenet  min =    8.31  max =    8.54  avg =    8.45": "benchncnn",
    "Averages: prompt_tps=2902.166, generation_tps=205.099, peak_memory=3.285": "MLX LM",
    "0   PyTorch   6.2   0.6381   37.58\nFormat  Size (MB)  Inference time (ms/im)    FPS": "Ultralytics",
    '{"config": {}, "report": {"prefill": {"latency": {"mean": 0.02}}}}': "optimum-benchmark",
}


@for_each(("text", "name"), [*_TEXTS.items()])
def test_a_text_that_is_not_read_is_named_for_what_it_is(text: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.log"
    path.write_text(text)
    with pytest.raises(RequestError, match=rf"a text of .*{re.escape(name)}.*write (llama-bench|a CSV|its JSON)"):
        read_rows([path])
    with pytest.raises(trace_record.TraceError, match=re.escape(name)):
        trace_file.read_trace(path)


def test_what_is_not_known_says_what_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.json").write_text('{"a": 1}')
    (tmp_path / "vllm.json").write_text(json.dumps({key: VLLM[key] for key in VLLM if key != "device"}))
    assert main(["validate", str(tmp_path / "x.json")]) == 2
    assert "trtexec, MLPerf); write a CSV with columns device, model, batch, latency_ms" in capsys.readouterr().err
    assert main(["validate", str(tmp_path / "vllm.json")]) == 2
    assert "--on DEV" in capsys.readouterr().err
    assert main(["trace", str(tmp_path / "vllm.json"), "--model", "llama3_8b", "--on", "l4"]) == 2
    assert "hwexplorer validate vllm.json --on DEV" in capsys.readouterr().err
