"""Readers of recent configurations: the parameters of the library's modules, and names of hubs."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.model.ir.workload import WEIGHT
from analysis.model.model_errors import ModelSpecError
from analysis.model.names.model_ref import refer
from analysis.model.transformer import hf_config
from analysis.model.transformer.config import StepSettings
from analysis.model.transformer.transformer_workload import build
from hwexplorer.state import parse
from tests.sampling import for_each

# Published and default configurations and small ones, with the parameters of the modules of transformers 5.24 and the
# biases of routers, which it keeps as buffers.
FAMILIES: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("families_2026.json").read_text())


@for_each("name", FAMILIES)
def test_a_family_has_the_parameters_of_its_modules(name: str) -> None:
    config = hf_config.parse_config(FAMILIES[name]["config"])
    step = StepSettings(phase="decode", sequence=1, kv=64)
    merged = build(name, config, step, is_merged=not config.encoder)
    weights = int(merged.tensors.numel[merged.tensors.role == WEIGHT].sum())
    assert weights == FAMILIES[name]["parameters"]
    if weights < 2**34:  # all layers of the largest take a second
        assert build(name, config, step, is_merged=False).parameters == weights


def test_an_embedding_narrower_than_the_model_is_projected() -> None:
    """ELECTRA small: 13,483,008 parameters of the library's module."""
    sizes = {"hidden_size": 256, "num_hidden_layers": 12, "num_attention_heads": 4, "intermediate_size": 1024}
    raw = {"model_type": "electra", "embedding_size": 128, "vocab_size": 30522, "max_position_embeddings": 512, **sizes}
    step = StepSettings(phase="prefill", sequence=64, kv=0)
    assert build("electra", hf_config.parse_config(raw), step).parameters == 13_483_008


def test_an_unknown_type_opens_as_a_known_one_that_has_its_fields() -> None:
    raw = FAMILIES["laguna"]["config"] | {"model_type": "qwen9_moe", "architectures": []}
    config = hf_config.parse_config(raw | {"gating": False, "num_attention_heads_per_layer": None})
    assert config.experts == 256
    assert "model_type 'qwen9_moe' is unknown here: read as qwen" in config.notes[0]
    with pytest.raises(ModelSpecError, match=r"the nearest, .* has no compressed_rate"):
        hf_config.parse_config(raw | {"compressed_rate": 4})


@pytest.mark.parametrize(
    "text",
    [
        "Qwen/Qwen3-8B", "hf:Qwen/Qwen3-8B", "https://hub.example/Qwen/Qwen3-8B",
        "hf:https://hub.example/Qwen/Qwen3-8B/blob/main/config.json",
    ],
)  # fmt: skip
def test_hub_names_and_addresses_mean_the_same_model(text: str) -> None:
    assert str(refer(f"{text}:decode,kv=64")) == "qwen3_8b:decode,kv=64"
    assert parse(f"{text}@b8/h100_sxm").model == "qwen3_8b"


def test_an_unknown_hub_name_says_what_is_near_and_how_its_configuration_opens() -> None:
    with pytest.raises(ModelSpecError, match=r"did you mean qwen3_8b.*hf:FOLDER"):
        refer(parse("Qwen/Qwen9-8B").model)


def test_layers_that_reuse_a_cache_have_none() -> None:
    raw = FAMILIES["small gemma4_text"]["config"] | {"num_hidden_layers": 12, "num_kv_shared_layers": 6}
    raw |= {"layer_types": raw["layer_types"] * 2, "per_layer_config": None, "global_head_dim": 64}
    step = build("x", hf_config.parse_config(raw), StepSettings(phase="decode", sequence=1, kv=4096))
    caches = [name for name in step.tensors.name if name.endswith("attention.kv_cache")]
    assert caches == [f"layers.{layer}.attention.kv_cache" for layer in range(6)]
