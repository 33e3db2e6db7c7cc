"""Choices among options whose costs add up are those of brute force."""

import itertools
import json
import struct
from pathlib import Path

import numpy as np
import pytest

from analysis.estimate import mixed_formats
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.explore.additive_choice import choose
from analysis.explore.plans import mixed_precision, modelopt_config, plan_formats, plan_fusions, read_losses
from hardware.base.errors import RequestError
from hardware.device_catalog import load_device
from tests.models import load_once

RANDOM = np.random.default_rng(52)


@pytest.mark.parametrize("metric", ["energy", "latency", "edp"])
@pytest.mark.parametrize("most", [np.inf, 3.0, 1.0, 0.01])
def test_choice_is_that_of_brute_force(metric: str, most: float) -> None:
    for _ in range(15):
        parts, options = int(RANDOM.integers(1, 8)), int(RANDOM.integers(1, 4))
        latency_s, energy_j, loss = (RANDOM.random((parts, options)) for _ in range(3))
        loss[RANDOM.random(loss.shape) < 0.1] = np.inf
        loss[:, 0] = RANDOM.random(parts) * 0.3
        best = np.inf
        for chosen in itertools.product(range(options), repeat=parts):
            at = np.arange(parts), list(chosen)
            if loss[at].sum() <= most and np.isfinite(loss[at].sum()):
                s, j = latency_s[at].sum(), energy_j[at].sum()
                best = min(best, {"energy": j, "latency": s, "edp": s * j}[metric])
        found = choose(latency_s, energy_j, loss, most, metric)
        if found is None:
            assert best == np.inf
            continue
        assert found.loss <= most * (1 + 1e-9)
        figures = {"energy": found.energy_j, "latency": found.latency_s, "edp": found.edp_js}
        assert figures[metric] == pytest.approx(best, rel=1e-9)


def _results(device: str, *formats: str) -> list[Estimate]:
    return [estimate(load_once("resnet18"), load_device(device), Scenario(1, form)) for form in formats]


@pytest.mark.parametrize("device", ["h100_sxm", "kpu_t256"])
def test_plan_of_formats_is_that_of_brute_force(device: str) -> None:
    """ResNet-18 by stages: the layers of one stage take the same format, as brute force over all sets finds."""
    results = _results(device, "fp32", "bf16", "int8")
    names, layer = mixed_formats.layers(results[0].workload, results[0].demand)
    stages = sorted({name.partition(".")[0] for name in names})
    of_stage = np.array([stages.index(names[i].partition(".")[0]) for i in layer])
    s, j = (
        np.stack([np.bincount(of_stage, weights=getattr(result.run, name)) for result in results], axis=1)
        for name in ("latency_s", "energy_j")
    )
    loss = RANDOM.random((len(stages), 1)) * np.array([0.0, 0.1, 1.0])
    for most, metric in itertools.product((0.3, 1.0), ("energy", "edp")):
        found = choose(s, j, loss, most, metric)
        figures = []
        for chosen in itertools.product(range(3), repeat=len(stages)):
            at = np.arange(len(stages)), list(chosen)
            if loss[at].sum() <= most:
                figures.append(j[at].sum() * (s[at].sum() if metric == "edp" else 1.0))
        assert found is not None
        assert min(figures) == pytest.approx(found.edp_js if metric == "edp" else found.energy_j, rel=1e-9)


@pytest.mark.parametrize("device", ["h100_sxm", "kpu_t256", "ethos_u55_256"])
def test_a_plan_runs_as_planned(device: str) -> None:
    """The mixed estimate has the energy of the plan, each layer that of its format, and parts that add up."""
    results = _results(device, "bf16", "int8")
    plan = plan_formats(results, "energy", np.inf, lambda names: {}, ("layer4", "fc"))
    (mixed,) = _results(device, mixed_precision([(row.layer, row.format) for row in plan.layers]))
    assert mixed.energy_j == pytest.approx(plan.energy_j, rel=1e-9)
    assert mixed.event_energy_j.sum() == pytest.approx(mixed.energy_j, rel=1e-9)
    assert (
        results[1].memory.weight_bytes < mixed.memory.weight_bytes < results[0].memory.weight_bytes or "ethos" in device
    )
    (same,) = _results(device, "int8+layer4=int8")
    assert same.energy_j == results[1].energy_j
    assert same.latency_s == results[1].latency_s


LAYERS = tuple(f"layers.{i}.{name}" for i in (0, 1) for name in ("attention.q_proj", "attention.k_proj", "mlp.up_proj"))


def test_losses_are_read_from_a_search_by_modelopt(tmp_path: Path) -> None:
    """Names of modules, with or without a wrapper, and layers that share a recipe share its score."""
    path, recipes = tmp_path / "search.json", ["FP8_DEFAULT_CFG(effective-bits: 8.0)", "NONE(effective-bits: 16.0)"]
    found = {"formats": recipes, "scores": [0.5, 0.0]}
    together = found | {"module_names": ["model.layers.1.self_attn.q_proj", "model.layers.1.self_attn.k_proj"]}
    stats = {"model.language_model.layers.0.self_attn.q_proj.quant_recipe": found, "model.layers.1.qkv": together}
    path.write_text(json.dumps({"method": "gradient", "candidate_stats": stats}), encoding="utf-8")
    attention = [layer for layer in LAYERS if "attention" in layer]
    assert read_losses(path, LAYERS, ("bf16", "fp8")) == {(layer, "fp8"): 0.25 for layer in attention}
    with pytest.raises(RequestError, match="losses of fp8, not of bf16, int8"):
        read_losses(path, LAYERS, ("bf16", "int8"))


@pytest.mark.parametrize("name", ["imatrix.gguf", "imatrix.dat"])
def test_losses_follow_an_importance_matrix(name: str, tmp_path: Path) -> None:
    """A layer with three quarters of the squares loses three quarters, and in four bits 256 times as much."""
    path, data, infos, old = tmp_path / name, b"", b"", struct.pack("<i", 2)
    for part, values in (("attn_q", [6.0, 6.0]), ("ffn_up", [2.0, 2.0])):
        tensor = f"blk.0.{part}.weight".encode()
        old += struct.pack(f"<i{len(tensor)}sii2f", len(tensor), tensor, 2, 2, *values)
        for end, numbers in ((b".in_sum2", values), (b".counts", [2.0])):
            word = tensor + end
            infos += struct.pack(f"<Q{len(word)}sIQIQ", len(word), word, 1, len(numbers), 0, len(data))
            data += struct.pack(f"<{len(numbers)}f", *numbers).ljust(32, b"\0")
    head = struct.pack("<4sIQQ", b"GGUF", 3, 4, 0) + infos
    gguf = head.ljust(-(-len(head) // 32) * 32, b"\0") + data
    path.write_bytes(gguf if path.suffix == ".gguf" else old + struct.pack("<ii3s", 2, 3, b"txt"))
    losses = read_losses(path, LAYERS, ("bf16", "int8", "w4a16"))
    assert losses[LAYERS[0], "int8"] == pytest.approx(0.75)
    assert losses[LAYERS[2], "w4a16"] > 60.0
    assert (LAYERS[0], "bf16") not in losses


def test_layers_that_are_kept_stay_wide_and_uniform_sums_are_estimates() -> None:
    results = _results("h100_sxm", "bf16", "int8")
    plan = plan_formats(results, "energy", np.inf, lambda names: {}, ("layer4", "fc"))
    assert {row.format for row in plan.layers if row.layer.startswith(("layer4.", "fc"))} == {"bf16"}
    assert {row.format for row in plan.layers if row.layer.startswith("layer2.")} == {"int8"}
    for result in results:
        assert plan.uniform[result.format_name][:2] == pytest.approx((result.latency_s, result.energy_j))
    assert set(json.loads(modelopt_config(plan))["quant_cfg"]) >= {"default", "*conv1.weight_quantizer"}
    with pytest.raises(RequestError, match="unknown layer 'layer9'"):
        plan_formats(results, "energy", np.inf, lambda names: {}, ("layer9",))


@pytest.mark.parametrize(("text", "says"), [
    ("layer,format\nconv1,int8\n", "no column loss"), ("layer,format,loss\nconv9,int8,1\n", "line 2: unknown layer"),
    ("layer,format,loss\nconv1,int8,x\n", "line 2: loss 'x'"),
])  # fmt: skip
def test_a_wrong_table_of_losses_is_refused(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "losses.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RequestError, match=says):
        read_losses(path, ("conv1", "fc"), ("bf16", "int8"))


@pytest.mark.parametrize("device", ["h100_sxm", "kpu_t256", "xeon_8490h"])
def test_gains_of_fusions_add_up_to_the_difference_of_two_estimates(device: str) -> None:
    (result,) = _results(device, "int8")
    plan = plan_fusions(result)
    apart = result.in_mode("eager")
    assert sum(fusion.saved_s for fusion in plan.fusions) == pytest.approx(apart.latency_s - result.latency_s)
    assert sum(fusion.saved_j for fusion in plan.fusions) == pytest.approx(apart.energy_j - result.energy_j)
    edp = plan.chosen[0] * plan.chosen[1]
    assert edp <= min(apart.latency_s * apart.energy_j, result.latency_s * result.energy_j) * (1 + 1e-12)
    for fusion in plan.fusions:  # no single change makes it better
        assert fusion.saved_in_set_js >= -1e-9 * edp if fusion.is_chosen else True
