"""Traces of other tools: what is read of each format, what is refused, and that times add up."""

import csv
import gzip
import json
import sqlite3
from pathlib import Path

import pytest
import trace_files as files

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from hardware.device_catalog import load_device
from hwexplorer.cli import main
from hwexplorer_annexes.traces.alignment import Alignment, align_trace, leaf_ops
from hwexplorer_annexes.traces.trace import make_trace_report
from hwexplorer_annexes.traces.trace_file import FORMATS, read_nsight_table, read_trace
from hwexplorer_annexes.traces.trace_record import (
    Trace,
    TracedRun,
    TraceError,
    TraceOp,
    assemble_trace,
    average_runs,
    covered_s,
    find_repeats,
    hint_notes,
    join_followers,
    module_path,
    operator_kind,
)
from tests.command import document
from tests.sampling import for_each

REAL = Path(__file__).parents[3] / "shared" / "traces"
real = pytest.mark.skipif(not REAL.is_dir(), reason="the real traces are not beside the repository")


def adds_up(trace: Trace) -> bool:
    spent_s = sum(op.seconds for op in trace.ops)
    return trace.wall_s == pytest.approx(spent_s + trace.gap_s - trace.overlap_s, rel=1e-9)


@pytest.mark.parametrize("name", files.WRITERS)
def test_each_format_is_known_and_adds_up(name: str, tmp_path: Path) -> None:
    trace = read_trace(files.WRITERS[name](tmp_path / "trace"))
    assert trace.format == name.partition("_")[0]
    assert adds_up(trace)
    assert all(op.kind for op in trace.ops), [op.name for op in trace.ops if not op.kind]


def test_pytorch_on_a_cpu(tmp_path: Path) -> None:
    trace = read_trace(files.kineto_cpu(tmp_path / "t.json"))
    assert (trace.runs, trace.on_device) == (2, False)  # the first warms caches up
    assert [op.kind for op in trace.ops] == ["conv", "relu", "view", "linear"]
    assert [round(op.seconds * 1e6) for op in trace.ops] == [50, 5, 1, 20]  # what an operator calls counts once
    assert (trace.wall_s, trace.gap_s) == pytest.approx((100e-6, 24e-6))
    assert trace.ops[0].shapes == ((1, 3, 8, 8), (4, 3, 3, 3))


@pytest.mark.parametrize("packed", [False, True])
def test_pytorch_on_a_gpu_counts_what_the_device_did(tmp_path: Path, packed: bool) -> None:
    trace = read_trace(files.kineto_gpu(tmp_path / "t.json.gz", packed))
    assert (trace.on_device, trace.device) == (True, "Test GPU")
    assert [(op.kind, round(op.seconds * 1e6)) for op in trace.ops[:3]] == [("conv", 30), ("relu", 2), ("linear", 8)]
    assert trace.ops[0].kernels == ()
    assert trace.ops[0].parts[0].kernels == ("volta_scudnn_128x64",)
    graph = trace.ops[3:]  # one launch, ten kernels: each stands for itself
    assert [op.kind for op in graph] == ["attention"] * 10
    assert trace.wall_s - trace.gap_s == pytest.approx(50e-6)


def test_trtexec_that_appended_to_a_file(tmp_path: Path) -> None:
    once, twice = (read_trace(files.trtexec(tmp_path / f"{n}.json", n)) for n in (1, 2))
    assert once.ops == twice.ops
    assert [op.kind for op in once.ops] == ["copy", "conv", "linear"]


def test_nsight_takes_the_device_that_ran_most(tmp_path: Path) -> None:
    trace = read_trace(files.nsys_sqlite(tmp_path / "t.sqlite"))
    assert [round(op.seconds * 1e6) for op in trace.ops] == [30, 10]
    assert (trace.gap_s, trace.is_total) == (pytest.approx(20e-6), True)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "not a known trace format"),
        (b"{}", "not a known trace format"),
        (b'{"traceEvents": []}', "neither operators nor kernels"),
        (b'{"traceEvents": [{"ph": "X", "ca', "truncated or damaged"),
        (b"[" * 100_000, "damaged|cut off"),
        (b'{"Layers": ["a"]}', "exportProfile"),
        (b'[{"computeMs": 1}]', "exportProfile"),
        (b"Time (%),Total Time (ns),Num Calls,Avg (ns),Name\n1,2,3,4,cudaMalloc\n", "not a summary of GPU kernels"),
        (gzip.compress(b"x" * 1000, mtime=0)[:-8], "cannot be read"),
        (b"SQLite format 3\x00" + b"\x00" * 200, "SQLite export|no kernels"),
        (b'{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": "x", "dur": NaN}]}', "neither"),
    ],
)
def test_what_is_no_trace_is_said_in_a_line(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(TraceError, match=says) as error:
        read_trace(tmp_path / "t")
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("t: ")


def test_hostile_names_are_plain_text(tmp_path: Path) -> None:
    data = json.loads(files.kineto_cpu(tmp_path / "t.json").read_text())
    for event in data["traceEvents"]:
        event["name"] = f"{event['name']}\x1b]0;owned\x07\u202e\n" + "x" * 5000
    (tmp_path / "t.json").write_text(json.dumps(data))
    assert all(op.name.isprintable() and len(op.name) <= 400 for op in read_trace(tmp_path / "t.json").ops)


def test_a_trace_with_nothing_around_its_runs_is_divided_by_their_repeats(tmp_path: Path) -> None:
    data = json.loads(files.kineto_cpu(tmp_path / "t.json").read_text())
    data["traceEvents"] = [e for e in data["traceEvents"] if e["cat"] == "cpu_op"]
    (tmp_path / "t.json").write_text(json.dumps(data))
    trace = read_trace(tmp_path / "t.json")
    assert (trace.runs, len(trace.ops)) == (2, 4)  # the first warms caches up
    assert adds_up(trace)


def test_time_in_which_something_ran() -> None:
    assert covered_s([(0, 2), (1, 3), (5, 6), (5, 5.5)]) == 4


@for_each(
    ("name", "kind"),
    [("aten::mkldnn_convolution", "conv"), ("FusedConv", "conv"), ("Cijk_Alik_Bljk_BBS", "matmul"),
     ("fmha_cutlassF_bf16_aligned", "attention"), ("FullyConnected", "linear"), ("dot_general", "matmul"),
     ("ncclDevKernel_AllReduce_Sum", "all_reduce"),
     ("SkipLayerNormalization", "layer_norm"), ("HARD_SWISH", "hardswish"), ("aten::view", "view"), ("frobnicate", "")],
)  # fmt: skip
def test_names_stand_for_kinds(name: str, kind: str) -> None:
    assert operator_kind(name) == kind


@for_each(
    ("name", "kind"),
    [
        ("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_Ab32_t128x128x256u2_s4_swiGlu_sm100f", "matmul"),
        ("void moe::dev::routing::routingCustom::routingIndicesClusterKernel<KernelParams>", "gather"),
        ("void moe::dev::finalize::finalizeKernelVecLoad<KernelParams>", "reduce"),
        ("_finalize_matmul_scatter_bf16", "reduce"),
        ("kernel_cutlass_kernel_flashinfernormkernelsfused_add_rmsnormFusedAddRMSNormKernel_object", "norm"),
        ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "elementwise"),
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>", "copy"),
        ("void flashinfer::BatchDecodeWithPagedKVCacheKernel<0>", "attention"),
        ("fmhaSm100fKernel_QkvBfloat16OBfloat16H128PagedKvDenseP64VarSeqQ8Kv128StaticSwapsAbForGen", "attention"),
        ("_fwd_grouped_kernel_stage1", "attention"),
        ("kernel_mha", "attention"),
        ("_chunk_scan_fwd_kernel", "matmul"),
        ("_selective_scan_update_kernel", "elementwise"),
        ("l2norm_fwd_kernel", "norm"),
        ("aiter::fmoe_bf16_g1u1", "matmul"),
        ("write_req_to_token_pool_triton", "gather"),
        ("deep_ep::internode_ll::dispatch", "all_gather"),
        ("/model/encoder/layers.0/self_attn/MatMul_1", "matmul"),
        ("/backbone/layer1/conv1/Conv", "conv"),
    ],
)
def test_kernels_of_servers_have_the_kinds_of_their_operators(name: str, kind: str) -> None:
    assert operator_kind(name) == kind


def test_a_kernel_that_ends_another_is_a_part_of_it() -> None:
    names = ("kernel_unified_attention_3d", "reduce_segments", "gemm", "splitKreduce_kernel", "add")
    joined = join_followers(TraceOp(name=name, seconds=1.0) for name in names)
    assert [(op.name, op.seconds) for op in joined] == [(names[0], 2.0), ("gemm", 2.0), ("add", 1.0)]


def test_names_tell_of_quantised_weights_and_of_training() -> None:
    assert hint_notes(["ampere_sgemm_64x64", "softmax"]) == []
    assert "quantised" in hint_notes(["mul_mat_q<(ggml_type)12, 64>"])[0]
    assert "training" in hint_notes(["void multi_tensor_apply_kernel<Adam>"])[0]


def laid_over(file: str, model: str, device: str, batch: int, precision: str, execution: str) -> Alignment:
    workload = store.ready(model, None)
    assert workload is not None
    return align_trace(
        read_trace(REAL / file), estimate(workload, load_device(device), Scenario(batch, precision, execution))
    )


CPU, MOBILE = ("xeon_8490h", 1, "fp32", "eager"), "kineto_cpu_torch2.13_mobilenet_v3_small_b1_fp32.json.gz"
FUSED = ("xeon_8490h", 1, "fp32", "fused")


@real
@pytest.mark.parametrize(
    ("file", "model", "on", "least"),
    [
        ("kineto_cpu_torch2.13_resnet18_b1_fp32.json.gz", "resnet18", CPU, 0.99),
        (MOBILE, "mobilenet_v3_small", CPU, 0.99),
        ("kineto_cuda_v100_2021_01_resnet50_fwd.json.gz", "resnet50", ("v100_sxm2_16gb", 32, "fp32", "eager"), 0.99),
        ("kineto_cuda_a100_alexnet_param_bench.json.gz", "alexnet", ("a100_sxm4_80gb", 1, "fp32", "eager"), 0.99),
        ("ort1.31_cpu_resnet18_b1_fp32.json", "resnet18", FUSED, 0.98),
        ("openvino2026.4_cpu_resnet18_detailed_counters.csv", "resnet18", FUSED, 0.98),
        ("trtexec_a100_resnet18_b32_fp16.profile.json", "resnet18", ("a100_pcie_80gb", 32, "fp16", "fused"), 0.9),
    ],
)
def test_real_traces_find_their_nodes(file: str, model: str, on: tuple[str, int, str, str], least: float) -> None:
    found = laid_over(file, model, *on)
    assert found.coverage >= least
    assert found.missing_s <= 0.02 * found.trace.wall_s
    trace = found.trace
    total_s = found.matched_s + found.unmatched_s + trace.gap_s - trace.overlap_s
    assert total_s == pytest.approx(trace.wall_s, rel=1e-9)
    placed = [i for pair in found.pairs for i in pair.operators]
    assert len(placed) == len(set(placed))


NO_TRACES = (
    *("metadata", "fp16.graph", "fp32.graph", "qat.graph", "tim", "googlenet_b1_int8.log", "api_sum", "report"),
    *("average", "jax", "llama_bench", "tflite"),
)


@real
def test_every_real_trace_is_read_or_refused_in_a_line() -> None:
    for path in sorted(REAL.iterdir()):
        if path.suffix == ".md":
            continue
        if any(word in path.name for word in NO_TRACES):
            with pytest.raises(TraceError) as error:
                read_trace(path)
            assert "\n" not in str(error.value)
        else:
            assert adds_up(read_trace(path)), path.name


@real
def test_the_verb_says_what_surprises_and_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    file = str(REAL / "kineto_cpu_torch2.13_resnet18_b1_fp32.json.gz")
    found = document("trace", file, "--model", "resnet18", "--on", "xeon_8490h")
    total_s = found["matched_s"] + found["unmatched_s"] + found["gap_s"] - found["overlap_s"]
    assert total_s == pytest.approx(found["wall_s"])
    assert found["coverage"] > 0.99
    assert any("maxpool" in line for line in found["surprises"])
    assert sum(row["measured_s"] for row in found["rows"]) == pytest.approx(found["matched_s"])
    main(["trace", file, "--model", "resnet18", "--on", "xeon_8490h"])
    text = capsys.readouterr().out
    assert text.index("maxpool") < text.index("By subgraph")


def test_the_verb_refuses_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.json").write_text("{}")
    assert main(["trace", str(tmp_path / "t.json"), "--model", "resnet18"]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert main(["trace", str(files.kineto_cpu(tmp_path / "k.json"))]) == 2
    assert "trace MODEL" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        "noise of the tool\n\nStart (ns),Duration (ns),CorrId,Device,Name\n"
        "1751874061551244694,30000,1,GPU 0,sgemm_32\n1751874061551284694,10000,2,GPU 0,layer_norm\n",
        "Start (ns);Duration (us);CorrId;Device;Name\n0;30,0;1;GPU 0;sgemm_32\n40000;10,0;2;GPU 0;layer_norm\n",
        "Start (s),Duration (s),Strm,Name\n0.0,0.00003,7,sgemm_32\n0.00004,0.00001,7,layer_norm\n",
    ],
)
def test_kernels_in_order_in_several_units_and_locales(text: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(text)
    trace = read_trace(tmp_path / "t")
    assert [(op.kind, round(op.seconds * 1e6, 3)) for op in trace.ops] == [("matmul", 30.0), ("layer_norm", 10.0)]
    assert trace.gap_s == pytest.approx(10e-6)


def test_sums_by_kernel(tmp_path: Path) -> None:
    (tmp_path / "t").write_text(
        "Time(%),Total Time (us),Instances,Average,Name\n60,60.0,2,30,sgemm_32\n40,40.0,4,10,softmax\n"
    )
    trace = read_trace(tmp_path / "t")
    found = [(op.kind, round(op.seconds * 1e6, 3), op.count) for op in trace.ops]
    assert found == [("matmul", 60.0, 2), ("softmax", 40.0, 4)]
    assert trace.is_total


def test_calls_of_the_host_are_no_kernels(tmp_path: Path) -> None:
    (tmp_path / "t").write_text("Name,Instances,Total Time (ns)\ncudaLaunchKernel,2,60000\ncudaMemcpy,4,40000\n")
    with pytest.raises(TraceError, match="calls of the host"):
        read_trace(tmp_path / "t")


@pytest.mark.parametrize(
    "content",
    [
        '{"traceEvents": [{"ph": "X", "ts": 0, "dur": 1, "name": "dot", "args": {"hlo_op": "dot.1"}}]}',
        '{"n_prompt": 512, "n_gen": 0, "avg_ns": 51200000}\n{"n_prompt": 0, "n_gen": 128, "avg_ns": 1280000000}\n',
        '[{"n_prompt": 512, "n_gen": 0, "avg_ns": 51200000}]',
        "n_prompt,n_gen,avg_ns\n512,0,51200000\n",
        "Operator-wise Profiling Info for Regular Benchmark Runs:\n=== Run Order ===\n\t [node type]\t [avg ms]\n",
        '"Kind","Agent_Id","Kernel_Name","Start_Timestamp","End_Timestamp"\n"KERNEL_DISPATCH","Agent 4","gemm",1,2\n',
        '"Name","Calls","TotalDurationNs","AverageNs","Percentage"\n"gemm",2,60000,30000,60\n',
    ],
    ids=["jax", "llama-bench", "llama-bench-json", "llama-bench-csv", "tflite", "rocprof-trace", "rocprof-stats"],
)
def test_a_format_that_is_not_read_is_refused_with_those_that_are(content: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text(content)
    with pytest.raises(TraceError) as error:
        read_trace(tmp_path / "t")
    assert str(error.value) == f"t: not a known trace format (known: {FORMATS})"


def test_pairs_of_begin_and_end_are_the_same_events(tmp_path: Path) -> None:
    path = files.kineto_cpu(tmp_path / "t.json")
    whole = read_trace(path)
    data = json.loads(path.read_text())
    edges = []
    for event in data["traceEvents"]:
        begin, end = event["ts"], event["ts"] + event.pop("dur")
        edges.append((begin, 1, -end, {**event, "ph": "B"}))
        edges.append((end, 0, -begin, {"ph": "E", "pid": event["pid"], "tid": event["tid"], "ts": end}))
    stray = [{"ph": "E", "pid": 1, "tid": 1, "ts": -1}, {"ph": "E", "ts": []}, {"ph": "B", "pid": {}, "ts": "x"}]
    data["traceEvents"] = [*stray, *(event for *_, event in sorted(edges, key=lambda edge: edge[:3]))]
    path.write_text(json.dumps(data))
    trace = read_trace(path)
    assert [(op.name, op.shapes, len(op.parts)) for op in trace.ops] == [
        (op.name, op.shapes, len(op.parts)) for op in whole.ops
    ]
    assert [op.seconds for op in trace.ops] == pytest.approx([op.seconds for op in whole.ops])
    assert (trace.wall_s, trace.runs) == (pytest.approx(whole.wall_s), whole.runs)


def test_a_damaged_row_of_nsight_is_left_out_and_counted(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    rows = [f"{1000 * i},500,GPU 0,kernel_{i}\n" for i in range(3)]
    table.write_text("Start (ns),Duration (ns),Device,Name\n" + "".join([*rows, "soon,500,GPU 0,a\n", "x" * 200_000]))
    trace = read_trace(table)
    assert (len(trace.ops), trace.notes) == (3, ("2 rows without a time left out",))
    export = files.nsys_nvtx(tmp_path / "report.sqlite")
    whole = read_trace(export)
    with sqlite3.connect(export) as db:
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('soon', 9, 0, 1, 1, 1)")
        db.execute("INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ('soon', 1e30, 100)")
        db.execute("INSERT INTO NVTX_EVENTS VALUES (1, 2, 59, 'aten::relu', NULL, 1e30)")
    db.close()
    trace = read_trace(export)
    assert (trace.ops, trace.notes) == (whole.ops, ("1 row without a time left out",))


def test_kernels_are_of_the_operators_whose_ranges_launched_them(tmp_path: Path) -> None:
    """Two runs of a layer under emit_nvtx: what ATen calls inside an operator is that operator's, with its sizes."""
    path = files.nsys_nvtx(tmp_path / "report.sqlite")
    layer, alone = read_trace(path).ops[:2]
    assert (layer.name, layer.kind, layer.module) == ("aten::linear", "linear", "block.fc")
    assert layer.shapes == ((8, 512), (1000, 512), (1000,))
    assert layer.kernels == ("sgemm", "splitKreduce")
    assert layer.seconds == pytest.approx(80e-9)
    assert alone.name == "sgemm"


def test_runs_are_told_apart_by_their_repeats() -> None:
    """Five runs of six kernels that wait before each, begun in the middle of one: four whole ones; layers of a single
    run are no runs."""
    one = ["embed", "gemm", "softmax", "gemm", "norm", "head"]
    names, spans, now = [], [], 0.0
    for name in (one * 6)[3:-2]:
        now += 5.0 if name == "embed" else 0.1
        names.append(name)
        spans.append((now, now + 1.0))
        now += 1.0
    windows = find_repeats(names, spans)
    assert len(windows) == 4
    for start, end in windows:
        inside = [name for name, span in zip(names, spans, strict=True) if start <= span[0] < end]
        assert inside == one
    assert [end - start for start, end in windows[1:]] == pytest.approx([6.0 + 5.0 + 5 * 0.1] * 3)
    layered = ["embed", *("gemm", "softmax", "gemm", "norm") * 12, "head"]
    assert find_repeats(layered, [(float(i), i + 0.5) for i in range(len(layered))]) == []


def test_runs_that_were_disturbed_or_are_others_are_left_out_and_said() -> None:
    def run(seconds: float, *more: str) -> TracedRun:
        ops = tuple(TraceOp(name=name, seconds=seconds) for name in ("a", "b", *more))
        return TracedRun(ops=ops, wall_s=seconds * 3, busy_s=seconds * 2)

    trace = average_runs("x", [run(1.0), run(1.2), run(9.0), run(1.1), run(1.0, "c")])
    assert (trace.runs, trace.wall_s) == (3, pytest.approx(3.3))
    assert adds_up(trace)
    assert [note[:6] for note in trace.notes] == ["1 of 5", "1 of 5"]


def test_sums_are_compared_by_kind_for_as_many_runs_as_they_hold(tmp_path: Path) -> None:
    workload = store.ready("vit_b_16")
    assert workload is not None
    result = estimate(workload, load_device("t4"), Scenario(1, "fp16", "eager"))
    rows = "Total Time (ns),Instances,Name\n120000,60,fmha_kernel\n500000,245,sgemm_32\n90000,125,layer_norm\n"
    (tmp_path / "t").write_text(rows)
    laid_over = align_trace(read_trace(tmp_path / "t"), result)
    assert laid_over.trace.runs == 5  # 60 kernels of attention, 12 layers
    attention = next(pair for pair in laid_over.pairs if pair.op.kind == "attention")
    assert len(attention.operators) == 12
    assert attention.op.seconds == pytest.approx(24e-6)
    assert any("5 are assumed" in note for note in laid_over.trace.notes)
    total_s = laid_over.matched_s + laid_over.unmatched_s + laid_over.trace.gap_s - laid_over.trace.overlap_s
    assert total_s == pytest.approx(laid_over.trace.wall_s)


@pytest.mark.parametrize(
    ("name", "module"),
    [("/layer1/layer1.0/conv1/Conv + /layer1/layer1.0/relu/Relu", "layer1.0.conv1"), ("/conv1/Conv", "conv1"),
     ("/encoder/layers/encoder_layer_0/mlp/0/Gemm", "encoder.layers.encoder_layer_0.mlp.0"), ("Conv_3 + Relu_4", ""),
     ("inception_3a/1x1", ""), ("", "")],
)  # fmt: skip
def test_names_of_onnx_nodes_tell_their_module(name: str, module: str) -> None:
    assert module_path(name) == module


def test_more_than_can_be_looked_at_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    (tmp_path / "t.gz").write_bytes(gzip.compress(b"[" + b"{}," * 10_000_001 + b"{}]", 1))
    with pytest.raises(TraceError, match="too large to read"):
        read_trace(tmp_path / "t.gz")


def test_inputs_of_another_size_are_said(tmp_path: Path) -> None:
    workload = store.ready("resnet18")
    assert workload is not None
    conv = TraceOp(name="aten::conv2d", kind="conv", seconds=1e-3, shapes=((8, 64, 56, 56), (64, 64, 3, 3)))
    for batch, says in ((8, False), (1, True)):
        result = estimate(workload, load_device("t4"), Scenario(batch, "fp32", "eager"))
        warning = make_trace_report(assemble_trace("pytorch", [conv]), result).incomplete
        assert ("its batch is 8" in warning) == says


def test_what_a_caller_spends_on_calling_is_its_parts() -> None:
    def call(own: float) -> TraceOp:
        parts = (TraceOp(name="aten::linear", kind="linear", seconds=3.0), TraceOp(name="aten::gelu", seconds=1.0))
        return TraceOp(name="aten::_layer_fwd", seconds=4.0 + own, parts=parts)

    assert [(op.name, op.seconds) for op in leaf_ops(call(1.0))] == [("aten::linear", 3.75), ("aten::gelu", 1.25)]
    assert [op.name for op in leaf_ops(call(4.0))][-1] == "aten::_layer_fwd, itself"


def test_a_trace_of_training_says_so(tmp_path: Path) -> None:
    path = files.kineto_cpu(tmp_path / "t.json")
    assert not any("training" in note for note in read_trace(path).notes)
    path.write_text(path.read_text().replace("aten::relu", "autograd::engine::evaluate_function: ReluBackward0"))
    assert any("training" in note for note in read_trace(path).notes)


def test_a_short_table_leaves_the_limit_of_other_tables() -> None:
    before = csv.field_size_limit()
    read_nsight_table("name,duration\n")
    assert csv.field_size_limit() >= before
