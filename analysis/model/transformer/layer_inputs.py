"""Write the second embedding that each layer of some decoders adds through a gate (Gemma 4)."""

from __future__ import annotations

from analysis.model.transformer.graph_writer import StepWriter, Tensor


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
