"""The JSON documents (design, section 8): keys, types, sums, and the same figures in every format."""

import csv
import io
import math
from collections.abc import Callable, Iterator
from functools import reduce
from typing import Any

import pytest

from hardware.base.text import MISSING
from hwexplorer.cli import main
from tests.headless.conftest import Call, factor, shows
from tests.sampling import for_each

Document = Callable[..., Any]
NUMBER = (int, float)
FOUR = ["xeon_8490h", "h100_sxm", "tpu_v4", "kpu_t256"]

SCENARIO = {"model": str, "batch": int, "precision": str, "execution": str, "layout": str, "image_size": (int, None)}
COMPARE = {
    "schema": str,
    **SCENARIO,
    "coverage": NUMBER,
    "recommendations": dict.fromkeys(("energy", "latency", "throughput", "balance", "memory"), str),
    "insights": [str],
    "next": [str],
    "rows": [
        {
            **dict.fromkeys(("device", "name", "architecture", "bound", "precision_run"), str),
            **dict.fromkeys(("latency_s", "energy_j", "edp_js", "throughput_per_s", "peak_memory_bytes"), NUMBER),
            **dict.fromkeys(("latency_s_per_inference", "energy_j_per_inference"), NUMBER),
            **dict.fromkeys(("utilization", "average_power_w", "power_limit_w", "tdp_w"), NUMBER),
            "latency_band_s": [NUMBER],
            "energy_band_j": [NUMBER],
            "fits": bool,
            "silicon": bool,
            "ratio_to_baseline": dict.fromkeys(("latency", "energy", "edp", "throughput", "peak_memory"), NUMBER),
        }
    ],
}
NODE: dict[str, Any] = {
    **dict.fromkeys(("id", "name", "kind", "type", "bound", "reason"), str),
    **dict.fromkeys(("macs", "flops", "bytes", "latency_s", "energy_j", "compute_j", "memory_j", "static_j"), NUMBER),
    **dict.fromkeys(("own_edp_js", "share", "share_of_parent", "cumulative"), NUMBER),
    **dict.fromkeys(("base_edp_js", "fusion_benefit_js", "edp_js"), NUMBER),
    "architectural_modifier": (float, int, None),
    "is_fused": bool,
    "children": list,
}
EVENT = {
    **dict.fromkeys(("category", "event", "family", "unit", "source"), str),
    **dict.fromkeys(("count", "energy_j", "energy_j_per_inference", "fraction", "coefficient_j"), NUMBER),
}
EVENTS = {"schema": str, **SCENARIO, "node": str, "device": str, "total_j": NUMBER, "events": [EVENT], "rates": dict}
DEVICE = {
    **dict.fromkeys(("id", "name", "vendor", "architecture", "memory_technology"), str),
    "aliases": [str],
    "power_modes": [str],
    "is_silicon": bool,
    "silicon": bool,
    "facts": dict,
    "peak_flops": dict,
}
MODEL = {"name": str, "family": str, "parameters": (int, None), "macs": (*NUMBER, None), "input": (list, dict)}

CASES = [
    ("resnet18",),
    ("resnet50", "--batch", "8", "--precision", "fp16", "--execution", "fused"),
    ("mobilenet_v2", "--batch", "64", "--precision", "int8"),
    ("vit_b_16", "--precision", "bf16", "--execution", "eager"),
    ("efficientnet_b0", "--batch", "512", "--precision", "fp8", "--layout", "channels_last"),
    ("transformer_block", "--precision", "int4"),
    ("gemm:M=512,N=512,K=512", "--precision", "tf32"),
    ("pooling", "--batch", "4096"),
]


def check(value: Any, shape: Any, where: str = "$") -> None:
    """Every key of `shape` is there with its type; more keys are allowed."""
    if isinstance(shape, dict):
        assert isinstance(value, dict), where
        for key, inner in shape.items():
            assert key in value, f"{where}.{key} is missing"
            check(value[key], inner, f"{where}.{key}")
    elif isinstance(shape, list):
        assert isinstance(value, list), where
        for i, item in enumerate(value):
            check(item, shape[0], f"{where}[{i}]")
    else:
        types = shape if isinstance(shape, tuple) else (shape,)
        if value is None:
            assert None in types, where
            return
        assert isinstance(value, tuple(t for t in types if t is not None)), (where, value)
        assert bool in types or not isinstance(value, bool), where
        assert not isinstance(value, float) or math.isfinite(value), where


def near(a: float, b: float, scale: float | None = None) -> bool:
    return abs(a - b) <= 1e-9 * max(abs(a), abs(b), abs(scale or 0.0))


# --- compare ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_compare_document(document: Document, case: tuple[str, ...]) -> None:
    found = document("compare", *case)
    check(found, COMPARE)
    assert found["schema"] == "hwexplorer/1"
    assert [row["device"] for row in found["rows"]] == FOUR
    assert [row["architecture"] for row in found["rows"]] == ["cpu", "gpu", "tpu", "kpu"]
    assert 0 <= found["coverage"] <= 1
    batch = found["batch"]
    reference = next(row for row in found["rows"] if row["device"] == found["baseline"])
    for row in found["rows"]:
        energy, latency = row["energy_j"], row["latency_s"]
        assert energy > 0
        assert latency > 0
        assert near(row["energy_j_per_inference"] * batch, energy)
        assert near(row["latency_s_per_inference"] * batch, latency)
        assert near(row["throughput_per_s"] * latency, batch)
        assert near(row["edp_js"], energy / batch * latency)
        assert near(row["average_power_w"], energy / latency)
        assert near(row["compute_j"] + row["memory_j"] + row["static_j"], energy)
        for band, value in ((row["latency_band_s"], latency), (row["energy_band_j"], energy)):
            assert len(band) == 2
            assert band[0] <= value * (1 + 1e-12)
            assert value <= band[1] * (1 + 1e-12)
        for name, key in (("latency", "latency_s"), ("energy", "energy_j"), ("edp", "edp_js")):
            assert near(row["ratio_to_baseline"][name], row[key] / reference[key])
    unrun = "no software runs int4 on it: it is not recommended"
    rows_that_win = [row for row in found["rows"] if row["fits"] and row["silicon"] and unrun not in row["marks"]]
    fitting = {row["device"] for row in rows_that_win}
    assert set(found["recommendations"].values()) <= (fitting or {""})
    for aim, key in (("energy", "energy_j"), ("latency", "latency_s"), ("balance", "edp_js")):
        rows = [row for row in found["rows"] if row["device"] in fitting]
        if rows:
            assert found["recommendations"][aim] == min(rows, key=lambda row: row[key])["device"]


def test_compare_resnet18(document: Document) -> None:
    found = document("compare", "resnet18")
    assert len(found["rows"]) == 4
    assert round(found["macs_per_inference"] / 1e9, 3) == 1.814
    assert (found["batch"], found["precision"], found["execution"]) == (1, "fp32", "auto")
    assert found["baseline"] == "h100_sxm"
    assert document("compare", "resnet18", "--batch", "8")["macs_per_inference"] == found["macs"]


def test_devices_may_be_classes_modes_and_aliases(document: Document) -> None:
    named = document("compare", "resnet18", "--on", "cpu,gpu,tpu,kpu")
    assert named.pop("recommendations_design_targets")["energy"] == "kpu_t256"  # naming one asks for it
    plain = document("compare", "resnet18")
    assert named.pop("answer")["best"] == plain.pop("answer")["best"]
    assert named == plain
    rows = document("compare", "resnet18", "--on", "jetson_agx_orin:15w,jetson_agx_orin,H100")["rows"]
    assert [row["device"] for row in rows] == ["jetson_agx_orin:15w", "jetson_agx_orin", "h100_sxm"]
    assert rows[0]["power_limit_w"] == 15
    assert rows[0]["latency_s"] >= rows[1]["latency_s"]


def test_the_baseline_is_the_gpu_or_the_one_named(document: Document) -> None:
    for words, baseline in (
        (("--baseline", "tpu"), "tpu_v4"),
        (("--on", "cpu,kpu"), "xeon_8490h"),
        (("--on", "cpu,gpu", "--baseline", "h100_sxm"), "h100_sxm"),
    ):
        found = document("compare", "resnet18", *words)
        assert found["baseline"] == baseline
        row = next(row for row in found["rows"] if row["device"] == baseline)
        assert set(row["ratio_to_baseline"].values()) == {1.0}
    assert len(found["rows"]) == 2
    more = document("compare", "resnet18", "--on", "cpu,tpu", "--baseline", "l4")
    assert [row["device"] for row in more["rows"]] == ["xeon_8490h", "tpu_v4", "l4"]


# --- tree -------------------------------------------------------------------------------------------------

SUMMED = ("macs", "flops", "bytes", "latency_s", "energy_j", "compute_j", "memory_j", "static_j", "share")
SUMMED += ("edp_js", "dram_bytes", "fusion_benefit_js")


def walk(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for child in node["children"]:
        yield from walk(child)


@for_each("device", ["cpu", "gpu", "tpu", "npu", "kpu", "jetson_agx_orin:30w"])
@for_each("case", CASES)
def test_tree_document(document: Document, case: tuple[str, ...], device: str) -> None:
    root = document("tree", *case, "--on", device)
    check(root, {"schema": str, "device": str, **SCENARIO})
    assert root["kind"] == "model"
    levels = {"model": "subgraph", "subgraph": "operator", "operator": "part"}
    for node in walk(root):
        check(node, NODE)
        assert 0 <= node["share_of_parent"] <= 1 + 1e-9
        assert node["share"] - 1e-9 <= node["cumulative"] <= 1 + 1e-9
        assert near(node["compute_j"] + node["memory_j"] + node["static_j"], node["energy_j"])
        assert near(node["own_edp_js"], node["energy_j"] / root["batch"] * node["latency_s"])
        assert near(node["edp_js"], node["share"] * root["edp_js"])
        assert node["reason"]
        assert node["reason"].isprintable()
        if node["children"]:
            host = {"host"} if node is root else set()
            assert {child["kind"] for child in node["children"]} - host == {levels[node["kind"]]}
            for key in SUMMED:
                parts = [child[key] for child in node["children"]]
                assert near(sum(parts), node[key], sum(map(abs, parts))), (node["id"], key)
            assert near(sum(child["share_of_parent"] for child in node["children"]), 1.0 if node["share"] else 0.0)
    ids = [node["id"] for node in walk(root)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("device", FOUR)
def test_tree_root_is_the_row_of_compare(document: Document, device: str) -> None:
    for case in CASES:
        root = document("tree", *case, "--on", device)
        found = document("compare", *case, "--on", device)
        row = found["rows"][0]
        for key in ("latency_s", "energy_j", "compute_j", "memory_j", "static_j", "utilization", "bound", "edp_js"):
            assert root[key] == pytest.approx(row[key], rel=1e-12), key
        for key in ("batch", "precision", "execution", "layout", "image_size", "macs", "model"):
            assert root[key] == found[key], key


def test_batch_and_precision_scale_the_work(document: Document) -> None:
    one, two = (document("tree", "resnet18", "--on", "kpu", "--batch", batch) for batch in ("1", "2"))
    assert two["macs"] == 2 * one["macs"]
    assert two["flops"] == 2 * one["flops"]
    wide, narrow = (document("tree", "conv2d", "--on", "kpu", "--precision", p) for p in ("fp32", "int8"))
    assert wide["dram_bytes"] == 4 * narrow["dram_bytes"]


# --- events -----------------------------------------------------------------------------------------------


@for_each(
    ("device", "least", "categories"), [("cpu", 20, 5), ("gpu", 30, 7), ("tpu", 20, 6), ("npu", 20, 6), ("kpu", 25, 8)]
)
@for_each("case", CASES)
def test_events_document(document: Document, case: tuple[str, ...], device: str, least: int, categories: int) -> None:
    found = document("events", *case, "--on", device)
    check(found, EVENTS)
    events = found["events"]
    assert len(events) >= least
    assert len({e["category"] for e in events}) >= categories
    assert len({(e["category"], e["event"]) for e in events}) == len(events)
    assert near(sum(e["energy_j"] for e in events), found["total_j"])
    assert near(sum(e["fraction"] for e in events), 1.0)
    for event in events:
        assert event["count"] >= 0
        assert near(event["count"] * event["coefficient_j"], event["energy_j"])
        assert event["source"]
        assert event["unit"]
    for name, rate in found["rates"].items():
        assert 0 <= rate <= 1, name
    assert near(found["total_j"], document("tree", *case, "--on", device)["energy_j"])


# --- nodes ------------------------------------------------------------------------------------------------

NODES = [
    ("resnet18", "", "model", ""),
    ("resnet18", "resnet18", "model", ""),
    ("resnet18", "layer1.0.conv1", "subgraph", "layer1.0.conv1"),
    ("resnet18", "layer1.0.conv1/bn1", "operator", "layer1.0.conv1/bn1"),
    ("resnet18", "layer1.0.bn1", "operator", "layer1.0.conv1/bn1"),
    ("mobilenet_v2", "18.1", "operator", "features.18.0/1"),
    ("mobilenet_v2", "classifier.1", "subgraph", "classifier.1"),
]


@pytest.mark.parametrize(("model", "path", "kind", "wanted"), NODES)
def test_a_node_is_found_by_id_path_and_unique_ending(
    document: Document, call: Call, model: str, path: str, kind: str, wanted: str
) -> None:
    node = document("tree", model, "--on", "gpu", "--node", path)
    assert (node["kind"], node["id"]) == (kind, wanted)
    assert near(document("events", model, "--on", "gpu", "--node", path)["total_j"], node["energy_j"])
    for verb in ("tree", "events", "why"):
        done = call(verb, model, "--on", "gpu", "--node", path)
        assert done.code == 0
        assert model in done.out.splitlines()[0]
    whole = document("tree", model, "--on", "gpu")
    inside = next(n for n in walk(whole) if n["id"] == wanted)
    assert {k: v for k, v in node.items() if k in NODE} == {k: v for k, v in inside.items() if k in NODE}


# --- devices, models --------------------------------------------------------------------------------------


def test_devices_document(document: Document) -> None:
    found = document("devices")
    check(found, {"schema": str, "devices": [DEVICE], "errors": [str]})
    ids = [d["id"] for d in found["devices"]]
    assert len(set(ids)) == len(ids)
    assert set(FOUR) <= set(ids)
    assert found["errors"] == []
    assert {d["architecture"] for d in found["devices"]} == {"cpu", "gpu", "tpu", "npu", "kpu", "spatial"}
    assert not [d["id"] for d in found["devices"] for value in d["facts"].values() if not isinstance(value, NUMBER)]


def test_device_document(document: Document) -> None:
    for name in (*FOUR, "gpu", "jetson_agx_orin:15w"):
        found = document("device", name)
        check(found, {"schema": str, "id": str, "power_mode": str, "facts": dict, "sources": dict})
        for fact in found["facts"].values():
            check(fact, {"value": NUMBER, "unit": str, "source": str, "quality": str})
            assert fact["source"]
    assert found["facts"]["power_limit_w"]["value"] == 15


def test_models_document(document: Document) -> None:
    found = document("models")
    check(found, {"schema": str, "models": [MODEL]})
    names = [m["name"] for m in found["models"]]
    assert len(set(names)) == len(names)
    assert {"resnet50", "vit_b_16", "mlp", "gemm", "attention_head"} <= set(names)


@pytest.mark.parametrize("verb", ["why", "compare", "tree", "events"])
def test_a_document_says_what_it_is_about(document: Document, verb: str) -> None:
    found = document(verb, "resnet18", "--batch", "8", "--precision", "fp16", "--layout", "channels_last")
    check(found, {"schema": str, **{key: shape for key, shape in SCENARIO.items() if key != "model"}})
    told = {key: found[key] for key in ("batch", "precision", "layout", "execution", "image_size")}
    assert told == {
        "batch": 8, "precision": "fp16", "layout": "channels_last", "execution": "auto", "image_size": 224
    }  # fmt: skip


# --- state strings ----------------------------------------------------------------------------------------


def test_a_state_string_is_the_same_as_flags(document: Document) -> None:
    by_state = document("compare", "resnet18@b8,fp16,fused,channels_last/h100_sxm,jetson_agx_orin:30w")
    by_flags = document(
        "compare", "resnet18", "--batch", "8", "--precision", "fp16", "--execution", "fused",
        "--layout", "channels_last", "--on", "h100_sxm,jetson_agx_orin:30w",
    )  # fmt: skip
    assert by_state == by_flags
    by_state = document("tree", "resnet18@b8/tpu_v4?at=layer1.0.conv1")
    assert by_state == document("tree", "resnet18", "--batch", "8", "--on", "tpu", "--node", "layer1.0.conv1")


def test_flags_override_the_state_string(document: Document) -> None:
    state = "resnet18@b8,fp16,fused/tpu_v4?at=layer1.0.conv1"
    found = document("tree", state, "--batch", "2", "--precision", "int8", "--execution", "eager", "--on", "cpu")
    assert (found["batch"], found["precision"], found["execution"]) == (2, "int8", "eager")
    assert found["device"] == "xeon_8490h"
    assert found["id"] == "layer1.0.conv1"
    assert document("events", state, "--node", "fc")["node"] == "fc"


# --- the same figures in every format ---------------------------------------------------------------------


def rows_of(call: Call, *words: str) -> list[dict[str, str]]:
    done = call(*words, "--format", "csv")
    assert done.code == 0
    return list(csv.DictReader(io.StringIO(done.out)))


def column(rows: list[dict[str, str]], title: str) -> tuple[list[str], float]:
    """Cells and unit of the column whose header is the title and a unit."""
    header = next(h for h in rows[0] if h == title or h.rpartition(" ")[0] == title)
    return [row[header] for row in rows], factor(header)


TREED = {
    "latency_s": ("Latency", "latency_s"),
    "energy_j_per_inference": ("Energy/inf", "energy_j"),
    "share": ("%", "share"),
    "cumulative": ("Cum", "cumulative"),
    "modifier": ("Modifier", "architectural_modifier"),
    "utilization": ("Util", "utilization"),
    "dram_bytes": ("DRAM", "dram_bytes"),
    "benefit_js": ("Fusion", "fusion_benefit_js"),
}


@for_each("device", FOUR)
@for_each("case", CASES[:4])
def test_tree_in_every_format(
    document: Document, call: Call, parsed: Callable[..., Any], case: tuple[str, ...], device: str
) -> None:
    root = document("tree", *case, "--on", device)
    # Where a subgraph is one operator, the table shows it once, with the parts of that operator below.
    nodes, depths = [root], [0]
    for child in root["children"]:
        is_once = child["kind"] == "subgraph" and len(child["children"]) == 1
        below = list(walk(child))[1 + is_once :]
        nodes += [child, *below]
        depths += [1, *(("operator", "part").index(node["kind"]) + 2 - is_once for node in below)]
    table = rows_of(call, "tree", *case, "--on", device)
    text = parsed(call("tree", *case, "--on", device, "--all").out)
    keys = [child["children"][0]["id"] for child in root["children"] if len(child["children"]) == 1]
    shown_once = {f"{key}/": f"{key.rpartition('/')[0]}/" for key in keys}
    ids = [reduce(lambda text, pair: text.replace(*pair), shown_once.items(), node["id"]) for node in nodes]
    assert [row["key"] for row in table] == ids
    assert [int(row["depth"]) for row in table] == depths
    for node in nodes:
        node["energy_j"] /= root["batch"]  # of the batch in the document, per inference in the table
    for name, (title, key) in TREED.items():
        cells, unit = column(text, title)
        for node, line, cell, depth in zip(nodes, table, cells, depths, strict=True):
            if key == "cumulative" and depth > 1:
                continue  # of operators in JSON; in the table of all rows of that depth, the host among them
            if node[key] is None:
                assert (line[name], cell) == ("", MISSING), (name, node["id"])
                continue
            assert float(line[name]) == pytest.approx(node[key], rel=1e-12, abs=1e-30), (name, node["id"])
            assert shows(cell, node[key], unit), (name, node["id"], cell, node[key])


@pytest.mark.parametrize("device", FOUR)
def test_events_in_every_format(document: Document, call: Call, parsed: Callable[..., Any], device: str) -> None:
    found = document("events", "resnet18", "--on", device)
    table = [row for row in rows_of(call, "events", "resnet18", "--on", device) if row["depth"] == "1"]
    heads = [row for row in rows_of(call, "events", "resnet18", "--on", device) if row["depth"] == "0"]
    text = parsed(call("events", "resnet18", "--on", device, "--all").out)
    by_key = {f"{e['category']}.{e['event']}": e for e in found["events"]}
    events = [by_key.pop(row["key"]) for row in table]
    assert not by_key
    assert [float(row["energy_j"]) for row in heads] == sorted((float(row["energy_j"]) for row in heads), reverse=True)
    for event, line in zip(events, table, strict=True):
        assert float(line["energy_j"]) == event["energy_j"]
        assert float(line["count"]) == event["count"]
        assert float(line["each_j"]) == event["coefficient_j"]
        assert line["unit"] == event["unit"]
    assert near(sum(float(row["energy_j"]) for row in heads), found["total_j"])
    cells, unit = column(text, "Energy/inf")
    printed = [cell for cell, row in zip(cells, text, strict=True) if row["of"]]
    for event, cell in zip(events, printed, strict=True):
        assert shows(cell, event["energy_j_per_inference"], unit), (event["event"], cell)


def test_the_same_request_gives_the_same_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    outputs = set()
    for _ in range(2):
        main(["tree", "resnet18", "--format", "json"])
        outputs.add(capsys.readouterr().out)
    assert len(outputs) == 1
