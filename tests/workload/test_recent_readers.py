"""Readers of recent configurations: parameters as published, within 1 %, and a decode step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.model import store
from analysis.model.ir.workload import WEIGHT
from analysis.model.model_errors import ModelSpecError
from analysis.model.names.model_ref import refer
from analysis.model.transformer import hf_config
from analysis.model.transformer.config import StepSettings
from analysis.model.transformer.transformer_workload import build
from hwexplorer.state import parse
from tests.sampling import for_each

# model_type and sizes as published, parameters in units of 1e9 (model cards).
PUBLISHED: dict[str, tuple[dict[str, Any], float]] = {
    "olmo2": ({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32,
               "intermediate_size": 11008, "vocab_size": 100352}, 7.30),
    "smollm3": ({"hidden_size": 2048, "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 4,
                 "intermediate_size": 11008, "vocab_size": 128256}, 3.08),
    "granite": ({"hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8,
                 "intermediate_size": 12800, "vocab_size": 49155, "tie_word_embeddings": True}, 8.17),
    "cohere": ({"hidden_size": 8192, "num_hidden_layers": 40, "num_attention_heads": 64, "num_key_value_heads": 64,
                "intermediate_size": 22528, "vocab_size": 256000}, 34.98),
    "glm4": ({"hidden_size": 4096, "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 2,
              "intermediate_size": 13696, "vocab_size": 151552, "attention_bias": True, "head_dim": 128}, 9.40),
    "minimax_m2": ({"hidden_size": 3072, "num_hidden_layers": 62, "num_attention_heads": 48, "num_key_value_heads": 8,
                    "head_dim": 128, "intermediate_size": 1536, "vocab_size": 200064, "num_local_experts": 256,
                    "num_experts_per_tok": 8, "rotary_dim": 64}, 228.7),
    "kimi_k2": ({"hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 64, "intermediate_size": 18432,
                 "vocab_size": 163840, "n_routed_experts": 384, "num_experts_per_tok": 8, "n_shared_experts": 1,
                 "moe_intermediate_size": 2048, "first_k_dense_replace": 1, "kv_lora_rank": 512, "q_lora_rank": 1536,
                 "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
                 "topk_method": "noaux_tc"}, 1026.0),
    "gemma3": ({"text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
                                "num_hidden_layers": 34, "sliding_window": 1024}}, 3.88),
}  # fmt: skip


@pytest.mark.parametrize("kind", PUBLISHED)
def test_a_recent_configuration_has_its_published_parameters_and_decodes(kind: str, tmp_path: Path) -> None:
    fields, billions = PUBLISHED[kind]
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind, **fields}))
    workload = store.load(f"hf:{tmp_path}:decode,kv=256")
    assert workload.parameters == pytest.approx(billions * 1e9, rel=0.01)
    assert workload.defaults == {"sequence": 1, "kv": 256}


# Default configurations of transformers 5.24 and small ones, with the parameters of the library's own modules.
FAMILIES: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("families_2026.json").read_text())


@for_each("name", FAMILIES)
def test_a_family_has_the_parameters_of_its_modules(name: str) -> None:
    config = hf_config.parse_config(FAMILIES[name]["config"])
    step = StepSettings(phase="decode", sequence=1, kv=64)
    whole, merged = (build(name, config, step, is_merged=is_merged) for is_merged in (False, True))
    assert whole.parameters == FAMILIES[name]["parameters"]
    weights = [model.tensors.numel[model.tensors.role == WEIGHT].sum() for model in (whole, merged)]
    assert weights[0] == weights[1]


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
