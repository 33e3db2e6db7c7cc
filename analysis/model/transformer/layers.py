"""Write the layers of a transformer.

Attention: over all tokens, over a cache, and over latent vectors. The indexer of sparse attention chooses the keys that
a layer attends to (arXiv 2512.02556, 2606.13392); several tokens may share keys. Feed-forward parts: an FFN, or experts
of which each token passes some. Layers with a state of constant size: state-space models and linear attention.
"""

from fractions import Fraction
from typing import Any

from analysis.model.ir.poly import Poly, dim, product
from analysis.model.ir.workload import EXPERT_ROWS, EXPERTS, FIXED_FP32
from analysis.model.operators.contractions import ZERO, OperatorCall, OperatorCost
from analysis.model.operators.cost_rules import register
from analysis.model.transformer.config import TRAIN, Mixer
from analysis.model.transformer.graph_writer import StepWriter, Tensor

SCORE_FLOPS = 3  # ReLU, multiply by the weight of the head, add
COMPRESS_FLOPS = 6  # add the bias, largest, subtract, sum, multiply, add


def attention(step: StepWriter, x: Tensor, caches: list[Tensor], layer: int, reduce: bool = True) -> Tensor:
    """Write the attention of a layer. Append the new keys and values to `caches`."""
    c, w = step.config, step.w
    with w.module("attention", "Attention"):
        mixed = (_latent if c.kv_lora else _by_heads)(step, x, caches, layer)
        mixed = w.view(mixed, (*step.rows, step.heads * c.value_dim))
        if c.attention_gate:
            gate = w.activation("sigmoid", w.linear("gate_proj", x, step.heads * c.value_dim))
            mixed = w.call_in("gate_mul", "Mul", "aten.mul.Tensor", mixed.shape, self=mixed, other=gate)
        if c.head_gate:
            gate = w.activation("sigmoid", w.linear("head_gate_proj", x, step.heads))
            mixed = w.call_in("head_gate_mul", "Mul", "aten.mul.Tensor", mixed.shape, self=mixed, other=gate)
        mixed = w.norm("sub_norm", mixed, c.norm) if c.sub_norm else mixed
        mixed = _project_groups(step, mixed) if c.out_groups else mixed
        out = w.linear("o_proj", mixed, c.hidden, c.o_bias)
        return step.all_reduce("all_reduce", out) if reduce else out


def _by_heads(step: StepWriter, x: Tensor, caches: list[Tensor], layer: int) -> Tensor:
    c, w = step.config, step.w
    shape = (step.batch, step.heads, step.sequence, c.value_dim)
    if c.reuses_cache and (earlier := step.stored.get(c.window_of(layer))):
        query = w.view(w.linear("q_proj", x, step.heads * c.head_dim), (*step.rows, step.heads, c.head_dim))
        return _attend(step, shape, _by_head(step, _positioned(step, "q", query)), *earlier, layer)
    low = _query_input(step, x)
    query, key, *value = _projected(step, x, low)
    if c.head_conv:
        query, key = _convolve_heads(step, query, key, layer)
    parts = [_positioned(step, "q", query), _positioned(step, "k", key), *value]
    heads = [_by_head(step, part) for part in parts]
    if c.compress:
        compress_tokens(step, "compressor", x, c.head_dim, caches)
    if c.index_heads:
        index_tokens(step, x, low, caches, layer)
    if c.encoder:
        given = dict(zip(("query", "key", "value"), heads, strict=True))
        return w.call_in("sdpa", "ScaledDotProduct", "aten.scaled_dot_product_attention.default", shape, **given)
    return _cached(step, shape, heads, caches, layer)


def _projected(step: StepWriter, x: Tensor, low: Tensor) -> list[Tensor]:
    c, w = step.config, step.w
    counts, widths = (step.heads, step.kv_heads, step.kv_heads), (c.head_dim, c.head_dim, c.value_dim)
    parts = list(zip(counts, widths, strict=True))
    if c.fused_qkv:
        packed = w.linear("qkv_proj", x, sum(count * width for count, width in parts), c.qkv_bias)
        return w.views(packed, [(*step.rows, count, width) for count, width in parts])
    names = ("q_proj", "k_proj", "v_proj")
    rows = list(zip(names, (low, x, x), parts, strict=True))[: 2 if c.keys_are_values or c.shared_kv else 3]
    wide = [w.linear(name, given, count * width, c.qkv_bias) for name, given, (count, width) in rows]
    if c.qk_norm == "full":
        if step.run.tp > 1:  # devices add up the squares of their heads (vLLM pull request 31493)
            args = {"input": wide[0], "other": wide[1]}
            w.call_in("qk_norm_sum", "AllReduce", "hwexplorer.all_reduce.default", (*step.rows, 2), **args)
        wide[:2] = [w.norm(f"{n}_norm", part, c.norm) for n, part in zip("qk", wide, strict=False)]
    wide += [wide[1]] if c.keys_are_values else []
    return [w.view(part, (*step.rows, count, width)) for part, (count, width) in zip(wide, parts, strict=False)]


def _convolve_heads(step: StepWriter, query: Tensor, key: Tensor, layer: int) -> list[Tensor]:
    """Write convolutions of queries and keys over tokens, their sum with both, and its norm (arXiv 2510.04476). The
    state also holds half of the last values, which serves the next token."""
    c, w, heads = step.config, step.w, step.heads + step.kv_heads
    width, taps = heads * c.head_dim, c.head_conv + c.head_mix - 2
    state = w.state(
        f"layers.{layer}.attention.conv_cache", (step.batch, taps * width + step.kv_heads * c.value_dim // 2)
    )
    with w.module("qk_conv", "Conv1d"):
        args: dict[str, Any] = {"input": query, "key": key, "weight": w.weight("weight", (width, c.head_conv))}
        args |= {"bias": w.weight("bias", (width,)), "resumes": step.run.phase == "decode"}
        x = w.update("hwexplorer.short_convolution.default", (*step.rows, width), state, **args)
    with w.module("qk_mix", "HeadLinear"):
        args = {"input": w.view(x, (step.batch, heads, step.sequence, c.head_dim)), "bias": w.weight("bias", (width,))}
        args |= {"weight": w.weight("weight", (heads, c.head_dim, c.head_dim * c.head_mix))}
        mixed = w.call("hwexplorer.head_linear.default", args["input"].shape, **args)
        args = {"mixed": mixed, "query": query, "key": key}
        x = w.call("hwexplorer.mix_streams.default", (*step.rows, width), terms=2, **args)
    x = w.norm("qk_norm", w.view(x, (*step.rows, heads, c.head_dim)), "bare")
    args = {"self": x, "other": w.weight("key_scale", (step.kv_heads,))}
    return w.views(w.call_in("key_scale_mul", "Mul", "aten.mul.Tensor", x.shape, **args), [query.shape, key.shape])


def _latent(step: StepWriter, x: Tensor, caches: list[Tensor], layer: int) -> Tensor:
    """Write multi-head latent attention. Prefill expands the cached vectors to keys and values of all heads; decoding
    applies the expansion to queries and results instead."""
    c, w = step.config, step.w
    plain = c.head_dim - c.rotary  # the part of a head that is not rotated
    low = _query_input(step, x)
    query = _latent_query(step, low)
    if c.index_heads:
        index_tokens(step, x, low, caches, layer)
    packed = w.linear("kv_a_proj", x, c.kv_lora + c.rotary)
    vector, turned = w.views(packed, [(*step.rows, c.kv_lora), (*step.rows, 1, c.rotary)])
    vector, turned = w.norm("kv_a_norm", vector, c.norm), _rotated(step, "k", turned)
    past = _cached_input(step, layer, 1, c.kv_lora + c.rotary)
    with w.module("cache_append", "Cache"):
        shape = (*step.rows, c.kv_lora + c.rotary)
        caches.append(w.call("hwexplorer.cache_append.default", shape, part0=vector, part1=turned))
    if step.run.phase == "decode":
        absorbed = _per_head(step, "kv_b_query", query, (plain, c.kv_lora), c.kv_lora + c.rotary)
        vectors = w.view(caches[-1], (step.batch, 1, step.sequence, c.kv_lora + c.rotary))
        seen = _attend(step, (step.batch, step.heads, step.sequence, c.kv_lora), absorbed, [vectors], past, layer)
        return _per_head(step, "kv_b_value", seen, (c.kv_lora, c.value_dim), c.value_dim)
    with w.module("cache_read", "Cache"):
        rows = (step.batch, step.sequence + step.kv, c.kv_lora)
        before = {"past": past} if past else {}
        both = w.call("hwexplorer.cache_read.default", rows, new=caches[-1], **before)
    wide = w.linear("kv_b_proj", both, step.heads * (plain + c.value_dim))
    tall = (step.batch, step.heads, step.sequence + step.kv)
    key, value = w.views(wide, [(*tall, c.head_dim), (*tall, c.value_dim)])
    return _attend(
        step, (step.batch, step.heads, step.sequence, c.value_dim), _by_head(step, query), [key, value], None, layer
    )


def _latent_query(step: StepWriter, low: Tensor) -> Tensor:
    c, w = step.config, step.w
    wide = w.linear("q_b_proj" if c.q_lora else "q_proj", low, step.heads * c.head_dim)
    return _rotated(step, "q", w.view(wide, (*step.rows, step.heads, c.head_dim)))


def _query_input(step: StepWriter, x: Tensor) -> Tensor:
    c, w = step.config, step.w
    return w.norm("q_a_norm", w.linear("q_a_proj", x, c.q_lora), c.norm) if c.q_lora else x


def _per_head(step: StepWriter, name: str, x: Tensor, widths: tuple[int, int], width: int, heads: int = 0) -> Tensor:
    """Write a product of each head with its matrix of `widths` (in, out). Copy the rest of the result's `width`."""
    w, (inner, outer) = step.w, widths
    heads = heads or step.heads
    with w.module(name, "HeadLinear"):
        weight = w.weight("weight", (heads, outer, inner))
        return w.call(
            "hwexplorer.head_linear.default", (step.batch, heads, step.sequence, width), input=x, weight=weight
        )


def _project_groups(step: StepWriter, mixed: Tensor) -> Tensor:
    """Write the projection of each group of heads."""
    c, w, groups = step.config, step.w, max(1, step.config.out_groups // step.run.tp)
    width = step.heads * c.value_dim // groups
    x = w.view(mixed, (step.batch, groups, step.sequence, width))
    return w.view(
        _per_head(step, "o_a_proj", x, (width, c.out_lora), c.out_lora, groups), (*step.rows, groups * c.out_lora)
    )


def _positioned(step: StepWriter, name: str, x: Tensor) -> Tensor:
    c, w = step.config, step.w
    if c.qk_norm in ("head", "key"):
        x = w.norm(f"{name}_norm", x, "bare" if c.qk_norm == "key" and name == "q" else c.norm)
    return _rotated(step, name, x) if c.position == "rotary" else x


def _rotated(step: StepWriter, name: str, x: Tensor) -> Tensor:
    table = step.w.buffer("rotary.cos_sin", (step.sequence, step.config.rotary))
    with step.w.module(f"rotary_{name}", "Rotary"):
        return step.w.call("hwexplorer.rotary.default", x.shape, input=x, table=table, rotated=step.config.rotary)


def _by_head(step: StepWriter, x: Tensor) -> Tensor:
    return step.w.view(x, (step.batch, x.shape[2], step.sequence, x.shape[3]))


def _cached_input(step: StepWriter, layer: int, heads: int, width: int) -> Tensor | None:
    """Return the cache of earlier tokens (in the window), or with room for a request; None without earlier tokens."""
    if not step.kv.terms:
        return None
    return step.w.input(f"layers.{layer}.attention.kv_cache", (step.batch, heads, step.stored_keys(layer), width))


def _cached(
    step: StepWriter, shape: tuple[Poly | int, ...], heads: list[Tensor], caches: list[Tensor], layer: int
) -> Tensor:
    c, w = step.config, step.w
    query, key, *value = heads
    if step.run.phase == TRAIN:
        return _attend(step, shape, query, heads[1:], None, layer)
    with w.module("cache_append", "Cache"):
        parts = {"key": key} | ({"value": value[0]} if value else {})
        new = w.calls("hwexplorer.cache_append.default", [part.shape for part in heads[1:]], **parts)
    caches += new
    past = _cached_input(step, layer, step.kv_heads, c.head_dim + (c.value_dim if value else 0))
    step.stored[c.window_of(layer)] = new, past
    return _attend(step, shape, query, new, past, layer)


def _attend(
    step: StepWriter,
    shape: tuple[Poly | int, ...],
    query: Tensor,
    new: list[Tensor],
    past: Tensor | None,
    layer: int,
) -> Tensor:
    """Write attention to the new tokens and the cache. `new`: keys, and values unless the keys serve as values."""
    # The cache is the first argument: only that one can be read in part.
    args: dict[str, Any] = {"past": past, "before": step.cached(layer)} if past else {}
    args |= {"query": query, "key": new[0], "seen": step.attended_keys(layer)} | {
        f"new{i}": part for i, part in enumerate(new[1:])
    }
    if step.config.sinks:
        args["sinks"] = step.w.weight("sinks", (step.heads,))
    return step.w.call_in("sdpa", "ScaledDotProduct", "hwexplorer.cached_attention.default", shape, **args)


def index_tokens(step: StepWriter, x: Tensor, low: Tensor, caches: list[Tensor], layer: int) -> None:
    """Write the scores of all tokens by few narrow heads. The keys of the indexer are cached as well."""
    c, w = step.config, step.w
    with w.module("indexer", "Indexer"):
        query = w.view(w.linear("q_proj", low, c.index_heads * c.index_dim), (*step.rows, c.index_heads, c.index_dim))
        ratio, args = max(c.compress, 1), dict[str, Any]()
        if c.compress:
            key = compress_tokens(step, "keys", x, c.index_dim, caches)
        else:
            query = query if c.index_weights else w.norm("q_norm", query, c.norm)
            key = w.norm("k_norm", w.linear("k_proj", x, c.index_dim), "layer" if c.index_weights else c.norm)
            caches.append(w.call_in("cache_append", "Cache", "hwexplorer.cache_append.default", key.shape, part0=key))
        if step.kv.terms:
            name, rows = f"layers.{layer}.attention.indexer.kv_cache", step.capacity / ratio
            args = {"past": w.input(name, (step.batch, 1, rows, c.index_dim)), "before": step.kv / ratio}
        args |= {"query": query, "key": key, "seen": step.tokens_seen / ratio}
        args |= {"weights": w.linear("weights_proj", x, c.index_heads)} if c.index_weights else {}
        w.call_in("scores", "Scores", "hwexplorer.index_scores.default", (*step.rows, c.index_topk), **args)


def compress_tokens(step: StepWriter, name: str, x: Tensor, width: int, caches: list[Tensor]) -> Tensor:
    """Write a key for each `compress` tokens: their sum, weighted by a learned softmax. If an indexer chooses among
    these keys, each contains the tokens of the one before as well."""
    c, w = step.config, step.w
    wide = width * (2 if c.index_heads else 1)
    with w.module(name, "Compressor"):
        parts = {"input": w.linear("kv_proj", x, wide), "gate": w.linear("gate_proj", x, wide)}
        parts["bias"] = w.weight("position_bias", (c.compress, wide))
        shape = (step.batch, step.sequence / c.compress, width)
        key = w.norm("kv_norm", w.call("hwexplorer.compress.default", shape, **parts), c.norm)
        caches.append(w.call_in("cache_append", "Cache", "hwexplorer.cache_append.default", key.shape, part0=key))
    return key


def _index_scores(call: OperatorCall) -> OperatorCost:
    """Count a product of each head with the keys of all tokens seen, and their weighted sum. The cache may have room
    for later tokens: a step reads the `before` tokens."""
    batch, rows, heads, width = call.tensor("query").shape
    scores = product((batch, rows, heads, call.args["seen"]))
    gemm = (batch, rows * heads, call.args["seen"], width)
    read = product((batch, call.args["before"], width)) if "past" in call.args else None
    return OperatorCost("matmul", scores * SCORE_FLOPS, macs=product(gemm), gemm=gemm, first_read=read)


def _compress(call: OperatorCall) -> OperatorCost:
    """Count a softmax over the tokens of each key and their weighted sum."""
    size = call.tensor("gate").numel
    return OperatorCost("elementwise", size * COMPRESS_FLOPS, size)


register({"hwexplorer.index_scores": _index_scores, "hwexplorer.compress": _compress})


def feed_forward(step: StepWriter, x: Tensor, layer: int, reduce: bool = True) -> Tensor:
    """Write the FFN or the experts of a layer."""
    c, w = step.config, step.w
    with w.module("mlp", "MLP"):
        y = _experts(step, x) if c.is_sparse(layer) else _dense(step, x, c.ffn)
        return step.all_reduce("all_reduce", y) if reduce else y


def _dense(step: StepWriter, x: Tensor, width: int) -> Tensor:
    c, w = step.config, step.w
    part = step.part(width)
    if c.gated:
        gate = w.activation(c.activation, w.linear("gate_proj", x, part, c.mlp_bias))
        wide = _gated(step, gate, w.linear("up_proj", x, part, c.mlp_bias))
    else:
        wide = w.activation(c.activation, w.linear("up_proj", x, part, c.mlp_bias))
    wide = w.norm("sub_norm", wide, c.norm) if c.sub_norm else wide
    return w.linear("down_proj", wide, c.hidden, c.mlp_bias)


def _gated(step: StepWriter, gate: Tensor, up: Tensor) -> Tensor:
    return step.w.call_in("gate_mul", "Mul", "aten.mul.Tensor", gate.shape, self=gate, other=up)


def _experts(step: StepWriter, x: Tensor) -> Tensor:
    c, w = step.config, step.w
    given = w.norm("experts_norm", x, c.norm) if c.expert_norm == "each" else x
    y = _routed(step, x, given)
    y = w.norm("experts_after_norm", y, c.norm) if c.expert_norm == "each" else y
    if c.shared_ffn:
        y = w.add("shared_add", y, _shared_expert(step, x))
    return w.norm("experts_after_norm", y, c.norm) if c.expert_norm == "after" else y


def _shared_expert(step: StepWriter, x: Tensor) -> Tensor:
    c, w = step.config, step.w
    with w.module("shared_expert", "MLP"):
        shared = _dense(step, x, c.shared_ffn)
        if c.shared_gate:
            gate = w.activation("sigmoid", w.linear("gate", x, 1))
            shared = w.call_in("gate_mul", "Mul", "aten.mul.Tensor", shared.shape, self=shared, other=gate)
        return w.norm("after_norm", shared, c.norm) if c.expert_norm == "each" else shared


def _routed(step: StepWriter, x: Tensor, given: Tensor) -> Tensor:
    """Write the choice of experts by `x` and what the chosen ones make of `given`."""
    c, w = step.config, step.w
    scored = w.norm("router_norm", x, c.norm) if c.expert_norm == "each" else x
    scored = _routing_state(step, scored) if c.router_hidden else scored
    dtype = FIXED_FP32 if c.router_fp32 else "float32"
    logits = w.linear("router", scored, c.experts + c.idle_experts, c.router_bias, dtype=dtype)
    scores = w.call_in("router_softmax", "Softmax", "aten.softmax.int", logits.shape, self=logits, dim=-1)
    chosen = (*step.rows, c.active)
    with w.module("router_topk", "TopK"):
        top, which = w.calls("aten.topk.default", [chosen, chosen], ("float32", "int64"), self=scores, k=c.active)
    # Devices that hold all tokens gather those of their own experts alone.
    is_whole = step.run.ep > 1 and not step.run.spreads_sequences
    held = (dim(EXPERTS + step.phase), dim(EXPERT_ROWS + step.phase)) if is_whole else chosen
    given = w.linear("latent_in_proj", given, c.expert_hidden) if c.expert_hidden else given
    with w.module("dispatch", "Dispatch"):
        tokens = w.call("hwexplorer.expert_dispatch.default", (*held, given.shape[-1]), input=given, indices=which)
    tokens = step.exchange_tokens("dispatch_exchange", tokens)
    with w.module("experts", "Experts"):
        width = c.expert_ffn if step.run.ep > 1 else step.part(c.expert_ffn)
        up = _expert(step, "up_proj", tokens, width)
        if c.gated:
            gate = w.activation(c.activation, _expert(step, "gate_proj", tokens, width))
            up = _gated(step, gate, up)
        else:
            up = w.activation(c.activation, up)
        down = _expert(step, "down_proj", up, c.expert_hidden or c.hidden)
    down = step.exchange_tokens("combine_exchange", down)
    y = w.call_in("combine", "Combine", "hwexplorer.expert_combine.default", given.shape, input=down, weights=top)
    y = w.norm("latent_norm", y, c.norm) if c.expert_norm == "latent" else y
    return w.linear("latent_out_proj", y, c.hidden) if c.expert_hidden else y


def _routing_state(step: StepWriter, x: Tensor) -> Tensor:
    """Write the first layers of a router, which also read the state of the router before."""
    c, w = step.config, step.w
    with w.module("router_mlp", "MLP"):
        x = w.linear("down_proj", x, c.router_hidden, bias=True)
        if step.blocks:
            scale = w.weight("state_scale", (c.router_hidden,))
            x = w.call("hwexplorer.mix_streams.default", x.shape, terms=1, x=x, before=step.blocks[-1], scale=scale)
        step.blocks.append(x)
        x = w.norm("norm", x, c.norm)
        for name in ("fc1", "fc2"):
            x = w.activation("gelu", w.linear(name, x, c.router_hidden, bias=True))
        return x


def _expert(step: StepWriter, name: str, x: Tensor, width: int) -> Tensor:
    w, experts = step.w, step.config.experts // step.run.ep
    args: dict[str, Any] = {"phase": step.phase, "spread": step.run.ep > 1}
    with w.module(name, "ExpertLinear"):
        weight = w.weight("weight", (experts, width, x.shape[-1]))
        bias = {"bias": w.weight("bias", (experts, width))} if step.config.mlp_bias else {}
        args |= {"weight": weight, "input": x, **bias}
        return w.call("hwexplorer.expert_linear.default", (*x.shape[:-1], width), **args)


def _expert_linear(call: OperatorCall) -> OperatorCost:
    """Count the product of each touched expert with its tokens. Only weights of touched experts are read, once."""
    weight = call.tensor("weight")
    _, outer, inner = weight.shape
    touched = dim(EXPERTS + call.args["phase"])
    gemm = (touched, dim(EXPERT_ROWS + call.args["phase"]), outer, inner)
    read = touched * outer * inner
    # With several devices, count all tokens of the busiest, which has more than the mean.
    macs = product(gemm) if call.args["spread"] else call.result.numel * inner
    return OperatorCost("matmul", macs=macs, gemm=gemm, first_read=read)


register(
    {
        "hwexplorer.expert_linear": _expert_linear,
        "hwexplorer.expert_dispatch": lambda call: OperatorCost("gather"),
        # The weighted sum of each token's expert results; each device adds its share of the elements.
        "hwexplorer.expert_combine": lambda call: OperatorCost("gather", call.tensor("input").numel * 2),
    }
)


def mix_by_state(step: StepWriter, x: Tensor, layer: int) -> Tensor:
    """Write the recurrent mixer of a layer, without the sum over devices. Decoding reads and overwrites its state;
    prefill only writes it."""
    m, w = step.config.mixer_sizes(step.run.tp), step.w
    kind = m.kind
    with w.module("mixer", "Mixer"):
        wide = w.linear("in_proj", x, m.width(kind.project))
        mixed = _convolved(step, m, wide, layer) if kind.convolve else wide
        low = mixed
        for i, (inner, outer) in enumerate(kind.low_rank):
            source = low if i else x if "hidden" in inner else mixed
            low = w.linear(f"low_rank{i}", w.view(source, (*step.rows, m.width(inner))), m.width(outer))
        y = w.view(mixed, (*step.rows, m.inner))
        if kind.products or kind.scan[0]:  # a state besides the last inputs of its convolution
            y = _recurred(step, m, mixed, low, layer)
        if kind.norm:
            y = w.norm("norm", w.view(y, (*step.rows, m.inner // m.width(kind.norm), m.width(kind.norm))), "rms")
        gate = w.view(wide, (*step.rows, m.inner))
        y = w.call_in("gate_mul", "Mul", "aten.mul.Tensor", gate.shape, self=w.view(y, gate.shape), other=gate)
        return w.linear("out_proj", y, step.config.hidden)


def _convolved(step: StepWriter, m: Mixer, wide: Tensor, layer: int) -> Tensor:
    w, width = step.w, m.width(m.kind.convolve)
    state = w.state(f"layers.{layer}.mixer.conv_cache", (step.batch, m.conv - 1, width))
    with w.module("conv", "Conv1d"):
        x, weight = w.view(wide, (*step.rows, width)), w.weight("weight", (width, m.conv))
        args = {"input": x, "weight": weight, "resumes": step.run.phase == "decode"}
        return w.update("hwexplorer.short_convolution.default", x.shape, state, **args)


def _recurred(step: StepWriter, m: Mixer, mixed: Tensor, low: Tensor, layer: int) -> Tensor:
    w, kind, resumes = step.w, m.kind, step.run.phase == "decode"
    dtype = FIXED_FP32 if step.config.state_fp32 else "float32"
    state = w.state(f"layers.{layer}.mixer.state_cache", (step.batch, m.heads, m.keys, m.values), dtype)
    steps = (*step.rows, m.heads)
    gates = w.view(low, steps)
    if kind.vectors:
        parameters = w.weight("parameters", (m.width(kind.vectors),))
        gates = w.call_in("gates", "Gates", "hwexplorer.state_gates.default", steps, input=gates, parameters=parameters)
    macs = m.state_macs(not resumes and not kind.scan[0])
    args = {"input": mixed, "gates": gates, "macs": macs, "scan": list(kind.scan), "resumes": resumes}
    with w.module("recurrence", "Recurrence"):
        return w.update("hwexplorer.recurrence.default", (*step.rows, m.inner), state, **args)


# --- costs ------------------------------------------------------------------------------------------------


def _recurrence(call: OperatorCall) -> OperatorCost:
    """Count a product of each head with its state, or an elementwise scan (which no matrix unit computes). Prefill
    does not read the state."""
    batch, heads, keys, values = call.tensor("state").shape
    rows = call.result.shape[1]
    read = call.tensor("state").numel if call.args["resumes"] else ZERO
    elements = product((batch, rows, heads, keys, values))
    flops, special = call.args["scan"]
    if flops:
        return OperatorCost("elementwise", elements * flops, elements * special, first_read=read)
    inner = Poly({(): Fraction(call.args["macs"], heads.constant() * values.constant())})
    gemm = (batch * heads, rows, values, inner)
    decay = elements if call.args["resumes"] else ZERO
    return OperatorCost("matmul", decay, macs=product(gemm), gemm=gemm, first_read=read)


def _short_convolution(call: OperatorCall) -> OperatorCost:
    width, taps = call.tensor("weight").shape
    gemm = (width, product(call.result.shape[:-1]), Poly({(): 1}), taps)
    read = call.tensor("state").numel if call.args["resumes"] else ZERO
    return OperatorCost("depthwise_conv", macs=product(gemm), gemm=gemm, first_read=read)


def _state_gates(call: OperatorCall) -> OperatorCost:
    """Count a bias, a softplus and an exponential for each head and token."""
    size = call.result.numel
    return OperatorCost("elementwise", size * 3, size * 3)


register(
    {
        "hwexplorer.recurrence": _recurrence,
        "hwexplorer.short_convolution": _short_convolution,
        "hwexplorer.state_gates": _state_gates,
    }
)
