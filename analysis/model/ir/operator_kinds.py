"""Operator kinds: one name for all ATen variants of an operation, and how the kind joins a subgraph."""

import msgspec

from hardware.demand import OpClass


class OperatorKind(msgspec.Struct, frozen=True):
    """`op_class` is its class in a demand on hardware. `fuses`: 'anchor', 'epilogue' or 'alone' in a subgraph."""

    op_class: OpClass
    fuses: str


_KINDS = (
    ("anchor", OpClass.CONV, "conv conv_transpose deform_conv"),
    ("anchor", OpClass.DEPTHWISE, "depthwise_conv"),
    ("anchor", OpClass.GEMM, "linear matmul recurrent"),
    ("anchor", OpClass.ATTENTION, "attention"),
    ("epilogue", OpClass.ELEMENTWISE, "bias relu relu6 gelu silu sigmoid tanh hardswish hardsigmoid exp rsqrt pow"),
    ("epilogue", OpClass.ELEMENTWISE, "add sub mul div where compare clamp cast elementwise"),
    ("epilogue", OpClass.NORM, "batch_norm"),
    ("epilogue", OpClass.ROW_NORM, "layer_norm group_norm norm"),
    ("epilogue", OpClass.SOFTMAX, "softmax"),
    ("alone", OpClass.REDUCTION, "mean reduce"),
    ("alone", OpClass.POOL, "max_pool avg_pool"),
    ("alone", OpClass.MOVEMENT, "copy cat pad roll fill all_reduce all_gather all_to_all"),
    ("alone", OpClass.GATHER, "gather scatter embedding resample sort roi_align"),
    ("alone", OpClass.FACTOR, "lu cholesky solve"),
    ("alone", OpClass.OTHER, "fft linalg custom unknown"),
)
KINDS = {name: OperatorKind(op_class, fuses) for fuses, op_class, names in _KINDS for name in names.split()}
