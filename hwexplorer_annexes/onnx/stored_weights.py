"""How operators store their weights: several in a byte, beside scales and statistics that are not trained."""

from collections.abc import Iterable

from hwexplorer_annexes.onnx.onnx_file import OnnxNode

# Values of a byte, by type. Whole numbers of these types are weights where floats would be.
IN_A_BYTE = {"int8": 1, "uint8": 1, "int4": 2, "uint4": 2, "float4": 2, "int2": 4, "uint2": 4}
# Inputs that are not trained: statistics, scales and zero points.
_NOT_TRAINED = {
    "BatchNormalization": (3, 4), "QuantizeLinear": (1, 2), "DequantizeLinear": (1, 2), "ConvInteger": (2, 3),
    "MatMulInteger": (2, 3), "QLinearConv": (1, 2, 4, 5, 6, 7), "QLinearMatMul": (1, 2, 4, 5, 6, 7),
    "QLinearAdd": (1, 2, 4, 5, 6, 7), "QLinearMul": (1, 2, 4, 5, 6, 7), "MatMulNBits": (2, 3), "MatMulBnb4": (2,),
    "GatherBlockQuantized": (2, 3), "QMoE": (3, 6, 9, 11, 12, 13), "QGemm": (1, 2, 4, 5, 7, 8), "QAttention": (3, 4),
    "DynamicQuantizeMatMul": (2, 3), "MatMulIntegerToFloat": (2, 3, 4, 5), "DynamicQuantizeLSTM": (8, 9, 10, 11),
    "Resize": (1, 2, 3),
}  # fmt: skip
# Inputs of bytes that hold several weights, and the attribute with the bits of a weight.
_PACKED = {
    "MatMulNBits": ((1,), "bits"), "MatMulBnb4": ((1,), ""), "GatherBlockQuantized": ((0,), "bits"),
    "QMoE": ((2, 5, 8), "expert_weight_bits"),
}  # fmt: skip
_PACKED_BITS = 4  # unless the attribute states them


def weights_in_values(nodes: Iterable[OnnxNode]) -> dict[str, int]:
    """Return the weights that a value holds, by the name of a stored tensor, where they are not one: 0 for numbers that
    are not trained, several for weights packed in bytes."""
    weights: dict[str, int] = {}
    for node in nodes:
        places, attribute = _PACKED.get(node.op, ((), ""))
        bits = node.attributes.get(attribute, _PACKED_BITS)
        in_a_byte = 8 // bits if isinstance(bits, int) and 0 < bits <= 8 else 1
        counts = dict.fromkeys(places, in_a_byte) | dict.fromkeys(_NOT_TRAINED.get(node.op, ()), 0)
        weights |= {node.inputs[place]: count for place, count in counts.items() if place < len(node.inputs)}
    return weights
