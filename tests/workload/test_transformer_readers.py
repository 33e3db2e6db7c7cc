"""Published configurations, as their repositories have them, read as the models that are known by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.model.transformer import hf_config, transformer_request
from hardware.precision import EXCLUDED, KEPT
from tests.sampling import for_each

PUBLISHED: dict[str, dict[str, Any]] = {
    "gemma2_2b": {
        "model_type": "gemma2", "hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 256, "intermediate_size": 9216, "vocab_size": 256000,
        "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 4096,
    },
    "gemma3_1b": {
        "model_type": "gemma3_text", "hidden_size": 1152, "num_hidden_layers": 26, "num_attention_heads": 4,
        "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 6912, "vocab_size": 262144,
        "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 512, "sliding_window_pattern": 6,
    },
    "gpt_oss_20b": {
        "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "vocab_size": 201088,
        "num_local_experts": 32, "num_experts_per_tok": 4, "hidden_act": "silu", "sliding_window": 128,
        "tie_word_embeddings": False, "attention_bias": True,
    },
    "deepseek_v2_lite": {
        "model_type": "deepseek_v2", "hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16,
        "num_key_value_heads": 16, "intermediate_size": 10944, "vocab_size": 102400, "n_routed_experts": 64,
        "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "n_shared_experts": 2, "first_k_dense_replace": 1,
        "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "topk_method": "greedy", "hidden_act": "silu",
    },
    "deepseek_v3": {
        "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
        "num_key_value_heads": 128, "intermediate_size": 18432, "vocab_size": 129280, "n_routed_experts": 256,
        "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1, "first_k_dense_replace": 3,
        "kv_lora_rank": 512, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "topk_method": "noaux_tc", "hidden_act": "silu",
    },
    "llama4_maverick": {
        "model_type": "llama4_text", "hidden_size": 5120, "num_hidden_layers": 48, "num_attention_heads": 40,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
        "vocab_size": 202048, "num_local_experts": 128, "num_experts_per_tok": 1, "interleave_moe_layer_step": 2,
        "attention_chunk_size": 8192, "hidden_act": "silu", "tie_word_embeddings": False,
    },
    "starcoder2_3b": {
        "model_type": "starcoder2", "hidden_size": 3072, "num_hidden_layers": 30, "num_attention_heads": 24,
        "num_key_value_heads": 2, "intermediate_size": 12288, "vocab_size": 49152, "sliding_window": 4096,
        "hidden_act": "gelu_pytorch_tanh",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_published_configuration_is_the_model_of_its_name(name: str) -> None:
    known = transformer_request.preset(name).config
    read = hf_config.parse_config({"tie_word_embeddings": known.tied, **PUBLISHED[name]})
    different = {key: (getattr(read, key), getattr(known, key)) for key in known.__struct_fields__}
    assert {key: pair for key, pair in different.items() if pair[0] != pair[1] and key != "wide"} == {}


def test_a_kind_without_a_reader_says_what_can_be_captured() -> None:
    with pytest.raises(ValueError, match=r"'reformer' is not supported.*opens as net.py:make"):
        hf_config.parse_config({"model_type": "reformer"})


@pytest.mark.parametrize("kind", ["t5", "bart", "whisper"])
def test_an_encoder_decoder_is_refused_with_what_to_do(kind: str) -> None:
    with pytest.raises(ValueError, match=r"encoder-decoder: .*net.py:make .*transformers:t5_base"):
        hf_config.parse_config({"model_type": kind, "is_encoder_decoder": True})


_SMALL = {
    "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 128, "vocab_size": 100,
}  # fmt: skip


@for_each(
    ("stated", "said"),
    [
        ({"quant_method": "awq", "bits": 4}, "weights in int4_g128, activations fp16, cache fp16: --precision w4a16"),
        ({"quant_method": "gptq", "bits": 8}, "--precision w8a16"),
        ({"quant_method": "gptq", "bits": 3}, "3 bit int, activations 16 bit; no precision matches"),
        ({"quant_method": "gptq", "bits": "x"}, "no precision matches"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "--precision w8a8"),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, "4 bit nf4"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "cache fp16: --precision fp8kv16"),
        ({"quant_method": "mxfp4"}, "--precision mxfp4 (its activations stay bf16)"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 4}}}}, "w4a16"),
        ({"quant_method": "compressed-tensors", "config_groups": [1]}, "no precision matches"),
        ({"quant_method": "quark"}, "a method without a reader (awq"),
    ],
)
def test_stored_formats_are_said(stated: dict[str, Any], said: str) -> None:
    notes = hf_config.parse_config(_SMALL | {"quantization_config": stated}).notes
    assert len(notes) == 1
    assert said in notes[0]


@pytest.mark.parametrize(
    ("names", "wide"),
    [
        (
            ["re:.*self_attn.*", r"re:.*mlp\.(gate|up|gate_up|down)_proj.*"],
            "attention mlp.gate_proj mlp.up_proj mlp.down_proj",
        ),
        (["model.layers.*.self_attn", "lm_head", "model.layers.*.mlp.router"], "attention"),
        ([f"model.layers.{i}.self_attn.kv_b_proj" for i in range(9)], "kv_b_proj kv_b_query kv_b_value"),
        (["model.layers.0.self_attn", "re:.*mlp.gate$", "re:.*shared_expert_gate$"], ""),
    ],
)
def test_parts_that_a_configuration_excludes_stay_wide(names: list[str], wide: str) -> None:
    for key in ("ignore", "modules_to_not_convert", "exclude_modules"):
        for method in ("mxfp4", "fp8"):
            config = hf_config.parse_config(_SMALL | {"quantization_config": {"quant_method": method, key: names}})
            assert config.wide == tuple(wide.split())
            assert config.wide_role == (KEPT if method == "fp8" else EXCLUDED)


def test_parts_left_out_are_said(tmp_path: Path) -> None:
    parts = {"vision_config": {}, "audio_config": {}, "quantization_config": {"quant_method": "fp8"}}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llava", "text_config": _SMALL, **parts}))
    notes = hf_config.config(str(tmp_path)).notes
    assert notes[0] == "the language model alone: without its vision tower and its audio encoder"
    assert "fp8kv16" in notes[1]
    assert hf_config.parse_config(_SMALL).notes == ()
