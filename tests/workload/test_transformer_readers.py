"""Published configurations, as their repositories have them, read as the models that are known by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from analysis.model.transformer import hf_config, stored_weights, transformer_request
from hardware.precision import IN_8_BITS, QUANTIZED
from hwexplorer.cli import main
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


_INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "symmetric": True, "group_size": 32}
_FP4 = {"num_bits": 4, "type": "float", "group_size": 16}
_NF4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}


@for_each(
    ("stated", "precision"),
    [
        ({"quant_method": "awq", "bits": 4}, "w4a16"),
        ({"quant_method": "awq", "w_bit": 4, "q_group_size": 64}, "w4a16g64s20"),
        ({"quant_method": "gptq", "bits": 8}, "w8a16g128s24"),
        ({"quant_method": "gptq", "bits": 8, "group_size": -1}, "w8a16"),
        ({"quant_method": "gptq", "bits": 3}, "w3a16g128s19"),
        ({"quant_method": "gptq", "bits": 2, "group_size": 32}, "w2a16g32s18"),
        ({"quant_method": "gptq", "bits": "int8", "group_size": "64"}, "w8a16g64s24"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True, "bnb_4bit_quant_type": "fp4"}, "w8a8"),
        ({"quant_method": "bitsandbytes"} | _NF4, "w4a16g64s8.125"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8kv16"),
        ({"quant_method": "mxfp4"}, "mxfp4"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": _INT4}}}, "w4a16g32s16"),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": _FP4}}}, "nvfp4"),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}, "nvfp4kv8"),
        ({"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}, "fp8kv8"),
        (
            {"quant_method": "torchao", "quant_type": "int4_weight_only", "quant_type_kwargs": {"group_size": 64}},
            "w4a16g64s32",
        ),
        ({"quant_method": "torchao", "quant_type": {"default": {"_type": "Int8WeightOnlyConfig"}}}, "w8a16"),
        (
            {"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 3, "group_size": 64}}},
            "w3a16g64s32",
        ),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp4", "group_size": 32}}}, "mxfp4"),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "fp8_e4m3"}}}, "w8a16"),
        ({"quant_method": "exl3", "bits": 3.5, "head_bits": 6}, "w3.5a16g0s0x6"),
        ({"quant_method": "bitnet"}, "w2a16"),
    ],
)
def test_each_quantisation_method_is_a_precision(stated: dict[str, Any], precision: str) -> None:
    stored = stored_weights.read(_SMALL | {"quantization_config": stated}, 2)
    assert stored.precision == precision
    assert stored.notes[0].startswith("stored by ")


@for_each(
    "stated",
    [{"quant_method": "compressed-tensors", "config_groups": [1]}, {"quant_method": "squeezellm", "bits": 3}, {}, [1]],
)
def test_an_unread_method_is_said_with_the_bytes_that_are_assumed(stated: object) -> None:
    stored = stored_weights.read(_SMALL | {"quantization_config": stated}, 2)
    assert not stored.precision
    assert "weights count 2 byte a value (bf16)" in stored.notes[0]


# Weights in bytes by hand, of one small Llama (4 layers of 512, 9,437,184 weights in linear layers, 516,608 in the
# embedding with half of the norms, as many in the head): README of the review of 28 November.
_LLAMA = {
    "model_type": "llama", "hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "head_dim": 64,
    "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 1000, "tie_word_embeddings": False,
}  # fmt: skip
_LINEAR, _REST, _MLP = 9_437_184, 1_028_608, 6_291_456
_MIXED = {f"model.layers.{i}.self_attn.{name}_proj": {"quant_algo": "FP8"} for i in range(4) for name in "qkvo"} | {
    name: {"quant_algo": "W4A16_NVFP4", "group_size": 16}
    for name in ("lm_head", *(f"model.layers.{i}.mlp.{part}_proj" for i in range(4) for part in ("gate", "up", "down")))
}


_MLPS = [f"model.layers.{i}.mlp*" for i in range(4)]


@for_each(
    ("stated", "weights"),
    [
        ({"quant_method": "bitsandbytes"} | _NF4, _LINEAR * (1 / 2 + 1 / 64 + 4 / 64 / 256) + 2 * _REST),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": _MLPS},
         (_LINEAR - _MLP) * 0.5625 + 2 * _MLP + 2 * _REST),
        ({"quant_method": "modelopt", "quantized_layers": _MIXED},
         3_145_728 + (_MLP + 512_000) * 0.5625 + 2 * (_REST - 512_000)),
        ({"quant_method": "awq", "group_size": 128, "modules_to_not_convert": ["layers.0.", "model.layers.3"]},
         _LINEAR * (0.5 + 20 / 8 / 128) / 2 + _LINEAR + 2 * _REST),
        ({"quant_method": "gptq", "bits": 4, "dynamic": {"-:.*mlp.*": {}, "+:.*v_proj": {"bits": 8}}},
         (3_145_728 - 524_288) * (0.5 + 20 / 8 / 128) + 524_288 * (1 + 20 / 8 / 128) + 2 * _MLP + 2 * _REST),
        ({"quant_method": "fp8", "ignored_layers": ["re:(a+)+b", "re:.*self_attn.*"]},
         _MLP + 2 * 3_145_728 + 2 * _REST),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"], "weights": {
            "num_bits": 4, "type": "int", "group_size": 128}}}, "ignore": ["lm_head", "model.layers.0.mlp"]},
         _LINEAR * (0.5 + 2 / 128) + 2 * _REST),
        ({"quant_method": "mlx", "bits": 8, "group_size": 64},
         (_LINEAR + 1_024_000) * (1 + 4 / 64) + 2 * (_REST - 1_024_000)),
        ({"quant_method": "exl3", "bits": 4.0, "head_bits": 6}, _LINEAR / 2 + 512_000 * 0.75 + 2 * (_REST - 512_000)),
    ],
)  # fmt: skip
def test_weights_have_the_bytes_that_the_checkpoint_states(
    stated: dict[str, Any], weights: float, tmp_path: Path
) -> None:
    folder = tmp_path / str(len([*tmp_path.iterdir()]))
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(_LLAMA | {"quantization_config": stated}))
    name, out = f"hf:{folder}:decode", str(folder / "memory.json")
    assert main(["show", "memory", name, "--on", "h200", "--format", "json", "-o", out]) == 0
    assert json.loads(Path(out).read_text())["weight_bytes"] == pytest.approx(weights, rel=1e-4)


def test_a_packing_stated_beside_the_configuration_is_read(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(_LLAMA))
    (tmp_path / "quantize_config.json").write_text(json.dumps({"bits": 4, "group_size": 32}))
    assert hf_config.stored_precision(str(tmp_path)) == "w4a16g32s20"


def test_the_embedding_of_mlx_is_packed_too() -> None:
    own = {"group_size": 64, "bits": 4, "model.layers.0.mlp.up_proj": {"group_size": 64, "bits": 6}}
    stored = stored_weights.read(_LLAMA | {"quantization": own, "quantization_config": own | {"mode": "affine"}}, 4)
    assert stored.precision == "w4a16g64s32x6"
    assert ("embed_tokens", QUANTIZED) in stored.parts
    assert ("layers.0.mlp.up_proj", IN_8_BITS) in stored.parts


def test_parts_left_out_are_said(tmp_path: Path) -> None:
    parts = {"vision_config": {}, "audio_config": {}, "quantization_config": {"quant_method": "fp8"}}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llava", "text_config": _SMALL, **parts}))
    notes = hf_config.config(str(tmp_path)).notes
    assert notes[0] == "the language model alone: without its vision tower and its audio encoder"
    assert "fp8kv16" in notes[1]
    assert hf_config.parse_config(_SMALL).notes == ()


def test_a_checkpoint_that_classifies_has_a_head_of_its_labels() -> None:
    classifies = _SMALL | {"architectures": ["LlamaForSequenceClassification"]}
    assert hf_config.parse_config(classifies).labels == 2
    assert hf_config.parse_config(classifies | {"id2label": {"0": "bad"}}).labels == 1
