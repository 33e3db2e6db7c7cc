"""Transformers written from their configuration: a graph like a captured one, without torch and without weights.

A decoder has the symbolic dimensions `batch`, `sequence` (new tokens) and `kv` (cached tokens); attention of the new
tokens sees both. The cache is an input of the step; new keys and values are results. Each layer of some decoders adds a
second embedding through a gate (Gemma 4). The end of this module has the costs of calls that only transformers make
(attention to a cache, experts, rotation).
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
from analysis.model.operators.contractions import ATTENTION_FLOPS, ATTENTION_SPECIAL
from analysis.model.operators.cost_rules import register
from analysis.model.operators.operator_call import OperatorCall, OperatorCost
from analysis.model.transformer.attention import attention
from analysis.model.transformer.config import LETTERS, Config, StepSettings, degrees
from analysis.model.transformer.feed_forward import feed_forward
from analysis.model.transformer.graph_writer import StepWriter, Tensor, Writer
from analysis.model.transformer.recurrence import mix_by_state
from analysis.model.transformer.residual import (
    add_laurel,
    close_streams,
    enter,
    enter_layer,
    leave,
    leave_layer,
    open_streams,
)
from hardware.base import file_access

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
        wide_role=config.wide_role,
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
    kinds = [
        (config.of_layer(i), config.is_sparse(i), config.window_of(i), pattern[i % len(pattern)], i // block)
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
    prompt = StepWriter(config, run, w, dim(sequences), dim("sequence"), dim("kv"))
    ids = InputSpec("input_ids", "int64", (sequences, "sequence"))
    if config.encoder:
        return w.graph(_pooled(prompt, _layers(prompt, [])[0]), (ids,), ("batch", "sequence"), _notes(config, run))
    dims, caches = ["batch", "sequence", "output" if run.phase == "request" else "kv"], list[Tensor]()
    if run.phase == "request":
        results, repeats = _request(prompt), {"decode": dim("output") - 1}
    else:
        results = [_head(prompt, *_layers(prompt, caches, times))]
        repeats = {f"layers.{layer}": poly(n) for layer, n in times.items() if n > 1}
    cache = InputSpec("kv_cache", "float32", (config.count("attention"), sequences, dims[-1], prompt.cached_width))
    dims += [SHARE] if run.spreads_sequences else []
    for phase in ("", DECODING) if run.phase == "request" else ("",):
        dims += [name(window, phase) for window in windows(config) for name in (attended_dim, cached_dim)]
        dims += [EXPERTS + phase, EXPERT_ROWS + phase] if config.experts else []
    return w.graph([*results, *caches], (ids, cache), tuple(dims), _notes(config, run), repeats)


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
    notes = [*config.notes, *([] if config.encoder else ["sampling is not counted"])]
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
    c, w = step.config, step.w
    ids = w.input("input_ids", step.rows, "int64")
    x, table = w.embedding("embed_tokens", ids, step.part(c.vocab), c.hidden)
    x = step.all_reduce("embed_reduce", x)
    if c.scale_embedding:
        x = w.call_in("embed_scale", "Scale", "aten.mul.Scalar", x.shape, self=x, other=2)
    if c.position == "learned":
        positions = w.input("position_ids", (step.sequence,), "int64")
        rows, _ = w.embedding("embed_positions", positions, c.positions, c.hidden)
        x = w.add("embed_add", x, rows)
    if c.token_types:
        types = w.input("token_type_ids", step.rows, "int64")
        rows, _ = w.embedding("embed_token_types", types, c.token_types, c.hidden)
        x = w.add("embed_types_add", x, rows)
    return (w.norm("embed_norm", x, c.norm) if c.post_norm or c.embed_norm else x), table


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
    """Write the logits; in prefill only for the last token."""
    c, w = step.config, step.w
    x = w.norm("norm", x, c.norm)
    if step.run.phase == "prefill":
        x = w.view(x, (step.batch, poly(1), c.hidden))
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
