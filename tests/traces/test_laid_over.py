"""A trace over the tree: gaps by cause, modules by their ranges, measured beside predicted, runs made here."""

import json
from pathlib import Path

import msgspec
import pytest
import trace_files as files

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.estimate.tree_figures import HOST
from analysis.model import store
from hardware.device_catalog import load_device
from hwexplorer.cli import main
from hwexplorer.export.render import encode
from hwexplorer.plots import roofline
from hwexplorer.reports.why import why
from hwexplorer.state import State, format, parse, replace
from hwexplorer.views.answer_lines import answer
from hwexplorer.views.tree_view import tree
from hwexplorer_annexes.traces.alignment import align_trace
from hwexplorer_annexes.traces.trace import make_trace_report
from hwexplorer_annexes.traces.trace_file import read_trace
from hwexplorer_annexes.traces.trace_record import (
    Trace,
    TraceOp,
    assemble_trace,
)
from tests.command import document


def resnet() -> Estimate:
    workload = store.ready("resnet18")
    assert workload is not None
    return estimate(workload, load_device("xeon_8490h"), Scenario(1, "fp32", "eager"))


def of_the_model(result: Estimate, slower: float = 2.0) -> Trace:
    """A trace as the estimate would have it, all of it slower; with some time of nobody's and some idle."""
    ops = result.workload.operators
    names = {"linear": "aten::linear", "conv": "aten::conv2d", "batch_norm": "aten::batch_norm", "relu": "aten::relu"}
    rows = [
        TraceOp(name=names.get(kind, kind), kind=kind, seconds=slower * float(seconds), module=path)
        for kind, path, seconds in zip(ops.kind, ops.path, result.run.latency_s, strict=True)
    ]
    spent = sum(row.seconds for row in rows)
    rows.append(TraceOp(name="aten::sort", kind="sort", seconds=0.1 * spent))
    return assemble_trace("pytorch", rows, wall_s=1.5 * spent, gaps={"data loading": 0.4 * spent})


def test_every_level_of_the_tree_adds_up() -> None:
    result = resnet()
    report = make_trace_report(of_the_model(result), result)
    tree = report.tree
    assert tree.measured_s == pytest.approx(report.matched_s)
    assert sum(node.measured_s for node in tree.children) == pytest.approx(tree.measured_s)
    for node in tree.children:
        if node.children:
            assert sum(child.measured_s for child in node.children) == pytest.approx(node.measured_s)
        assert node.ratio == pytest.approx(2.0)
    assert tree.predicted_s + tree.missing_s == pytest.approx(result.latency_s)
    assert report.matched_s + report.unmatched_s + report.gap_s - report.overlap_s == pytest.approx(report.wall_s)


def test_attention_that_runs_open_is_its_attention() -> None:
    workload = store.ready("vit_b_16")
    assert workload is not None
    result = estimate(workload, load_device("xeon_8490h"), Scenario(1, "fp32", "eager"))
    rows = []
    for op in of_the_model(result).ops:
        names = ("bmm", "_softmax", "bmm") if op.kind == "attention" else ()
        kinds = ("matmul", "softmax", "matmul")
        rows += [TraceOp(name=f"aten::{n}", kind=k, seconds=1e-4) for n, k in zip(names, kinds, strict=False)]
        rows += [] if names else [op]
    report = make_trace_report(assemble_trace("pytorch", rows), result)
    opened = [row for row in report.rows if row.type == "attention"]
    assert len(opened) == 12
    assert all(row.measured_s == pytest.approx(3e-4) for row in opened)
    assert not report.missing


def test_what_was_not_seen_is_in_json_too() -> None:
    result = resnet()
    ops = of_the_model(result).ops
    seen = [op for op in ops if op.kind != "linear" and "fc" not in op.module]
    report = make_trace_report(assemble_trace("pytorch", seen), result)
    assert "fc" in {row.name for row in report.missing}
    assert '"missing"' in encode(report)


def test_what_is_idle_and_what_is_in_no_estimate_come_first() -> None:
    result = resnet()
    said = make_trace_report(of_the_model(result), result).surprises
    assert said[0] == "the device was idle for 27 % of the run, waiting for data loading (27 %)"
    assert said[1].startswith("aten::sort (1 call) takes 7 % of the run; the prediction has no such operator")


def test_copies_inside_an_operator_are_named() -> None:
    result = resnet()
    trace = of_the_model(result)
    place = next(i for i, op in enumerate(trace.ops) if op.module == "layer4.1.conv2")
    inside = (TraceOp(name="aten::contiguous", kind="copy", seconds=2e-3),)
    slow = TraceOp(name="aten::conv2d", kind="conv", seconds=9e-3, module="layer4.1.conv2", parts=inside)
    ops = (*trace.ops[:place], slow, *trace.ops[place + 1 :])
    said = make_trace_report(assemble_trace("pytorch", ops), result).surprises
    assert any(line.startswith("conv layer4.1.conv2 ") and "aten::contiguous" in line for line in said)


def test_modules_tell_twins_apart() -> None:
    """Of layers that look the same, the one that the trace names is meant, whatever else is missing."""
    result = resnet()
    trace = of_the_model(result)
    kept = [op for op in trace.ops if not op.module.startswith("layer2.0")]
    paths = result.workload.operators.path
    for pair in align_trace(assemble_trace("pytorch", kept), result).pairs:
        assert paths[pair.operators[0]].startswith(pair.op.module), pair.op.module


def test_gaps_have_causes_that_add_up(tmp_path: Path) -> None:
    path = files.kineto_gpu(tmp_path / "t.json")
    data = json.loads(path.read_text())
    data["traceEvents"].append(files._event("enumerate(DataLoader)#_Iter.__next__", "user_annotation", 100, 5))
    data["traceEvents"].append(files._event("cudaMemcpyAsync", "cuda_runtime", 106, 2, correlation=7))
    path.write_text(json.dumps(data))
    trace = read_trace(path)
    gaps = dict(trace.gaps)
    assert sum(gaps.values()) == pytest.approx(trace.gap_s)
    assert gaps["data loading"] == pytest.approx(5e-6)
    assert gaps["copies and waiting for them"] == pytest.approx(2e-6)
    assert gaps["kernel launches"] > 0


def state_with_a_trace(file: Path, slower: float = 3.0) -> State:
    """ResNet-18 with a file that says what the estimate does, all of it slower."""
    result = resnet()
    ops = result.workload.operators
    types = {"conv": "Convolution", "linear": "FullyConnected", "bias": "Add", "max_pool": "MaxPool"}
    rows = [
        f"{path};EXECUTED;{types.get(kind, kind)};x;{seconds * slower * 1e3:.9f};0"
        for kind, path, seconds in zip(ops.kind, ops.path, result.run.latency_s, strict=True)
    ]
    file.write_text("\n".join(["layerName;execStatus;layerType;execType;realTime (ms);cpuTime (ms)", *rows]))
    return State(model="resnet18", precision="fp32", execution="eager", devices=("xeon_8490h",), trace=str(file))


def test_the_tree_shows_the_trace_that_its_state_names(tmp_path: Path) -> None:
    state = state_with_a_trace(tmp_path / "t.csv")
    table = tree(state)
    assert [column.key for column in table.columns[-3:]] == ["measured", "ratio", "term"]
    assert table.rows[0].cells[-2] == pytest.approx(3.0, rel=0.01)
    of_parts = sum(row.cells[-3] or 0.0 for row in table.rows if row.depth == 1)
    assert of_parts == pytest.approx(table.rows[0].cells[-3])
    assert "3.0x slower than the predicted" in table.notes[0]
    assert parse(format(state)) == state
    (tmp_path / "t.csv").write_text("no trace")
    assert "ratio" not in [column.key for column in tree(state).columns]
    assert "not a known trace format" in tree(state).notes[0]


def test_why_and_the_roofline_have_it_beside_what_is_predicted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = state_with_a_trace(tmp_path / "t.csv", slower=2.0)
    text = why(replace(state, at="layer1.0.conv1"))
    *predicted, measured = text.steps
    assert measured.name == "measured"
    assert measured.seconds == pytest.approx(2.0 * sum(step.seconds for step in predicted), rel=0.01)
    assert float(measured.bar) == pytest.approx(2.0 * sum(float(step.bar) for step in predicted), rel=0.01)
    said = next(lines for heading, lines in text.sections if heading == "Measured")
    assert "2.0x slower than the predicted" in said[0]
    drawn = {series.name: series for series in roofline(state).series}
    ratios = [a / b for a, b in zip(drawn["operators"].y, drawn["measured"].y, strict=True)]
    assert ratios == pytest.approx([2.0] * len(ratios), rel=0.01)
    found = document("tree", format(state))["children"]
    assert [row["ratio"] for row in found] == pytest.approx([2.0] * len(found), rel=0.02)
    for form in ("csv", "text", "md", "html"):
        main(["tree", format(state), "--format", form])
        assert "measured" in capsys.readouterr().out.lower()
    assert document("why", format(state))["measured"]["ratio"] == pytest.approx(2.0, rel=0.01)


@pytest.mark.parametrize(
    ("name", "data", "runtime"),
    [("volta_scudnn_128x64", {}, "pytorch_eager"), ("triton_poi_fused_relu_0", {}, "torch_compile"),
     ("void vllm::rotary_embedding_kernel<float>", {}, "vllm"),
     ("void vllm::rotary_embedding_kernel<float>", {"hip_runtime_version": 6}, "vllm_rocm")],
)  # fmt: skip
def test_names_tell_what_ran_a_trace(name: str, data: dict[str, int], runtime: str, tmp_path: Path) -> None:
    path = files.kineto_gpu(tmp_path / "t.json")
    path.write_text(json.dumps(json.loads(path.read_text().replace("volta_scudnn_128x64", name)) | data))
    assert read_trace(path).runtime == runtime


def test_what_ran_the_trace_is_what_it_is_compared_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A trace of PyTorch beside an estimate for what one would deploy would be a comparison of the two runtimes."""
    file = str(files.kineto_cpu(tmp_path / "t.json"))
    for words, runtime in (((), "PyTorch eager"), (("--runtime", "onnxruntime"), "ONNX Runtime")):
        assert document("trace", file, "--model", "resnet18", "--on", "xeon_8490h", *words)["predicted_with"] == runtime
        main(["trace", file, "--model", "resnet18", "--on", "xeon_8490h", *words])
        assert f", {runtime} on Intel Xeon" in capsys.readouterr().out.splitlines()[0]
    state = State(model="resnet18", devices=("xeon_8490h",), trace=file)
    assert any("of PyTorch eager, the estimate of OpenVINO" in note for note in tree(state).notes)


def test_a_region_of_tensorrt_is_all_that_is_not_shown_beside_it(tmp_path: Path) -> None:
    """What its compiler makes one kernel of stands for every operator up to the last that it names."""
    workload = store.ready("vit_b_16")
    assert workload is not None
    result = estimate(workload, load_device("a100_pcie_80gb"), Scenario(1, "fp16", "tensorrt"))
    last = "encoder.layers.encoder_layer_5"
    names = [
        "Reformatting CopyNode for Input Tensor 0 to /conv_proj/Conv",
        "/conv_proj/Conv",
        f"{{ForeignNode[class_token.../{last.replace('.', '/')}/Add_1]}}",
        "{ForeignNode[/encoder/layers/encoder_layer_6/ln_1/LayerNormalization.../encoder/ln/LayerNormalization]}",
        "/heads/head/Gemm",
    ]
    path = tmp_path / "profile.json"
    path.write_text(json.dumps([{"count": 10}, *({"name": name, "timeMs": 1.0, "averageMs": 0.1} for name in names)]))
    laid_over = align_trace(read_trace(path), result)
    assert laid_over.coverage == pytest.approx(0.8)  # all but the copy
    assert not laid_over.missing
    operators = [i for pair in laid_over.pairs for i in pair.operators]
    assert sorted(operators) == list(range(workload.n_operators))
    first, second = (pair for pair in laid_over.pairs if pair.op.kind == "region")
    assert workload.operators.path[max(first.operators)].startswith(last)
    assert max(first.operators) < min(second.operators)


@pytest.mark.parametrize(
    ("layer", "kind"),
    [("__myl_FcAddCast_myl0_7", "linear"), ("_gemm_mha_v2_myl0_4", "attention"), ("__myl_Move_myl0_0", "copy"),
     ("__myl_CorrMulAddRelu_myl0_1", "conv"), ("__myl_MaxrSubExpSumDiv_myl0_9", "softmax"),
     ("__myl_CastMeanSubMulMeanAddSqrtDivMulAdd_myl0_3", "layer_norm"), ("/blocks.0/mlp/fc1/MatMul_myl0_12", "matmul"),
     ("/blocks.0/Add_1_myl2_5", "add"), ("__myl_MulSum_myl0_0", "elementwise"), ("__myl_Topk_myl0_10", "sort")],
)  # fmt: skip
def test_kernels_of_tensorrts_compiler_are_named_after_what_they_chain(layer: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    path.write_text(json.dumps([{"count": 1}, {"name": layer, "timeMs": 1.0, "averageMs": 1.0}]))
    assert read_trace(path).ops[0].kind == kind


def recorded_operators(model: str, batch: int = 1) -> Trace:
    """A trace of the convolutions and linear layers of a model with their sizes, as PyTorch records them on a CPU."""
    workload = store.ready(model)
    assert workload is not None
    ops = workload.operators
    point = workload.value_at(batch=batch)
    rows = []
    for i, kind in enumerate(ops.kind):
        if kind not in ("conv", "linear"):
            continue
        data, weight = (int(ops.in_numel[ops.in_ptr[i] + k] @ point) for k in (0, 1))
        shapes = ((batch, data // batch, 1, 1)[: 4 if kind == "conv" else 2], (weight,))
        rows.append(TraceOp(name=f"aten::{kind}", kind=kind, seconds=1e-3, shapes=shapes))
    return assemble_trace("pytorch", rows)


@pytest.mark.parametrize(
    ("traced", "estimated", "batch", "device", "says"),
    [("resnet18", "resnet18", 1, "xeon_8490h", ()),
     ("resnet18", "resnet50", 1, "xeon_8490h", ("of the 54 matrix operators",)),
     ("resnet50", "resnet18", 1, "xeon_8490h", ("of the trace's 54 matrix operators are not in the model",)),
     ("mobilenet_v3_small", "resnet50", 1, "xeon_8490h", ("have other weights",)),
     ("resnet18", "resnet18", 8, "xeon_8490h", ("its batch is 1",)),
     ("resnet18", "resnet18", 1, "h100_sxm", ("it ran on a CPU",))],
)  # fmt: skip
def test_a_trace_of_another_model_batch_or_device_warns_first(
    traced: str, estimated: str, batch: int, device: str, says: tuple[str, ...]
) -> None:
    workload = store.ready(estimated)
    assert workload is not None
    result = estimate(workload, load_device(device), Scenario(batch, "fp32", "eager"))
    warning = make_trace_report(recorded_operators(traced), result).incomplete
    assert bool(warning) == bool(says), warning
    assert all(text in warning for text in says), warning


@pytest.mark.parametrize(
    ("recorded", "device", "is_other"),
    [("NVIDIA H100 80GB HBM3", "h100_sxm", False), ("NVIDIA A100-SXM4-40GB", "h100_sxm", True),
     ("NVIDIA A10", "a100_pcie_80gb", True), ("", "h100_sxm", False),
     ("Tesla V100-SXM2-16GB", "v100_sxm2_16gb", False)],
)  # fmt: skip
def test_the_device_of_a_trace_is_told_by_the_number_of_its_chip(recorded: str, device: str, is_other: bool) -> None:
    workload = store.ready("resnet18")
    assert workload is not None
    result = estimate(workload, load_device(device), Scenario(1, "fp32", "eager"))
    trace = msgspec.structs.replace(recorded_operators("resnet18"), device=recorded, on_device=True)
    assert bool(make_trace_report(trace, result).incomplete) == is_other


def test_a_trace_of_another_model_is_named_first_and_lays_nothing_on_the_host(tmp_path: Path) -> None:
    state = replace(state_with_a_trace(tmp_path / "t.csv"), model="resnet50", devices=("h100_sxm",), execution="auto")
    assert answer(state)[0].startswith("Warning: this trace is not of resnet50 at batch 1 on h100_sxm: it ran on a")
    assert "Measured" not in dict(why(replace(state, at=HOST)).sections)
    assert "Measured" in dict(why(state).sections)


def test_kernels_of_a_device_are_compared_without_waits_for_the_host() -> None:
    workload = store.ready("resnet18")
    assert workload is not None
    result = estimate(workload, load_device("h100_sxm"), Scenario(1, "fp32", "eager"))
    times_s = [
        sum(row.predicted_s for row in make_trace_report(trace, result).rows)
        for trace in (of_the_model(result), msgspec.structs.replace(of_the_model(result), on_device=True))
    ]
    assert times_s[1] < 0.6 * times_s[0] == pytest.approx(0.6 * result.latency_s, rel=0.05)
