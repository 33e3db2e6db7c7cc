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
        routing=Routing(config.experts, config.active) if config.experts else None,
        parallel=Parallel(run.tp, run.link) if run.tp > 1 else None,
    )


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
        shape = (2 * config.layers, "batch", b.kv_heads, "kv", config.head_dim)
        inputs.append(InputShape("kv_cache", "float32", shape))
        dims.append("kv")
    if config.experts:
        dims += [transformer_rules.EXPERTS, transformer_rules.EXPERT_ROWS]
    return w.graph([*outputs, *caches], tuple(inputs), tuple(dims), _notes(config, run))


def _notes(config: Config, run: Run) -> tuple[str, ...]:
    notes = ["masked-out attention scores are counted; sampling is not"]
    if config.encoder:
        notes = []
    if config.window:
        notes.append(f"a window of {config.window} tokens is not modelled: beyond it attention is overstated")
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
    return (w.norm("embed_norm", x, c.norm) if c.post_norm else x), table


def _layer(b: _Build, x: Value, layer: int, caches: list[Value]) -> Value:
    c, w = b.config, b.w
    if c.post_norm:
        x = w.norm("attention_norm", w.add("attention_residual", x, _attention(b, x, caches)), c.norm)
        return w.norm("mlp_norm", w.add("mlp_residual", x, _mlp(b, x, layer)), c.norm)
    normed = w.norm("attention_norm", x, c.norm)
    if c.parallel:
        second = normed if c.shared_norm else w.norm("mlp_norm", x, c.norm)
        parts = w.add("parallel_add", _attention(b, normed, caches, False), _mlp(b, second, layer, False))
        return w.add("residual", x, _reduced(b, "all_reduce", parts))
    x = w.add("attention_residual", x, _attention(b, normed, caches))
    return w.add("mlp_residual", x, _mlp(b, w.norm("mlp_norm", x, c.norm), layer))


def _attention(b: _Build, x: Value, caches: list[Value], reduce: bool = True) -> Value:
    c, w = b.config, b.w
    with w.module("attention", "Attention"):
        query, key, value = _projected(b, x)
        query, key = _positioned(b, "q", query), _positioned(b, "k", key)
        heads = [_by_head(b, part) for part in (query, key, value)]
        shape = (b.batch, b.heads, b.sequence, c.head_dim)
        if c.encoder:
            with w.module("sdpa", "ScaledDotProduct"):
                target = "aten.scaled_dot_product_attention.default"
                found = w.call(target, shape, query=heads[0], key=heads[1], value=heads[2])
        else:
            found = _cached(b, shape, heads, caches)
        mixed = w.linear("o_proj", w.view(found, (*b.rows, b.heads * c.head_dim)), c.hidden, c.o_bias)
        return _reduced(b, "all_reduce", mixed) if reduce else mixed


def _projected(b: _Build, x: Value) -> list[Value]:
    """Query, key and value, each (batch, sequence, heads, width)."""
    c, w = b.config, b.w
    counts = (b.heads, b.kv_heads, b.kv_heads)
    if c.fused_qkv:
        packed = w.linear("qkv_proj", x, sum(counts) * c.head_dim, c.qkv_bias)
        return w.views(packed, [(*b.rows, count, c.head_dim) for count in counts])
    names = ("q_proj", "k_proj", "v_proj")
    wide = [w.linear(n, x, count * c.head_dim, c.qkv_bias) for n, count in zip(names, counts, strict=True)]
    if c.qk_norm == "full":
        wide[:2] = [w.norm(f"{n}_norm", part, c.norm) for n, part in zip("qk", wide, strict=False)]
    return [w.view(part, (*b.rows, count, c.head_dim)) for part, count in zip(wide, counts, strict=True)]


def _positioned(b: _Build, name: str, x: Value) -> Value:
    """Normalised per head and rotated, where the model does."""
    c, w = b.config, b.w
    if c.qk_norm == "head":
        x = w.norm(f"{name}_norm", x, c.norm)
    if c.position != "rotary":
        return x
    table = w.buffer("rotary.cos_sin", (b.sequence, c.rotary))
    with w.module(f"rotary_{name}", "Rotary"):
        return w.call("hwexplorer.rotary.default", x.shape, input=x, table=table, rotated=c.rotary)


def _by_head(b: _Build, x: Value) -> Value:
    return b.w.view(x, (b.batch, x.shape[2], b.sequence, x.shape[3]))


def _cached(b: _Build, shape: tuple[Poly | int, ...], heads: list[Value], caches: list[Value]) -> Value:
    """New keys and values join the cache; attention reads what was there and what is new."""
    c, w = b.config, b.w
    query, key, value = heads
    old = (b.batch, b.kv_heads, b.kv, c.head_dim)
    prefix = f"layers.{len(caches) // 2}.attention"
    past = {name: w.input(f"{prefix}.{name}_cache", old) for name in ("k", "v")}
    with w.module("cache_append", "Cache"):
        new = w.calls("hwexplorer.cache_append.default", [key.shape, value.shape], key=key, value=value)
    caches += new
    with w.module("sdpa", "ScaledDotProduct"):
        return w.call(
            "hwexplorer.cached_attention.default",
            shape,
            query=query,
            key=new[0],
            value=new[1],
            past_key=past["k"],
            past_value=past["v"],
        )


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
    logits = w.linear("router", x, c.experts)
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
        return w.call("hwexplorer.expert_linear.default", (*x.shape[:-1], width), weight=weight, input=x)


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
