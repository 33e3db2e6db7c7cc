"""Operator kinds: one name per concept, whatever ATen calls its variants (in-place, fused, .default, .out).

`fuses` says how a kind joins a fusion subgraph: an anchor starts one, an epilogue joins its producer's.
"""

from __future__ import annotations

import msgspec

from hardware.demand import OpClass


class Kind(msgspec.Struct, frozen=True):
    """`op_class`: how hardware sees it. `fuses`: 'anchor', 'epilogue' or 'alone'."""

    op_class: OpClass
    fuses: str


_ANCHORS = {
    "conv": OpClass.CONV,
    "depthwise_conv": OpClass.DEPTHWISE,
    "conv_transpose": OpClass.CONV,
    "linear": OpClass.GEMM,
    "matmul": OpClass.GEMM,
    "attention": OpClass.ATTENTION,
    "recurrent": OpClass.GEMM,
    "deform_conv": OpClass.CONV,
}
_EPILOGUES = {
    "bias": OpClass.ELEMENTWISE,
    "batch_norm": OpClass.NORM,
    "relu": OpClass.ELEMENTWISE,
    "relu6": OpClass.ELEMENTWISE,
    "gelu": OpClass.ELEMENTWISE,
    "silu": OpClass.ELEMENTWISE,
    "sigmoid": OpClass.ELEMENTWISE,
    "tanh": OpClass.ELEMENTWISE,
    "hardswish": OpClass.ELEMENTWISE,
    "hardsigmoid": OpClass.ELEMENTWISE,
    "exp": OpClass.ELEMENTWISE,
    "add": OpClass.ELEMENTWISE,
    "sub": OpClass.ELEMENTWISE,
    "mul": OpClass.ELEMENTWISE,
    "div": OpClass.ELEMENTWISE,
    "pow": OpClass.ELEMENTWISE,
    "rsqrt": OpClass.ELEMENTWISE,
    "where": OpClass.ELEMENTWISE,
    "compare": OpClass.ELEMENTWISE,
    "clamp": OpClass.ELEMENTWISE,
    "cast": OpClass.ELEMENTWISE,
    "elementwise": OpClass.ELEMENTWISE,
    "softmax": OpClass.SOFTMAX,
    "layer_norm": OpClass.ROW_NORM,
    "group_norm": OpClass.ROW_NORM,
    "norm": OpClass.ROW_NORM,
}
_ALONE = {
    "mean": OpClass.REDUCTION,
    "reduce": OpClass.REDUCTION,
    "max_pool": OpClass.POOL,
    "avg_pool": OpClass.POOL,
    "copy": OpClass.MOVEMENT,
    "cat": OpClass.MOVEMENT,
    "pad": OpClass.MOVEMENT,
    "roll": OpClass.MOVEMENT,
    "fill": OpClass.MOVEMENT,
    "gather": OpClass.GATHER,
    "scatter": OpClass.GATHER,
    "embedding": OpClass.GATHER,
    "resample": OpClass.GATHER,
    "sort": OpClass.GATHER,
    "roi_align": OpClass.GATHER,
    "all_reduce": OpClass.MOVEMENT,
    "all_gather": OpClass.MOVEMENT,
    "fft": OpClass.OTHER,
    "linalg": OpClass.OTHER,
    "custom": OpClass.OTHER,
    "unknown": OpClass.OTHER,
}

KINDS: dict[str, Kind] = {
    **{name: Kind(op_class, "anchor") for name, op_class in _ANCHORS.items()},
    **{name: Kind(op_class, "epilogue") for name, op_class in _EPILOGUES.items()},
    **{name: Kind(op_class, "alone") for name, op_class in _ALONE.items()},
}
