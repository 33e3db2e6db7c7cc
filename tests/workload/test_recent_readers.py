"""Readers of recent configurations: parameters as published, within 1 %, and a decode step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.model import store

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
