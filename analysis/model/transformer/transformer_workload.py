"""Transformers written from their configuration: a graph like a captured one, without torch and without weights.

Live dimensions of a decoder: `batch`, `sequence` (new tokens of each) and `kv` (tokens of each whose keys and values
are cached). Attention of the new tokens sees both. The cache is an input of the step, resident while it runs, and the
new keys and values are results: together they are the cache after the step.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from analysis.model.ir.lengths import DECODING, EXPERT_ROWS, EXPERTS, SHARE, Routing, attended_dim, cached_dim
from analysis.model.ir.operator_graph import Graph, InputShape
from analysis.model.ir.poly import dim, poly
from analysis.model.ir.workload import Parallel, Workload
from analysis.model.lowering.graph_lowering import lower_graph
from analysis.model.model_errors import ModelSpecError
from analysis.model.transformer import call_costs as _rules  # noqa: F401  # registers what its calls cost
from analysis.model.transformer.attention import attention
from analysis.model.transformer.config import Config, StepSettings, degrees
from analysis.model.transformer.graph_writer import Tensor, Writer
from analysis.model.transformer.mlp import mlp
from analysis.model.transformer.step_writer import StepWriter


def build(name: str, config: Config, run: StepSettings, origin: str = "configuration") -> Workload:
    """Return the workload of one step or request. Raises ModelSpecError where the devices cannot share the model
    evenly."""
    if run.tp not in degrees(config):
        allowed = ", ".join(str(degree) for degree in degrees(config))
        raise ModelSpecError(f"tp={run.tp} does not divide heads and FFN evenly; allowed: {allowed}")
    if run.ep > 1 and (run.tp not in (1, run.ep) or not config.experts or config.experts % run.ep):
        shares = range(1, config.experts + 1) if run.tp == 1 else (1, run.tp)
        spread = [str(n) for n in shares if config.experts and config.experts % n == 0]
        raise ModelSpecError(f"ep={run.ep} does not divide the experts evenly; allowed: {', '.join(spread) or 1}")
    graph = _graph(config, run)
    workload = lower_graph(graph, name, family=family(config), origin=origin)
    lengths = {"sequence": run.sequence, "kv": run.kv, "output": run.output}
    return msgspec.structs.replace(
        workload,
        defaults={name: value for name, value in lengths.items() if name in graph.dims},
        windows=windows(config),
        routing=Routing(config.experts, config.active, run.ep) if config.experts else None,
        parallel=Parallel(max(run.tp, run.ep), run.link) if max(run.tp, run.ep) > 1 else None,
    )


def windows(config: Config) -> tuple[int, ...]:
    """Return the different windows of a decoder's attention, without that of layers that see everything."""
    return tuple(sorted({config.window_of(layer) for layer in range(config.layers)} - {0}))


def family(config: Config) -> str:
    """Return 'encoder' or 'language'."""
    return "encoder" if config.encoder else "language"


def _graph(config: Config, run: StepSettings) -> Graph:
    w = Writer("Encoder" if config.encoder else "Decoder")
    sequences = SHARE if run.spreads_sequences else "batch"
    prompt = StepWriter(config, run, w, dim(sequences), dim("sequence"), dim("kv"))
    ids = InputShape("input_ids", "int64", (sequences, "sequence"))
    if config.encoder:
        return w.graph(_pooled(prompt, _layers(prompt, [])[0]), (ids,), ("batch", "sequence"), _notes(config, run))
    dims, caches = ["batch", "sequence", "output" if run.phase == "request" else "kv"], list[Tensor]()
    if run.phase == "request":
        results, repeats = _request(prompt), {"decode": dim("output") - 1}
    else:
        results, repeats = [_head(prompt, *_layers(prompt, caches))], {}
    cache = InputShape("kv_cache", "float32", (config.layers, sequences, dims[-1], prompt.cached_width))
    dims += [SHARE] if run.spreads_sequences else []
    for phase in ("", DECODING) if run.phase == "request" else ("",):
        dims += [name(window, phase) for window in windows(config) for name in (attended_dim, cached_dim)]
        dims += [EXPERTS + phase, EXPERT_ROWS + phase] if config.experts else []
    return w.graph([*results, *caches], (ids, cache), tuple(dims), _notes(config, run), repeats)


def _request(prompt: StepWriter) -> list[Tensor]:
    """Write the prompt, then one token at a time: each step is the same graph after more tokens, so it is written once,
    at the mean length, and counted as often as it runs. The cache has room for all tokens from the start."""
    w, output = prompt.w, dim("output")
    first = replace(prompt, run=msgspec.structs.replace(prompt.run, phase="prefill"), kv=poly(0))
    with w.phase("prefill", "Prefill"):
        start = _head(first, *_layers(first, []))
    # StepWriter i of output - 1 sees the prompt and i - 1 tokens before its own.
    before = prompt.sequence + output.half - 1
    run = msgspec.structs.replace(prompt.run, phase="decode")
    room = prompt.sequence + output
    step = replace(prompt, run=run, sequence=poly(1), kv=before, phase=DECODING, room=room)
    with w.phase("decode", "Decode"):
        return [start, _head(step, *_layers(step, []))]


def _layers(step: StepWriter, caches: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the result of the last layer, and the embedding table."""
    x, table = _embed(step)
    for layer in range(step.config.layers):
        with step.w.module(f"layers.{layer}", "Layer"):
            x = _layer(step, x, layer, caches)
    return x, table


def _notes(config: Config, run: StepSettings) -> tuple[str, ...]:
    notes = [*config.notes, *([] if config.encoder else ["sampling is not counted"])]
    if config.experts:
        notes.append(
            f"tokens choose {config.active} of {config.experts} experts evenly and independently: T tokens touch "
            f"{config.experts} (1 - (1 - {config.active}/{config.experts})^T) of them"
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
        with w.module("embed_scale", "Scale"):
            x = w.call("aten.mul.Scalar", x.shape, self=x, other=2)
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
    if c.post_norm:
        x = w.norm("attention_norm", w.add("attention_residual", x, attention(step, x, caches, layer)), c.norm)
        return w.norm("mlp_norm", w.add("mlp_residual", x, mlp(step, x, layer)), c.norm)
    normed = w.norm("attention_norm", x, c.norm)
    if c.parallel:
        second = normed if c.shared_norm else w.norm("mlp_norm", x, c.norm)
        parts = w.add("parallel_add", attention(step, normed, caches, layer, False), mlp(step, second, layer, False))
        return w.add("residual", x, step.all_reduce("all_reduce", parts))
    x = w.add("attention_residual", x, _residual(step, "attention_after_norm", attention(step, normed, caches, layer)))
    return w.add("mlp_residual", x, _residual(step, "mlp_after_norm", mlp(step, w.norm("mlp_norm", x, c.norm), layer)))


def _residual(step: StepWriter, name: str, part: Tensor) -> Tensor:
    """Return a part's result, normalised once more where the model does."""
    return step.w.norm(name, part, step.config.norm) if step.config.sandwich_norm else part


def _head(step: StepWriter, x: Tensor, table: Tensor) -> Tensor:
    """Logits: after prefill those of the last token."""
    c, w = step.config, step.w
    x = w.norm("norm", x, c.norm)
    if step.run.phase == "prefill":
        x = w.view(x, (step.batch, poly(1), c.hidden))
    part = step.part(c.vocab)
    logits = w.tied_linear("lm_head", x, table) if c.tied else w.linear("lm_head", x, part, c.head_bias)
    if step.run.tp == 1:
        return logits
    with w.module("all_gather", "AllGather"):
        return w.call("hwexplorer.all_gather.default", (*logits.shape[:-1], part * step.run.tp), input=logits)


def _pooled(step: StepWriter, x: Tensor) -> list[Tensor]:
    """Return an encoder's results: every token, and the first one through the pooler."""
    c, w = step.config, step.w
    x = x if c.post_norm else w.norm("norm", x, c.norm)
    if not c.pooler:
        return [x]
    with w.module("pooler", "Pooler"):
        first = w.view(x, (step.batch, c.hidden))
        return [x, w.activation("tanh", w.linear("dense", first, c.hidden, bias=True))]
