"""Predictions against the shipped measurements, and the fit behind them."""

import csv
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import msgspec
import numpy as np
import pytest

from analysis.measured import predictions, tables
from analysis.measured.predictions import interpret_row
from analysis.measured.tables import Unpredictable, catalogue_device, read_rows
from hardware.base.errors import RequestError
from hardware.base.records import group_by
from hwexplorer.cli import main
from hwexplorer_annexes.calibration import rate_fit
from hwexplorer_annexes.calibration.rate_fit import FitRow, RateFit
from lab import efficiency_fit, judge, measured_rows, timed_kernels
from lab.efficiency_fit import fit_rows_by_software, fit_software, left_out_latency
from lab.timed_kernels import predict_kernels
from lab.trust_bands import row_weights
from tests.command import document
from tests.sampling import for_each, slow

ROWS = measured_rows.shipped_rows(measured_rows.FITTED_ON, held=False)


@pytest.fixture(scope="module")
def observed() -> dict[str, list[FitRow]]:
    return fit_rows_by_software(ROWS)


@pytest.fixture(scope="module")
def fitted(observed: dict[str, list[FitRow]]) -> Callable[[str], RateFit]:
    return cache(lambda software: fit_software(software, observed[software]))


def test_a_fifth_of_each_source_is_held_whatever_was_measured() -> None:
    rows = measured_rows.shipped_rows()
    held = [row for row in rows if measured_rows.is_held(row)]
    assert 0.18 < len(held) / len(rows) < 0.22
    for source, members in group_by(rows, lambda row: row["source"]).items():
        if len(members) > 400:
            assert 0.15 < sum(map(measured_rows.is_held, members)) / len(members) < 0.25, source
    measured = {"latency_ms": "7", "throughput_per_s": "9", "latency_s": "3", "note": "other", "tpot_s": "2"}
    assert all(
        measured_rows.is_held(row | {name: measured[name] for name in measured if name in row}) for row in held[:500]
    )
    assert all(measured_rows.is_held(row) for row in measured_rows.shipped_rows(held=True))


def test_held_rows_are_judged_beside_what_is_claimed() -> None:
    points, skipped = predictions.predict_rows(measured_rows.shipped_rows(measured_rows.FITTED_ON, held=True)[::4])
    judged = judge.judge(judge.Points(points, [], skipped)).classes
    assert sum(each.rows for each in judged) == len(points)
    large = [each for each in judged if each.rows >= predictions.LARGE and each.claimed is not None]
    assert large
    assert all(each.median < 0.3 for each in large)


BASE = {"source": "me", "device": "h100_sxm", "model": "resnet50", "batch": "8", "framework": "pytorch eager"}


@pytest.mark.parametrize(
    ("framework", "execution"),
    [
        ("pytorch 2.4 eager NCHW", "pytorch_eager"),
        ("pytorch 2.4 compiled (torch.compile)", "torch_compile"),
        ("TensorRT 8", "tensorrt_enqueue"),
        ("Tensorflow 2.20.0 (Keras evaluate)", "tensorflow_2020"),  # its kernels of GPUs
        ("tensorflow 2.4.1", "tensorflow_2020"),
        ("ONNXRuntime 1.10.0", "onnxruntime"),
        ("PyTorch 1.5", "pytorch_eager"),
        ("Foo Engine 3", "unknown"),
    ],
)
def test_the_framework_decides_execution(framework: str, execution: str) -> None:
    row = interpret_row({**BASE, "framework": framework, "latency_ms": "1"})
    assert row.scenario.execution == execution


def test_notes_say_which_engines_are_recorded_as_graphs() -> None:
    """An engine that is enqueued starts kernel by kernel. Short calls of one image leave the GPU at its lowest clock,
    unless it is pinned: both are predicted."""
    asked = BASE | {"device": "jetson_agx_orin", "framework": "TensorRT 8", "latency_ms": "1", "precision": "fp16"}
    pinned = asked | {"device_mode": "nvpmodel PM0", "batch": "1"}
    graph, light = (interpret_row(pinned | {"note": note}) for note in ("engine in graphs", ""))
    (by_hand,) = light.others
    assert [each.scenario.execution for each in (graph, by_hand)] == ["tensorrt", "tensorrt_enqueue"]
    replayed, enqueued, slow = (predictions.estimate_row(row) for row in (graph, by_hand, light))
    share = enqueued.runtime.dispatch_on["gpu_integrated"].value * enqueued.device.dispatch_s
    assert enqueued.latency_s >= max(replayed.latency_s, enqueued.demand.n_kernels * share)
    assert (light.device.key, slow.device.clock_hz) == ("jetson_agx_orin:maxn", 3.1e8)
    assert slow.device.memory_bandwidth < 0.5 * light.device.memory_bandwidth
    assert slow.latency_s > 2.5 * enqueued.latency_s
    for device, modes in (("jetson_agx_orin", ["30w", "maxn"]), ("jetson_agx_orin:50w", ["50w"])):
        many = interpret_row({**asked, "device": device, "batch": "128"})
        assert [each.device.power_mode for each in (many, *many.others)] == modes
    assert predictions.estimate_row(many).device.clock_hz > 3.1e8


def test_a_detector_takes_the_image_size_of_a_row() -> None:
    row = {**BASE, "model": "yolov8n", "latency_ms": "1", "device": "l4", "framework": "TensorRT 8", "batch": "1"}
    stated = ({"image_size": "320"}, {"pixels": "640"})
    small, large = (predictions.estimate_row(interpret_row(row | size)) for size in stated)
    assert large.demand.macs.sum() == pytest.approx(4.0 * small.demand.macs.sum(), rel=0.01)


def test_notes_of_a_row_say_what_ran() -> None:
    row = {**BASE, "precision": "fp32", "latency_ms": "1", "model": "vgg11"}
    apart, built = (interpret_row({**row, "note": note}) for note in ("mean; TF32 listed apart", "a network of timm"))
    assert (apart.model, apart.scenario.precision) == ("vgg11", "fp32_strict")
    assert (built.model, built.family, built.scenario.precision) == ("timm:vgg11", "vgg", "fp32")


def test_an_input_pipeline_is_added_on_a_cpu_and_hidden_beside_an_accelerator() -> None:
    note = {"note": "incl. input pipeline", "latency_ms": "100", "model": "mobilenet_v3_small", "batch": "32"}
    for device, hidden in (("i7_6700", False), ("h100_sxm", True)):
        row = {**BASE, **note, "device": device, "energy_mJ_per_inference": "1"}
        plain, plain_j = predictions.predict_row(interpret_row({**row, "note": ""}))
        piped, piped_j = predictions.predict_row(interpret_row(row))
        if hidden:  # 32 images at 10 ms over ten cores take longer than the network
            assert piped.predicted == pytest.approx(0.032)
            assert plain.predicted < 0.032
        else:
            assert piped.predicted == pytest.approx(plain.predicted + 32 * 0.010 / 4)
        assert piped.band[0] <= piped.predicted <= piped.band[1]
        assert piped_j.predicted > plain_j.predicted


def test_a_file_that_is_no_table_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("device,b\n1,2\n")
    with pytest.raises(RequestError, match=r"a\.csv: column 'model' is missing"):
        tables.read_rows([path])


def test_the_fit_recovers_what_made_the_measurements(observed: dict[str, list[FitRow]]) -> None:
    """Latencies computed from other efficiencies, with a tenth of them spoilt, lead back to those efficiencies."""
    rows = observed["gpu"][::25]
    chosen = efficiency_fit.software_rates("gpu")
    truth = np.sqrt([knob.low * knob.high for knob in chosen]) * 1.1
    made = rate_fit.predict_latency(rows, efficiency_fit.fitted_software()["gpu"].efficiency, chosen, truth[None, :])[0]
    made[::10] *= 3.0
    again = fit_software("gpu", [_measured(row, float(s)) for row, s in zip(rows, made, strict=True)])
    by_name = {f"{k.table}.{k.name}": (v, t) for k, v, t in zip(again.rates, again.values, truth, strict=True)}
    for name in ("compute.CONV", "bandwidth.other", "bandwidth.NORM"):
        value, wanted = by_name[name]
        assert value == pytest.approx(wanted, rel=0.03), name
    assert np.median(np.abs(again.error)) < 0.01


def _measured(row: FitRow, measured_s: float) -> FitRow:
    return FitRow(**{name: getattr(row, name) for name in FitRow.__struct_fields__} | {"measured_s": measured_s})


def test_what_is_left_out_does_not_matter_to_its_prediction(observed: dict[str, list[FitRow]]) -> None:
    rows = observed["cpu"][::5]
    labels = [row.setup.device.id for row in rows]
    one = labels[0]
    spoilt = [_measured(r, r.measured_s * 2.0) if label == one else r for r, label in zip(rows, labels, strict=True)]
    full = fit_software("cpu", rows)
    other = msgspec.structs.replace(full, error=full.error - np.log(2.0) * (np.array(labels) == one))
    mine = np.array(labels) == one
    assert np.array_equal(left_out_latency(rows, full, labels)[mine], left_out_latency(spoilt, other, labels)[mine])


@slow
def test_recorded_cross_validation_is_what_comes_out(
    observed: dict[str, list[FitRow]], fitted: Callable[[str], RateFit]
) -> None:
    path, of = efficiency_fit.CROSS_VALIDATION, tuple[efficiency_fit.CrossValidation, ...]
    recorded = {one.software: one for one in msgspec.json.decode(path.read_bytes(), type=of)}
    assert set(recorded) == set(observed)
    for software in ("gpu_integrated", "cpu"):  # the quick ones
        rows = observed[software]
        now = efficiency_fit.cross_validate_fit(software, rows, fitted(software), lambda _: None)[0]
        was = recorded[software]
        assert (now.rows, now.groups) == (was.rows, was.groups)
        for name in ("fitted", "shipped", "device_out", "family_out", "runtime_out"):
            assert getattr(now, name) == pytest.approx(getattr(was, name), abs=0.005), f"{software}.{name}"


@pytest.mark.parametrize("software", ["cpu", "gpu_integrated", pytest.param("gpu", marks=slow)])
def test_shipped_values_are_the_fitted_ones(
    software: str, observed: dict[str, list[FitRow]], fitted: Callable[[str], RateFit]
) -> None:
    """Rounded by hand: no worse than a new fit by more than a hundredth. The medians above hold those of GPUs too."""
    assert set(observed) == {"cpu", "gpu_integrated", "gpu"}
    rows = observed[software]
    weight = row_weights(row.group for row in rows)
    measured = np.array([row.measured_s for row in rows])
    shipped = np.log(
        rate_fit.predict_latency(rows, efficiency_fit.fitted_software()[software].efficiency, (), np.zeros((1, 0)))[0]
        / measured
    )
    assert rate_fit.mean_error(shipped, weight) <= rate_fit.mean_error(fitted(software).error, weight) + 0.01


@for_each("name", ["batch", "latency_ms", "image_size", "throughput_per_s", "energy_mJ_per_inference"])
@for_each("value", ["inf", "-inf", "nan", "1e300", "-1", "0", "x", "1_0", "\u0661"])
def test_a_number_that_is_none_is_as_if_it_were_not_there(name: str, value: str) -> None:
    if name == "batch":  # without it, the row would be taken as one of batch 1
        with pytest.raises(Unpredictable, match="batch is not a number above 0"):
            interpret_row({**BASE, "latency_ms": "1", name: value})
        return
    row = {**BASE, "latency_ms": "1", "energy_mJ_per_inference": "5"}
    without = {key: text for key, text in row.items() if key != name}
    assert interpret_row({**row, name: value}) == interpret_row(without)


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("device,model,latency_ms,latency_ms\nl4,resnet50,1,2\n")
    with pytest.raises(RequestError, match="column 'latency_ms' is there twice"):
        read_rows([path])


@pytest.mark.parametrize(
    ("latency_ms", "says"),
    [("2.4", "resnet18, latency: 2.40 ms measured, "), ("60.2", "resnet18, latency: 60.2 ms measured, ")],
)
def test_a_row_of_ones_own_is_compared_in_a_sentence(
    latency_ms: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = "device,framework,model,batch,precision,latency_ms"
    rows = (f"t4,TensorRT,resnet18,8,fp16,{latency_ms}", "l999,TensorRT,resnet18,8,fp16,1")
    (tmp_path / "mine.csv").write_text("\n".join((head, *rows)))
    assert main(["validate", str(tmp_path / "mine.csv")]) == 0
    text = capsys.readouterr().out
    assert says in text
    assert "1 row not predicted: device is not in the catalogue" in text
    assert re.search(r"predicted \(\d+ % too (fast|slow), (in|out)side the band\)", text)
    (figure,) = document("validate", str(tmp_path / "mine.csv"))["figures"]
    assert figure["measured"] == pytest.approx(float(latency_ms) * 1e-3)
    assert figure["band"][0] < figure["predicted"] < figure["band"][1]


def test_evidence_needs_no_measured_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "read_rows", None)
    classes = document("validate")["classes"]
    assert {each["name"] for each in classes} >= {"vision, TensorRT, batch 1", "decode, 4 bit", "served at load, TTFT"}


def test_several_devices_share_a_throughput_but_not_a_query() -> None:
    offline = {**BASE, "scenario": "Offline", "batch": "", "throughput_per_s": "8000", "framework": "TensorRT"}
    assert interpret_row(offline).latency_s == pytest.approx(64 / 8000)
    assert interpret_row({**offline, "device": "h100_sxm x4"}).latency_s == pytest.approx(64 / 2000)
    one = {**BASE, "device": "h100_sxm x8", "latency_ms": "3"}
    assert interpret_row(one).latency_s == pytest.approx(3e-3)
    with pytest.raises(tables.Unpredictable, match="not in the catalogue"):
        interpret_row({**one, "device": "h101 x8"})


def test_a_measured_rate_is_held_against_the_rate() -> None:
    """Of a chip that frames follow each other on 1/rate is not a frame's latency; elsewhere both are the same."""
    stated = {**BASE, "batch": "1", "precision": "int8", "framework": "HailoRT", "throughput_per_s": "1000"}
    for name, is_streaming in (("hailo8", True), ("jetson_orin_dla", False)):
        row = interpret_row({**stated, "device": name})
        assert row.is_rate
        assert row.latency_s == pytest.approx(1e-3)
        (found,), result = predictions.predict_row(row), predictions.estimate_row(row)
        assert found.predicted == pytest.approx(1.0 / result.throughput_per_s, rel=1e-9)
        assert (found.predicted < 0.9 * result.latency_s) == is_streaming
        latency = interpret_row({**stated, "device": name, "latency_ms": "1", "throughput_per_s": ""})
        assert predictions.predict_row(latency)[0].predicted == result.latency_s


def test_a_table_of_kernels_is_validated_and_keeps_windows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Attention that sees the last 512 keys takes less than over all; the text names what bands held."""
    shape = "batch=1;heads=32;kv_heads=8;q=8192;kv=8192;dim_qk=128;dim_v=128;causal=yes"
    path = tmp_path / "kernels.csv"
    step = shape.replace("batch=1;", "batch=64;").replace("q=8192", "q=1").replace("causal=yes", "causal=no")
    texts = [f"{text}{window}" for text in (shape, step) for window in ("", ";window=512")]
    rows = [f"h100_sxm,attention_fwd,FlashAttention-3,{text},bf16,1e-3" for text in texts]
    path.write_text("device,op,library,shape,format,seconds\n" + "\n".join(rows))
    points, _ = predict_kernels(read_rows([path], ("op",)))
    full, windowed, long_step, short_step = (point.predicted for point in points)
    assert windowed < 0.25 * full
    assert short_step < 0.25 * long_step
    assert judge.main([str(path)]) == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("attention_fwd", "Bias", "In band %"))


_PRODUCT = {"operator": "gemm", "weights_format": "bf16", "activations_format": "bf16", "m": "4096", "n": "8192"}
_PRODUCT |= {"k": "8192", "latency_s": "9e-4"}
_STEP = {"operator": "attention_decode", "activations_format": "bf16", "cache_format": "bf16", "batch": "32"}
_STEP |= {"heads": "32", "kv_heads": "8", "head_dim": "128", "seq": "1", "kv": "8192", "latency_s": "4e-4"}
_LAYER = {"operator": "moe", "weights_format": "bf16", "activations_format": "bf16", "tokens": "64", "hidden": "7168"}
_LAYER |= {"inter": "2048", "experts": "256", "topk": "8", "ep": "8", "latency_s": "6e-4"}
_OPERATORS: tuple[dict[str, str], ...] = (
    _PRODUCT,
    {**_PRODUCT, "weights_format": "fp8", "activations_format": "fp8", "latency_s": "5e-4"},
    _STEP,
    {**_STEP, "window": "512", "latency_s": "4e-5"},
    {**_STEP, "operator": "mla_decode", "engine": "sglang", "heads": "128", "kv_heads": "1", "head_dim": ""},
    {**_LAYER, "distribution": "power_law_1.2"},
    {"operator": "allreduce", "engine": "nccl", "bytes": "16777216", "devices": "8", "latency_s": "1e-4"},
    {**_PRODUCT, "weights_format": "fp8_block"},
    {**_PRODUCT, "flag": "above_bandwidth"},
    {**_PRODUCT, "device": "h101"},
    {**_PRODUCT, "operator": "mla_bmm", "heads": ""},
    {**_PRODUCT, "operator": "somersault"},
)


def test_a_table_of_operators_is_read_by_operator_and_format(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "operators.csv"
    with path.open("w", newline="") as file:
        rows = [{"device": "h100_sxm", "engine": "vllm", **row} for row in _OPERATORS]
        names = sorted(set().union(*rows))
        (writer := csv.DictWriter(file, names)).writeheader()
        writer.writerows(rows)
    assert judge.main([str(path), "--all"]) == 0
    text = capsys.readouterr().out
    for name in ("gemm, bf16 x bf16", "gemm, fp8 x fp8", "mla_decode, cache bf16", "moe, bf16 x bf16", "allreduce"):
        assert re.search(rf"^{name} +1 +1 ", text, re.MULTILINE), text
    assert re.search(r"^attention_decode, cache bf16 +2 +1 ", text, re.MULTILINE), text
    assert "7 figures; 5 rows are not predicted" in text
    for why in (
        "times the host",
        "data sheet's peak",
        "catalogue: h101",
        "a size or the time of mla_bmm",
        "operator: vllm somersault",
    ):
        assert re.search(f"1 row not predicted: .*{why}", text), text


def test_a_window_and_a_busiest_device_change_the_time_of_an_operator() -> None:
    def seconds(row: dict[str, str]) -> float:
        points, _ = timed_kernels.predict_kernels([{"device": "h100_sxm", "engine": "vllm", **row}])
        return points[0].predicted

    assert seconds(_OPERATORS[3]) < 0.25 * seconds(_STEP)
    assert seconds({**_LAYER, "tokens": "4096", "distribution": "power_law_1.2"}) > 1.15 * seconds(
        {**_LAYER, "tokens": "4096", "distribution": "balanced"}
    )


def test_tables_include_the_kernels_that_find_scales() -> None:
    """TensorRT-LLM takes 12 us for the smallest fp8 product on an H100, vLLM and SGLang 5 (AIConfigurator)."""
    small = {
        **_PRODUCT,
        "device": "h100_sxm",
        "weights_format": "fp8",
        "activations_format": "fp8",
        "m": "1",
        "k": "64",
    }
    one, many = (
        timed_kernels.predict_kernels([{**small, "n": "64", "engine": engine}])[0][0].predicted
        for engine in ("sglang", "tensorrt_llm")
    )
    assert 4e-6 < one < 7e-6 < 10e-6 < many < 15e-6


def test_the_bands_of_operators_hold_most_rows() -> None:
    """A band of a class of operators, not that of vision: wider above where kernels are slower than their model, and
    wider on a device whose operators set no constant."""
    rows = [{**_STEP, "engine": "vllm", "device": device} for device in ("h100_sxm", "a100_sxm4_80gb", "l40s")]
    points = [timed_kernels.predict_kernels([row])[0][0] for row in rows]
    (low, high), _, (lowest, highest) = ([end / point.predicted for end in point.band] for point in points)
    assert 0.5 < low < 0.9
    assert 1.0 / low < high < 1.6
    assert (lowest < low, highest > high) == (True, True)


def test_query_heads_of_tensorrt_llm_have_blocks_of_their_own_in_prefill() -> None:
    """12 heads of 256 prompts of one token take 71 us on a B300 where FlashAttention-3 packs them (AIConfigurator)."""
    prompts = {**_STEP, "operator": "attention_prefill", "batch": "256", "heads": "12", "kv_heads": "1", "kv": "1"}
    rows = [
        {**prompts, "device": "h200_sxm", "engine": engine, "kernel": kernel}
        for engine, kernel in (("vllm", "fa3"), ("tensorrt_llm", ""))
    ]
    packed, apart = (timed_kernels.predict_kernels([row])[0][0].predicted for row in rows)
    assert apart > 2 * packed


def test_kernels_of_experts_differ_in_what_they_copy_and_pad() -> None:
    """DeepGEMM's masked layout pads 1 token at each of 128 experts to 128 rows: 224 us on GB200 (AIConfigurator)."""
    few = {**_LAYER, "device": "GB200", "engine": "tensorrt_llm", "tokens": "16", "inter": "128", "ep": "1"}
    few |= {"weights_format": "fp8_block", "activations_format": "fp8_block"}
    padded, copied = (
        timed_kernels.predict_kernels([{**few, "kernel": kernel}])[0][0].predicted for kernel in ("deepgemm", "cutlass")
    )
    assert padded > 1.5 * copied


def test_padded_widths_and_gates_of_experts_take_time() -> None:
    """vLLM pads 90 columns of an expert to 256 for trtllm-gen; Nemotron's experts have no gate."""

    def seconds(**cells: str) -> float:
        row = {**_LAYER, "device": "GB200", "engine": "vllm", "tokens": "16", "ep": "1", **cells}
        return timed_kernels.predict_kernels([row])[0][0].predicted

    wide = {"kernel": "trtllm", "weights_format": "mxfp4", "activations_format": "bf16", "tp": "1"}
    assert seconds(**wide, inter="90") == seconds(**wide, inter="256") < seconds(**wide, inter="257")
    assert seconds(kernel="trtllm_nongated") < 0.8 * seconds(kernel="trtllm")


@pytest.mark.parametrize("named", ["A100 80GB", "a100_sxm4_80gb"])
def test_rules_read_the_device_and_not_its_name(named: str) -> None:
    """A device with GB in its name is no GB200."""
    device = catalogue_device(named, ())
    assert device is not None
    assert (device.id, device.kernel_generation) == ("a100_sxm4_80gb", "ampere")


def test_loads_under_a_power_law_hit_fewer_experts_and_add_up() -> None:
    hit, rows = timed_kernels._power_law_load(4096, 128, 8, 1, "power_law_1.2")
    assert 100.0 < hit <= 128.0
    assert hit * rows == pytest.approx(4096 * 8, rel=0.02)
    assert timed_kernels._power_law_load(1, 256, 8, 1, "power_law_1.2") == (8.0, 1.0)
    assert timed_kernels._power_law_load(1, 256, 8, 8, "power_law_1.2") == (1.0, 1.0)
    busiest = timed_kernels._power_law_load(4096, 128, 8, 8, "power_law_1.2")
    assert 1.5 < busiest[0] * busiest[1] / 4096 < 4.0  # of the mean load of a device


def test_tokens_are_dispatched_once_to_each_device_of_their_experts() -> None:
    """A token of eight experts goes to 2.7 others of four devices, and to 4.6 of eight; four bits take less."""
    sent = {"operator": "alltoall_dispatch", "device": "gb200", "engine": "tensorrt_llm", "latency_s": "1e-3"}
    sent |= {"tokens": "65536", "hidden": "7168", "topk": "8", "activations_format": "bf16"}
    narrow = {**sent, "devices": "8", "activations_format": "nvfp4"}
    rows = [*({**sent, "devices": devices} for devices in ("4", "8")), narrow, {**narrow, "tokens": ""}]
    few, many, packed, missing = (timed_kernels.predict_kernels([row])[0] for row in rows)
    assert many[0].predicted / few[0].predicted == pytest.approx(4.6 / 2.7, rel=0.05)
    assert packed[0].predicted < many[0].predicted / 3
    assert not missing


def test_kernels_of_a_framework_are_predicted_as_in_a_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Measured on an H100 with PyTorch 2.11; what cannot be predicted says why."""
    path = tmp_path / "kernels.csv"
    head = "device,op,shape,format,layout,seconds"
    rows = (
        "H100 SXM,conv2d,n=64 c=128 h=28 w=28 k=128 r=3 stride=1 pad=1 groups=1,bf16,channels_last,2.97e-05",
        "H100 SXM,max_pool2d,n=64 c=32 h=112 w=112 r=3 stride=2 pad=1,fp32,nchw,1.016e-04",
        "H100 SXM,layer_norm,tokens=8192 width=4096,bf16,,6.19e-05",
        "H100 SXM,gemm,m=4096 n=4096 k=4096,int8,,1.5e-04",
        "H100 SXM,roll,elements=5,bf16,,1e-6",
        "H100 SXM,relu,tokens=5,bf16,,1e-6",
        "H100 SXM,relu,elements=5,bf16,,soon",
        "H999,relu,elements=5,bf16,,1e-6",
    )
    path.write_text("\n".join((head, *rows)))
    points, skipped = predict_kernels(read_rows([path], ("op",)))
    errors = {point.family: point.predicted / point.measured for point in points}
    assert set(errors) == {"conv2d, bf16", "max_pool2d, fp32", "layer_norm, bf16", "gemm, int8"}
    assert all(0.7 < errors[name] < 1.3 for name in errors if name != "gemm, int8")
    assert set(skipped) == {
        "roll: roll is not known",
        "relu: elements is not known",
        "relu: the time is not a number",
        "device is not in the catalogue: H999",
    }
    assert judge.main([str(path)]) == 0
    assert "max_pool2d, fp32" in capsys.readouterr().out


def test_what_cannot_fit_is_not_predicted() -> None:
    row = {"device": "rtx_3060", "framework": "pytorch eager", "model": "vgg16", "batch": "4096", "precision": "fp32"}
    points, skipped = predictions.predict_rows([{**row, "scenario": "x", "latency_ms": "1"}])
    assert (points, [*skipped]) == ([], ["the model does not fit into the memory of the device"])
