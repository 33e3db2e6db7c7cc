"""What a text merges, counts and names, where a golden text alone would not say why."""

import json
import re

import pytest

from hwexplorer.views.tables import merge_names
from tests.headless.conftest import Call

LOAD = "llama3_8b:serve,rate=1"


def test_energy_is_explained_per_inference(call: Call) -> None:
    words = ("why", "resnet18", "h100_sxm,tpu_v4", "--metric", "energy", "--batch", "8", "--format", "json")
    document = json.loads(call(*words).out)
    explained = document["explanation"]
    assert explained["a"] == pytest.approx(document["a"]["figures"]["energy"])
    assert "launch" in {part["name"] for part in explained["groups"]["family"]}
    assert {part["unit"] for group in explained["groups"].values() for part in group} == {"J"}


@pytest.mark.parametrize("words", [("show", "structure", "llama3_8b:decode"), ("show", "kernels", "resnet50")])
def test_only_rows_with_one_name_but_for_a_number_are_merged(call: Call, words: tuple[str, ...]) -> None:
    merged = [line for line in call(*words, "--on", "h100_sxm").out.splitlines() if re.search(r"\S ×\d", line)]
    assert merged
    assert all(re.search(r"\.\d+[-,][\d,]+\S* ×", line) for line in merged), merged


def test_host_work_is_a_part_of_its_own_of_a_difference(call: Call) -> None:
    words = ("why", "llama3_8b:decode", "h100_sxm", "tpu_v4", "--format", "json")
    document = json.loads(call(*words).out)["explanation"]
    parts = {part["name"]: part for part in document["groups"]["subgraph"]}
    assert parts["start of the run"]["a"] > 100 * parts["embed_tokens"]["a"]
    assert sum(part["difference"] for part in parts.values()) == pytest.approx(document["difference"])


def test_a_request_is_counted_in_requests_and_tokens(call: Call) -> None:
    words = ("llama3_8b:request", "--on", "h100_sxm")
    report, cost = call("report", *words).out, call("compare", *words, "--cost").out
    assert " J per request" in report
    assert " requests per second" in report
    assert "Per million requests" in cost


def test_a_design_on_paper_never_leads_a_search_of_a_load(call: Call) -> None:
    text = call("search", LOAD, "--on", "h100_sxm,kpu_t256", "--devices", "1").out
    rows = [line for line in text.splitlines() if "one device" in line]
    assert "EDP per token: h100_sxm (one device)" in rows[0]
    assert "on paper, not counted: kpu_t256 (paper) (one device)" in text
    assert "no limits and" not in text


def test_names_that_differ_in_one_number_are_merged() -> None:
    assert merge_names(["layers.0.q", "layers.1.q", "layers.2.q"]) == "layers.0-2.q ×3"
    assert merge_names(["layers.0.q", "layers.2.q"]) == "layers.0,2.q ×2"
    assert merge_names(["layer1.0.conv1", "layer2.0.conv2"]) == "layer1.0.conv1 ×2"


def test_kernels_are_all_counted_and_has_the_average_intensity(call: Call) -> None:
    words = ("show", "kernels", "llama3_8b:decode", "--batch", "32", "--precision", "fp16", "--on", "tpu_v4")
    document = json.loads(call(*words, "--format", "json").out)
    kernels = document["kernels"]
    flops, moved = (sum(kernel[name] for kernel in kernels) for name in ("flops", "dram_bytes"))
    assert document["average_intensity"] == pytest.approx(flops / moved)


def test_why_of_a_merged_row_says_what_its_operators_are(call: Call) -> None:
    text = call("why", "mobilenet_v2", "--on", "h100_sxm", "--node", "features.8-10.conv.1").out
    assert "3 times depthwise 3 x 3 convolution, 384 channels, 14 x 14" in text
    text = call("why", "resnet50", "--on", "h100_sxm", "--node", "layer1.0-2.conv2").out
    assert "3 times 3 x 3 convolution, 64 channels, 56 x 56 on tensor cores" in text


HEADS = ("Device", "Rank", "EDP / ", "Latency ", "Energy ", "EDP ", "Rate ", "Software", "Evidence")


@pytest.mark.parametrize("on", ["", "jetson_agx_orin,h100_sxm,hailo10h", "jetson_agx_xavier_cpu,mi300x"])
def test_compare_has_its_eight_columns_at_a_hundred_characters(
    call: Call, monkeypatch: pytest.MonkeyPatch, on: str
) -> None:
    monkeypatch.setenv("HWEXPLORER_WIDTH", "100")
    lines = call("compare", "vit_b_16", *(("--on", on) if on else ())).out.splitlines()
    heads = " ".join(line for line in lines if line.startswith("Device "))
    assert all(head in heads for head in HEADS)
    assert max(map(len, lines)) <= 100
