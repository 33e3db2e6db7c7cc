"""Every report as a verb in every format: keys and columns, numbers equal across formats, wrong requests named.

Shapes, not figures: the coefficients of the model are fitted, and fitted again.
"""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest
import reports_grid as grid

from tests.sampling import for_each

ON_DEVICE = {
    "schema", "model", "device", "batch", "precision", "execution", "execution_run", "layout", "image_size", "runtime",
    "precision_run",
}  # fmt: skip
OF_MODEL = {"schema", "model", "batch", "precision", "image_size"}

KEYS = {
    "partition": OF_MODEL | {
        "operators", "operators_by_class",
        "n_operators", "n_subgraphs", "operators_by_type", "subgraphs_by_pattern", "fused_operators", "fused_fraction",
        "macs", "flops", "ingress_bytes", "egress_bytes", "weight_bytes", "internal_bytes", "parallelism", "intensity",
        "critical_path", "subgraphs", "edges",
    },
    "mapping": ON_DEVICE | {
        "node", "kernels", "latency_s", "average_utilization", "mean_utilization", "utilization", "bounds", "unit_name",
        "units_active", "units_total", "units_active_fraction", "occupancy", "rows",
    },
    "concurrency": ON_DEVICE | {
        "n_stages", "operator_stages", "widest_stage", "widest_subgraphs", "widest_operators", "total_flops", "total_s",
        "critical_path", "parallelism", "theoretical_speedup", "unit_name", "stages", "units", "checks",
    },
    "roofline": ON_DEVICE | {
        "average_intensity", "launch_dominated",
        "node", "latency_s", "memory_bandwidth", "peaks", "peak", "ridge", "left", "right", "bound_counts", "kernels",
    },
    "energy": ON_DEVICE | {
        "node", "energy_j", "energy_j_per_inference", "latency_s", "components", "categories", "average_power_w",
        "peak_power_w", "peak_power_kernel", "static_power_w", "power_limit_w", "tdp_w", "dynamic_j", "efficiency",
        "utilization", "idle_loss_j", "idle_loss_fraction", "top_subgraphs", "top_operators",
    },
    "memory": ON_DEVICE | {
        "peak_bytes", "weight_bytes", "activation_bytes", "workspace_bytes", "peak_kernel", "workspace_rule",
        "device_bytes", "fits", "total_activation_bytes", "reuse", "live", "levels", "quantization", "checkpointing",
        "timeline", "cache_bytes", "roles",
    },
    "edp": ON_DEVICE | {
        "edp_js", "energy_j", "energy_j_per_inference", "latency_s", "n_subgraphs", "n_operators", "components",
        "concentration", "top_subgraphs", "top_operators", "executions", "saved", "side_by_side",
    },
}  # fmt: skip
COLUMNS = {
    "partition": "key,depth,subgraph,pattern,class,stage,flops,ingress_bytes,egress_bytes,weights_bytes,internal_bytes,"
    "threads,intensity,critical",
    "mapping": "key,depth,kernel,bound,latency_s,utilization,rate_flop_per_s,bandwidth,runs_on,blocks,tile,split,waves,"
    "units,units_fraction,occupancy,sentence,vectorizable_dim,vector_width,recommended_mapping",
    "concurrency": "key,depth,subgraph,threads,minimum,optimal,total,best_s,time_s,splits",
    "roofline": "key,depth,kernel,bound,latency_s,compute_s,memory_s,overhead_s,intensity,ridge,side,"
    "achieved_flop_per_s,attainable_flop_per_s,efficiency,flops,dram_bytes,flips",
    "energy": "key,depth,name,kind,fraction,cumulative,per_inference_j,compute_j_per_inference,"
    "memory_j_per_inference,static_j_per_inference,latency_s,energy_j,compute_j,memory_j,static_j",
    "memory": "key,depth,kernel,bar,total_bytes,activations_bytes,workspace_bytes",
    "edp": "key,depth,name,kind,share,cumulative,edp_js,compute_js,memory_js,static_js,base_js,modifier,fused,"
    "benefit_js,energy_j_per_inference,latency_s",
}
# The JSON list that the CSV's rows are, and one figure of both: (list, field, CSV column).
ROWS = {
    "partition": ("subgraphs", "flops", "flops"),
    "mapping": ("rows", "latency_s", "latency_s"),
    "concurrency": ("units", "best_s", "best_s"),
    "roofline": ("kernels", "latency_s", "latency_s"),
    "energy": ("top_subgraphs", "energy_j", "energy_j"),
    "memory": ("timeline", "total_bytes", "total_bytes"),
    "edp": ("top_subgraphs", "edp_js", "edp_js"),
}


def words(verb: str) -> tuple[str, ...]:
    return (verb, "resnet18", "--batch", "2", *(() if verb == "partition" else ("--on", "gpu")))


@pytest.mark.parametrize("verb", KEYS)
def test_json(verb: str) -> None:
    document = json.loads(grid.said(*words(verb), "--format", "json"))
    assert document.keys() == KEYS[verb]
    assert document["schema"] == "hwexplorer/1"
    assert (document["model"], document["batch"]) == ("resnet18", 2)


@pytest.mark.parametrize("verb", KEYS)
def test_csv(verb: str) -> None:
    text = grid.said(*words(verb), "--format", "csv")
    assert text.splitlines()[0] == COLUMNS[verb]
    rows = [row for row in csv.DictReader(io.StringIO(text)) if row["depth"] == "0"]
    document = json.loads(grid.said(*words(verb), "--format", "json"))
    name, field, column = ROWS[verb]
    assert [float(row[column]) for row in rows] == [row[field] for row in document[name]]


@pytest.mark.parametrize("verb", KEYS)
def test_text_and_markdown(verb: str) -> None:
    text, page = (grid.said(*words(verb), "--all", "--format", form) for form in ("text", "md"))
    titles = [line[3:] for line in page.splitlines() if line.startswith("## ")]
    assert len(titles) >= 2
    assert page.startswith("# ")
    assert "resnet18" in page.splitlines()[0] == "# " + text.splitlines()[0]
    for title in titles:
        assert title in text.splitlines()
    assert "nan" not in text.lower().split()


@for_each("verb", [verb for verb in KEYS if verb != "partition"])
@for_each("device", grid.DEVICES)
def test_every_architecture(verb: str, device: str) -> None:
    for model in ("mobilenet_v2", "mlp"):
        assert grid.said(verb, model, "--on", device, "--precision", "int8", "--execution", "fused")


@pytest.mark.parametrize("verb", ["mapping", "roofline", "energy"])
def test_node(verb: str) -> None:
    document = json.loads(grid.said(verb, "resnet18", "--node", "layer1.0.conv1", "--format", "json"))
    assert document["node"] == "layer1.0.conv1"


@pytest.mark.parametrize("verb", ["energy", "edp"])
def test_top(verb: str) -> None:
    document = json.loads(grid.said(verb, "resnet18", "--top", "3", "--format", "json"))
    assert len(document["top_operators"]) == len(document["top_subgraphs"]) == 3


def test_neither_torch_nor_networkx_is_loaded() -> None:
    import subprocess

    code = (
        "import sys; from hwexplorer import registry; from hwexplorer.cli import main\n"
        "declared = [registry.load(name) for name in registry.names()]\n"
        "for verb in ('mapping', 'concurrency', 'roofline', 'energy', 'memory', 'edp'):\n"
        "    assert main([verb, 'resnet18', '--on', 'gpu']) == 0\n"
        "print(sorted({'torch', 'networkx', 'textual'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    assert done.stderr.strip() == "[]"
