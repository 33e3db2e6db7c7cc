"""Write layers with a state of constant size: state-space models and linear attention."""

from fractions import Fraction

from analysis.model.ir.poly import Poly, product
from analysis.model.operators.cost_rules import register
from analysis.model.operators.operator_call import ZERO, OperatorCall, OperatorCost
from analysis.model.transformer.graph_writer import FIXED_FP32, StepWriter, Tensor
from analysis.model.transformer.mixers import Mixer


def mix_by_state(step: StepWriter, x: Tensor, layer: int) -> Tensor:
    """Write the recurrent mixer of a layer, without the sum over devices. Decoding reads and overwrites its state;
    prefill only writes it."""
    m, w = step.config.mixer_sizes(step.run.tp), step.w
    kind = m.kind
    with w.module("mixer", "Mixer"):
        wide = w.linear("in_proj", x, m.width(kind.project))
        mixed = _convolved(step, m, wide, layer) if kind.convolve else wide
        low = mixed
        for i, (inner, outer) in enumerate(kind.low_rank):
            source = low if i else x if "hidden" in inner else mixed
            low = w.linear(f"low_rank{i}", w.view(source, (*step.rows, m.width(inner))), m.width(outer))
        y = w.view(mixed, (*step.rows, m.inner))
        if kind.has_state:
            y = _recurred(step, m, mixed, low, layer)
        if kind.norm:
            y = w.norm("norm", w.view(y, (*step.rows, m.inner // m.width(kind.norm), m.width(kind.norm))), "rms")
        gate = w.view(wide, (*step.rows, m.inner))
        y = w.call_in("gate_mul", "Mul", "aten.mul.Tensor", gate.shape, self=w.view(y, gate.shape), other=gate)
        return w.linear("out_proj", y, step.config.hidden)


def _convolved(step: StepWriter, m: Mixer, wide: Tensor, layer: int) -> Tensor:
    w, width = step.w, m.width(m.kind.convolve)
    state = w.state(f"layers.{layer}.mixer.conv_cache", (step.batch, m.conv - 1, width))
    with w.module("conv", "Conv1d"):
        x, weight = w.view(wide, (*step.rows, width)), w.weight("weight", (width, m.conv))
        args = {"input": x, "weight": weight, "resumes": step.run.phase == "decode"}
        return w.update("hwexplorer.short_convolution.default", x.shape, state, **args)


def _recurred(step: StepWriter, m: Mixer, mixed: Tensor, low: Tensor, layer: int) -> Tensor:
    w, kind, resumes = step.w, m.kind, step.run.phase == "decode"
    dtype = FIXED_FP32 if step.config.state_fp32 else "float32"
    state = w.state(f"layers.{layer}.mixer.state_cache", (step.batch, m.heads, m.keys, m.values), dtype)
    steps = (*step.rows, m.heads)
    gates = w.view(low, steps)
    if kind.vectors:
        parameters = w.weight("parameters", (m.width(kind.vectors),))
        gates = w.call_in("gates", "Gates", "hwexplorer.state_gates.default", steps, input=gates, parameters=parameters)
    macs = m.state_macs(not resumes and not kind.scan[0])
    args = {"input": mixed, "gates": gates, "macs": macs, "scan": list(kind.scan), "resumes": resumes}
    with w.module("recurrence", "Recurrence"):
        return w.update("hwexplorer.recurrence.default", (*step.rows, m.inner), state, **args)


# --- costs ------------------------------------------------------------------------------------------------


def _recurrence(call: OperatorCall) -> OperatorCost:
    """Count a product of each head with its state, or an elementwise scan (which no matrix unit computes). Prefill
    does not read the state."""
    batch, heads, keys, values = call.tensor("state").shape
    rows = call.result.shape[1]
    read = call.tensor("state").numel if call.args["resumes"] else ZERO
    elements = product((batch, rows, heads, keys, values))
    flops, special = call.args["scan"]
    if flops:
        return OperatorCost("elementwise", elements * flops, elements * special, first_read=read)
    inner = Poly({(): Fraction(call.args["macs"], heads.constant() * values.constant())})
    gemm = (batch * heads, rows, values, inner)
    decay = elements if call.args["resumes"] else ZERO
    return OperatorCost("matmul", decay, macs=product(gemm), gemm=gemm, first_read=read)


def _short_convolution(call: OperatorCall) -> OperatorCost:
    width, taps = call.tensor("weight").shape
    gemm = (width, product(call.result.shape[:-1]), Poly({(): 1}), taps)
    read = call.tensor("state").numel if call.args["resumes"] else ZERO
    return OperatorCost("depthwise_conv", macs=product(gemm), gemm=gemm, first_read=read)


def _state_gates(call: OperatorCall) -> OperatorCost:
    """Count a bias, a softplus and an exponential for each head and token."""
    size = call.result.numel
    return OperatorCost("elementwise", size * 3, size * 3)


register(
    {
        "hwexplorer.recurrence": _recurrence,
        "hwexplorer.short_convolution": _short_convolution,
        "hwexplorer.state_gates": _state_gates,
    }
)
