"""How transformers are asked for: names, parameters, `config.json`; and one-line errors."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformer_cases import PUBLISHED

from analysis.model import store
from analysis.model.model_errors import ModelError
from analysis.model.names.model_ref import phases, refer
from analysis.model.transformer import transformer_request as transformer_spec
from hardware.base.errors import RequestError
from hwexplorer import state as states
from hwexplorer.cli import main
from lab.closed_form import size
from tests.command import document
from tests.sampling import for_each

LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256, "hidden_act": "silu",
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip

# Configurations as published (the keys that matter), and the preset each must equal.
CONFIGS: dict[str, dict[str, Any]] = {
    "llama3_8b": LLAMA,
    "mixtral_8x7b": {
        **LLAMA, "model_type": "mixtral", "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2,
    },
    "qwen2_7b": {
        "model_type": "qwen2", "hidden_size": 3584, "num_hidden_layers": 28, "num_attention_heads": 28,
        "num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064, "hidden_act": "silu",
        "use_sliding_window": False, "sliding_window": 131072,
    },
    "qwen3_8b": {
        "model_type": "qwen3", "hidden_size": 4096, "num_hidden_layers": 36, "num_attention_heads": 32, "head_dim": 128,
        "num_key_value_heads": 8, "intermediate_size": 12288, "vocab_size": 151936, "attention_bias": False,
    },
    "qwen3_30b_a3b": {
        "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32,
        "head_dim": 128, "num_key_value_heads": 4, "intermediate_size": 6144, "vocab_size": 151936, "num_experts": 128,
        "num_experts_per_tok": 8, "moe_intermediate_size": 768, "decoder_sparse_step": 1, "mlp_only_layers": [],
    },
    "deepseek_moe_16b": {
        "model_type": "deepseek", "hidden_size": 2048, "num_hidden_layers": 28, "num_attention_heads": 16,
        "num_key_value_heads": 16, "intermediate_size": 10944, "vocab_size": 102400, "n_routed_experts": 64,
        "num_experts_per_tok": 6, "moe_intermediate_size": 1408, "n_shared_experts": 2, "first_k_dense_replace": 1,
    },
    "gemma_2b": {
        "model_type": "gemma", "hidden_size": 2048, "num_hidden_layers": 18, "num_attention_heads": 8, "head_dim": 256,
        "num_key_value_heads": 1, "intermediate_size": 16384, "vocab_size": 256000, "hidden_act": "gelu",
    },
    "gpt2_xl": {"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25, "vocab_size": 50257},
    "opt_1_3b": {
        "model_type": "opt", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32, "ffn_dim": 8192,
        "vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": 2048,
    },
    "pythia_1_4b": {
        "model_type": "gpt_neox", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16,
        "intermediate_size": 8192, "vocab_size": 50304, "rotary_pct": 0.25, "hidden_act": "gelu",
    },
    "phi_2": {
        "model_type": "phi", "hidden_size": 2560, "num_hidden_layers": 32, "num_attention_heads": 32,
        "intermediate_size": 10240, "vocab_size": 51200, "partial_rotary_factor": 0.4, "hidden_act": "gelu_new",
    },
    "bert_large": {
        "model_type": "bert", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
        "intermediate_size": 4096, "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2,
    },
}  # fmt: skip


def folder(tmp_path: Path, config: object) -> str:
    (tmp_path / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    (tmp_path / "modeling_evil.py").write_text("raise SystemExit('run')")
    return f"hf:{tmp_path}"


@pytest.mark.parametrize("name", CONFIGS)
def test_a_published_configuration_is_the_preset(name: str, tmp_path: Path) -> None:
    found = transformer_spec.parse(folder(tmp_path, CONFIGS[name]))
    assert size(found.config).parameters == PUBLISHED[name]
    assert found.config == transformer_spec.parse(name).config


def test_a_stated_phase_stays_and_reads_its_prompt() -> None:
    assert transformer_spec.parse("llama3_8b:prefill,in=512") == transformer_spec.parse("llama3_8b:sequence=512")
    assert transformer_spec.parse("llama3_8b:in=512").run.phase == "request"


def test_a_folder_opens_with_options(tmp_path: Path) -> None:
    name = folder(tmp_path, LLAMA)
    model = store.load(f"{name}:decode,kv=100,tp=2")
    assert model.defaults == {"sequence": 1, "kv": 100}
    assert document("compare", f"{name}:decode", "--on", "h100_sxm")["parameters"] == PUBLISHED["llama3_8b"]
    text = states.format(states.State(model=f"{name}:decode", kv=9))
    assert states.parse(text).model == f"{name}:decode"


def test_a_folder_is_read_again(tmp_path: Path) -> None:
    name = folder(tmp_path, LLAMA)
    before = store.load(name).parameters
    folder(tmp_path, LLAMA | {"num_hidden_layers": 2})
    assert store.load(name).parameters < before


def test_the_hub_cache_is_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot = tmp_path / "models--acme--tiny" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(LLAMA))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert store.load("hf:acme/tiny").parameters == PUBLISHED["llama3_8b"]


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"model_type": "reformer"}, "not supported"),
        ({"model_type": "llamma"}, "did you mean llama"),
        ({}, "opens as net.py:make"),
        ({"model_type": "llama"}, "has no hidden_size"),
        (LLAMA | {"hidden_size": "wide"}, "config.json of type 'llama'"),
        (LLAMA | {"hidden_size": -1}, "hidden"),
        (LLAMA | {"num_attention_heads": 0}, "heads"),
        (LLAMA | {"num_key_value_heads": 7}, "key/value heads"),
        (LLAMA | {"hidden_act": "snake"}, "activation"),
        (LLAMA | {"hidden_act": ["a"]}, "activation"),
        (LLAMA | {"model_type": ["x"]}, "opens as net.py:make"),
        (LLAMA | {"sliding_window": -5}, "window"),
        (LLAMA | {"head_dim": 10**12}, "head_dim"),
        ("[1, 2]", "not a model configuration"),
        ("{", "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_a_wrong_configuration_is_one_line(config: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=said) as caught:
        store.load(folder(tmp_path, config))
    assert "\n" not in str(caught.value)


@for_each(
    ("text", "said"),
    [
        ("llama3_8b:kv=x", "whole number"),
        ("llama3_8b:sequence=0", "whole number from 1"),
        ("llama3_8b:tp=3", "allowed: 1, 2, 4"),
        ("llama3_8b:sequense=3", "did you mean sequence"),
        ("llama3_8b:phase=decod", "allowed: prefill, decode"),
        ("bert_base:decode", "no phase 'decode'"),
        ("bert_base:kv=3", "no parameter"),
        ("decoder:hidden=100,heads=3", "multiple"),
        ("decoder:experts=4", "active"),
        ("decoder:norm=batch", "allowed: rms, layer"),
        ("decoder:heads=0", "between 1"),
        ("decoder:encoder=1", "no parameter"),
        ("lama3_8b", "did you mean llama3_8b"),
        ("hf:/nowhere/at/all", "no config.json"),
        ("hf:acme/none", "neither a folder nor in the local hub cache"),
        ("hf:", "no config.json"),
        ("hf:\0", "no config.json|cannot be opened"),
    ],
)
def test_a_wrong_request_is_one_line(text: str, said: str) -> None:
    with pytest.raises(ModelError, match=said) as caught:
        store.load(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("llama3_8b", "llama3_8b"),
        ("Llama-3-8B:decode", "llama3_8b:decode"),
        ("llama3_8b:phase=decode,kv=2048", "llama3_8b:decode"),
        ("llama3_8b: kv=7 , decode", "llama3_8b:decode,kv=7"),
        ("opt-1.3b:tp=1", "opt_1_3b"),
        ("llama3_8b:layers=4,decode,tp=8,link=1.40", "llama3_8b:decode,layers=4,tp=8,link=1.4"),
        ("decoder:hidden=64,heads=4", "decoder:hidden=64,heads=4"),
    ],
)
def test_a_request_has_one_shortest_spelling(text: str, canonical: str) -> None:
    assert str(refer(text)) == canonical
    assert str(refer(canonical)) == canonical


def test_a_request_of_only_changed_sizes_follows_through() -> None:
    config = transformer_spec.parse("llama2_7b:hidden=2048,heads=16").config
    assert (config.head_dim, config.kv_heads, config.rotary) == (128, 16, 128)


def test_lengths_are_settings_of_the_state() -> None:
    state = states.parse("llama3_8b:decode@b4,bf16,s2,kv4096/h100_sxm")
    assert (state.batch, state.sequence, state.kv) == (4, 2, 4096)
    assert states.parse(states.format(state)) == state
    assert states.parse("llama3_8b@kv0").kv == 0
    for wrong in ("llama3_8b@s0", "llama3_8b@kv-1", "llama3_8b@s1,s2", "llama3_8b@kv99999999"):
        with pytest.raises(RequestError):
            states.parse(wrong)


@pytest.mark.parametrize("verb", ["compare", "tree", "show memory", "show kernels", "tree edp", "show events"])
def test_verbs_take_lengths(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = "decoder:hidden=64,layers=2,heads=4,ffn=160,vocab=1000,experts=4,active=2"
    words = [*verb.split(), model, "--sequence", "3", "--kv", "50", "--on", "h100_sxm", "--format", "json"]
    assert main(words) == 0
    json.loads(capsys.readouterr().out)


def test_the_same_is_asked_in_each_phase() -> None:
    assert phases("llama3_8b:decode,kv=4096,tp=2") == {
        "decode": "llama3_8b:decode,tp=2",
        "request": "llama3_8b:request,tp=2",
        "serve": "llama3_8b:serve,tp=2,rate=1",
        "train": "llama3_8b:train,tp=2",
        "prefill": "llama3_8b:tp=2",
    }
    assert [*phases("llama3_8b")] == ["prefill", "decode", "request", "serve", "train"]
    assert [phases(model) for model in ("bert_base", "resnet50", "nonesuch", "net.py:make")] == [{}] * 4
