"""ONNX operators that compute: the shape of the result and the ATen call that costs the same, one row each."""

from __future__ import annotations

from ...poly import poly
from . import rules  # noqa: F401 - it registers its rules
from .file import DTYPES
from .moves import MOVES, same
from .op import Handler, Made, Op, Result, Shape, broadcast, positive
from .products import PRODUCTS
from .sequences import SEQUENCES, fused_attention


def _each(target: str, *names: str) -> Handler:
    """Element by element over the broadcast of all inputs."""

    def handler(op: Op) -> Result:
        shapes = [value.meta.shape for value in op.inputs if value is not None]
        return Result((Made(broadcast(*shapes), op.dtype()),), f"aten.{target}", op.refs(*names))

    return handler


def _test(target: str) -> Handler:
    def handler(op: Op) -> Result:
        shapes = [value.meta.shape for value in op.inputs if value is not None]
        return Result((Made(broadcast(*shapes), "bool"),), f"aten.{target}", op.refs("self", "other"))

    return handler


def _unary(target: str) -> Handler:
    return lambda op: Result((op.like(),), f"aten.{target}", {"self": op.ref(0)})


def _clip(op: Op) -> Result:
    low = op.attr("min") if op.opset < 11 else (op.number(1) if op.has(1) else None)
    high = op.attr("max") if op.opset < 11 else (op.number(2) if op.has(2) else None)
    is_one = low is None or high is None
    target = "relu6" if (low, high) == (0.0, 6.0) else "clamp_min" if is_one else "clamp"
    return Result((op.like(),), f"aten.{target}", {"self": op.ref(0)})


def _gelu(op: Op) -> Result:
    way = "tanh" if op.node.op == "FastGelu" else op.attr("approximate", "none")
    return Result((op.like(),), "aten.gelu", {"self": op.ref(0), "approximate": way})


def _variadic(target: str) -> Handler:
    """Sum, Max, Mean of several tensors: one operation less than there are."""

    def handler(op: Op) -> Result:
        shapes = [value.meta.shape for value in op.inputs if value is not None]
        if len(shapes) == 1:
            return same(op)
        made = Made(broadcast(*shapes), op.dtype())
        return Result((made,), "onnx.Variadic", {"kind": target, **op.all_refs()})

    return handler


def _cast(op: Op) -> Result:
    dtype = op.dtype(1) if op.node.op == "CastLike" else DTYPES.get(op.int_attr("to", 1), "float32")
    return same(op) if dtype == op.dtype() else Result((op.like(dtype=dtype),), "aten.to", {"self": op.ref(0)})


def _where(op: Op) -> Result:
    shape = broadcast(op.shape(0), op.shape(1), op.shape(2))
    return Result((Made(shape, op.dtype(1)),), "aten.where", op.refs("condition", "self", "other"))


# --- reductions ---------------------------------------------------------------------------------------------


def _reduce(target: str) -> Handler:
    def handler(op: Op) -> Result:
        axes = op.axes()
        if axes is None:
            if op.int_attr("noop_with_empty_axes", 0):
                return same(op)
            axes = list(range(len(op.shape())))
        shape = _without(op.shape(), axes, bool(op.int_attr("keepdims", 1)))
        return Result((Made(shape, op.dtype()),), f"aten.{target}", {"self": op.ref(0)})

    return handler


def _without(shape: Shape, axes: list[int], keep: bool) -> Shape:
    sizes = ((poly(1) if place in axes else size, place in axes) for place, size in enumerate(shape))
    return tuple(size for size, gone in sizes if keep or not gone)


def _arg(target: str) -> Handler:
    def handler(op: Op) -> Result:
        shape = _without(op.shape(), [op.axis()], bool(op.int_attr("keepdims", 1)))
        return Result((Made(shape, "int64"),), f"aten.{target}", {"self": op.ref(0)})

    return handler


# --- normalisations ---------------------------------------------------------------------------------------


def _batch_norm(op: Op) -> Result:
    return Result((op.like(),), "aten.batch_norm", op.refs("input", "weight", "bias", "running_mean", "running_var"))


def _layer_norm(target: str, data: int = 0) -> Handler:
    def handler(op: Op) -> Result:
        axis = positive(op.int_attr("axis", -1), len(op.shape()))
        args = {**op.refs("input", "weight", "bias"), "normalized_shape": list(op.shape()[axis:])}
        statistics = (*op.shape()[:axis], *(poly(1) for _ in op.shape()[axis:]))
        more = tuple(Made(statistics, "float32") for _ in op.node.outputs[1:])
        return Result((op.like(), *more), f"aten.{target}", args)

    return handler


def _skip_norm(target: str) -> Handler:
    """The sum of two tensors, normalised; its last result is the sum."""

    def handler(op: Op) -> Result:
        args = {**op.refs("input", "skip", "weight", "bias"), "normalized_shape": [op.shape()[-1]]}
        row = (*op.shape()[:-1], poly(1))
        more = (Made(row, "float32"), Made(row, "float32"), op.like())
        return Result((op.like(), *more[: len(op.node.outputs) - 1]), f"onnx.{target}", args)

    return handler


def _group_norm(op: Op) -> Result:
    args = {**op.refs("input", "weight", "bias"), "num_groups": op.int_attr("num_groups", 1)}
    return Result((op.like(),), "aten.group_norm", args)


# --- quantised --------------------------------------------------------------------------------------------


def _quantize(op: Op) -> Result:
    dtype = op.dtype(2) if op.has(2) else "uint8"
    return Result((op.like(dtype=dtype),), "quantized_decomposed.quantize_per_tensor", {"input": op.ref(0)})


def _dequantize(op: Op) -> Result:
    """Stored weights are widened as they are read: a window on them."""
    if op.value(0).is_weight:
        return Result((Made(op.shape(), op.dtype(1), op.value(0).strides),))
    made = op.like(dtype=op.dtype(1))
    return Result((made,), "quantized_decomposed.dequantize_per_tensor", {"input": op.ref(0)})


def _dynamic_quantize(op: Op) -> Result:
    made = (op.like(dtype="uint8"), Made((), "float32"), Made((), "uint8"))
    return Result(made, "onnx.DynamicQuantizeLinear", {"self": op.ref(0)})


def _quantized_each(op: Op) -> Result:
    """onnxruntime's QLinearAdd and QLinearMul: a, its scale and zero point, b ..."""
    args = {"self": op.ref(0), "other": op.ref(3)}
    return Result((Made(broadcast(op.shape(0), op.shape(3)), op.dtype()),), "onnx.QLinearEach", args)


_UNARY = {
    "Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Exp": "exp", "Log": "log", "Sqrt": "sqrt",
    "Reciprocal": "reciprocal", "Abs": "abs", "Neg": "neg", "Floor": "floor", "Ceil": "ceil", "Round": "round",
    "Sign": "sign", "Erf": "erf", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos",
    "Atan": "atan", "Sinh": "sinh", "Cosh": "cosh", "Asinh": "asinh", "Acosh": "acosh", "Atanh": "atanh",
    "Softplus": "softplus", "Softsign": "softsign", "Elu": "elu", "Selu": "selu", "Celu": "celu",
    "LeakyRelu": "leaky_relu", "ThresholdedRelu": "threshold", "HardSigmoid": "hardsigmoid",
    "HardSwish": "hardswish", "Mish": "mish", "Swish": "silu", "QuickGelu": "silu", "Shrink": "softshrink",
    "BitwiseNot": "bitwise_not", "Softmax": "softmax", "LogSoftmax": "log_softmax", "Hardmax": "argmax",
    "CumSum": "cumsum", "CumProd": "cumprod",
}  # fmt: skip
_BINARY = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "Mod": "remainder", "PRelu": "prelu",
    "BitShift": "bitwise_left_shift", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
}  # fmt: skip
_TESTS = {
    "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor", "Not": "logical_not", "Equal": "eq",
    "Less": "lt", "Greater": "gt", "LessOrEqual": "le", "GreaterOrEqual": "ge", "IsNaN": "isnan", "IsInf": "isinf",
}  # fmt: skip
_REDUCED = {
    "ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "amax", "ReduceMin": "amin", "ReduceProd": "prod",
    "ReduceL1": "norm", "ReduceL2": "norm", "ReduceSumSquare": "norm", "ReduceLogSumExp": "logsumexp",
    "ReduceLogSum": "sum",
}  # fmt: skip

HANDLERS: dict[str, Handler] = {
    **MOVES,
    **PRODUCTS,
    **SEQUENCES,
    **{name: _unary(target) for name, target in _UNARY.items()},
    **{name: _each(target, "self", "other") for name, target in _BINARY.items()},
    **{name: _test(target) for name, target in _TESTS.items()},
    **{name: _reduce(target) for name, target in _REDUCED.items()},
    **{name: _variadic(target) for name, target in {"Max": "max", "Min": "min", "Sum": "sum", "Mean": "mean"}.items()},
    "Pow": _each("pow", "self", "exponent"),
    "Clip": _clip,
    **dict.fromkeys(("Gelu", "FastGelu", "BiasGelu"), _gelu),
    **dict.fromkeys(("Cast", "CastLike"), _cast),
    "Where": _where,
    "ArgMax": _arg("argmax"),
    "ArgMin": _arg("argmin"),
    "BatchNormalization": _batch_norm,
    "InstanceNormalization": lambda op: Result((op.like(),), "aten.instance_norm", op.refs("input", "weight", "bias")),
    "LayerNormalization": _layer_norm("layer_norm"),
    **dict.fromkeys(("RMSNormalization", "SimplifiedLayerNormalization"), _layer_norm("rms_norm")),
    "SkipLayerNormalization": _skip_norm("SkipLayerNorm"),
    "SkipSimplifiedLayerNormalization": _skip_norm("SkipRmsNorm"),
    "GroupNormalization": _group_norm,
    "MeanVarianceNormalization": lambda op: Result((op.like(),), "aten.instance_norm", {"input": op.ref(0)}),
    "LpNormalization": lambda op: Result((op.like(),), "onnx.LpNormalization", {"self": op.ref(0)}),
    "LRN": lambda op: Result((op.like(),), "onnx.LRN", {"self": op.ref(0), "size": op.int_attr("size", 1)}),
    "QuantizeLinear": _quantize,
    "DequantizeLinear": _dequantize,
    "DynamicQuantizeLinear": _dynamic_quantize,
    **dict.fromkeys(("QLinearAdd", "QLinearMul"), _quantized_each),
}
# Names that mean something else in another domain.
_MICROSOFT = {"Attention": fused_attention}


def handler_of(domain: str, name: str) -> Handler | None:
    """The rule of an operator of the standard, of onnxruntime's additions or of ONNX's older experiments."""
    if domain == "com.microsoft" and name in _MICROSOFT:
        return _MICROSOFT[name]
    return HANDLERS.get(name) if domain in ("", "com.microsoft", "ai.onnx.contrib") else None
