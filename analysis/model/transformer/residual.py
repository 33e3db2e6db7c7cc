"""Write what passes from layer to layer: a sum, several streams that each part mixes (arXiv 2512.24880, 2411.07501), or
attention over the results of earlier blocks of layers (arXiv 2603.15031)."""

from analysis.model.ir.poly import product
from analysis.model.operators.cost_rules import register
from analysis.model.operators.operator_call import OperatorCall, OperatorCost
from analysis.model.transformer.graph_writer import StepWriter, Tensor

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
