"""Write the indexer of sparse attention, which chooses the keys that a layer attends to (arXiv 2512.02556, 2606.13392),
and keys that several tokens share."""

from __future__ import annotations

from typing import Any

from analysis.model.ir.poly import product
from analysis.model.operators.cost_rules import register
from analysis.model.operators.operator_call import OperatorCall, OperatorCost
from analysis.model.transformer.graph_writer import StepWriter, Tensor

SCORE_FLOPS = 3  # ReLU, multiply by the weight of the head, add
COMPRESS_FLOPS = 6  # add the bias, largest, subtract, sum, multiply, add


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
