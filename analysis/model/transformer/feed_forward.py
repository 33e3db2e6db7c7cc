"""Write the feed-forward part of a layer: an FFN, or experts of which each token passes some."""

from typing import Any

from analysis.model.ir.poly import dim, product
from analysis.model.ir.workload import EXPERT_ROWS, EXPERTS
from analysis.model.operators.cost_rules import register
from analysis.model.operators.operator_call import OperatorCall, OperatorCost
from analysis.model.transformer.graph_writer import FIXED_FP32, StepWriter, Tensor


def feed_forward(step: StepWriter, x: Tensor, layer: int, reduce: bool = True) -> Tensor:
    """Write the FFN or the experts of a layer."""
    c, w = step.config, step.w
    with w.module("mlp", "MLP"):
        y = _experts(step, x) if c.is_sparse(layer) else _dense(step, x, c.ffn)
        return step.all_reduce("all_reduce", y) if reduce else y


def _dense(step: StepWriter, x: Tensor, width: int) -> Tensor:
    c, w = step.config, step.w
    part = step.part(width)
    if c.gated:
        gate = w.activation(c.activation, w.linear("gate_proj", x, part, c.mlp_bias))
        wide = _gated(step, gate, w.linear("up_proj", x, part, c.mlp_bias))
    else:
        wide = w.activation(c.activation, w.linear("up_proj", x, part, c.mlp_bias))
    wide = w.norm("sub_norm", wide, c.norm) if c.sub_norm else wide
    return w.linear("down_proj", wide, c.hidden, c.mlp_bias)


def _gated(step: StepWriter, gate: Tensor, up: Tensor) -> Tensor:
    return step.w.call_in("gate_mul", "Mul", "aten.mul.Tensor", gate.shape, self=gate, other=up)


def _experts(step: StepWriter, x: Tensor) -> Tensor:
    c, w = step.config, step.w
    given = w.norm("experts_norm", x, c.norm) if c.expert_norm == "each" else x
    y = _routed(step, x, given)
    y = w.norm("experts_after_norm", y, c.norm) if c.expert_norm == "each" else y
    if c.shared_ffn:
        y = w.add("shared_add", y, _shared_expert(step, x))
    return w.norm("experts_after_norm", y, c.norm) if c.expert_norm == "after" else y


def _shared_expert(step: StepWriter, x: Tensor) -> Tensor:
    c, w = step.config, step.w
    with w.module("shared_expert", "MLP"):
        shared = _dense(step, x, c.shared_ffn)
        if c.shared_gate:
            gate = w.activation("sigmoid", w.linear("gate", x, 1))
            shared = w.call_in("gate_mul", "Mul", "aten.mul.Tensor", shared.shape, self=shared, other=gate)
        return w.norm("after_norm", shared, c.norm) if c.expert_norm == "each" else shared


def _routed(step: StepWriter, x: Tensor, given: Tensor) -> Tensor:
    """Write the choice of experts by `x` and what the chosen ones make of `given`."""
    c, w = step.config, step.w
    scored = w.norm("router_norm", x, c.norm) if c.expert_norm == "each" else x
    dtype = FIXED_FP32 if c.router_fp32 else "float32"
    logits = w.linear("router", scored, c.experts + c.idle_experts, c.router_bias, dtype=dtype)
    scores = w.call_in("router_softmax", "Softmax", "aten.softmax.int", logits.shape, self=logits, dim=-1)
    chosen = (*step.rows, c.active)
    with w.module("router_topk", "TopK"):
        top, which = w.calls("aten.topk.default", [chosen, chosen], ("float32", "int64"), self=scores, k=c.active)
    # Devices that hold all tokens gather those of their own experts alone.
    is_whole = step.run.ep > 1 and not step.run.spreads_sequences
    held = (dim(EXPERTS + step.phase), dim(EXPERT_ROWS + step.phase)) if is_whole else chosen
    given = w.linear("latent_in_proj", given, c.expert_hidden) if c.expert_hidden else given
    with w.module("dispatch", "Dispatch"):
        tokens = w.call("hwexplorer.expert_dispatch.default", (*held, given.shape[-1]), input=given, indices=which)
    tokens = step.exchange_tokens("dispatch_exchange", tokens)
    with w.module("experts", "Experts"):
        width = c.expert_ffn if step.run.ep > 1 else step.part(c.expert_ffn)
        up = _expert(step, "up_proj", tokens, width)
        if c.gated:
            gate = w.activation(c.activation, _expert(step, "gate_proj", tokens, width))
            up = _gated(step, gate, up)
        else:
            up = w.activation(c.activation, up)
        down = _expert(step, "down_proj", up, c.expert_hidden or c.hidden)
    down = step.exchange_tokens("combine_exchange", down)
    y = w.call_in("combine", "Combine", "hwexplorer.expert_combine.default", given.shape, input=down, weights=top)
    y = w.norm("latent_norm", y, c.norm) if c.expert_norm == "latent" else y
    return w.linear("latent_out_proj", y, c.hidden) if c.expert_hidden else y


def _expert(step: StepWriter, name: str, x: Tensor, width: int) -> Tensor:
    w, experts = step.w, step.config.experts // step.run.ep
    args: dict[str, Any] = {"phase": step.phase, "spread": step.run.ep > 1}
    with w.module(name, "ExpertLinear"):
        weight = w.weight("weight", (experts, width, x.shape[-1]))
        bias = {"bias": w.weight("bias", (experts, width))} if step.config.mlp_bias else {}
        args |= {"weight": weight, "input": x, **bias}
        return w.call("hwexplorer.expert_linear.default", (*x.shape[:-1], width), **args)


def _expert_linear(call: OperatorCall) -> OperatorCost:
    """Count the product of each touched expert with its tokens. Only weights of touched experts are read, once."""
    weight = call.tensor("weight")
    _, outer, inner = weight.shape
    touched = dim(EXPERTS + call.args["phase"])
    gemm = (touched, dim(EXPERT_ROWS + call.args["phase"]), outer, inner)
    read = touched * outer * inner
    # With several devices, count all tokens of the busiest, which has more than the mean.
    macs = product(gemm) if call.args["spread"] else call.result.numel * inner
    return OperatorCost("matmul", macs=macs, gemm=gemm, first_read=read)


register(
    {
        "hwexplorer.expert_linear": _expert_linear,
        "hwexplorer.expert_dispatch": lambda call: OperatorCost("gather"),
        # The weighted sum of each token's expert results; each device adds its share of the elements.
        "hwexplorer.expert_combine": lambda call: OperatorCost("gather", call.tensor("input").numel * 2),
    }
)
