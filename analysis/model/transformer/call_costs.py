"""Costs of the calls that only written transformers make: attention over a cache, experts, rotation, collectives."""

from __future__ import annotations

from analysis.model.ir.lengths import EXPERT_ROWS, EXPERTS
from analysis.model.ir.poly import dim, product
from analysis.model.operators.contractions import ATTENTION_FLOPS, ATTENTION_SPECIAL
from analysis.model.operators.cost_rules import register
from analysis.model.operators.operator_call import OperatorCall, OperatorCost

ROTARY_FLOPS = 3  # x cos + rotate(x) sin


def _cached_attention(call: OperatorCall) -> OperatorCost:
    """Count softmax(Q [K_past K]^T) [V_past V] over the tokens that each new one sees. Query heads that share a
    key/value head are rows of one product."""
    query, key = call.tensor("query"), call.tensor("key")
    batch, heads, rows, width = query.shape
    groups = heads.constant() // key.shape[1].constant()
    seen = call.args["seen"]
    scores = product((batch, heads, rows, seen))
    gemm = (batch * key.shape[1], rows * groups, seen, width)
    return OperatorCost(
        "attention", scores * ATTENTION_FLOPS, scores * ATTENTION_SPECIAL, scores * (width + call.result.shape[3]), gemm
    )


def _head_linear(call: OperatorCall) -> OperatorCost:
    """Multiply the tokens of each head by its own matrix; only the part of a head that the matrix is wide is
    multiplied."""
    heads, outer, inner = call.tensor("weight").shape
    rows = call.result.shape[0] * call.result.shape[2]
    return OperatorCost("matmul", macs=product((heads, rows, outer, inner)), gemm=(heads, rows, outer, inner))


def _expert_linear(call: OperatorCall) -> OperatorCost:
    """Multiply the tokens of each touched expert; its weights are read once, the others' not at all."""
    weight = call.tensor("weight")
    _, outer, inner = weight.shape
    touched = dim(EXPERTS + call.args["phase"])
    gemm = (touched, dim(EXPERT_ROWS + call.args["phase"]), outer, inner)
    read = touched * outer * inner
    # Of several devices the busiest has more tokens than the mean, of which all are counted.
    macs = product(gemm) if call.args["spread"] else call.result.numel * inner
    return OperatorCost("matmul", macs=macs, gemm=gemm, first_read=read)


def _rotary(call: OperatorCall) -> OperatorCost:
    """Count the rotation of the first `rotated` elements of each head."""
    rows = product(call.result.shape[:-1])
    return OperatorCost("elementwise", rows * (call.args["rotated"] * ROTARY_FLOPS))


def _combine(call: OperatorCall) -> OperatorCost:
    """Count the weighted sum of the experts' results of each token."""
    return OperatorCost("reduce", call.tensor("input").numel * 2)


def _all_reduce(call: OperatorCall) -> OperatorCost:
    """Add as many parts as there are devices; each device adds its share of the elements."""
    return OperatorCost("all_reduce", call.result.numel)


register(
    {
        "hwexplorer.cached_attention": _cached_attention,
        "hwexplorer.expert_linear": _expert_linear,
        "hwexplorer.rotary": _rotary,
        "hwexplorer.head_linear": _head_linear,
        "hwexplorer.cache_append": lambda call: OperatorCost("copy"),
        "hwexplorer.cache_read": lambda call: OperatorCost("copy"),
        "hwexplorer.expert_dispatch": lambda call: OperatorCost("gather"),
        "hwexplorer.expert_combine": _combine,
        "hwexplorer.all_reduce": _all_reduce,
        "hwexplorer.all_gather": lambda call: OperatorCost("all_gather"),
        "hwexplorer.all_to_all": lambda call: OperatorCost("all_to_all"),
    }
)
