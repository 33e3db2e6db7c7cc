"""Transformers written from their configuration: a graph like a captured one, without torch and without weights.

Live dimensions of a decoder: `batch`, `sequence` (new tokens of each) and `kv` (tokens of each whose keys and values
are cached). Attention of the new tokens sees both. The cache is an input of the step, resident while it runs, and the
new keys and values are results: together they are the cache after the step.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from ...errors import ModelSpecError
from ...graph import Graph, InputShape
from ...lower import lower
from ...poly import Poly, dim, poly
from ...windows import attended_dim, cached_dim
from ...workload import Parallel, Routing, Workload
from . import rules as transformer_rules
from .config import Config, Run, degrees
from .graph import Value, Writer


@dataclass(frozen=True, slots=True)
class _Build:
    """A model being written: widths are those of one of `tp` devices."""

    config: Config
    run: Run
    w: Writer
    batch: Poly
    sequence: Poly
    kv: Poly
    heads: int
    kv_heads: int

    @property
    def rows(self) -> tuple[Poly, Poly]:
        return self.batch, self.sequence

    def part(self, width: int) -> int:
        """One device's share of a width, rounded up."""
        return -(-width // self.run.tp)


def build(name: str, config: Config, run: Run, origin: str = "configuration") -> Workload:
    """The workload of one step. Raises ModelSpecError where the devices cannot share the model evenly."""
    if run.tp not in degrees(config):
        allowed = ", ".join(str(degree) for degree in degrees(config))
        raise ModelSpecError(f"tp={run.tp} does not divide heads and FFN evenly; allowed: {allowed}")
    made = lower(_graph(config, run), name, family=family(config), origin=origin)
    defaults = {"sequence": run.sequence} if config.encoder else {"sequence": run.sequence, "kv": run.kv}
    return msgspec.structs.replace(
        made,
        defaults=defaults,
        windows=windows(config),
        routing=Routing(config.experts, config.active) if config.experts else None,
        parallel=Parallel(run.tp, run.link) if run.tp > 1 else None,
    )


def windows(config: Config) -> tuple[int, ...]:
    """The different windows of a decoder's attention, without that of layers that see everything."""
    return tuple(sorted({config.window_of(layer) for layer in range(config.layers)} - {0}))


def family(config: Config) -> str:
    return "encoder" if config.encoder else "language"


def _graph(config: Config, run: Run) -> Graph:
    w = Writer("Encoder" if config.encoder else "Decoder")
    kv_heads = max(1, config.kv_heads // run.tp)
    b = _Build(config, run, w, dim("batch"), dim("sequence"), dim("kv"), config.heads // run.tp, kv_heads)
    x, table = _embed(b)
    caches: list[Value] = []
    for layer in range(config.layers):
        with w.module(f"layers.{layer}", "Layer"):
            x = _layer(b, x, layer, caches)
    outputs = _pooled(b, x) if config.encoder else [_head(b, x, table)]
    inputs = [InputShape("input_ids", "int64", ("batch", "sequence"))]
    dims = ["batch", "sequence"]
    if not config.encoder:
        width = config.cached_width if config.kv_lora else config.cached_width // config.kv_heads * b.kv_heads
        inputs.append(InputShape("kv_cache", "float32", (config.layers, "batch", "kv", width)))
        dims += ["kv", *(name for window in windows(config) for name in (attended_dim(window), cached_dim(window)))]
    if config.experts:
        dims += [transformer_rules.EXPERTS, transformer_rules.EXPERT_ROWS]
    return w.graph([*outputs, *caches], tuple(inputs), tuple(dims), _notes(config, run))


def _notes(config: Config, run: Run) -> tuple[str, ...]:
    notes = [] if config.encoder else ["sampling is not counted"]
    if config.experts:
        notes.append(
            f"tokens choose {config.active} of {config.experts} experts evenly and independently: T tokens touch "
            f"{config.experts} (1 - (1 - {config.active}/{config.experts})^T) of them"
        )
    if run.tp > 1:
        notes.append(
            f"one of {run.tp} devices; collectives over an assumed {run.link / 1e9:g} GB/s in each direction, "
            "without the energy of the links"
        )
    return tuple(notes)


def _embed(b: _Build) -> tuple[Value, Value]:
    c, w = b.config, b.w
    ids = w.input("input_ids", b.rows, "int64")
    x, table = w.embedding("embed_tokens", ids, b.part(c.vocab), c.hidden)
    x = _reduced(b, "embed_reduce", x)
    if c.scale_embedding:
        with w.module("embed_scale", "Scale"):
            x = w.call("aten.mul.Scalar", x.shape, self=x, other=2)
    if c.position == "learned":
        positions = w.input("position_ids", (b.sequence,), "int64")
        found, _ = w.embedding("embed_positions", positions, c.positions, c.hidden)
        x = w.add("embed_add", x, found)
    if c.token_types:
        types = w.input("token_type_ids", b.rows, "int64")
        found, _ = w.embedding("embed_token_types", types, c.token_types, c.hidden)
        x = w.add("embed_types_add", x, found)
    return (w.norm("embed_norm", x, c.norm) if c.post_norm or c.embed_norm else x), table


def _layer(b: _Build, x: Value, layer: int, caches: list[Value]) -> Value:
    c, w = b.config, b.w
    if c.post_norm:
        x = w.norm("attention_norm", w.add("attention_residual", x, _attention(b, x, caches, layer)), c.norm)
        return w.norm("mlp_norm", w.add("mlp_residual", x, _mlp(b, x, layer)), c.norm)
    normed = w.norm("attention_norm", x, c.norm)
    if c.parallel:
        second = normed if c.shared_norm else w.norm("mlp_norm", x, c.norm)
        parts = w.add("parallel_add", _attention(b, normed, caches, layer, False), _mlp(b, second, layer, False))
        return w.add("residual", x, _reduced(b, "all_reduce", parts))
    x = w.add("attention_residual", x, _after(b, "attention_after_norm", _attention(b, normed, caches, layer)))
    return w.add("mlp_residual", x, _after(b, "mlp_after_norm", _mlp(b, w.norm("mlp_norm", x, c.norm), layer)))


def _after(b: _Build, name: str, part: Value) -> Value:
    """A part's result, normalised once more where the model does."""
    return b.w.norm(name, part, b.config.norm) if b.config.sandwich_norm else part


def _attention(b: _Build, x: Value, caches: list[Value], layer: int, reduce: bool = True) -> Value:
    c, w = b.config, b.w
    with w.module("attention", "Attention"):
        if c.kv_lora:
            mixed = _latent(b, x, caches, layer)
        else:
            query, key, value = _projected(b, x)
            heads = [_by_head(b, _positioned(b, "q", query)), _by_head(b, _positioned(b, "k", key)), _by_head(b, value)]
            shape = (b.batch, b.heads, b.sequence, c.value_dim)
            mixed = _full(b, shape, heads) if c.encoder else _cached(b, shape, heads, caches, layer)
        out = w.linear("o_proj", w.view(mixed, (*b.rows, b.heads * c.value_dim)), c.hidden, c.o_bias)
        return _reduced(b, "all_reduce", out) if reduce else out


def _full(b: _Build, shape: tuple[Poly | int, ...], heads: list[Value]) -> Value:
    """Every token sees every other."""
    with b.w.module("sdpa", "ScaledDotProduct"):
        target = "aten.scaled_dot_product_attention.default"
        return b.w.call(target, shape, query=heads[0], key=heads[1], value=heads[2])


def _projected(b: _Build, x: Value) -> list[Value]:
    """Query, key and value, each (batch, sequence, heads, width)."""
    c, w = b.config, b.w
    counts, widths = (b.heads, b.kv_heads, b.kv_heads), (c.head_dim, c.head_dim, c.value_dim)
    parts = list(zip(counts, widths, strict=True))
    if c.fused_qkv:
        packed = w.linear("qkv_proj", x, sum(count * width for count, width in parts), c.qkv_bias)
        return w.views(packed, [(*b.rows, count, width) for count, width in parts])
    names = ("q_proj", "k_proj", "v_proj")
    wide = [w.linear(n, x, count * width, c.qkv_bias) for n, (count, width) in zip(names, parts, strict=True)]
    if c.qk_norm == "full":
        wide[:2] = [w.norm(f"{n}_norm", part, c.norm) for n, part in zip("qk", wide, strict=False)]
    return [w.view(part, (*b.rows, count, width)) for part, (count, width) in zip(wide, parts, strict=True)]


def _latent(b: _Build, x: Value, caches: list[Value], layer: int) -> Value:
    """Multi-head latent attention: the cache keeps one vector per token. Prefill expands it to keys and values of
    all heads; decoding moves the expansion to the queries and results, and attends to the vectors themselves."""
    c, w = b.config, b.w
    plain = c.head_dim - c.rotary  # the part of a head that is not rotated
    query = _latent_query(b, x)
    packed = w.linear("kv_a_proj", x, c.kv_lora + c.rotary)
    vector, turned = w.views(packed, [(*b.rows, c.kv_lora), (*b.rows, 1, c.rotary)])
    vector, turned = w.norm("kv_a_norm", vector, c.norm), _rotated(b, "k", turned)
    past = _past(b, caches, layer, (b.batch, b.kv, c.kv_lora + c.rotary), "latent")
    caches += [_appended(b, [vector, turned], (*b.rows, c.kv_lora + c.rotary))]
    if b.run.phase == "decode":
        absorbed = _per_head(b, "kv_b_query", query, (plain, c.kv_lora), c.kv_lora + c.rotary)
        shape = (b.batch, b.heads, b.sequence, c.kv_lora)
        vectors = w.view(caches[-1], (b.batch, 1, b.sequence, c.kv_lora + c.rotary))
        seen = _attend(b, shape, absorbed, [vectors], [past], layer)
        return _per_head(b, "kv_b_value", seen, (c.kv_lora, c.value_dim), c.value_dim)
    with w.module("cache_read", "Cache"):
        rows = (b.batch, b.sequence + b.kv, c.kv_lora)
        both = w.call("hwexplorer.cache_read.default", rows, new=caches[-1], past=past)
    wide = w.linear("kv_b_proj", both, b.heads * (plain + c.value_dim))
    tall = (b.batch, b.heads, b.sequence + b.kv)
    key, value = w.views(wide, [(*tall, c.head_dim), (*tall, c.value_dim)])
    return _attend(b, (b.batch, b.heads, b.sequence, c.value_dim), _by_head(b, query), [key, value], [], layer)


def _latent_query(b: _Build, x: Value) -> Value:
    c, w = b.config, b.w
    if c.q_lora:
        x = w.norm("q_a_norm", w.linear("q_a_proj", x, c.q_lora), c.norm)
    wide = w.linear("q_b_proj" if c.q_lora else "q_proj", x, b.heads * c.head_dim)
    return _rotated(b, "q", w.view(wide, (*b.rows, b.heads, c.head_dim)))


def _per_head(b: _Build, name: str, x: Value, widths: tuple[int, int], width: int) -> Value:
    """A matrix of its own for every head, from one of the widths to the other; the rest of a head passes by."""
    w, (inner, outer) = b.w, widths
    with w.module(name, "HeadLinear"):
        weight = w.weight("weight", (b.heads, outer, inner))
        return w.call("hwexplorer.head_linear.default", (b.batch, b.heads, b.sequence, width), input=x, weight=weight)


def _positioned(b: _Build, name: str, x: Value) -> Value:
    """Normalised per head and rotated, where the model does."""
    c, w = b.config, b.w
    if c.qk_norm == "head":
        x = w.norm(f"{name}_norm", x, c.norm)
    return _rotated(b, name, x) if c.position == "rotary" else x


def _rotated(b: _Build, name: str, x: Value) -> Value:
    table = b.w.buffer("rotary.cos_sin", (b.sequence, b.config.rotary))
    with b.w.module(f"rotary_{name}", "Rotary"):
        return b.w.call("hwexplorer.rotary.default", x.shape, input=x, table=table, rotated=b.config.rotary)


def _by_head(b: _Build, x: Value) -> Value:
    return b.w.view(x, (b.batch, x.shape[2], b.sequence, x.shape[3]))


def _past(b: _Build, caches: list[Value], layer: int, shape: tuple[Poly | int, ...], name: str) -> Value:
    """What the cache holds of earlier tokens: those within the window, where there is one."""
    window = b.config.window_of(layer)
    kept = dim(cached_dim(window)) if window else b.kv
    return b.w.input(f"layers.{layer}.attention.{name}_cache", tuple(kept if size is b.kv else size for size in shape))


def _appended(b: _Build, parts: list[Value], shape: tuple[Poly | int, ...]) -> Value:
    with b.w.module("cache_append", "Cache"):
        named = {f"part{i}": part for i, part in enumerate(parts)}
        return b.w.call("hwexplorer.cache_append.default", shape, **named)


def _cached(b: _Build, shape: tuple[Poly | int, ...], heads: list[Value], caches: list[Value], layer: int) -> Value:
    """New keys and values join the cache; attention reads what was there and what is new."""
    c, w = b.config, b.w
    query, key, value = heads
    widths = {"k": c.head_dim, "v": c.value_dim}
    past = [_past(b, caches, layer, (b.batch, b.kv_heads, b.kv, width), name) for name, width in widths.items()]
    with w.module("cache_append", "Cache"):
        new = w.calls("hwexplorer.cache_append.default", [key.shape, value.shape], key=key, value=value)
    caches += new
    return _attend(b, shape, query, new, past, layer)


def _attend(
    b: _Build, shape: tuple[Poly | int, ...], query: Value, new: list[Value], past: list[Value], layer: int
) -> Value:
    """Attention of new tokens to themselves and to what the cache holds: keys, and values unless keys serve as such."""
    window = b.config.window_of(layer)
    seen = dim(attended_dim(window)) if window else b.kv + (b.sequence + 1).half
    named = {f"new{i}": part for i, part in enumerate(new[1:])} | {f"past{i}": part for i, part in enumerate(past)}
    if b.config.sinks:
        named["sinks"] = b.w.weight("sinks", (b.heads,))
    with b.w.module("sdpa", "ScaledDotProduct"):
        target = "hwexplorer.cached_attention.default"
        return b.w.call(target, shape, query=query, key=new[0], seen=seen, **named)


def _mlp(b: _Build, x: Value, layer: int, reduce: bool = True) -> Value:
    c, w = b.config, b.w
    with w.module("mlp", "MLP"):
        y = _experts(b, x) if c.is_sparse(layer) else _dense(b, x, c.ffn)
        return _reduced(b, "all_reduce", y) if reduce else y


def _dense(b: _Build, x: Value, width: int) -> Value:
    c, w = b.config, b.w
    part = b.part(width)
    if c.gated:
        gate = w.activation(c.activation, w.linear("gate_proj", x, part, c.mlp_bias))
        wide = _gated(b, gate, w.linear("up_proj", x, part, c.mlp_bias))
    else:
        wide = w.activation(c.activation, w.linear("up_proj", x, part, c.mlp_bias))
    return w.linear("down_proj", wide, c.hidden, c.mlp_bias)


def _gated(b: _Build, gate: Value, up: Value) -> Value:
    with b.w.module("gate_mul", "Mul"):
        return b.w.call("aten.mul.Tensor", gate.shape, self=gate, other=up)


def _experts(b: _Build, x: Value) -> Value:
    c, w = b.config, b.w
    logits = w.linear("router", x, c.experts, c.router_bias)
    with w.module("router_softmax", "Softmax"):
        scores = w.call("aten.softmax.int", logits.shape, self=logits, dim=-1)
    chosen = (*b.rows, c.active)
    with w.module("router_topk", "TopK"):
        top, which = w.calls("aten.topk.default", [chosen, chosen], ("float32", "int64"), self=scores, k=c.active)
    with w.module("dispatch", "Dispatch"):
        tokens = w.call("hwexplorer.expert_dispatch.default", (*chosen, c.hidden), input=x, indices=which)
    with w.module("experts", "Experts"):
        up = _expert(b, "up_proj", tokens, b.part(c.expert_ffn))
        if c.gated:
            gate = w.activation(c.activation, _expert(b, "gate_proj", tokens, b.part(c.expert_ffn)))
            up = _gated(b, gate, up)
        else:
            up = w.activation(c.activation, up)
        down = _expert(b, "down_proj", up, c.hidden)
    with w.module("combine", "Combine"):
        y = w.call("hwexplorer.expert_combine.default", x.shape, input=down, weights=top)
    if not c.shared_ffn:
        return y
    with w.module("shared_expert", "MLP"):
        shared = _dense(b, x, c.shared_ffn)
    return w.add("shared_add", y, shared)


def _expert(b: _Build, name: str, x: Value, width: int) -> Value:
    """One matrix of every expert, applied to the tokens that chose it."""
    w = b.w
    with w.module(name, "ExpertLinear"):
        weight = w.weight("weight", (b.config.experts, width, x.shape[-1]))
        bias = {"bias": w.weight("bias", (b.config.experts, width))} if b.config.mlp_bias else {}
        return w.call("hwexplorer.expert_linear.default", (*x.shape[:-1], width), weight=weight, input=x, **bias)


def _reduced(b: _Build, name: str, x: Value) -> Value:
    """The sum over devices of what each has computed of x; x itself on one device."""
    if b.run.tp == 1:
        return x
    with b.w.module(name, "AllReduce"):
        return b.w.call("hwexplorer.all_reduce.default", x.shape, input=x)


def _head(b: _Build, x: Value, table: Value) -> Value:
    """Logits: after prefill those of the last token."""
    c, w = b.config, b.w
    x = w.norm("norm", x, c.norm)
    if b.run.phase == "prefill":
        x = w.view(x, (b.batch, poly(1), c.hidden))
    part = b.part(c.vocab)
    logits = w.tied_linear("lm_head", x, table) if c.tied else w.linear("lm_head", x, part, c.head_bias)
    if b.run.tp == 1:
        return logits
    with w.module("all_gather", "AllGather"):
        return w.call("hwexplorer.all_gather.default", (*logits.shape[:-1], part * b.run.tp), input=logits)


def _pooled(b: _Build, x: Value) -> list[Value]:
    """An encoder's results: every token, and the first one through the pooler."""
    c, w = b.config, b.w
    x = x if c.post_norm else w.norm("norm", x, c.norm)
    if not c.pooler:
        return [x]
    with w.module("pooler", "Pooler"):
        first = w.view(x, (b.batch, c.hidden))
        return [x, w.activation("tanh", w.linear("dense", first, c.hidden, bias=True))]
