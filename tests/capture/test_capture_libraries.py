"""Models of real libraries, with random weights, where they are installed: as their users build them."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from analysis.model import store
from analysis.model.ir import workload
from analysis.model.ir.workload import coverage

_TOKENS = '{"input_ids": torch.zeros(1, 16, dtype=torch.int64)}'
_SMALL = "num_hidden_layers=2, hidden_size=64, intermediate_size=128, num_attention_heads=4, vocab_size=1000"
_LANGUAGE = f"""
import torch
from transformers import AutoConfig, AutoModelForCausalLM

def make(kind="KIND"):
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(kind, {_SMALL}, MORE)), {_TOKENS}
"""
_EXPERTS = "num_key_value_heads=2, num_local_experts=4, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=64"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", str(tmp_path / "cache"))


@pytest.mark.parametrize(
    ("name", "library", "gigamacs"),
    [
        ("timm:resnet18()", "timm", 1.814),
        ("timm/convnext_tiny.fb_in1k", "timm", 4.456),
        ("ultralytics/yolov8n-cls", "ultralytics", 0.2026),
        ("torchvision.models:resnet18()", "torchvision", 1.814),
    ],
)
def test_a_model_of_a_library_by_its_name(name: str, library: str, gigamacs: float) -> None:
    if find_spec(library) is None:
        pytest.skip(f"needs {library}")
    found = store.load(name)
    assert found.inputs[0].shape[0] == "batch"
    assert float((found.operators.macs @ found.value_at(batch=1)).sum()) / 1e9 == pytest.approx(gigamacs, rel=0.01)
    assert coverage(found).work == 1.0


@pytest.mark.parametrize("kind", ["llama", "mixtral", "qwen3_moe", "mamba"])
def test_unmodified_language_models(kind: str, tmp_path: Path) -> None:
    """Their caches come out, and grouped products of experts have a rule."""
    if find_spec("transformers") is None:
        pytest.skip("needs transformers")
    more = {"mamba": "", "llama": "num_key_value_heads=2"}.get(kind, _EXPERTS)
    path = tmp_path / "net.py"
    path.write_text(_LANGUAGE.replace("KIND", kind).replace("MORE", more))
    found = store.load(f"{path}:make()")
    assert found.inputs[0].shape == ("batch", 16)
    assert coverage(found).work == 1.0
    assert not any("use_cache" in note for note in found.notes)


def test_configurations_of_a_real_library(tmp_path: Path) -> None:
    if find_spec("transformers") is None:
        pytest.skip("needs transformers")
    raw = {"model_type": "bloom", "architectures": ["BloomForCausalLM"], "n_layer": 2, "hidden_size": 64, "n_head": 4}
    (tmp_path / "config.json").write_text(json.dumps(raw | {"vocab_size": 1000}))
    found = store.load(f"hf:{tmp_path}")
    assert found.inputs[0].shape == ("batch", 128)
    assert coverage(found).work == 1.0


@pytest.mark.parametrize("kind", ["GCN", "GAT"])
def test_graph_networks(kind: str, tmp_path: Path) -> None:
    if find_spec("torch_geometric") is None:
        pytest.skip("needs torch_geometric")
    (tmp_path / "net.py").write_text(
        f"import torch\nfrom torch_geometric.nn.models import {kind}\n"
        f"def make():\n    return {kind}(16, 32, 2), (torch.rand(9, 16), torch.arange(18).view(2, 9) % 9)\n"
    )
    found = store.load(f"{tmp_path / 'net.py'}:make()")
    assert [item.shape for item in found.inputs] == [(9, 16), (2, 9)]
    assert float((found.operators.macs @ found.value_at(batch=1)).sum()) == pytest.approx(9 * (16 + 32) * 32, rel=0.02)


def test_a_unet_keeps_its_batch_within_its_range(tmp_path: Path) -> None:
    if find_spec("diffusers") is None:
        pytest.skip("needs diffusers")
    (tmp_path / "net.py").write_text(
        "import torch\nfrom diffusers import UNet2DModel\n"
        "def make():\n"
        "    return UNet2DModel(sample_size=16, block_out_channels=(32, 64), layers_per_block=1,\n"
        "        down_block_types=('DownBlock2D', 'DownBlock2D'), up_block_types=('UpBlock2D', 'UpBlock2D')), "
        "{'sample': torch.zeros(1, 3, 16, 16), 'timestep': torch.tensor(1)}\n"
    )
    found = store.load(f"{tmp_path / 'net.py'}:make()")
    assert (found.inputs[0].shape[0], workload.largest_batch(found)) == ("batch", 63)
