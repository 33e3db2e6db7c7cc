"""The rows of operator_table.toml: finds the row of a node, and has the cost rules of calls without
an equivalent ATen call. Rows that depend on more than the ranks of inputs are functions of this module."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from hwexplorer.extend import cost_rules, file_access
from hwexplorer_annexes.onnx.graph_parts import Poly, poly, product
from hwexplorer_annexes.onnx.inference import infer
from hwexplorer_annexes.onnx.onnx_file import DTYPES
from hwexplorer_annexes.onnx.onnx_op import OnnxOp, constant, positive_axis
from hwexplorer_annexes.onnx.operator_row import StatedWork, TableRow, first_of
from hwexplorer_annexes.onnx.result_rules import RESULTS, VIEWS, dequantized_view, normalization_shapes, row_view


def row_of(op: OnnxOp) -> TableRow | None:
    """Return the row that fits a node. Return None for an operator without a row."""
    if op.node.domain not in ("", "com.microsoft", "ai.onnx.contrib", "ai.onnx.preview"):
        return None
    rows = _table().get(f"{op.node.domain}.{op.node.op}") or _table().get(op.node.op) or []
    return rows(op) if callable(rows) else first_of(rows, op)


def is_folded(op: OnnxOp) -> bool:
    """Return True if the values of a node are computed where those of its inputs are known."""
    return op.node.op in _FOLDABLE


_SECTIONS = file_access.table(Path(__file__).with_suffix(".toml"))
_FOLDABLE = frozenset(_SECTIONS["foldable"]["operators"].split())
Rows = list[TableRow] | Callable[[OnnxOp], TableRow | None]


@cache
def _table() -> dict[str, Rows]:
    works = {name: StatedWork(**work) for name, work in _SECTIONS["work"].items()}
    return {
        name: _ROWS[entry] if section == "row" else _rows(section, entry if isinstance(entry, list) else [entry], works)
        for section, entries in _SECTIONS.items()
        if section not in ("work", "foldable")
        for name, entry in entries.items()
    }


def _rows(section: str, entries: list[Any], works: dict[str, StatedWork]) -> list[TableRow]:
    rows = [dict(entry) if isinstance(entry, dict) else {"call": entry} for entry in entries]
    for row in rows:
        row.setdefault("results", RESULTS.get(section))
        if "work" in row:
            row["work"] = works[row["work"]] if isinstance(row["work"], str) else StatedWork(**row["work"])
    return [TableRow(view=VIEWS.get(section), **row) for row in rows]


# --- rows that depend on more than ranks -------------------------------------------------------------------

_SAME = TableRow(results=RESULTS["identity"])


def _clip(op: OnnxOp) -> TableRow:
    low = op.attr("min") if op.opset < 11 else op.number(1)
    high = op.attr("max") if op.opset < 11 else op.number(2)
    is_one = low is None or high is None
    return TableRow(
        "aten.relu6" if (low, high) == (0.0, 6.0) else "aten.clamp_min" if is_one else "aten.clamp",
        RESULTS["same_shape"],
    )


def _cast(op: OnnxOp) -> TableRow:
    dtype = op.dtype(1) if op.node.op == "CastLike" else DTYPES.get(op.int_attr("to", 1), "float32")
    return _SAME if dtype == op.dtype() else TableRow("aten.to", RESULTS["same_shape"], dtype=dtype)


def _quantize(op: OnnxOp) -> TableRow:
    name = "quantized_decomposed.quantize_per_tensor"
    return TableRow(name, RESULTS["same_shape"], "input", dtype="2" if op.has_input(2) else "uint8")


def _dequantize(op: OnnxOp) -> TableRow:
    """Return a view for weights, which are dequantized while they are read, else a call."""
    if op.value().is_weight:
        return TableRow(results=dequantized_view)
    return TableRow("quantized_decomposed.dequantize_per_tensor", RESULTS["same_shape"], "input", "1")


def _variadic(op: OnnxOp) -> TableRow:
    """Count Sum, Max and Min of n tensors as n - 1 operations per element, and Mean as n."""
    if len(op.shapes()) == 1:
        return _SAME
    kind = "elementwise" if op.node.op in ("Max", "Min") else "add"
    flops = "out*inputs" if op.node.op == "Mean" else "out*(inputs-1)"
    return TableRow("onnx.Variadic", RESULTS["broadcast"], "*", work=StatedWork(kind, flops=flops))


def _normalization(op: OnnxOp) -> TableRow:
    name = "aten.layer_norm" if op.node.op == "LayerNormalization" else "aten.rms_norm"
    rows = {"normalized_shape": ("", list(op.shape()[op.axis(default=-1) :]))}
    return TableRow(name, normalization_shapes, "input weight bias", given=rows)


def _matrix_product(right: int = 1, dtype: str = "0") -> Callable[[OnnxOp], TableRow | None]:
    gap, names = "*_, " * (right - 1), "self" + " -" * (right - 1) + " other"
    linear = TableRow("onnx.Linear", f"*b k, {gap}k n -> *b n", names, dtype, work=StatedWork("linear", "1 b n k"))
    patterns = (f"*b k, {gap}k -> *b", f"k, {gap}*b k n -> *b n", f"*b m k, {gap}*b k n -> *b m n")
    plain = [TableRow("aten.matmul", pattern, names, dtype) for pattern in patterns]
    return lambda op: linear if op.value(right).is_weight and len(op.shape(right)) == 2 else first_of(plain, op)


def _transposable_product(op: OnnxOp) -> TableRow:
    left, right = ("k m" if op.attr("transA") else "m k"), ("n k" if op.attr("transB") else "k n")
    if op.node.op != "Gemm" and op.node.op != "FusedGemm":
        pattern = f"*b {left}, *b {right} -> *b m n"
        return TableRow("onnx.Product", pattern, "self other", work=StatedWork("matmul", "b m n k"))
    return TableRow("onnx.Gemm", f"{left}, {right} -> m n", "self other bias", work=StatedWork("linear", "1 m n k"))


def _einsum(op: OnnxOp) -> TableRow:
    equation = str(op.attr("equation", "")).replace(" ", "")
    terms, arrow, result = equation.partition("->")
    if not arrow:
        once = sorted(letter for letter in set(terms) - set(",.") if terms.count(letter) == 1)
        result = ("..." if "..." in terms else "") + "".join(once)
    sides = [", ".join(" ".join(term.replace("...", "*")) for term in side.split(",")) for side in (terms, result)]
    return TableRow("aten.einsum", " -> ".join(sides), "*", given={"equation": ("", f"{terms}->{result}")})


def _resize(op: OnnxOp) -> TableRow:
    mode = str(op.attr("mode", "nearest"))
    shape = op.declared_shape or infer(op)[0].shape
    changed = sum(new != old for new, old in zip(shape, op.shape(), strict=True))
    rank = max(1, min(3, changed or op.rank - 2))
    linear = ("linear1d", "bilinear2d", "trilinear3d")[rank - 1]
    kind = {"cubic": "bicubic2d", "linear": linear, "bilinear": linear}.get(mode, f"nearest{rank}d")
    return TableRow(f"aten.upsample_{kind}")


def _gather(op: OnnxOp) -> TableRow:
    if isinstance(op.number(1), int) and not op.shape(1):
        return TableRow("", row_view)
    is_table = op.value().is_weight and op.axis() == 0 and op.rank == 2
    return TableRow("aten.embedding" if is_table else "aten.index_select", names="0 1")


def _scatter(op: OnnxOp) -> TableRow:
    is_plain = op.attr("reduction", "none") == "none"
    return TableRow("aten.scatter" if is_plain else "aten.scatter_reduce", RESULTS["same_shape"], "0 1 2")


def _fill(op: OnnxOp) -> TableRow:
    return TableRow("aten.full", names="")


def _top_k(op: OnnxOp) -> TableRow:
    axis, told = op.axis(default=-1), op.declared_shape
    kept = constant(told[axis] if told else op.number(1) if op.has_input(1) else op.int_attr("k", 1))
    return TableRow("aten.topk", given={"k": ("", kept), "dim": ("", axis)})


def _dft(op: OnnxOp) -> TableRow:
    axis = op.number(2) if op.has_input(2) else op.int_attr("axis", -2 if op.opset >= 20 else 1)
    if axis is None and op.declared_shape is not None:
        axis = -2  # only the cost of the transform depends on it
    return TableRow("onnx.DFT", given={"dim": ("", positive_axis(constant(axis), op.rank))})


def _stft(op: OnnxOp) -> TableRow:
    points = constant(op.number(3) if op.has_input(3) and op.number(3) is not None else op.shape(2)[0])
    given = {"n_fft": ("", points), "onesided": ("", bool(op.int_attr("onesided", 1)))}
    return TableRow("aten.stft", given=given)


def _linear_attention(op: OnnxOp) -> TableRow:
    """Count two outer products per head and token. The delta rule adds a third, which reads the state for the key."""
    rule = str(op.attr("update_rule", "gated_delta"))
    updates = 2 if "delta" in rule else 1
    work = StatedWork(
        "matmul",
        gemm="b*kv_num_heads d e t",
        macs=f"b*t*d*e*(q_num_heads+{updates}*kv_num_heads)",
        flops="b*t*kv_num_heads*d*e" * ("gated" in rule),
    )
    pattern = "b t x, b t y, b t z -> b t q_num_heads*e, b kv_num_heads d e"
    return TableRow("onnx.LinearAttention", pattern, "#", let="d=y//kv_num_heads e=z//kv_num_heads", work=work)


def _causal_convolution(op: OnnxOp) -> TableRow:
    """Count a depthwise convolution over the last tokens. The second result is the state for the next step."""
    is_active = op.attr("activation", "none") not in ("none", "")
    work = StatedWork("depthwise_conv", "c b*l 1 w", flops="4*b*c*l" * is_active, special="2*b*c*l" * is_active)
    return TableRow("onnx.CausalConv", "b c l, c _ w -> b c l, b c w-1", "input weight bias", work=work)


# Functions that return rows, by their name in operator_table.toml.
_ROWS: dict[str, Callable[[OnnxOp], TableRow | None]] = {
    "clip": _clip,
    "cast": _cast,
    "quantize": _quantize,
    "dequantize": _dequantize,
    "variadic": _variadic,
    "normalization": _normalization,
    "transposable_product": _transposable_product,
    "einsum": _einsum,
    "resize": _resize,
    "gather": _gather,
    "scatter": _scatter,
    "fill": _fill,
    "top_k": _top_k,
    "dft": _dft,
    "stft": _stft,
    "linear_attention": _linear_attention,
    "causal_convolution": _causal_convolution,
    "product": _matrix_product(),
    "integer_product": _matrix_product(dtype="int32"),
    "float_product": _matrix_product(dtype="2"),
    "quantized_product": _matrix_product(right=3),
}


# --- costs of calls without an equivalent ATen call ----------------------------------------------------------


def _cost_of_row(call: cost_rules.OperatorCall) -> cost_rules.OperatorCost:
    args = call.args
    gemm = tuple(args["gemm"]) or None
    return cost_rules.OperatorCost(args["kind"], args["flops"], args["special"], args["macs"], gemm)


def _suppression(call: cost_rules.OperatorCall) -> cost_rules.OperatorCost:
    """Count per class a sort of the boxes, then the overlap (13 flops) of every pair of boxes."""
    batch, classes, boxes = call.tensors()[1].shape
    count = int(boxes.constant())
    each = count * math.ceil(math.log2(max(2, count))) + count * (count - 1) // 2 * 13
    return cost_rules.OperatorCost("sort", product((batch, classes, each)))


def _transform(call: cost_rules.OperatorCall) -> cost_rules.OperatorCost:
    """Count 5 N log2 N per transform, half for real input. The last dimension has the real and imaginary part."""
    tensor = call.tensors()[0]
    points = tensor.shape[call.args["dim"]]
    levels = math.log2(max(2, points.constant() if isinstance(points, Poly) else points))
    if tensor.shape[-1] == poly(1):
        return cost_rules.OperatorCost("fft", tensor.numel * round(5 * levels / 2))
    return cost_rules.OperatorCost("fft", tensor.numel // 2 * round(5 * levels))


cost_rules.register({"onnx.NonMaxSuppression": _suppression, "onnx.DFT": _transform})
# Calls whose rows state their cost (see `StatedWork`).
_STATED = (
    "Linear Product Gemm Attention LSTM GRU RNN Variadic SkipLayerNorm SkipRmsNorm LRN LpNormalization"
    " DynamicQuantizeLinear QLinearEach LinearAttention CausalConv MoE QGather"
    " EmbedLayerNorm"
)
cost_rules.register({f"onnx.{name}": _cost_of_row for name in _STATED.split()})
cost_rules.BIASED.add("onnx.Gemm")
