"""Parameters and operations of transformers against what is published and what follows by hand."""

import numpy as np
import pytest
from transformer_cases import PUBLISHED, PYTHIA_BODY, ROUNDED, SMALL, total, workload

from analysis.model.ir.workload import KINDS, WEIGHT, decode, encode
from analysis.model.transformer import transformer_request
from lab.closed_form import SIZES, costs_between_layers, macs, size, sizes_of_presets
from tests.sampling import for_each

# What they share takes a third of a second to write for each of the large ones.
pytestmark = pytest.mark.xdist_group("transformer counts")


# Of each kind of layer one; the graph of a large model takes a third of a second to make.
WHOLE = ("gpt2", "mixtral_8x7b", "deepseek_v2_lite", "gpt_oss_20b", "gemma2_2b", "bert_base")


def shorten(name: str) -> str:
    """Return the preset with six layers: the longest pattern of layers that any has."""
    return f"{name}:layers=6"


def test_every_preset_has_a_source_and_a_published_size() -> None:
    known = set(PUBLISHED) | set(ROUNDED) | {"falcon_7b"}
    assert set(transformer_request.preset_names()) <= known
    for name in transformer_request.preset_names():
        assert transformer_request.preset(name).source


@for_each("name", PUBLISHED)
def test_parameters_are_the_published_ones(name: str) -> None:
    """By the closed form, which `test_closed_form_is_the_graph` compares with the graph."""
    assert size(transformer_request.preset(name).config).parameters == PUBLISHED[name]


@for_each("name", WHOLE)
def test_the_weights_of_a_whole_graph_are_the_published_parameters(name: str) -> None:
    model = workload(name)
    assert model.parameters == PUBLISHED[name]
    weights = model.tensors.numel[model.tensors.role == WEIGHT]
    assert total(weights, model) == PUBLISHED[name]


@for_each("name", ROUNDED)
def test_parameters_as_papers_round_them(name: str) -> None:
    sizes = size(transformer_request.preset(name).config)
    whole, active = ROUNDED[name]
    assert round(sizes.parameters / 1e9, 1) == whole
    assert round((sizes.parameters - sizes.idle) / 1e9, 1) == pytest.approx(active, abs=0.05)


def test_falcon_is_seven_billion() -> None:
    assert size(transformer_request.preset("falcon_7b").config).parameters == 6_921_720_704


@pytest.mark.parametrize("name", PYTHIA_BODY)
def test_parameters_outside_the_embedding(name: str) -> None:
    sizes = size(transformer_request.preset(name).config)
    assert sizes.linear + sizes.vectors == PYTHIA_BODY[name]


def test_listed_sizes_are_those_of_the_presets() -> None:
    assert SIZES.read_text(encoding="utf-8") == sizes_of_presets()


@for_each("name", [*map(shorten, transformer_request.preset_names()), *SMALL, *WHOLE])
def test_closed_form_is_the_graph(name: str) -> None:
    request, model = transformer_request.parse(name), workload(name)
    assert size(request.config).parameters == model.parameters
    for batch in (1, 3):
        assert total(model.operators.macs, model, batch) == macs(request.config, request.run, batch)


@for_each("name", [n for n in transformer_request.preset_names() if not transformer_request.preset(n).config.encoder])
@for_each("kv", [0, 2048])
def test_flops_of_a_token_are_twice_the_active_parameters_and_attention(name: str, kv: int) -> None:
    config = transformer_request.parse(shorten(name)).config
    model = workload(f"{shorten(name)},decode" if config.kv_lora else shorten(name))
    sizes = size(config)
    active = sizes.linear + sizes.head + costs_between_layers(config)[1]
    attending = [layer for layer in range(config.layers) if config.has("attention", layer)]
    attention = 0
    for layer in attending:
        own = config.of_layer(layer)
        seen = sum(min(kv + 1, most or kv + 1) / shared for most, shared in config.spans_of(layer))
        # Latent attention: scores over the vector and the rotated part, results over the vector.
        width = 2 * own.kv_lora + own.rotary if own.kv_lora else 2 * own.head_dim
        attention += 2 * own.heads * width * seen + 2 * own.index_heads * own.index_dim * (kv + 1) / max(
            own.compress, 1
        )
    at = {"batch": 1, "sequence": 1, "kv": kv}
    contraction = 2 * total(model.operators.macs, model, **at)
    states = (
        2 * config.count("mixer") * config.mixer_sizes().state_macs(not config.kv_lora) if config.count("mixer") else 0
    )
    assert contraction == 2 * active + attention + states
    # Element-wise work (norms, rotation, softmax, activations) is small beside it.
    assert contraction < total(model.operators.flops, model, **at) < 1.02 * contraction


@pytest.mark.parametrize("name", [*SMALL[:-1], "gpt2", "gemma2_2b", "gpt_oss_20b"])
def test_a_step_is_the_prefill_of_one_token(name: str) -> None:
    """So the models above, but those of latent attention, need no second graph."""
    step, prompt = workload(f"{name}{',' if ':' in name else ':'}phase=decode"), workload(name)
    assert (step.operators.path, step.operators.kind) == (prompt.operators.path, prompt.operators.kind)
    for figures in ("macs", "flops", "special"):
        counts = [total(getattr(each.operators, figures), each, 3, sequence=1, kv=2048) for each in (step, prompt)]
        assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("name", ["gpt2", "llama3_8b", "mixtral_8x7b"])
def test_prefill_is_the_sum_of_its_tokens_but_one_head(name: str) -> None:
    config = transformer_request.preset(name).config
    model, tokens = workload(name), 100
    per_token = size(config).linear * tokens + size(config).head
    scores = config.layers * config.heads * config.head_dim * tokens * (tokens + 1)  # half of the square
    assert total(model.operators.macs, model, sequence=tokens, kv=0) == per_token + scores


def test_bert_base_by_hand() -> None:
    model, tokens = workload("bert_base"), 128
    layer = 4 * 768 * 768 + 2 * 768 * 3072
    assert total(model.operators.macs, model, sequence=128) == 12 * tokens * (layer + 2 * 768 * tokens) + 768 * 768


@pytest.mark.parametrize("name", SMALL)
def test_every_operator_is_known_and_named(name: str) -> None:
    ops = workload(name).operators
    assert ops.has_rule.all()
    assert len(set(ops.path)) == len(ops.path)
    assert set(ops.kind) <= set(KINDS)
    gemm, product = ops.gemm, np.zeros(len(ops.path))
    point = workload(name).value_at(batch=3)
    product = np.prod(gemm @ point, axis=1)
    plain = np.array([kind in ("linear", "matmul") for kind in ops.kind])
    np.testing.assert_allclose(product[plain], (ops.macs @ point)[plain], rtol=1e-12)


def test_paths_follow_the_modules() -> None:
    paths = set(workload("llama3_8b").operators.path)
    leaves = ("q_proj", "k_proj", "v_proj", "rotary_q", "cache_append", "sdpa", "o_proj")
    assert {f"layers.3.attention.{leaf}" for leaf in leaves} <= paths
    assert {"embed_tokens", "norm", "lm_head", "layers.31.mlp.down_proj", "layers.0.attention_residual"} <= paths
    experts = set(workload("mixtral_8x7b").operators.path)
    assert {"layers.0.mlp.router", "layers.0.mlp.experts.gate_proj", "layers.0.mlp.combine"} <= experts


@pytest.mark.parametrize("name", [SMALL[0], SMALL[2]])
def test_survives_storage(name: str) -> None:
    model = workload(name)
    again = decode(encode(model))
    assert again.defaults == model.defaults
    assert again.routing == model.routing
    assert total(again.operators.flops, again, 5) == total(model.operators.flops, model, 5)
