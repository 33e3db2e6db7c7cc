"""Costs of the calls that only written transformers make: attention over a cache, experts, rotation, collectives."""

from __future__ import annotations

from analysis.model.ir.lengths import EXPERT_ROWS, EXPERTS
from analysis.model.ir.poly import dim, product
from analysis.model.operators.contractions import ATTENTION_FLOPS, ATTENTION_SPECIAL
from analysis.model.operators.cost_rules import Call, Cost, Rule, register

ROTARY_FLOPS = 3  # x cos + rotate(x) sin


def _cached_attention(call: Call) -> Cost:
    """softmax(Q [K_past K]^T) [V_past V] over the tokens that each new one sees. Query heads that share a key/value
    head are rows of one product."""
    query, key = call.need("query"), call.need("key")
    batch, heads, rows, width = query.shape
    groups = heads.constant() // key.shape[1].constant()
    seen = call.args["seen"]
    scores = product((batch, heads, rows, seen))
    gemm = (batch * key.shape[1], rows * groups, seen, width)
    return Cost(
        "attention", scores * ATTENTION_FLOPS, scores * ATTENTION_SPECIAL, scores * (width + call.out.shape[3]), gemm
    )


def _head_linear(call: Call) -> Cost:
    """Each head's own matrix times its tokens; only the part of a head that the matrix is wide is multiplied."""
    heads, outer, inner = call.need("weight").shape
    rows = call.out.shape[0] * call.out.shape[2]
    return Cost("matmul", macs=product((heads, rows, outer, inner)), gemm=(heads, rows, outer, inner))


def _expert_linear(call: Call) -> Cost:
    """Each touched expert multiplies its tokens; its weights are read once, the others' not at all."""
    weight = call.need("weight")
    _, outer, inner = weight.shape
    touched = dim(EXPERTS + call.args["phase"])
    gemm = (touched, dim(EXPERT_ROWS + call.args["phase"]), outer, inner)
    read = touched * outer * inner
    # Of several devices the busiest has more tokens than the mean, of which all are counted.
    macs = product(gemm) if call.args["spread"] else call.out.numel * inner
    return Cost("matmul", macs=macs, gemm=gemm, first_read=read)


def _rotary(call: Call) -> Cost:
    """Only the first `rotated` elements of each head are."""
    rows = product(call.out.shape[:-1])
    return Cost("elementwise", rows * (call.args["rotated"] * ROTARY_FLOPS))


def _copied(call: Call) -> Cost:
    return Cost("copy")


def _dispatch(call: Call) -> Cost:
    return Cost("gather")


def _combine(call: Call) -> Cost:
    """The experts' results of each token, weighted and added."""
    return Cost("reduce", call.need("input").numel * 2)


def _collective(kind: str) -> Rule:
    """An all-reduce adds as many parts as there are devices, each device its share of the elements."""

    def rule(call: Call) -> Cost:
        return Cost(kind, call.out.numel if kind == "all_reduce" else call.out.numel * 0)

    return rule


register(
    {
        "hwexplorer.cached_attention": _cached_attention,
        "hwexplorer.expert_linear": _expert_linear,
        "hwexplorer.rotary": _rotary,
        "hwexplorer.head_linear": _head_linear,
        "hwexplorer.cache_append": _copied,
        "hwexplorer.cache_read": _copied,
        "hwexplorer.expert_dispatch": _dispatch,
        "hwexplorer.expert_combine": _combine,
        "hwexplorer.all_reduce": _collective("all_reduce"),
        "hwexplorer.all_gather": _collective("all_gather"),
        "hwexplorer.all_to_all": _collective("all_to_all"),
    }
)
