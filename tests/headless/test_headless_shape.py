"""What tables are made of: rows and their order. Not one value: those are refitted."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.headless.conftest import Call

TABLES = (("compare", "resnet18"), ("tree", "resnet18"), ("events", "resnet18"), ("models",))
CATEGORIES = {
    "cpu": "pipeline register memory alu branch static",
    "gpu": "compute register pipeline memory simt_control launch static",
    "tpu": "systolic weights on_chip vector hbm control static",
    "npu": "array vector weights line_buffer interconnect link control static",
    "kpu": "tile tile_memory stream_buffer shared_memory dram network_on_chip orchestration domain_flow synchronisation"
    " static",
}
SUBGRAPHS = [
    "conv1", "maxpool",
    "layer1.0.conv1", "layer1.0.conv2", "layer1.1.conv1", "layer1.1.conv2",
    "layer2.0.conv1", "layer2.0.downsample.0", "layer2.0.conv2", "layer2.1.conv1", "layer2.1.conv2",
    "layer3.0.conv1", "layer3.0.downsample.0", "layer3.0.conv2", "layer3.1.conv1", "layer3.1.conv2",
    "layer4.0.conv1", "layer4.0.downsample.0", "layer4.0.conv2", "layer4.1.conv1", "layer4.1.conv2",
    "avgpool", "fc",
]  # fmt: skip


def test_bands_in_csv_are_the_numbers_of_json(call: Call) -> None:
    words = ("compare", "resnet18", "--batch", "4")
    written = next(csv.DictReader(io.StringIO(call(*words, "--format", "csv").out)))
    row = json.loads(call(*words, "--format", "json").out)["rows"][0]
    assert [float(written["latency_low_s"]), float(written["latency_high_s"])] == row["latency_band_s"]
    assert [float(written["energy_low_j"]), float(written["energy_high_j"])] == row["energy_band_j"]


@pytest.mark.parametrize("words", TABLES, ids=" ".join)
def test_markdown_has_the_columns_of_the_text(call: Call, parsed: Callable[..., Any], words: tuple[str, ...]) -> None:
    lines = [line for line in call(*words, "--format", "md").out.splitlines() if line.startswith("|")]
    assert [cell.strip() for cell in lines[0].strip("|").split("|")] == list(parsed(call(*words, "--all").out)[0])
    assert len(lines) == len(parsed(call(*words, "--all").out)) + 2


@pytest.mark.parametrize("device", CATEGORIES)
def test_one_tree_for_every_device_and_mode(document: Callable[..., Any], device: str) -> None:
    for execution in ("eager", "fused"):
        root = document("tree", "resnet18", "--on", device, "--execution", execution)
        assert [child["id"] for child in root["children"] if child["kind"] != "host"] == SUBGRAPHS
        assert [child["name"].partition(".")[2] or child["name"] for child in root["children"][0]["children"]] == [
            "conv1", "bn1", "relu",
        ]  # fmt: skip
        assert sum(len(child["children"]) for child in root["children"]) == 69


@pytest.mark.parametrize("device", CATEGORIES)
def test_event_categories_in_order(document: Callable[..., Any], device: str) -> None:
    events = document("events", "resnet18", "--on", device)["events"]
    assert list(dict.fromkeys(event["category"] for event in events)) == CATEGORIES[device].split()
    for name in ("vit_b_16", "mobilenet_v2"):
        same = document("events", name, "--on", device, "--batch", "8", "--precision", "int8")["events"]
        assert [(e["category"], e["event"]) for e in same] == [(e["category"], e["event"]) for e in events]


def test_sections_of_why(call: Call) -> None:
    heads = [line for line in call("why", "resnet18", "--node", "layer1.0.bn1").out.splitlines() if line[:1] > " "]
    assert heads[1:] == ["Summary", "Time", "Energy", "EDP", "Notes", "Largest events"]


def test_devices_by_architecture_models_by_name(document: Callable[..., Any], call: Call) -> None:
    rows = list(csv.DictReader(io.StringIO(call("devices", "--format", "csv").out)))
    kinds = [row["architecture"] for row in rows]
    assert list(dict.fromkeys(kinds)) == ["CPU", "GPU", "TPU", "Spatial", "NPU", "KPU"]
    assert kinds == sorted(kinds, key=list(dict.fromkeys(kinds)).index)
    assert {row["key"] for row in rows} == {d["id"] for d in document("devices")["devices"]}
    models = list(csv.DictReader(io.StringIO(call("models", "--format", "csv").out)))
    assert [row["key"] for row in models] == [m["name"] for m in document("models")["models"]]
    named = [row["key"] for row in models if row["family"] != "block"]
    assert named == sorted(named)


@pytest.mark.parametrize("words", [("tree", "resnet18"), ("tree", "vit_b_16"), ("events", "resnet18")], ids=" ".join)
def test_every_precision_and_batch_has_the_same_rows(call: Call, words: tuple[str, ...]) -> None:
    def keys(*more: str) -> list[str]:
        out = call(*words, *more, "--format", "csv").out
        rows = [row["key"] for row in csv.DictReader(io.StringIO(out)) if row["key"] != "host:step"]
        return sorted(rows) if words[0] == "events" else rows  # those are sorted by energy

    first = keys()
    for more in (("--batch", "512"), ("--precision", "int4"), ("--layout", "channels_last"), ("--execution", "fused")):
        assert keys(*more) == first
