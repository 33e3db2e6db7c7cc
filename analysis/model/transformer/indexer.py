"""Write the indexer of sparse attention, which chooses the tokens that a layer attends to (arXiv 2512.02556)."""

from __future__ import annotations

from typing import Any

from analysis.model.ir.poly import product
from analysis.model.operators.cost_rules import register
from analysis.model.operators.operator_call import OperatorCall, OperatorCost
from analysis.model.transformer.graph_writer import StepWriter, Tensor

SCORE_FLOPS = 3  # ReLU, multiply by the weight of the head, add


def index_tokens(step: StepWriter, x: Tensor, low: Tensor, caches: list[Tensor], layer: int) -> None:
    """Write the scores of all tokens by few narrow heads. The keys of the indexer are cached as well."""
    c, w = step.config, step.w
    with w.module("indexer", "Indexer"):
        query = w.view(w.linear("q_proj", low, c.index_heads * c.index_dim), (*step.rows, c.index_heads, c.index_dim))
        key = w.norm("k_norm", w.linear("k_proj", x, c.index_dim), "layer")
        caches.append(w.call_in("cache_append", "Cache", "hwexplorer.cache_append.default", key.shape, part0=key))
        args: dict[str, Any] = {}
        if step.kv.terms:
            name = f"layers.{layer}.attention.indexer.kv_cache"
            args = {"past": w.input(name, (step.batch, 1, step.capacity, c.index_dim)), "before": step.kv}
        args |= {"query": query, "key": key, "weights": w.linear("weights_proj", x, c.index_heads)}
        seen = step.kv + (step.sequence + 1).half
        w.call_in("scores", "Scores", "hwexplorer.index_scores.default", (*step.rows, c.index_topk), seen=seen, **args)


def _index_scores(call: OperatorCall) -> OperatorCost:
    """Count a product of each head with the keys of all tokens seen, and their weighted sum. The cache may have room
    for later tokens: a step reads the `before` tokens."""
    batch, rows, heads, width = call.tensor("query").shape
    scores = product((batch, rows, heads, call.args["seen"]))
    gemm = (batch, rows * heads, call.args["seen"], width)
    read = product((batch, call.args["before"], width)) if "past" in call.args else None
    return OperatorCost("matmul", scores * SCORE_FLOPS, macs=product(gemm), gemm=gemm, first_read=read)


register({"hwexplorer.index_scores": _index_scores})
