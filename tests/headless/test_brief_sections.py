"""The text of each report about one estimate: one screen by default, the whole with --all."""

import json
import re

import pytest

from hardware.device_catalog import load_device
from hwexplorer.views.digest import merge_names
from tests.headless.conftest import Call

SCREEN = 40
ON = ("resnet50", "--on", "h100_sxm")
VERBS = [(verb, *ON) for verb in ("events", "energy", "why", "roofline", "mapping", "structure", "report", "tune")]
LOAD = "llama3_8b:serve,rate=1"
OTHERS = (
    ("edp", *ON),
    ("pareto", *ON),
    ("why", LOAD, "--on", "h100_sxm"),
    ("explain", LOAD, "h100_sxm", "tpu_v4"),
    ("sweep", LOAD, "--on", "xeon_8490h,h100_sxm,tpu_v4,l4"),
    ("explain", "resnet50", "h100_sxm", "tpu_v4"),
    ("explain", "resnet50", "h100_sxm", "tpu_v4", "--metric", "energy"),
    ("diff", "vgg11", "vgg13", "--on", "h100_sxm"),
    ("tune", *ON),
    ("models",),
    ("devices",),
    ("device", "h100_sxm"),
    ("coefficients", "--on", "h100_sxm"),
    ("plot", *ON),
)


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_default_text_is_one_screen_and_all_is_longer(
    call: Call, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("HWEXPLORER_WIDTH", "100")
    brief, whole = (call(*words, *more).out.splitlines() for more in ((), ("--all",)))
    assert len(brief) <= SCREEN < len(whole)
    assert max(map(len, brief)) <= 100
    assert all(words in brief[0] for words in ("resnet50", "batch 1, fp32", "TensorRT on NVIDIA H100 SXM5 80GB"))


@pytest.mark.parametrize("words", OTHERS, ids=" ".join)
def test_other_texts_are_one_screen_too(call: Call, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    monkeypatch.setenv("HWEXPLORER_WIDTH", "100")
    brief, whole = (call(*words, *more).out.splitlines() for more in ((), ("--all",)))
    assert len(brief) <= SCREEN
    assert len(brief) < len(whole)
    assert max(map(len, brief)) <= 100
    assert all(brief[i : i + 2] != ["", ""] for i in range(len(brief)))


@pytest.mark.parametrize("width", ["abc", "-5", "", "9" * 400])
def test_a_width_that_is_no_number_is_no_limit(call: Call, monkeypatch: pytest.MonkeyPatch, width: str) -> None:
    whole = call("compare", "resnet18").out
    monkeypatch.setenv("HWEXPLORER_WIDTH", width)
    assert call("compare", "resnet18").out == whole


def test_a_pipe_has_every_model_and_device(call: Call) -> None:
    for verb in ("models", "devices"):
        assert call(verb).out == call(verb, "--all").out


def test_energy_is_explained_per_inference(call: Call) -> None:
    words = ("explain", "resnet18", "h100_sxm", "tpu_v4", "--metric", "energy", "--batch", "8", "--format", "json")
    document = json.loads(call(*words).out)
    assert document["a"]["value"] == pytest.approx(document["a"]["energy_j"] / 8)
    assert document["groups"]["family"][3]["name"] == "launch"


def test_int8_is_counted_in_operations_and_a_power_in_watts(call: Call) -> None:
    device = call("device", "h100_sxm", "--all").out
    assert " 1979 TOPS" in next(line for line in device.splitlines() if "matrix int8" in line)
    assert "Int8 TOPS" in call("devices").out
    assert "105 W " in call("coefficients", "--on", "h100_sxm").out
    assert "J/s" not in call("tune", "resnet18", "--on", "h100_sxm").out


def test_alike_kernels_are_one_row(call: Call) -> None:
    text = call("roofline", "llama3_8b:decode", "--on", "h100_sxm").out
    assert "layers.0-31." in text
    assert "×32" in text


@pytest.mark.parametrize("words", [("energy", "llama3_8b:decode"), ("mapping", "resnet50")])
def test_only_rows_with_one_name_but_for_a_number_are_merged(call: Call, words: tuple[str, ...]) -> None:
    merged = [line for line in call(*words, "--on", "h100_sxm").out.splitlines() if re.search(r"\S ×\d", line)]
    assert merged
    assert all(re.search(r"\.\d+[-,][\d,]+\S* ×", line) for line in merged), merged


def test_host_work_is_a_part_of_its_own_of_a_difference(call: Call) -> None:
    words = ("explain", "llama3_8b:decode", "h100_sxm", "tpu_v4", "--format", "json")
    document = json.loads(call(*words).out)
    parts = {part["name"]: part for part in document["groups"]["subgraph"]}
    assert parts["host: scheduler and sampling"]["a"] > 100 * parts["embed_tokens"]["a"]
    assert sum(part["difference"] for part in parts.values()) == pytest.approx(document["difference"])


def test_a_report_of_a_load_states_the_energy_of_one_inference(call: Call) -> None:
    text = call("report", LOAD, "--on", "h100_sxm").out
    assert " J for 2 requests)" in text


def test_a_request_is_counted_in_requests_and_tokens(call: Call) -> None:
    report, cost = (call(verb, "llama3_8b:request", "--on", "h100_sxm").out for verb in ("report", "cost"))
    assert " J per request" in report
    assert " requests per second" in report
    assert "USD per million requests" in cost


def test_a_tree_says_that_rows_of_repeats_are_sums(call: Call) -> None:
    assert "the figures are of all of them together" in call("tree", "resnet50", "--on", "h100_sxm").out


def test_a_design_on_paper_never_leads_a_search_of_a_load(call: Call) -> None:
    text = call("search", LOAD, "--on", "h100_sxm,kpu_t256", "--devices", "1").out
    rows = [line for line in text.splitlines() if "one device" in line]
    assert "EDP per token: h100_sxm (one device)" in rows[0]
    assert "on paper, not counted: kpu_t256 (paper) (one device)" in text
    assert "no limits and" not in text


def test_names_that_differ_in_one_number_are_merged() -> None:
    assert merge_names(["layers.0.q", "layers.1.q", "layers.2.q"]) == "layers.0-2.q"
    assert merge_names(["layers.0.q", "layers.2.q"]) == "layers.0,2.q"
    assert merge_names(["layer1.0.conv1", "layer2.0.conv2"]) == "layer1.0.conv1"


def test_energy_of_events_is_per_inference_and_names_the_batch(call: Call) -> None:
    words = ("events", "resnet18", "--on", "h100_sxm", "--batch", "8")
    document = json.loads(call(*words, "--format", "json").out)
    assert document["total_j"] == pytest.approx(8 * document["total_j_per_inference"])
    assert all(8 * e["energy_j_per_inference"] == pytest.approx(e["energy_j"]) for e in document["events"])
    text = call(*words).out
    assert "mJ per inference (" in text
    assert "per batch of 8)" in text


def test_price_of_a_second_is_a_power(call: Call) -> None:
    rows = [line for line in call("events", "resnet18", "--on", "h100_sxm").out.splitlines() if "leakage" in line]
    assert " W " in rows[0]
    assert " J " not in rows[0].partition(" s ")[2].partition(" W ")[0]


def test_roofline_counts_all_kernels_and_has_the_average_intensity(call: Call) -> None:
    words = ("roofline", "llama3_8b:decode", "--batch", "32", "--precision", "fp16", "--on", "tpu_v4")
    document = json.loads(call(*words, "--format", "json").out)
    kernels = [kernel for kernel in document["kernels"] if kernel["type"] != "host"]
    flops, moved = (sum(kernel[name] for kernel in kernels) for name in ("flops", "dram_bytes"))
    assert document["average_intensity"] == pytest.approx(flops / moved)
    note = f"{document['launch_dominated']} of {len(kernels)} kernels take longer to launch than to run"
    assert note in call(*words).out
    plot = json.loads(call("plot", *words[1:], "--format", "json").out)
    assert plot["notes"][0].startswith(note)


def test_mapping_says_what_can_be_vectorised(call: Call) -> None:
    for device in ("h100_sxm", "xeon_8490h", "eyeriss"):
        rows = json.loads(call("mapping", "resnet18", "--on", device, "--format", "json").out)["rows"]
        lanes = load_device(device).file.fma_per_clock["vector"]
        assert {row["vectorizable_dim"] for row in rows} == {"columns", "elements"}
        assert all(row["vectorizable_size"] >= 1 and row["recommended_mapping"] for row in rows)
        elements = next(row for row in rows if row["vectorizable_dim"] == "elements")
        width = lanes[elements["format"]].value
        assert elements["vector_width"] == (width if width >= 1 else None)


def test_why_says_each_source_once_and_only_with_all(call: Call) -> None:
    words = ("why", "resnet50", "--on", "h100_sxm")
    brief, whole = call(*words).out, call(*words, "--all").out
    assert "AccelWattch" not in brief
    assert whole.count("125 W at 37 C, 136 at 54 C") == 1
    assert brief.index("Summary") < brief.index("Where the time goes")


def test_why_of_a_merged_row_says_what_its_operators_are(call: Call) -> None:
    text = call("why", "mobilenet_v2", "--on", "h100_sxm", "--node", "features.8-10.conv.1").out
    assert "3 times depthwise 3 x 3 convolution of 384 channels" in text
    text = call("why", "resnet50", "--on", "h100_sxm", "--node", "layer1.0-2.conv2").out
    assert "3 times 3,136 x 64 x 576 matrix product on tensor cores" in text


HEADS = ("Device", "EDP rank", "Latency ", "Energy/inf ", "EDP ", "Rate ", "Software", "Evidence")


@pytest.mark.parametrize("on", ["", "jetson_agx_orin,h100_sxm,hailo10h", "jetson_agx_xavier_cpu,mi300x"])
def test_compare_has_its_eight_columns_at_a_hundred_characters(
    call: Call, monkeypatch: pytest.MonkeyPatch, on: str
) -> None:
    monkeypatch.setenv("HWEXPLORER_WIDTH", "100")
    lines = call("compare", "vit_b_16", *(("--on", on) if on else ())).out.splitlines()
    heads = " ".join(line for line in lines if line.startswith("Device "))
    assert all(head in heads for head in HEADS)
    assert max(map(len, lines)) <= 100


@pytest.mark.parametrize(
    ("words", "title"),
    [
        (("sweep", "resnet18", "--batches", "1,8"), "resnet18, batches 1, 8, fp32, TensorRT on NVIDIA L4"),
        (("search", "resnet18", "--max-power", "25W"), "resnet18, 32 configurations, TensorRT on NVIDIA L4: power <= "),
        (("pareto", "resnet18", "--batches", "1"), "resnet18, 4 configurations, TensorRT on NVIDIA L4"),
        (("memory", "resnet18"), "Memory of resnet18, batch 1, fp32, TensorRT on NVIDIA L4"),
        (("advise", "resnet18"), "resnet18, batch 1, fp32, TensorRT on NVIDIA L4"),
        (("cost", "resnet18"), "Cost of resnet18, batch 1, fp32, TensorRT on NVIDIA L4"),
    ],
)
def test_first_line_says_model_batch_format_runtime_and_device(call: Call, words: tuple[str, ...], title: str) -> None:
    assert call(*words, "--on", "l4").out.startswith(title)


def test_no_line_about_a_device_of_a_comparison_wraps(call: Call) -> None:
    lines = call("compare", "resnet50", "--on", "tpu_v4,h100_sxm,xeon_8490h").out.splitlines()
    told = [line for line in lines if "(chip)" in line]
    assert len(told) == 2
    assert all(len(line) <= 100 for line in told), told


@pytest.mark.parametrize("verb", ["roofline", "mapping", "memory"])
def test_the_title_of_a_long_subject_is_one_line_of_100(call: Call, verb: str) -> None:
    title, after = call(verb, "llama3_8b:request,in=1024,out=256", "--on", "h100_sxm").out.splitlines()[:2]
    assert len(title) <= 100, title
    assert not after


def test_cost_is_brief_and_its_sources_are_in_all(call: Call) -> None:
    brief, whole = (call("cost", "resnet18", *more).out for more in ((), ("--all",)))
    assert "EIA" not in brief
    assert "Ranges and sources of both: --all" in brief
    assert "[published: EIA" in whole
