"""ONNX recurrent layers, attention, detection and spectra."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...poly import Poly, poly, product
from .moves import DATA_DEPENDENT
from .op import Handler, Made, Op, Result, Shape, constant, positive, shape_of

# --- recurrent, attention and detection -------------------------------------------------------------------


def _recurrent(gates: int) -> Handler:
    def handler(op: Op) -> Result:
        length, batch, _ = op.shape() if not op.int_attr("layout", 0) else (op.shape()[1], op.shape()[0], poly(0))
        ways, hidden = op.shape(2)[0], op.shape(2)[-1]
        if op.int_attr("layout", 0):
            shape: Shape = (batch, length, ways, hidden)
            last: Shape = (batch, ways, hidden)
        else:
            shape, last = (length, ways, batch, hidden), (ways, batch, hidden)
        made = (Made(shape, op.dtype()), Made(last, op.dtype()), Made(last, op.dtype()))
        args = {**op.refs_of(0, 1, 2), "gates": gates, "steps": length}
        return Result(made[: len(op.node.outputs)], f"onnx.{op.node.op}", {**args, **_others(op, 3)})

    return handler


def _others(op: Op, start: int) -> dict[str, Any]:
    return {str(index): op.ref(index) for index in range(start, len(op.inputs)) if op.has(index)}


def _attention(op: Op) -> Result:
    """softmax(Q K^T) V of opset 23: (batch, heads, length, width) or (batch, length, heads x width)."""
    query, key, value = op.shape(0), op.shape(1), op.shape(2)
    if len(query) == 4:
        heads, rows, width, value_width = query[1], query[2], query[3], value[3]
        kv_heads, columns = key[1], key[2]
        shape: Shape = (query[0], heads, rows, value_width)
    else:
        heads, kv_heads = poly(op.int_attr("q_num_heads", 1)), poly(op.int_attr("kv_num_heads", 1))
        rows, columns, width, value_width = query[1], key[1], query[2] // heads, value[2] // kv_heads
        shape = (query[0], rows, heads * value_width)
    if op.has(4):
        columns = columns + op.shape(4)[2]
    cache = [(query[0], kv_heads, columns, width), (query[0], kv_heads, columns, value_width)]
    scores = (query[0], heads, rows, columns)
    return _attended(op, shape, [*cache, scores], heads, rows, columns, width, value_width)


def _attended(
    op: Op, shape: Shape, more: Sequence[Shape], heads: Poly, rows: Poly, columns: Poly, width: Poly, value_width: Poly
) -> Result:
    sizes = {"groups": shape[0] * heads, "rows": rows, "columns": columns, "width": width, "value_width": value_width}
    made = (Made(shape, op.dtype()), *(Made(other, op.dtype()) for other in more[: len(op.node.outputs) - 1]))
    return Result(made, "onnx.Attention", {**_others(op, 0), **sizes})


def _multi_head(op: Op) -> Result:
    """onnxruntime's MultiHeadAttention and GroupQueryAttention on (batch, length, heads x width)."""
    heads = poly(op.int_attr("num_heads", 1))
    kv_heads = poly(op.int_attr("kv_num_heads", heads.constant()))
    batch, rows, wide = op.shape(0)
    if not op.has(1):  # queries, keys and values in one tensor
        wide, columns = wide * heads // (heads + kv_heads * 2), rows
        value_width = wide // heads
    elif len(op.shape(1)) == 4:
        columns, value_width = op.shape(1)[2], op.shape(2)[3]
    else:
        columns, value_width = op.shape(1)[1], op.shape(2)[2] // kv_heads
    past = 3 if op.node.op == "GroupQueryAttention" else 6
    if op.has(past):
        columns = columns + op.shape(past)[2]
    width = wide // heads
    cache = [(batch, kv_heads, columns, width), (batch, kv_heads, columns, value_width)]
    return _attended(op, (batch, rows, heads * value_width), cache, heads, rows, columns, width, value_width)


def fused_attention(op: Op) -> Result:
    """onnxruntime's Attention: the projections to queries, keys and values are part of it."""
    heads = poly(op.int_attr("num_heads", 1))
    batch, rows, _ = op.shape(0)
    wide = op.shape(1)[1] // 3
    found = _attended(op, (batch, rows, wide), [], heads, rows, rows, wide // heads, wide // heads)
    projection = product((batch, rows, op.shape(1)[0], op.shape(1)[1]))
    return Result(found.outputs, found.target, {**found.args, "projection": projection})


def _nms(op: Op) -> Result:
    """At most so many boxes of every class."""
    most = op.number(2) if op.has(2) else 0
    batch, classes, boxes = op.shape(1)
    kept = min(constant(most or 0), constant(boxes)) or constant(boxes)
    shape = (batch * classes * kept, poly(3))
    return Result((Made(shape, "int64"),), "onnx.NonMaxSuppression", op.refs_of(0, 1), DATA_DEPENDENT)


def _roi(target: str) -> Handler:
    def handler(op: Op) -> Result:
        side = op.int_list("pooled_shape") or [op.int_attr("output_height", 1), op.int_attr("output_width", 1)]
        shape = (op.shape(1)[0], op.shape()[1], *shape_of(side))
        args = {"input": op.ref(0), "rois": op.ref(1), "sampling_ratio": op.int_attr("sampling_ratio", 0)}
        return Result((Made(shape, op.dtype()),), f"torchvision.{target}", args)

    return handler


def _grid_sample(op: Op) -> Result:
    shape = (*op.shape()[:2], *op.shape(1)[1:-1])
    target = "grid_sampler_3d" if len(shape) == 5 else "grid_sampler_2d"
    return Result((Made(shape, op.dtype()),), f"aten.{target}", op.refs("input", "grid"))


def _affine_grid(op: Op) -> Result:
    size = shape_of(op.items(1))
    shape = (size[0], *size[2:], poly(len(size) - 2))
    return Result((Made(shape, op.dtype()),), "aten.affine_grid_generator", {"theta": op.ref(0)})


def _dft(op: Op) -> Result:
    axis = op.number(2) if op.has(2) else op.int_attr("axis", -2 if op.opset >= 20 else 1)
    place = positive(constant(axis), len(op.shape()))
    shape = list(op.shape())
    if op.has(1):
        shape[place] = poly(constant(op.number(1)))
    if op.int_attr("onesided", 0):
        shape[place] = poly(constant(shape[place]) // 2 + 1)
    shape[-1] = poly(2)
    return Result((Made(tuple(shape), op.dtype()),), "onnx.DFT", {"self": op.ref(0), "dim": place})


def _stft(op: Op) -> Result:
    length = op.number(3) if op.has(3) else None
    points = constant(length if length is not None else op.shape(2)[0])
    step = constant(op.number(1))
    frames = (constant(op.shape()[1]) - points) // step + 1
    kept = points // 2 + 1 if op.int_attr("onesided", 1) else points
    shape = (op.shape()[0], poly(frames), poly(kept), poly(2))
    args = {"self": op.ref(0), "n_fft": points, "onesided": bool(op.int_attr("onesided", 1))}
    return Result((Made(shape, op.dtype()),), "aten.stft", args)


def _rotary(op: Op) -> Result:
    return Result((op.like(),), "aten.rotary_embedding", op.all_refs())


SEQUENCES: dict[str, Handler] = {
    "RotaryEmbedding": _rotary,
    "LSTM": _recurrent(4),
    "GRU": _recurrent(3),
    "RNN": _recurrent(1),
    "Attention": _attention,
    **dict.fromkeys(("MultiHeadAttention", "GroupQueryAttention"), _multi_head),
    "NonMaxSuppression": _nms,
    "RoiAlign": _roi("roi_align"),
    "MaxRoiPool": _roi("roi_pool"),
    "GridSample": _grid_sample,
    "AffineGrid": _affine_grid,
    "DFT": _dft,
    "STFT": _stft,
    "Det": lambda op: Result((Made(op.shape()[:-2], op.dtype()),), "aten.det", {"self": op.ref(0)}),
}
