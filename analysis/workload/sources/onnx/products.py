"""ONNX matrix products, convolutions and pools."""

from __future__ import annotations

from typing import Any

from ...poly import Poly, poly
from .op import Handler, Made, Op, Result, Shape, ShapeError, broadcast, shape_of

# --- products ---------------------------------------------------------------------------------------------


def _matmul_shape(left: Shape, right: Shape) -> Shape:
    if not left or not right:
        raise ShapeError("a product of a number")
    rows = () if len(left) == 1 else (left[-2],)
    columns = () if len(right) == 1 else (right[-1],)
    inner = right[0] if len(right) == 1 else right[-2]
    if left[-1] != inner:
        raise ShapeError(f"inner sizes {left[-1]} and {inner} differ")
    return (*broadcast(left[:-2], right[:-2]), *rows, *columns)


def _matmul(op: Op) -> Result:
    return _product(op, 0, 1, op.dtype())


def _product(op: Op, left: int, right: int, dtype: str) -> Result:
    made = Made(_matmul_shape(op.shape(left), op.shape(right)), dtype)
    is_linear = op.value(right).is_weight and len(op.shape(right)) == 2
    args = {"self": op.ref(left), "other": op.ref(right)}
    return Result((made,), "onnx.Linear" if is_linear else "aten.matmul", args)


def _fused_matmul(op: Op) -> Result:
    left, right = list(op.shape(0)), list(op.shape(1))
    for shape, name in ((left, "transA"), (right, "transB")):
        if op.int_attr(name, 0):
            shape[-1], shape[-2] = shape[-2], shape[-1]
    made = Made(_matmul_shape(tuple(left), tuple(right)), op.dtype())
    args = {"self": op.ref(0), "other": op.ref(1), "inner": left[-1]}
    return Result((made,), "onnx.Product", args)


def _gemm(op: Op) -> Result:
    left, right = op.shape(0), op.shape(1)
    rows, inner = left[::-1] if op.int_attr("transA", 0) else left
    columns = right[0] if op.int_attr("transB", 0) else right[1]
    args = {"self": op.ref(0), "other": op.ref(1), "inner": inner}
    if op.has(2):
        args["bias"] = op.ref(2)
    return Result((Made((rows, columns), op.dtype()),), "onnx.Gemm", args)


def _matmul_bits(op: Op) -> Result:
    """Weights of few bits, N x K."""
    columns, inner = poly(op.int_attr("N", 0)), poly(op.int_attr("K", 0))
    args = {"self": op.ref(0), "other": op.ref(1), "inner": inner}
    return Result((Made((*op.shape()[:-1], columns), op.dtype()),), "onnx.Product", args)


def _einsum(op: Op) -> Result:
    equation = str(op.attr("equation", "")).replace(" ", "")
    terms, arrow, result = equation.partition("->")
    sizes: dict[str, Poly] = {}
    for term, value in zip(terms.split(","), op.inputs, strict=True):
        if value is None or "." in term or len(term) != len(value.meta.shape):
            raise ShapeError(f"the equation {equation[:40]!r} is not one that is read here")
        for letter, size in zip(term, value.meta.shape, strict=True):
            sizes[letter] = size if sizes.get(letter, poly(1)) == poly(1) else sizes[letter]
    letters = result if arrow else "".join(sorted(x for x in set(terms) - {","} if terms.count(x) == 1))
    made = Made(tuple(sizes[letter] for letter in letters), op.dtype())
    return Result((made,), "aten.einsum", {"equation": f"{terms}->{letters}", **op.all_refs()})


# --- convolutions and pools -------------------------------------------------------------------------------


def _windows(op: Op, data: int, kernel: list[int], ceil: bool = False) -> tuple[Poly, ...]:
    """Output sizes of a sliding window."""
    space = op.sizes(data, 2)
    rank = len(space)
    if len(kernel) != rank:
        raise ShapeError(f"a window of {len(kernel)} dimensions over {rank}")
    strides = op.int_list("strides", [1] * rank)
    dilations = op.int_list("dilations", [1] * rank)
    way = op.attr("auto_pad", "NOTSET")
    if way.startswith("SAME"):
        return shape_of([-(-size // step) for size, step in zip(space, strides, strict=True)])
    pads = (op.int_list("pads") or [0] * 2 * rank) if way != "VALID" else [0] * 2 * rank
    result = []
    for place, size in enumerate(space):
        room = size + pads[place] + pads[place + rank] - dilations[place] * (kernel[place] - 1) - 1
        steps = -(-room // strides[place]) if ceil else room // strides[place]
        if ceil and steps * strides[place] >= size + pads[place]:
            steps -= 1  # the last window must start inside the data
        result.append(steps + 1)
    return shape_of(result)


def _convolution(op: Op, data: int, weight: int, bias: int, dtype: str) -> Result:
    shape = op.shape(weight)
    made = Made((op.shape(data)[0], shape[0], *_windows(op, data, list(op.sizes(weight, 2)))), dtype)
    args: dict[str, Any] = {"input": op.ref(data), "weight": op.ref(weight), "groups": op.int_attr("group", 1)}
    if op.has(bias):
        args["bias"] = op.ref(bias)
    return Result((made,), f"aten.conv{max(1, min(3, len(shape) - 2))}d", args)


def _conv(op: Op) -> Result:
    return _convolution(op, 0, 1, 2, op.dtype())


def _conv_transpose(op: Op) -> Result:
    weight = op.shape(1)
    rank = len(weight) - 2
    groups = op.int_attr("group", 1)
    space, kernel = op.sizes(0, 2), op.sizes(1, 2)
    strides = op.int_list("strides", [1] * rank)
    dilations = op.int_list("dilations", [1] * rank)
    extra = op.int_list("output_padding", [0] * rank)
    asked = op.int_list("output_shape")
    if asked:
        sizes = asked[-rank:]
    elif str(op.attr("auto_pad", "")).startswith("SAME"):
        sizes = [size * step for size, step in zip(space, strides, strict=True)]
    else:
        pads = op.int_list("pads") or [0] * 2 * rank
        sizes = [
            strides[x] * (space[x] - 1) + extra[x] + (kernel[x] - 1) * dilations[x] + 1 - pads[x] - pads[x + rank]
            for x in range(rank)
        ]
    args: dict[str, Any] = {"input": op.ref(0), "weight": op.ref(1), "groups": groups}
    if op.has(2):
        args["bias"] = op.ref(2)
    made = Made((op.shape()[0], weight[1] * groups, *shape_of(sizes)), op.dtype())
    return Result((made,), f"aten.conv_transpose{max(1, min(3, rank))}d", args)


def _deform_conv(op: Op) -> Result:
    found = _convolution(op, 0, 1, 3, op.dtype())
    return Result(found.outputs, "torchvision.deform_conv2d", {**found.args, "offset": op.ref(2)})


def _pool(kind: str) -> Handler:
    def handler(op: Op) -> Result:
        kernel = op.int_list("kernel_shape")
        sizes = _windows(op, 0, kernel, bool(op.int_attr("ceil_mode", 0)))
        made = Made((*op.shape()[:2], *sizes), op.dtype())
        indices = (Made(made.shape, "int64"),) * (len(op.node.outputs) - 1)
        target = f"aten.{kind}_pool{max(1, min(3, len(kernel)))}d"
        return Result((made, *indices), target, {"self": op.ref(0), "kernel_size": list(kernel)})

    return handler


def _global_pool(target: str) -> Handler:
    def handler(op: Op) -> Result:
        shape = (*op.shape()[:2], *(poly(1) for _ in op.shape()[2:]))
        return Result((Made(shape, op.dtype()),), f"aten.{target}", {"self": op.ref(0)})

    return handler


def _integer_conv(op: Op) -> Result:
    return _convolution(op, 0, 1, 99, "int32")


def _quantized_conv(op: Op) -> Result:
    return _convolution(op, 0, 3, 8, op.dtype())


def _integer_matmul(op: Op) -> Result:
    return _product(op, 0, 1, "int32")


def _quantized_matmul(op: Op) -> Result:
    return _product(op, 0, 3, op.dtype())


PRODUCTS: dict[str, Handler] = {
    "MatMul": _matmul,
    "FusedMatMul": _fused_matmul,
    **dict.fromkeys(("Gemm", "FusedGemm"), _gemm),
    "MatMulNBits": _matmul_bits,
    "Einsum": _einsum,
    **dict.fromkeys(("Conv", "FusedConv"), _conv),
    "ConvTranspose": _conv_transpose,
    "DeformConv": _deform_conv,
    "MaxPool": _pool("max"),
    "AveragePool": _pool("avg"),
    "LpPool": _pool("lp"),
    "GlobalAveragePool": _global_pool("adaptive_avg_pool2d"),
    "GlobalMaxPool": _global_pool("adaptive_max_pool2d"),
    "GlobalLpPool": _global_pool("norm"),
    "ConvInteger": _integer_conv,
    "QLinearConv": _quantized_conv,
    "MatMulInteger": _integer_matmul,
    "QLinearMatMul": _quantized_matmul,
}
