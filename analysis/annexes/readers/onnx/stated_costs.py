"""Cost rules of ONNX calls that have no ATen twin. Importing registers them."""

from __future__ import annotations

import math

from analysis.model.ir.poly import Poly, poly, product
from analysis.model.operators.cost_rules import BIASED, register
from analysis.model.operators.operator_call import OperatorCall, OperatorCost


def _cost_of_row(call: OperatorCall) -> OperatorCost:
    """Return the cost that the operator's row states."""
    args = call.args
    gemm = tuple(args["gemm"]) or None
    return OperatorCost(args["kind"], args["flops"], args["special"], args["macs"], gemm)


def _suppression(call: OperatorCall) -> OperatorCost:
    """Count per class: boxes sorted, then half of all pairs compared (13 flops an overlap)."""
    batch, classes, boxes = call.tensors()[1].shape
    count = int(boxes.constant())
    each = count * math.ceil(math.log2(max(2, count))) + count * (count - 1) // 2 * 13
    return OperatorCost("sort", product((batch, classes, each)))


def _dft(call: OperatorCall) -> OperatorCost:
    """Count 5 N log2 N per transform. The last dimension of a tensor holds real and imaginary part."""
    tensor = call.tensors()[0]
    points = tensor.shape[call.args["dim"]]
    levels = math.log2(max(2, points.constant() if isinstance(points, Poly) else points))
    if tensor.shape[-1] == poly(1):
        return OperatorCost("fft", tensor.numel * round(5 * levels / 2))
    return OperatorCost("fft", tensor.numel // 2 * round(5 * levels))


register({"onnx.NonMaxSuppression": _suppression, "onnx.DFT": _dft})
# Calls whose rows say what they cost (see `operator_row.StatedWork`).
_STATED = (
    "Linear Product Gemm Attention LSTM GRU RNN Variadic SkipLayerNorm SkipRmsNorm LRN LpNormalization"
    " DynamicQuantizeLinear QLinearEach Loss LinearAttention CausalConv"
)
register({f"onnx.{name}": _cost_of_row for name in _STATED.split()})
BIASED.add("onnx.Gemm")
