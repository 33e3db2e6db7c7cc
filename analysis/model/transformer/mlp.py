"""The feed-forward part of a layer: a dense MLP, or experts that tokens choose."""

from __future__ import annotations

from typing import Any

from analysis.model.transformer.graph_writer import Tensor
from analysis.model.transformer.step_writer import StepWriter


def mlp(step: StepWriter, x: Tensor, layer: int, reduce: bool = True) -> Tensor:
    """Write the feed-forward part of a layer, of experts where the layer has them."""
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
    return w.linear("down_proj", wide, c.hidden, c.mlp_bias)


def _gated(step: StepWriter, gate: Tensor, up: Tensor) -> Tensor:
    with step.w.module("gate_mul", "Mul"):
        return step.w.call("aten.mul.Tensor", gate.shape, self=gate, other=up)


def _experts(step: StepWriter, x: Tensor) -> Tensor:
    c, w = step.config, step.w
    logits = w.linear("router", x, c.experts, c.router_bias)
    with w.module("router_softmax", "Softmax"):
        scores = w.call("aten.softmax.int", logits.shape, self=logits, dim=-1)
    chosen = (*step.rows, c.active)
    with w.module("router_topk", "TopK"):
        top, which = w.calls("aten.topk.default", [chosen, chosen], ("float32", "int64"), self=scores, k=c.active)
    with w.module("dispatch", "Dispatch"):
        tokens = w.call("hwexplorer.expert_dispatch.default", (*chosen, c.hidden), input=x, indices=which)
    tokens = step.exchange_tokens("dispatch_exchange", tokens)
    with w.module("experts", "Experts"):
        width = c.expert_ffn if step.run.ep > 1 else step.part(c.expert_ffn)
        up = _expert(step, "up_proj", tokens, width)
        if c.gated:
            gate = w.activation(c.activation, _expert(step, "gate_proj", tokens, width))
            up = _gated(step, gate, up)
        else:
            up = w.activation(c.activation, up)
        down = _expert(step, "down_proj", up, c.hidden)
    down = step.exchange_tokens("combine_exchange", down)
    with w.module("combine", "Combine"):
        y = w.call("hwexplorer.expert_combine.default", x.shape, input=down, weights=top)
    if not c.shared_ffn:
        return y
    with w.module("shared_expert", "MLP"):
        shared = _dense(step, x, c.shared_ffn)
    return w.add("shared_add", y, shared)


def _expert(step: StepWriter, name: str, x: Tensor, width: int) -> Tensor:
    """Return one matrix of every expert, applied to the tokens that chose it."""
    w, experts = step.w, step.config.experts // step.run.ep
    args: dict[str, Any] = {"phase": step.phase, "spread": step.run.ep > 1}
    with w.module(name, "ExpertLinear"):
        weight = w.weight("weight", (experts, width, x.shape[-1]))
        bias = {"bias": w.weight("bias", (experts, width))} if step.config.mlp_bias else {}
        args |= {"weight": weight, "input": x, **bias}
        return w.call("hwexplorer.expert_linear.default", (*x.shape[:-1], width), **args)
