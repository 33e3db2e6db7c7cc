"""Cost rules of ONNX calls that have no ATen twin. Importing registers them."""

from __future__ import annotations

import math
from typing import Any

from ...graph import Meta, references
from ...operators import contractions, costs
from ...operators.contractions import Contraction, Metas
from ...operators.rules import BIASED, Call, Cost, Rule, contract, elementwise, register
from ...poly import Poly, poly, product


def _linear(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    """A product with a weight of (inputs x outputs)."""
    left, right = metas[args["self"].name], metas[args["other"].name]
    gemm = (poly(1), product(left.shape[:-1]), right.shape[-1], right.shape[-2])
    return Contraction("linear", product(gemm), gemm)


def _product(kind: str) -> contractions.Function:
    """A product whose operands may be transposed: the result says rows and columns."""

    def function(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
        gemm = (product(out.shape[:-2]), out.shape[-2], out.shape[-1], args["inner"])
        return Contraction(kind, product(gemm), gemm)

    return function


def _attention(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
    groups, rows, columns, width = args["groups"], args["rows"], args["columns"], args["width"]
    scores = groups * rows * columns
    macs = scores * (width + args["value_width"]) + args.get("projection", poly(0))
    flops, special = scores * contractions.ATTENTION_FLOPS, scores * contractions.ATTENTION_SPECIAL
    return Contraction("attention", macs, (groups, rows, columns, width), flops, special)


def _recurrent(gates: int, flops: int, special: int) -> contractions.Function:
    """Weights of (directions x gates * hidden x inputs), and the same for the hidden state."""

    def function(args: dict[str, Any], metas: Metas, out: Meta) -> Contraction:
        tensor, inner, hidden = (metas[args[name].name] for name in ("0", "1", "2"))
        rows = product(tensor.shape[:2])
        units = rows * inner.shape[0] * (inner.shape[1] // gates)
        gemm = (args["steps"] * inner.shape[0] * 2, rows // args["steps"], inner.shape[1], hidden.shape[2])
        macs = rows * (inner.numel + hidden.numel)
        return Contraction("recurrent", macs, gemm, units * flops, units * special)

    return function


def _variadic(call: Call) -> Cost:
    tensors = len(references(call.args["tensors"]))
    kind = "add" if call.args["kind"] in ("sum", "mean") else "elementwise"
    return Cost(kind, call.out.numel * (tensors - (call.args["kind"] != "mean")))


def _skip(flops: int) -> Rule:
    """A sum, then a normalisation of every row."""

    def rule(call: Call) -> Cost:
        return Cost("layer_norm", call.out.numel * (flops + 1), product(call.out.shape[:-1]))

    return rule


def _suppression(call: Call) -> Cost:
    """Per class: boxes sorted, then half of all pairs compared (13 flops an overlap)."""
    batch, classes, boxes = call.tensors()[1].shape
    count = boxes.constant()
    each = count * math.ceil(math.log2(max(2, count))) + count * (count - 1) // 2 * 13
    return Cost("sort", product((batch, classes, each)))


def _dft(call: Call) -> Cost:
    """5 N log2 N per transform; a tensor's last dimension holds real and imaginary part."""
    tensor = call.tensors()[0]
    points = tensor.shape[call.args["dim"]]
    levels = math.log2(max(2, points.constant() if isinstance(points, Poly) else points))
    is_real = tensor.shape[-1] == poly(1)
    return (
        Cost("fft", tensor.numel * round(5 * levels / 2))
        if is_real
        else Cost("fft", tensor.numel // 2 * round(5 * levels))
    )


def _local_response(call: Call) -> Cost:
    """Squares summed over a window of channels, then x / (k + a s) ** b."""
    size = call.out.numel
    return Cost("norm", size * (call.args["size"] + 6), size * 2)


register({
    "onnx.Linear": contract(_linear),
    "onnx.Product": contract(_product("matmul")),
    "onnx.Gemm": contract(_product("linear")),
    "onnx.Attention": contract(_attention),
    "onnx.LSTM": contract(_recurrent(4, 14, 5)),
    "onnx.GRU": contract(_recurrent(3, 13, 3)),
    "onnx.RNN": contract(_recurrent(1, 3, 1)),
    "onnx.Variadic": _variadic,
    "onnx.SkipLayerNorm": _skip(costs.NORM_FLOPS),
    "onnx.SkipRmsNorm": _skip(costs.RMS_NORM_FLOPS),
    "onnx.NonMaxSuppression": _suppression,
    "onnx.DFT": _dft,
    "onnx.LRN": _local_response,
    "onnx.LpNormalization": elementwise(costs.PerElement("norm", 3)),  # square, add, scale
    "onnx.DynamicQuantizeLinear": elementwise(costs.PerElement("cast", 6)),  # minimum, maximum, then as a cast
    "onnx.QLinearEach": elementwise(costs.PerElement("add", 8)),  # two widened, one operation, one narrowed
})  # fmt: skip
BIASED.add("onnx.Gemm")
