"""Single kernels from their sizes, and the demand of many that run one by one."""

import re
from collections.abc import Callable, Sequence
from typing import Any, cast

import msgspec
import numpy as np

from analysis.model.ir.workload import Floats, through_window
from analysis.model.operators.contractions import (
    ATTENTION_FLOPS,
    ATTENTION_SPECIAL,
    DEPTHWISE_CHANNELS,
    ELEMENTWISE,
    NORM_FLOPS,
    RMS_NORM_FLOPS,
)
from hardware.demand import READ, READ_WEIGHT, WRITE, Calls, Demand, OpClass, Transfers
from hardware.precision import Widths

Shape = dict[str, float]
_OF_DEMAND = ("op_class", "gemm", "vector_flops", "special", "elements", "patches", "expert_rows", "sectors")


class SingleKernel(msgspec.Struct, frozen=True):
    """The work of one kernel, in fields of a Demand where they have these names (`macs` None: the product of `gemm`).
    `elements` are written; other elements are read, of `weights`, and `cached` in the format of the cache. `window` are
    the values of an input channel that one result takes, `image` the results of an image in each channel. Weights of so
    many `layers` and `inputs` are read in turn. In `waits_s` no unit works."""

    op_class: OpClass
    gemm: tuple[float, float, float, float]
    vector_flops: float
    special: float
    read: float
    weights: float
    elements: float
    patches: float = 0.0
    window: float = 1.0
    image: float = 1.0
    macs: float | None = None
    cached: float = 0.0
    layers: float = 1.0
    inputs: float = 1.0
    expert_rows: tuple[float, float, float] = (0.0, 0.0, 0.0)
    is_prompt: bool = False
    waits_s: float = 0.0
    links: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
    sectors: float = 0.0


def product(batch: float, m: float, n: float, k: float) -> SingleKernel:
    """Return `batch` products of an (m, k) and a (k, n) matrix."""
    return SingleKernel(OpClass.GEMM, (batch, m, n, k), 0, 0, batch * m * k, batch * n * k, batch * m * n)


def _side(shape: Shape) -> float:
    return shape["out"] if "out" in shape else (shape["h"] + 2 * shape["pad"] - shape["r"]) // shape["stride"] + 1


def _convolution(shape: Shape) -> SingleKernel:
    if "Kernel_Szie" in shape:  # as a table spells it
        size = dict.fromkeys("hw", shape["Input_Size"]) | {"n": shape["B"], "c": shape["Input_Channel"], "groups": 1.0}
        size |= {"k": shape["Output_Channel"], "r": shape["Kernel_Szie"]}
        shape = size | {"stride": shape["Stride"], "pad": shape["Padding"]}
    groups, window = shape["groups"], shape["r"] ** 2
    rows, channels = shape["n"] * _side(shape) ** 2, shape["c"] / groups
    is_depthwise = groups > 1 and max(channels, shape["k"] / groups) <= DEPTHWISE_CHANNELS
    op_class = OpClass.DEPTHWISE if is_depthwise else OpClass.CONV
    patches = shape["n"] * np.ceil(_side(shape) / 4) ** 2 if (shape["r"], shape["stride"], groups) == (3, 1, 1) else 0.0
    return SingleKernel(
        op_class, (groups, rows, shape["k"] / groups, channels * window), 0, 0,
        count_elements(shape), shape["k"] * channels * window, rows * shape["k"], patches, window, _side(shape) ** 2,
    )  # fmt: skip


def _pool(shape: Shape) -> SingleKernel:
    read, written = count_elements(shape), shape["n"] * shape["c"] * _side(shape) ** 2
    flops = written * shape["r"] ** 2 if "r" in shape else read
    return SingleKernel(OpClass.POOL, (0, 0, 0, 0), flops, 0, read, 0, written)


def attention(shape: Shape) -> SingleKernel:
    """Return a fused attention. With a causal mask, row i sees its first i columns."""
    key_heads, rows, columns = shape["batch"] * shape["kv_heads"], shape["q"], shape["kv"]
    window = int(shape.get("window", 0))
    seen = (rows + 1) / 2 if shape["causal"] and rows == columns else columns
    if window:  # a row sees only its last keys
        seen = through_window(window, rows, columns - rows) if shape["causal"] else min(seen, 2.0 * window + 1.0)
        columns = min(columns, rows + (1.0 if shape["causal"] else 2.0) * window)
    queries = key_heads * rows * shape["heads"] / shape["kv_heads"]
    # Heads that share keys are the rows of one product, unless the kernel gives each head blocks of its own.
    products = key_heads if shape.get("packed", 1.0) else queries / rows
    scores, dim = queries * seen, (shape["dim_qk"], shape["dim_v"])
    return SingleKernel(
        OpClass.ATTENTION, (products, queries / products, seen, dim[0]), scores * ATTENTION_FLOPS,
        scores * ATTENTION_SPECIAL, queries * dim[0], 0, queries * dim[1], macs=scores * sum(dim),
        cached=key_heads * columns * shape.get("dim_kept", sum(dim)),
    )  # fmt: skip


def count_elements(shape: Shape) -> float:
    """Return the elements of a result: stated, or those of images, rows or a matrix, in as many parts."""
    for names in (
        ("B", "H"),
        ("n", "c", "h", "w"),
        ("batch", "seq", "heads", "head_dim"),
        ("tokens", "width"),
        ("m", "n"),
    ):
        if shape.keys() >= set(names):
            return float(np.prod([shape[name] for name in names])) * shape.get("parts", 1.0)
    return shape["elements"]


def rowwise(
    op_class: OpClass, operands: float = 1, flops: float = 0, special: float = 0
) -> Callable[[Shape], SingleKernel]:
    """Return a builder of kernels with `operands` values read, `flops` and special functions per result; a norm of rows
    has a root for each row of a stated width."""

    def build(shape: Shape) -> SingleKernel:
        """Return the kernel of a shape."""
        n = count_elements(shape)
        roots = shape.get("tokens", 0.0) if op_class == OpClass.ROW_NORM else special * n
        roots += shape.get("m", 0.0) * (op_class == OpClass.SOFTMAX)
        return SingleKernel(op_class, (0, 0, 0, 0), flops * n, roots, operands * n, 0, n)

    return build


def _reorder(shape: Shape) -> SingleKernel:
    """Return a copy to the other order of a matrix or of images. A row of the result takes values `far` from each
    other, whose sectors the next row shares if the same 128 threads write it."""
    width, far = (shape["m"], shape["n"]) if "m" in shape else (shape["h"] * shape["w"], shape["c"])
    width, far = (width, far) if shape.get("is_last", 1.0) else (far, width)
    copied = rowwise(OpClass.MOVEMENT)(shape)
    return msgspec.structs.replace(copied, sectors=min(far / 8.0, 1.0) * min(width / 128.0, 1.0))


def _operator(
    name: str, operands: float = 1, op_class: OpClass = OpClass.ELEMENTWISE
) -> Callable[[Shape], SingleKernel]:
    """Return a builder of kernels of an operator, with its arithmetic by operators.toml."""
    return rowwise(op_class, operands, *ELEMENTWISE[name][1:])


def _self_attention(shape: Shape) -> SingleKernel:
    return attention({**shape, "q": shape["seq"], "dim_qk": shape["head_dim"], "dim_v": shape["head_dim"]})


KERNEL_KINDS: dict[str, Callable[[Shape], SingleKernel]] = {
    **dict.fromkeys(("linear", "bmm"), lambda shape: product(*(shape[name] for name in "BMNK"))),
    "gemm": lambda shape: product(1, *(shape[name] for name in "mnk")),
    **dict.fromkeys(("conv", "conv2d"), _convolution),
    "attention_fwd": attention,
    **dict.fromkeys(("attention_decode", "attention_encoder", "attention_prefill"), _self_attention),
    **{name: _operator(name) for name in ("relu", "gelu", "tanh", "silu", "hardswish")},
    **{name: _operator(name, 2) for name in ("add", "mul", "div", "pow")},
    **{f"{name}u": _operator(name) for name in ("add", "mul", "div", "pow")},  # with a constant
    "residual_add": _operator("add", 2),
    "activation": _operator("swiglu", 2),  # gated: reads twice the width
    "batch_norm": _operator("batch_norm", op_class=OpClass.NORM),
    **dict.fromkeys(("ln", "layer_norm"), rowwise(OpClass.ROW_NORM, 1, NORM_FLOPS)),
    **dict.fromkeys(("rms_norm", "rmsnorm_or_layernorm"), rowwise(OpClass.ROW_NORM, 1, RMS_NORM_FLOPS)),
    "softmax": _operator("softmax", op_class=OpClass.SOFTMAX),
    **dict.fromkeys(("max_pool2d", "adaptive_avg_pool2d"), _pool),
    "cat": rowwise(OpClass.ELEMENTWISE),  # several tensors in their order
    **dict.fromkeys(("heads_copy", "window_copy"), rowwise(OpClass.MOVEMENT)),
    **dict.fromkeys(("transpose_copy", "layout_copy"), _reorder),
    "embedding": rowwise(OpClass.GATHER),
}


def parse_shape(text: str) -> Shape:
    """Return the sizes of a shape, `m=128 n=64 causal=yes`, by name."""
    pairs = (part.split("=", 1) for part in re.split(r"[; ]", text))
    cells = {key: {"yes": "1", "no": "0"}.get(value, value) for key, value in pairs}
    return {key: float(value) for key, value in cells.items() if value.replace(".", "").isdigit()}


def kernel_demand(kernels: Sequence[SingleKernel], widths: Widths) -> Demand:
    """Return the demand of independent kernels, each repeated on the same data, so that only a kernel's other data and
    other `inputs` and the weights of other `layers` are between two uses."""
    n, index = len(kernels), np.arange(len(kernels))
    fields = {name: np.array([getattr(k, name) for k in kernels]).T for name in SingleKernel.__struct_fields__}
    read, weights, cached, elements, links = (
        fields[each] for each in ("read", "weights", "cached", "elements", "links")
    )
    read_bytes = read * widths.activations + cached * widths.cache
    traffic: Floats = np.stack([read_bytes, weights * widths.weights, elements * widths.activations], axis=1)
    others: Floats = traffic.sum(axis=1, keepdims=True) - traffic
    for role, name in ((0, "inputs"), (1, "layers")):
        others[:, role] += (fields[name] - 1.0) * np.maximum(traffic[:, role], 1.0)
    unpack_ops = weights * widths.unpack_weights + cached * widths.unpack_cache
    windows, zeros, ones = np.ones((6, n)), np.zeros(n), np.ones(n)
    windows[0], windows[2] = fields["image"], fields["window"]
    return Demand(
        **cast("dict[str, Any]", {name: fields[name].copy() for name in _OF_DEMAND}),
        macs=np.array([np.prod(k.gemm) if k.macs is None else k.macs for k in kernels], dtype=np.float64),
        local_bytes=zeros,
        weight_bytes=traffic[:, 1],
        kernel=index,
        head=np.ones(n, dtype=np.bool_),
        n_kernels=n,
        transfers=Transfers(
            op=np.repeat(index, 3),
            size_bytes=traffic.ravel(),
            role=np.tile(np.array([READ, READ_WEIGHT, WRITE]), n),
            distance=others.ravel(),
            previous=np.full(3 * n, -1),
        ),
        element_bytes=widths.activations,
        right_bytes=np.where(weights > 0, widths.weights, np.where(cached > 0, widths.cache, widths.activations)),
        unpack_ops=unpack_ops if unpack_ops.any() else None,
        calls=Calls(zeros, zeros, fields["is_prompt"] * 1.0, zeros, ones, ones),
        model=np.zeros(n, dtype=np.int64),
        batch=np.ones(n, dtype=np.int64),
        lag=zeros,
        windows=windows,
        is_expert=fields["expert_rows"][0] > 0,
        links=links if links.any() else None,
    )
