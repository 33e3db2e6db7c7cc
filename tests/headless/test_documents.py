"""Documents in JSON: parts add up to wholes, products of columns agree, and every way to ask gives the same figures."""

import csv
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from analysis.model.names import zoo
from tests.headless.conftest import Call
from tests.sampling import every, for_each

Document = Callable[..., Any]
FOUR = ("xeon_8490h", "h100_sxm", "tpu_v4", "kpu_t256")
CASES = (
    ("resnet18",),
    ("resnet50", "--batch", "8", "--precision", "fp16", "--execution", "fused"),
    ("vit_b_16", "--precision", "bf16", "--execution", "eager"),
    ("efficientnet_b0", "--batch", "512", "--precision", "fp8", "--layout", "channels_last"),
    ("transformer_block", "--precision", "int4"),
)


def near(a: float, b: float, scale: float = 0.0) -> bool:
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b), scale)


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node["children"]:
        yield from walk(child)


@for_each("case", CASES)
def test_figures_of_a_comparison_agree(document: Document, case: tuple[str, ...]) -> None:
    found = document("compare", *case)
    batch = found["batch"]
    reference = next(row for row in found["rows"] if row["device"] == found["baseline"])
    for row in found["rows"]:
        energy, latency = row["energy_j"], row["latency_s"]
        assert near(row["energy_j_per_inference"] * batch, energy)
        assert near(row["latency_s_per_inference"] * batch, latency)
        assert near(row["throughput_per_s"] * latency, batch)
        assert near(row["edp_js"], energy / batch * latency)
        assert near(row["average_power_w"], energy / latency)
        assert near(row["compute_j"] + row["memory_j"] + row["static_j"], energy)
        for (low, high), value in ((row["latency_band_s"], latency), (row["energy_band_j"], energy)):
            assert low <= value * (1 + 1e-12)
            assert value <= high * (1 + 1e-12)
        for name, key in (("latency", "latency_s"), ("energy", "energy_j"), ("edp", "edp_js")):
            assert near(row["ratio_to_baseline"][name], row[key] / reference[key])
    unrun = "no software runs int4 on it: it is not recommended"
    fitting = [row for row in found["rows"] if row["fits"] and row["silicon"] and unrun not in row["marks"]]
    for aim, key in (("energy", "energy_j"), ("latency", "latency_s"), ("balance", "edp_js")):
        best = min(fitting, key=lambda row: row[key])["device"] if fitting else ""
        assert found["recommendations"][aim] == best


SUMMED = ("macs", "flops", "bytes", "latency_s", "energy_j", "compute_j", "memory_j", "static_j", "share")
SUMMED += ("edp_js", "dram_bytes", "fusion_benefit_js")


@for_each(("case", "device"), zip(CASES, ("cpu", "gpu", "tpu", "kpu", "npu"), strict=True))
def test_parts_of_a_tree_and_events_add_up(document: Document, case: tuple[str, ...], device: str) -> None:
    root = document("tree", *case, "--on", device)
    levels = {"model": "subgraph", "subgraph": "operator", "operator": "part"}
    for node in walk(root):
        assert 0 <= node["share_of_parent"] <= 1 + 1e-9
        assert node["share"] - 1e-9 <= node["cumulative"] <= 1 + 1e-9
        assert near(node["compute_j"] + node["memory_j"] + node["static_j"], node["energy_j"])
        for figure, causes in (("latency_s", "latency_by_cause_s"), ("energy_j", "energy_by_cause_j")):
            assert near(sum(node[causes].values()), node[figure], root[figure])
        assert near(node["own_edp_js"], node["energy_j"] / root["batch"] * node["latency_s"])
        assert near(node["edp_js"], node["share"] * root["edp_js"])
        assert node["reason"]
        if node["children"]:
            assert {child["kind"] for child in node["children"]} - {"host"} == {levels[node["kind"]]}
            for key in SUMMED:
                parts = [child[key] for child in node["children"]]
                assert near(sum(parts), node[key], sum(map(abs, parts))), (node["id"], key)
    ids = [node["id"] for node in walk(root)]
    assert len(set(ids)) == len(ids)
    row = document("compare", *case, "--on", device)["rows"][0]
    for key in ("latency_s", "energy_j", "compute_j", "memory_j", "static_j", "utilization", "bound", "edp_js"):
        assert root[key] == pytest.approx(row[key], rel=1e-12), key
    found = document("show", "events", *case, "--on", device)
    assert len({(event["category"], event["event"]) for event in found["events"]}) == len(found["events"]) >= 20
    assert near(sum(event["energy_j"] for event in found["events"]), root["energy_j"])
    for event in found["events"]:
        assert near(event["energy_j_per_inference"] * root["batch"], event["energy_j"])
        assert event["source"]
        assert event["unit"]


def test_batch_and_precision_scale_the_work(document: Document) -> None:
    one, two = (document("tree", "resnet18", "--on", "kpu", "--batch", batch) for batch in ("1", "2"))
    assert two["macs"] == 2 * one["macs"]
    assert two["flops"] == 2 * one["flops"]
    wide, narrow = (document("tree", "conv2d", "--on", "kpu", "--precision", p) for p in ("fp32", "int8"))
    assert wide["dram_bytes"] == 4 * narrow["dram_bytes"]


def test_every_setting_has_the_same_rows(call: Call) -> None:
    def keys(*more: str) -> list[str]:
        out = call("tree", "vit_b_16", *more, "--format", "csv").out
        return [row["key"] for row in csv.DictReader(io.StringIO(out)) if row["key"] != "host:step"]

    first = keys()
    for more in (("--batch", "512"), ("--precision", "int4"), ("--on", "tpu"), ("--execution", "eager")):
        assert keys(*more) == first


NODES = [
    ("resnet18", "", "model", ""),
    ("resnet18", "layer1.0.conv1", "subgraph", "layer1.0.conv1"),
    ("resnet18", "layer1.0.bn1", "operator", "layer1.0.conv1/bn1"),
    ("mobilenet_v2", "18.1", "operator", "features.18.0/1"),
]


@for_each(("model", "path", "kind", "wanted"), NODES)
def test_a_node_is_found_by_id_path_and_unique_ending(
    document: Document, call: Call, model: str, path: str, kind: str, wanted: str
) -> None:
    node = document("tree", model, "--on", "gpu", "--node", path)
    assert (node["kind"], node["id"]) == (kind, wanted)
    assert near(document("show", "events", model, "--on", "gpu", "--node", path)["total_j"], node["energy_j"])
    assert model in call("why", model, "--on", "gpu", "--node", path).out.splitlines()[0]
    inside = next(n for n in walk(document("tree", model, "--on", "gpu")) if n["id"] == wanted)
    assert {key: node[key] for key in inside} == inside


def test_devices_and_models_have_names_of_their_own_and_sources(document: Document) -> None:
    found = document("devices")
    ids = [device["id"] for device in found["devices"]]
    assert len(set(ids)) == len(ids)
    assert set(FOUR) <= set(ids)
    assert found["errors"] == []
    names = [model["name"] for model in document("models")["models"]]
    assert len(set(names)) == len(names)
    assert {"mlp", "gemm", "attention_head", *zoo.table()} <= set(names)
    for name in ("gpu", "jetson_agx_orin:15w"):
        facts = document("devices", name)["facts"]
        assert all(fact["source"] and fact["quality"] for fact in facts.values())
    assert facts["power_limit_w"]["value"] == 15


def test_devices_may_be_classes_modes_and_aliases(document: Document) -> None:
    named, plain = document("compare", "resnet18", "--on", "cpu,gpu,tpu,kpu"), document("compare", "resnet18")
    assert named["rows"] == plain["rows"]
    assert named["answer"]["best"] == plain["answer"]["best"]
    rows = document("compare", "resnet18", "--on", "jetson_agx_orin:15w,jetson_agx_orin,H100")["rows"]
    assert [row["device"] for row in rows] == ["jetson_agx_orin:15w", "jetson_agx_orin", "h100_sxm"]
    assert rows[0]["power_limit_w"] == 15
    assert rows[0]["latency_s"] >= rows[1]["latency_s"]


def test_the_baseline_is_the_gpu_or_the_one_named(document: Document) -> None:
    for words, baseline in (((), "h100_sxm"), (("--baseline", "tpu"), "tpu_v4"), (("--on", "cpu,kpu"), "xeon_8490h")):
        found = document("compare", "resnet18", *words)
        assert found["baseline"] == baseline
        row = next(row for row in found["rows"] if row["device"] == baseline)
        assert set(row["ratio_to_baseline"].values()) == {1.0}
    more = document("compare", "resnet18", "--on", "cpu,tpu", "--baseline", "l4")
    assert [row["device"] for row in more["rows"]] == ["xeon_8490h", "tpu_v4", "l4"]


def test_a_state_string_is_the_same_as_flags_which_override_it(document: Document) -> None:
    by_flags = document(
        "compare", "resnet18", "--batch", "8", "--precision", "fp16", "--execution", "fused",
        "--layout", "channels_last", "--on", "h100_sxm,jetson_agx_orin:30w",
    )  # fmt: skip
    assert document("compare", "resnet18@b8,fp16,fused,channels_last/h100_sxm,jetson_agx_orin:30w") == by_flags
    state = "resnet18@b8,fp16,fused/tpu_v4?at=layer1.0.conv1"
    found = document("tree", state, "--batch", "2", "--precision", "int8", "--execution", "eager", "--on", "cpu")
    told = [found[key] for key in ("batch", "precision", "execution", "device", "id")]
    assert told == [2, "int8", "eager", "xeon_8490h", "layer1.0.conv1"]


@every(30)
def test_every_model_of_torchvision_has_finite_figures(nth: int, document: Document) -> None:
    names = tuple(zoo.table())
    assert len(names) == 121
    for name in names[::nth]:
        found = document("compare", name)
        assert (found["coverage"], len(found["rows"])) == (1.0, 4), name
        for row in found["rows"]:
            assert 0 < row["latency_s"] < 1000, name
            assert 0 < row["energy_j"] < 1e6, name
            assert row["average_power_w"] <= row["power_limit_w"] * (1 + 1e-9), name
