"""Transformers written from their configuration: a graph like a captured one, without torch and without weights.

Live dimensions of a decoder: `batch`, `sequence` (new tokens of each) and `kv` (tokens of each whose keys and values
are cached). Attention of the new tokens sees both. The cache is an input of the step, resident while it runs, and the
new keys and values are results: together they are the cache after the step.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from ...errors import ModelSpecError
from ...graph import Graph, InputShape
from ...lengths import DECODING, EXPERT_ROWS, EXPERTS, Routing, attended_dim, cached_dim
from ...lower import lower
from ...poly import Poly, dim, poly
from ...workload import Parallel, Workload
from . import rules as _rules  # noqa: F401  # registers what its calls cost
from .config import Config, Run, degrees
from .writer import Tensor, Writer


@dataclass(frozen=True, slots=True)
class _Build:
    """A model being written: widths are those of one of `tp` devices."""

    config: Config
    run: Run
    w: Writer
    batch: Poly
    sequence: Poly
    kv: Poly
    phase: str = ""
    room: Poly = field(default_factory=Poly)  # tokens that the cache of a request has room for

    @property
    def heads(self) -> int:
        return self.config.heads // self.run.tp

    @property
    def kv_heads(self) -> int:
        return max(1, self.config.kv_heads // self.run.tp)

    @property
    def cached_width(self) -> int:
        """Elements that a layer on one device keeps of each token."""
        c = self.config
        return c.kv_lora + c.rotary if c.kv_lora else self.kv_heads * (c.head_dim + c.value_dim)

    @property
    def rows(self) -> tuple[Poly, Poly]:
        return self.batch, self.sequence

    def cached(self, layer: int) -> Poly:
        """Earlier tokens that a step reads from the cache."""
        window = self.config.window_of(layer)
        return dim(cached_dim(window, self.phase)) if window else self.kv

    def part(self, width: int) -> int:
        """One device's share of a width, rounded up."""
        return -(-width // self.run.tp)


def build(name: str, config: Config, run: Run, origin: str = "configuration") -> Workload:
    """The workload of one step or request. Raises ModelSpecError where the devices cannot share the model evenly."""
    if run.tp not in degrees(config):
        allowed = ", ".join(str(degree) for degree in degrees(config))
        raise ModelSpecError(f"tp={run.tp} does not divide heads and FFN evenly; allowed: {allowed}")
    graph = _graph(config, run)
    workload = lower(graph, name, family=family(config), origin=origin)
    lengths = {"sequence": run.sequence, "kv": run.kv, "output": run.output}
    return msgspec.structs.replace(
        workload,
        defaults={name: value for name, value in lengths.items() if name in graph.dims},
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
    prompt = _Build(config, run, w, dim("batch"), dim("sequence"), dim("kv"))
    ids = InputShape("input_ids", "int64", ("batch", "sequence"))
    if config.encoder:
        return w.graph(_pooled(prompt, _layers(prompt, [])[0]), (ids,), ("batch", "sequence"), _notes(config, run))
    dims, caches = ["batch", "sequence", "output" if run.phase == "request" else "kv"], list[Tensor]()
    if run.phase == "request":
        results, repeats = _request(prompt), {"decode": dim("output") - 1}
    else:
        results, repeats = [_head(prompt, *_layers(prompt, caches))], {}
    cache = InputShape("kv_cache", "float32", (config.layers, "batch", dims[-1], prompt.cached_width))
    for phase in ("", DECODING) if run.phase == "request" else ("",):
        dims += [name(window, phase) for window in windows(config) for name in (attended_dim, cached_dim)]
        dims += [EXPERTS + phase, EXPERT_ROWS + phase] if config.experts else []
    return w.graph([*results, *caches], (ids, cache), tuple(dims), _notes(config, run), repeats)


def _request(prompt: _Build) -> list[Tensor]:
    """The prompt, then one token at a time: each step is the same graph after more tokens, so it is written once, at
    the mean length, and counted as often as it runs. The cache has room for all tokens from the start."""
    w, output = prompt.w, dim("output")
    first = replace(prompt, run=msgspec.structs.replace(prompt.run, phase="prefill"), kv=poly(0))
    with w.phase("prefill", "Prefill"):
        start = _head(first, *_layers(first, []))
    # Step i of output - 1 sees the prompt and i - 1 tokens before its own.
    before = prompt.sequence + output.half - 1
    run = msgspec.structs.replace(prompt.run, phase="decode")
    room = prompt.sequence + output
    step = replace(prompt, run=run, sequence=poly(1), kv=before, phase=DECODING, room=room)
    with w.phase("decode", "Decode"):
        return [start, _head(step, *_layers(step, []))]


def _layers(b: _Build, caches: list[Tensor]) -> tuple[Tensor, Tensor]:
    """The result of the last layer, and the embedding table."""
    x, table = _embed(b)
    for layer in range(b.config.layers):
        with b.w.module(f"layers.{layer}", "Layer"):
            x = _layer(b, x, layer, caches)
    return x, table


def _notes(config: Config, run: Run) -> tuple[str, ...]:
    notes = [] if config.encoder else ["sampling is not counted"]
    if config.experts:
        notes.append(
            f"tokens choose {config.active} of {config.experts} experts evenly and independently: T tokens touch "
            f"{config.experts} (1 - (1 - {config.active}/{config.experts})^T) of them"
        )
    if run.tp > 1:
        notes.append(
            f"one of {run.tp} devices; collectives over "
            + (f"{run.link / 1e9:g} GB/s in each direction" if run.link else "the links of the device")
            + ", without the energy of the links"
        )
    return tuple(notes)


def _embed(b: _Build) -> tuple[Tensor, Tensor]:
    c, w = b.config, b.w
    ids = w.input("input_ids", b.rows, "int64")
    x, table = w.embedding("embed_tokens", ids, b.part(c.vocab), c.hidden)
    x = _reduced(b, "embed_reduce", x)
    if c.scale_embedding:
        with w.module("embed_scale", "Scale"):
            x = w.call("aten.mul.Scalar", x.shape, self=x, other=2)
    if c.position == "learned":
        positions = w.input("position_ids", (b.sequence,), "int64")
        rows, _ = w.embedding("embed_positions", positions, c.positions, c.hidden)
        x = w.add("embed_add", x, rows)
    if c.token_types:
        types = w.input("token_type_ids", b.rows, "int64")
        rows, _ = w.embedding("embed_token_types", types, c.token_types, c.hidden)
        x = w.add("embed_types_add", x, rows)
    return (w.norm("embed_norm", x, c.norm) if c.post_norm or c.embed_norm else x), table


def _layer(b: _Build, x: Tensor, layer: int, caches: list[Tensor]) -> Tensor:
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


def _after(b: _Build, name: str, part: Tensor) -> Tensor:
    """A part's result, normalised once more where the model does."""
    return b.w.norm(name, part, b.config.norm) if b.config.sandwich_norm else part


def _attention(b: _Build, x: Tensor, caches: list[Tensor], layer: int, reduce: bool = True) -> Tensor:
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


def _full(b: _Build, shape: tuple[Poly | int, ...], heads: list[Tensor]) -> Tensor:
    """Every token sees every other."""
    with b.w.module("sdpa", "ScaledDotProduct"):
        target = "aten.scaled_dot_product_attention.default"
        return b.w.call(target, shape, query=heads[0], key=heads[1], value=heads[2])


def _projected(b: _Build, x: Tensor) -> list[Tensor]:
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


def _latent(b: _Build, x: Tensor, caches: list[Tensor], layer: int) -> Tensor:
    """Multi-head latent attention: the cache keeps one vector per token. Prefill expands it to keys and values of
    all heads; decoding moves the expansion to the queries and results, and attends to the vectors themselves."""
    c, w = b.config, b.w
    plain = c.head_dim - c.rotary  # the part of a head that is not rotated
    query = _latent_query(b, x)
    packed = w.linear("kv_a_proj", x, c.kv_lora + c.rotary)
    vector, turned = w.views(packed, [(*b.rows, c.kv_lora), (*b.rows, 1, c.rotary)])
    vector, turned = w.norm("kv_a_norm", vector, c.norm), _rotated(b, "k", turned)
    past = _past(b, layer, 1, c.kv_lora + c.rotary)
    caches += [_appended(b, [vector, turned], (*b.rows, c.kv_lora + c.rotary))]
    if b.run.phase == "decode":
        absorbed = _per_head(b, "kv_b_query", query, (plain, c.kv_lora), c.kv_lora + c.rotary)
        shape = (b.batch, b.heads, b.sequence, c.kv_lora)
        vectors = w.view(caches[-1], (b.batch, 1, b.sequence, c.kv_lora + c.rotary))
        seen = _attend(b, shape, absorbed, [vectors], past, layer)
        return _per_head(b, "kv_b_value", seen, (c.kv_lora, c.value_dim), c.value_dim)
    with w.module("cache_read", "Cache"):
        rows = (b.batch, b.sequence + b.kv, c.kv_lora)
        before = {"past": past} if past else {}
        both = w.call("hwexplorer.cache_read.default", rows, new=caches[-1], **before)
    wide = w.linear("kv_b_proj", both, b.heads * (plain + c.value_dim))
    tall = (b.batch, b.heads, b.sequence + b.kv)
    key, value = w.views(wide, [(*tall, c.head_dim), (*tall, c.value_dim)])
    return _attend(b, (b.batch, b.heads, b.sequence, c.value_dim), _by_head(b, query), [key, value], None, layer)


def _latent_query(b: _Build, x: Tensor) -> Tensor:
    c, w = b.config, b.w
    if c.q_lora:
        x = w.norm("q_a_norm", w.linear("q_a_proj", x, c.q_lora), c.norm)
    wide = w.linear("q_b_proj" if c.q_lora else "q_proj", x, b.heads * c.head_dim)
    return _rotated(b, "q", w.view(wide, (*b.rows, b.heads, c.head_dim)))


def _per_head(b: _Build, name: str, x: Tensor, widths: tuple[int, int], width: int) -> Tensor:
    """A matrix of its own for every head, from one of the widths to the other; the rest of a head passes by."""
    w, (inner, outer) = b.w, widths
    with w.module(name, "HeadLinear"):
        weight = w.weight("weight", (b.heads, outer, inner))
        return w.call("hwexplorer.head_linear.default", (b.batch, b.heads, b.sequence, width), input=x, weight=weight)


def _positioned(b: _Build, name: str, x: Tensor) -> Tensor:
    """Normalised per head and rotated, where the model does."""
    c, w = b.config, b.w
    if c.qk_norm == "head":
        x = w.norm(f"{name}_norm", x, c.norm)
    return _rotated(b, name, x) if c.position == "rotary" else x


def _rotated(b: _Build, name: str, x: Tensor) -> Tensor:
    table = b.w.buffer("rotary.cos_sin", (b.sequence, b.config.rotary))
    with b.w.module(f"rotary_{name}", "Rotary"):
        return b.w.call("hwexplorer.rotary.default", x.shape, input=x, table=table, rotated=b.config.rotary)


def _by_head(b: _Build, x: Tensor) -> Tensor:
    return b.w.view(x, (b.batch, x.shape[2], b.sequence, x.shape[3]))


def _past(b: _Build, layer: int, heads: int, width: int) -> Tensor | None:
    """What the cache holds of earlier tokens (within the window, where there is one), or room for a whole request."""
    if not b.kv.terms:
        return None
    kept = b.cached(layer) if b.config.window_of(layer) or not b.phase else b.room
    return b.w.input(f"layers.{layer}.attention.kv_cache", (b.batch, heads, kept, width))


def _appended(b: _Build, parts: list[Tensor], shape: tuple[Poly | int, ...]) -> Tensor:
    with b.w.module("cache_append", "Cache"):
        named = {f"part{i}": part for i, part in enumerate(parts)}
        return b.w.call("hwexplorer.cache_append.default", shape, **named)


def _cached(b: _Build, shape: tuple[Poly | int, ...], heads: list[Tensor], caches: list[Tensor], layer: int) -> Tensor:
    """New keys and values join the cache; attention reads what was there and what is new."""
    c, w = b.config, b.w
    query, key, value = heads
    with w.module("cache_append", "Cache"):
        new = w.calls("hwexplorer.cache_append.default", [key.shape, value.shape], key=key, value=value)
    caches += new
    return _attend(b, shape, query, new, _past(b, layer, b.kv_heads, c.head_dim + c.value_dim), layer)


def _attend(
    b: _Build,
    shape: tuple[Poly | int, ...],
    query: Tensor,
    new: list[Tensor],
    past: Tensor | None,
    layer: int,
) -> Tensor:
    """Attention of new tokens to themselves and to what the cache holds: keys, and values unless keys serve as such."""
    window = b.config.window_of(layer)
    seen = dim(attended_dim(window, b.phase)) if window else b.kv + (b.sequence + 1).half
    # The cache stands first: it is what may be read in part.
    args: dict[str, Any] = {"past": past, "before": b.cached(layer)} if past else {}
    args |= {"query": query, "key": new[0], "seen": seen} | {f"new{i}": part for i, part in enumerate(new[1:])}
    if b.config.sinks:
        args["sinks"] = b.w.weight("sinks", (b.heads,))
    with b.w.module("sdpa", "ScaledDotProduct"):
        return b.w.call("hwexplorer.cached_attention.default", shape, **args)


def _mlp(b: _Build, x: Tensor, layer: int, reduce: bool = True) -> Tensor:
    c, w = b.config, b.w
    with w.module("mlp", "MLP"):
        y = _experts(b, x) if c.is_sparse(layer) else _dense(b, x, c.ffn)
        return _reduced(b, "all_reduce", y) if reduce else y


def _dense(b: _Build, x: Tensor, width: int) -> Tensor:
    c, w = b.config, b.w
    part = b.part(width)
    if c.gated:
        gate = w.activation(c.activation, w.linear("gate_proj", x, part, c.mlp_bias))
        wide = _gated(b, gate, w.linear("up_proj", x, part, c.mlp_bias))
    else:
        wide = w.activation(c.activation, w.linear("up_proj", x, part, c.mlp_bias))
    return w.linear("down_proj", wide, c.hidden, c.mlp_bias)


def _gated(b: _Build, gate: Tensor, up: Tensor) -> Tensor:
    with b.w.module("gate_mul", "Mul"):
        return b.w.call("aten.mul.Tensor", gate.shape, self=gate, other=up)


def _experts(b: _Build, x: Tensor) -> Tensor:
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


def _expert(b: _Build, name: str, x: Tensor, width: int) -> Tensor:
    """One matrix of every expert, applied to the tokens that chose it."""
    w = b.w
    with w.module(name, "ExpertLinear"):
        weight = w.weight("weight", (b.config.experts, width, x.shape[-1]))
        bias = {"bias": w.weight("bias", (b.config.experts, width))} if b.config.mlp_bias else {}
        return w.call(
            "hwexplorer.expert_linear.default", (*x.shape[:-1], width), weight=weight, input=x, phase=b.phase, **bias
        )


def _reduced(b: _Build, name: str, x: Tensor) -> Tensor:
    """The sum over devices of what each has computed of x; x itself on one device."""
    if b.run.tp == 1:
        return x
    with b.w.module(name, "AllReduce"):
        return b.w.call("hwexplorer.all_reduce.default", x.shape, input=x)


def _head(b: _Build, x: Tensor, table: Tensor) -> Tensor:
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


def _pooled(b: _Build, x: Tensor) -> list[Tensor]:
    """An encoder's results: every token, and the first one through the pooler."""
    c, w = b.config, b.w
    x = x if c.post_norm else w.norm("norm", x, c.norm)
    if not c.pooler:
        return [x]
    with w.module("pooler", "Pooler"):
        first = w.view(x, (b.batch, c.hidden))
        return [x, w.activation("tanh", w.linear("dense", first, c.hidden, bias=True))]
