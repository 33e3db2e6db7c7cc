"""Transformers written from their configuration: a graph like a captured one, without torch and without weights.

A decoder has the symbolic dimensions `batch`, `sequence` (new tokens) and `kv` (cached tokens); attention of the new
tokens sees both. The cache is an input of the step; new keys and values are results. Each layer of some decoders adds a
second embedding through a gate (Gemma 4). From layer to layer passes a sum, several streams that each part mixes (arXiv
2512.24880, 2411.07501), or attention over the results of earlier blocks of layers (arXiv 2603.15031). The end of this
module has the costs of calls that only transformers make (attention to a cache, experts, rotation).
"""

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.model.ir.operator_graph import Graph
from analysis.model.ir.poly import dim, poly, product
from analysis.model.ir.workload import (
    DECODING,
    EXPERT_ROWS,
    EXPERTS,
    SHARE,
    InputSpec,
    Parallel,
    Routing,
    Workload,
    attended_dim,
    cached_dim,
)
from analysis.model.lowering.graph_lowering import lower_graph
from analysis.model.model_errors import ModelSpecError
from analysis.model.operators.contractions import ATTENTION_FLOPS, ATTENTION_SPECIAL, OperatorCall, OperatorCost
from analysis.model.operators.cost_rules import register
from analysis.model.transformer.config import LETTERS, TRAIN, Config, StepSettings, degrees
from analysis.model.transformer.graph_writer import StepWriter, Tensor, Writer
from analysis.model.transformer.layers import attention, feed_forward, mix_by_state
from hardware.base import file_access

SINKHORN_STEPS = 20  # hc_sinkhorn_iters of all published configurations
MIX_FLOPS = 2  # multiply and add
DEPTH_TERMS = 4  # passes over each block of layers: two of its norm, one of its score, one of the sum


def open_streams(step: StepWriter, x: Tensor) -> Tensor:
    """Write the streams that the first layer reads, from the embedded tokens."""
    c, w = step.config, step.w
    step.blocks.clear()
    if c.residual == "altup":
        with w.module("altup_projections", "Streams"):
            others = [w.linear(f"{i}", x, c.hidden) for i in range(1, c.streams)]
            return _mixed(step, "stack", [x, *others], c.streams, 0)
    if c.residual == "scaled":
        return _mixed(step, "embed_scale", [x, w.weight("embed_scale", (2, c.hidden))], 1, 1)
    return _mixed(step, "streams", [x], c.streams, 0) if c.streams > 1 else x


def close_streams(step: StepWriter, x: Tensor) -> Tensor:
    """Write the vector that the last norm reads."""
    c, w = step.config, step.w
    if c.residual == "altup":
        with w.module("altup_unembed_projections", "Streams"):
            projected = [w.linear(f"{i}", w.view(x, (*step.rows, c.hidden)), c.hidden) for i in range(1, c.streams)]
            return _mixed(step, "mean", [x, *projected], 1, 1)
    if c.residual == "depth":
        return _attend_to_blocks(step, "output_residual", x)
    return _weighted(step, "stream_head", x, c.streams, 1)[0] if c.streams > 1 else x


def enter(step: StepWriter, name: str, x: Tensor, layer: int) -> tuple[Tensor, Tensor | None]:
    """Write the input of a part of a layer. Return it with the weights by which its result is added, if any."""
    c = step.config
    if c.residual == "depth":
        if name == "attention" and layer % c.block_layers == 0:
            step.blocks.append(x)
        return _attend_to_blocks(step, f"{name}_residual", x), None
    if c.residual not in ("sinkhorn", "independent"):
        return x, None
    matrix = c.streams**2 if c.residual == "sinkhorn" else 0
    return _weighted(step, f"{name}_streams", x, 2 * c.streams + matrix, 3 if matrix else 2)


def leave(step: StepWriter, name: str, x: Tensor, part: Tensor, weights: Tensor | None) -> Tensor:
    """Write the sum of what a part read and its result."""
    c = step.config
    if c.residual == "scaled":
        return _mixed(step, name, [x, part, step.w.weight(f"{name}_scale", (4, c.hidden))], 1, 4)
    if weights is None:
        return step.w.add(name, x, part)
    return _mixed(step, name, [x, part, weights], c.streams, c.streams + 1 if c.residual == "sinkhorn" else 1)


def enter_layer(step: StepWriter, x: Tensor) -> tuple[Tensor, Tensor | None]:
    """Write the input of a layer. With AltUp that is the first of the streams that it expects; return them too."""
    c, w = step.config, step.w
    if c.residual != "altup":
        return x, None
    with w.module("altup", "Streams"):
        weights = w.linear("prediction_coefs", _routed_streams(step, w.view(x, (*step.rows, c.hidden))), c.streams**2)
        streams = _mixed(step, "predict", [x, weights], c.streams, c.streams)
    return w.view(streams, (*step.rows, c.hidden)), streams


def leave_layer(step: StepWriter, y: Tensor, streams: Tensor | None) -> Tensor:
    """Write the streams after a layer: those that it expected, corrected by its result."""
    c, w = step.config, step.w
    if streams is None:
        return y
    with w.module("altup", "Streams"):
        weights = w.linear("correction_coefs", _routed_streams(step, y), c.streams)
        scale = w.weight("correct_output_scale", (c.hidden,))
        return _mixed(step, "correct", [streams, y, weights, scale], c.streams, 2)


def add_laurel(step: StepWriter, x: Tensor, part: Tensor) -> Tensor:
    """Write the sum of the attention's result and a low-rank residual of its input."""
    c, w = step.config, step.w
    with w.module("laurel", "Laurel"):
        low = w.linear("linear_right", w.linear("linear_left", x, c.laurel), c.hidden)
        return w.add("add", part, w.add("residual", x, w.norm("norm", low, c.norm)))


def _routed_streams(step: StepWriter, x: Tensor) -> Tensor:
    w = step.w
    logits = w.linear("modality_router", w.norm("router_norm", x, step.config.norm), step.config.streams)
    return w.activation("tanh", logits)


def _weighted(step: StepWriter, name: str, x: Tensor, width: int, scales: int) -> tuple[Tensor, Tensor]:
    """Write `width` weights, a product with all streams, and the sum of the streams by the first of them."""
    c, w = step.config, step.w
    with w.module(name, "Streams"):
        flat = w.view(x, (*step.rows, c.streams * c.hidden))
        logits = w.linear("fn", w.norm("norm", flat, "bare"), width)
        args = {"logits": logits, "base": w.weight("base", (width,)), "scale": w.weight("scale", (scales,))}
        balanced = SINKHORN_STEPS if c.residual == "sinkhorn" and width > c.streams else 0
        weights = w.call("hwexplorer.stream_weights.default", logits.shape, steps=balanced, **args)
        return _mixed(step, "collapse", [x, weights], 1, c.streams), weights


def _mixed(step: StepWriter, name: str, parts: list[Tensor], streams: int, terms: int) -> Tensor:
    """Write `streams` sums of `terms` weighted vectors each."""
    shape = (*step.rows, *(() if streams == 1 else (streams,)), step.config.hidden)
    args = {f"part{i}": part for i, part in enumerate(parts)}
    return step.w.call_in(name, "Mix", "hwexplorer.mix_streams.default", shape, terms=terms, **args)


def _attend_to_blocks(step: StepWriter, name: str, x: Tensor) -> Tensor:
    """Write the sum of the results of earlier blocks of layers and `x`, weighted by scores of one learned query."""
    w, width = step.w, step.config.hidden
    with w.module(name, "DepthAttention"):
        weights = [w.weight("norm.weight", (width,)), w.weight("proj.weight", (1, width))]
        terms = DEPTH_TERMS * (len(step.blocks) + 1)
        return _mixed(step, "sum", [*step.blocks, x, *weights], 1, terms)


def _mix_streams(call: OperatorCall) -> OperatorCost:
    return OperatorCost("elementwise", call.result.numel * (MIX_FLOPS * call.args["terms"]))


def _stream_weights(call: OperatorCall) -> OperatorCost:
    """Count a scale, a shift and a sigmoid or exponential of each weight, then sums and divisions by row and column."""
    weights = product(call.result.shape)
    return OperatorCost("elementwise", weights * (2 + 4 * call.args["steps"]), weights)


register({"hwexplorer.mix_streams": _mix_streams, "hwexplorer.stream_weights": _stream_weights})


_ROUTING = Path(__file__).with_name("routing.toml")


def embed_for_layers(step: StepWriter, x: Tensor) -> Tensor:
    """Write the inputs of all layers: rows of the second table plus a projection of the embedded tokens `x`."""
    c, w = step.config, step.w
    width, by_layer = c.layers * c.layer_input, (*step.rows, c.layers, c.layer_input)
    rows, _ = w.embedding("embed_layers", w.input("layer_ids", step.rows, "int64"), c.layer_vocab, width)
    mixed = w.norm("layer_input_norm", w.view(w.linear("layer_input_proj", x, width), by_layer), c.norm)
    return w.add("layer_input_add", w.view(rows, by_layer), mixed)


def add_layer_input(step: StepWriter, x: Tensor, inputs: Tensor) -> Tensor:
    """Write the sum of the residual `x` and one layer's part of `inputs`, gated by the first stream of `x`."""
    c, w = step.config, step.w
    with w.module("layer_input", "LayerInput"):
        own = w.view(inputs, (*step.rows, c.layer_input))
        stream = w.view(x, (*step.rows, c.hidden)) if c.streams > 1 else x
        gate = w.activation(c.activation, w.linear("gate", stream, c.layer_input))
        gated = w.call_in("gate_mul", "Mul", "aten.mul.Tensor", gate.shape, self=gate, other=own)
        return w.add("add", x, w.norm("norm", w.linear("proj", gated, c.hidden), c.norm))


def build(
    name: str, config: Config, run: StepSettings, origin: str = "configuration", is_merged: bool = False
) -> Workload:
    """Return the workload of one step or request. `is_merged` writes equal layers of a step once, with `repeats`: the
    same costs in a tenth of the time. Raises ModelSpecError if devices cannot share the model evenly."""
    if run.tp not in degrees(config):
        allowed = ", ".join(str(degree) for degree in degrees(config))
        raise ModelSpecError(f"tp={run.tp} does not divide heads and FFN evenly; allowed: {allowed}")
    if run.ep > 1 and (run.tp not in (1, run.ep) or not config.experts or config.experts % run.ep):
        shares = range(1, config.experts + 1) if run.tp == 1 else (1, run.tp)
        spread = [str(n) for n in shares if config.experts and config.experts % n == 0]
        raise ModelSpecError(f"ep={run.ep} does not divide the experts evenly; allowed: {', '.join(spread) or 1}")
    times = layer_times(config) if is_merged else {}
    graph = _graph(config, run, times)
    workload = _hold_all_layers(lower_graph(graph, name, family=family(config), origin=origin), times)
    lengths = {"sequence": run.sequence, "kv": run.kv, "output": run.output}
    return msgspec.structs.replace(
        workload,
        defaults={name: value for name, value in lengths.items() if name in graph.dims},
        windows=windows(config),
        wide=config.wide,
        routing=_routing(config, run.ep) if config.experts else None,
        parallel=Parallel(max(run.tp, run.ep), run.link) if max(run.tp, run.ep) > 1 else None,
    )


def _routing(config: Config, devices: int = 1) -> Routing:
    spread = file_access.shipped(_ROUTING)["popularity"]["value"]
    return Routing(config.experts, config.active, devices, spread)


def _touched(config: Config, tokens: int) -> int:
    return round(_routing(config).expert_load(tokens)[0])


@lru_cache(64)
def layer_times(config: Config) -> dict[int, int]:
    """Return the layers that represent the whole stack, and how often each runs. The sequence of layers whose
    repetitions save the most is kept once, between neighbours as in every repetition; then those before and after."""
    pattern, block = config.pattern, config.block_layers or config.layers
    stored = [[(path.partition(f"layers.{i}.")[2], role) for path, role in config.wide] for i in range(config.layers)]
    kinds = [
        (config.of_layer(i), config.is_sparse(i), config.window_of(i), pattern[i % len(pattern)], i // block, stored[i])
        for i in range(config.layers)
    ]
    return _merged_times(kinds, 0, config.layers)


def _merged_times(kinds: list[tuple[Any, ...]], start: int, stop: int) -> dict[int, int]:
    body, most = range(start), 1
    for period in range(1, (stop - start) // 2 + 1):
        alike = 0  # consecutive layers equal to those a period before; the last layer always stays
        for layer in range(start + period, stop - 1):
            alike = alike + 1 if kinds[layer] == kinds[layer - period] else 0
            begin = layer - period - alike + 2  # the layer before it equals the last of the body
            times = (layer - begin + 1) // period
            if (times - 1) * period > (most - 1) * len(body):
                body, most = range(begin, begin + period), times
    if most == 1:
        return dict.fromkeys(range(start, stop), 1)
    after = _merged_times(kinds, body.start + most * len(body), stop)
    return _merged_times(kinds, start, body.start) | dict.fromkeys(body, most) | after


def _hold_all_layers(workload: Workload, times: dict[int, int]) -> Workload:
    """Return the workload with the weights and caches of all layers that its layers represent."""
    tensors, numel = workload.tensors, workload.tensors.numel.copy()
    for t in np.flatnonzero(tensors.producer < 0).tolist():
        top, _, path = tensors.name[t].partition(".")
        numel[t] *= times.get(int(path.partition(".")[0]), 1) if top == "layers" else 1
    return msgspec.structs.replace(workload, tensors=msgspec.structs.replace(tensors, numel=numel))


def windows(config: Config) -> tuple[int, ...]:
    """Return the distinct limits of tokens that layers of a decoder attend to; layers without a limit have none."""
    return tuple(sorted({limit for layer in range(config.layers) for limit, _ in config.spans_of(layer)} - {0}))


def family(config: Config) -> str:
    """Return the family of the workload: 'encoder' or 'language'."""
    return "encoder" if config.encoder else "language"


def _graph(config: Config, run: StepSettings, times: dict[int, int]) -> Graph:
    w = Writer("Encoder" if config.encoder else "Decoder")
    sequences = SHARE if run.spreads_sequences else "batch"
    is_trained = run.phase == TRAIN
    prompt = StepWriter(config, run, w, dim(sequences), dim("sequence"), poly(0) if is_trained else dim("kv"))
    ids = InputSpec("input_ids", "int64", (sequences, "sequence"))
    if config.encoder:
        return w.graph(_pooled(prompt, _layers(prompt, [])[0]), (ids,), ("batch", "sequence"), _notes(config, run))
    dims, caches = ["batch", "sequence", "output" if run.phase == "request" else "kv"], list[Tensor]()
    if run.phase == "request":
        results, repeats = _request(prompt), {"decode": dim("output") - 1}
    else:
        results = [_head(prompt, *_layers(prompt, caches, times))]
        repeats = {f"layers.{layer}": poly(n) for layer, n in times.items() if n > 1}
    dims = dims[:2] if is_trained else dims
    cache = InputSpec("kv_cache", "float32", (config.count("attention"), sequences, dims[-1], prompt.cached_width))
    dims += [SHARE] if run.spreads_sequences else []
    for phase in ("", DECODING) if run.phase == "request" else ("",):
        dims += [name(window, phase) for window in windows(config) for name in (attended_dim, cached_dim)]
        dims += [EXPERTS + phase, EXPERT_ROWS + phase] if config.experts else []
    inputs = (ids,) if is_trained else (ids, cache)
    return w.graph([*results, *caches * (not is_trained)], inputs, tuple(dims), _notes(config, run), repeats)


def _request(prompt: StepWriter) -> list[Tensor]:
    """Write the prefill, then one decoding step at the mean length, to be repeated `output` - 1 times."""
    w, output = prompt.w, dim("output")
    first = replace(prompt, run=msgspec.structs.replace(prompt.run, phase="prefill"), kv=poly(0))
    with w.phase("prefill", "Prefill"):
        start = _head(first, *_layers(first, []))
    # Step i of output - 1 sees the prompt and i - 1 generated tokens before its own.
    before = prompt.sequence + output / 2 - 1
    run = msgspec.structs.replace(prompt.run, phase="decode")
    room = prompt.sequence + output
    step = replace(prompt, run=run, sequence=poly(1), kv=before, phase=DECODING, room=room)
    with w.phase("decode", "Decode"):
        return [start, _head(step, *_layers(step, []))]


def _layers(step: StepWriter, caches: list[Tensor], layers: Iterable[int] = ()) -> tuple[Tensor, Tensor]:
    x, table = _embed(step)
    inputs = embed_for_layers(step, x) if step.config.layer_input else None
    x = open_streams(step, x)
    for layer in layers or range(step.config.layers):
        with step.w.module(f"layers.{layer}", "Layer"):
            at_layer = step.at_layer(layer)
            x, streams = enter_layer(at_layer, x)
            x = leave_layer(at_layer, _layer(at_layer, x, layer, caches), streams)
            x = add_layer_input(step, x, inputs) if inputs else x
    return close_streams(step, x), table


def _notes(config: Config, run: StepSettings) -> tuple[str, ...]:
    notes = [*config.notes]
    if config.experts:
        notes.append(
            f"tokens choose {config.active} of {config.experts} experts, some more often than others: "
            f"{_touched(config, 1)} and {_touched(config, 64)} are read for 1 and 64 tokens"
        )
    if run.ep > 1:
        notes.append(
            f"each of {run.ep} devices has {'its sequences and ' if run.spreads_sequences else ''}"
            f"{config.experts // run.ep} experts: the busiest is counted"
        )
    if max(run.tp, run.ep) > 1:
        notes.append(
            f"one of {max(run.tp, run.ep)} devices; collectives over "
            + (f"{run.link / 1e9:g} GB/s in each direction" if run.link else "the links of the device")
            + ", without the energy of the links"
        )
    return tuple(notes)


def _embed(step: StepWriter) -> tuple[Tensor, Tensor]:
    c, w, width = step.config, step.w, step.config.embed or step.config.hidden
    ids = w.input("input_ids", step.rows, "int64")
    x, table = w.embedding("embed_tokens", ids, step.part(c.vocab), width)
    x = step.all_reduce("embed_reduce", x)
    if c.scale_embedding:
        x = w.call_in("embed_scale", "Scale", "aten.mul.Scalar", x.shape, self=x, other=2)
    if c.position == "learned":
        positions = w.input("position_ids", (step.sequence,), "int64")
        rows, _ = w.embedding("embed_positions", positions, c.positions, width)
        x = w.add("embed_add", x, rows)
    if c.token_types:
        types = w.input("token_type_ids", step.rows, "int64")
        rows, _ = w.embedding("embed_token_types", types, c.token_types, width)
        x = w.add("embed_types_add", x, rows)
    x = w.norm("embed_norm", x, c.norm) if c.post_norm or c.embed_norm else x
    return (x if width == c.hidden else w.linear("embed_proj", x, c.hidden, bias=True)), table


def _layer(step: StepWriter, x: Tensor, layer: int, caches: list[Tensor]) -> Tensor:
    c, w = step.config, step.w
    if not LETTERS[c.pattern[layer % len(c.pattern)]]:
        return x
    if c.post_norm:
        x = w.norm("attention_norm", w.add("attention_residual", x, attention(step, x, caches, layer)), c.norm)
        return w.norm("mlp_norm", w.add("mlp_residual", x, feed_forward(step, x, layer)), c.norm)
    read, weights = enter(step, "attention", x, layer)
    normed = w.norm("attention_norm", read, c.norm)
    if c.parallel:
        second = normed if c.shared_norm else w.norm("mlp_norm", x, c.norm)
        parts = w.add(
            "parallel_add", attention(step, normed, caches, layer, False), feed_forward(step, second, layer, False)
        )
        return w.add("residual", x, step.all_reduce("all_reduce", parts))
    if mixed := _mix(step, normed, caches, layer):
        mixed = _residual(step, "attention_after_norm", mixed)
        x = leave(step, "attention_residual", x, add_laurel(step, normed, mixed) if c.laurel else mixed, weights)
    if not c.has("ffn", layer):
        return x
    if mixed:
        read, weights = enter(step, "mlp", x, layer)
        normed = w.norm("mlp_norm", read, c.norm)
    return leave(step, "mlp_residual", x, _residual(step, "mlp_after_norm", feed_forward(step, normed, layer)), weights)


def _mix(step: StepWriter, x: Tensor, caches: list[Tensor], layer: int) -> Tensor | None:
    """Write the attention, the recurrent mixer or the sum of both. Return None for a layer with neither."""
    c, mixed = step.config, None
    if c.has("attention", layer):
        mixed = attention(step, x, caches, layer, not c.has("mixer", layer))
    if c.has("mixer", layer):
        own = mix_by_state(step, x, layer)
        mixed = step.all_reduce("all_reduce", step.w.add("parallel_add", mixed, own) if mixed else own)
    return mixed


def _residual(step: StepWriter, name: str, part: Tensor) -> Tensor:
    return step.w.norm(name, part, step.config.norm) if step.config.sandwich_norm else part


def _head(step: StepWriter, x: Tensor, table: Tensor) -> Tensor:
    """Write the logits, of a model that classifies those of its labels; in prefill only for the last token."""
    c, w = step.config, step.w
    x = w.norm("norm", x, c.norm)
    if step.run.phase == "prefill":
        x = w.view(x, (step.batch, poly(1), c.hidden))
    if c.labels:
        return w.linear("score", x, c.labels, c.head_bias)
    part = step.part(c.vocab)
    logits = w.linear("lm_head", x, part, c.head_bias and not c.tied, table if c.tied else None)
    if step.run.tp == 1:
        return logits
    with w.module("all_gather", "AllGather"):
        return w.call("hwexplorer.all_gather.default", (*logits.shape[:-1], part * step.run.tp), input=logits)


def _pooled(step: StepWriter, x: Tensor) -> list[Tensor]:
    """Return the results of an encoder: all tokens, and the pooled first token if there is a pooler."""
    c, w = step.config, step.w
    x = x if c.post_norm else w.norm("norm", x, c.norm)
    if not c.pooler:
        return [x]
    with w.module("pooler", "Pooler"):
        first = w.view(x, (step.batch, c.hidden))
        return [x, w.activation("tanh", w.linear("dense", first, c.hidden, bias=True))]


# --- costs of the calls that only written transformers make -------------------------------------------------

ROTARY_FLOPS = 3  # x cos + rotate(x) sin


def _cached_attention(call: OperatorCall) -> OperatorCost:
    """Count softmax(Q K^T) V over the tokens seen. Query heads with the same key/value head are rows of one product.
    Of the cache, which may have room for later tokens, a step reads the `before` tokens."""
    query, key = call.tensor("query"), call.tensor("key")
    batch, heads, rows, width = query.shape
    groups = heads.constant() // key.shape[1].constant()
    seen = call.args["seen"]
    scores = product((batch, heads, rows, seen))
    gemm = (batch * key.shape[1], rows * groups, seen, width)
    flops, special, macs = scores * ATTENTION_FLOPS, scores * ATTENTION_SPECIAL, scores * (width + call.result.shape[3])
    read = None
    if "past" in call.args:
        sequences, key_heads, _, cached = call.tensor("past").shape
        read = product((sequences, key_heads, call.args["before"], cached))
    return OperatorCost("attention", flops, special, macs, gemm, first_read=read)


def _head_linear(call: OperatorCall) -> OperatorCost:
    heads, outer, inner = call.tensor("weight").shape
    rows = call.result.shape[0] * call.result.shape[2]
    return OperatorCost("matmul", macs=product((heads, rows, outer, inner)), gemm=(heads, rows, outer, inner))


def _rotary(call: OperatorCall) -> OperatorCost:
    return OperatorCost("elementwise", product(call.result.shape[:-1]) * (call.args["rotated"] * ROTARY_FLOPS))


register(
    {
        "hwexplorer.cached_attention": _cached_attention,
        "hwexplorer.rotary": _rotary,
        "hwexplorer.head_linear": _head_linear,
        "hwexplorer.cache_append": lambda call: OperatorCost("copy"),
        "hwexplorer.cache_read": lambda call: OperatorCost("copy"),
        "hwexplorer.all_reduce": lambda call: OperatorCost("all_reduce", call.result.numel),
        "hwexplorer.all_gather": lambda call: OperatorCost("all_gather"),
        "hwexplorer.all_to_all": lambda call: OperatorCost("all_to_all"),
    }
)
