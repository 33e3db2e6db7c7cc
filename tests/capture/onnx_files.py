"""Small ONNX files made by hand, for operators that no exporter writes and for everything that can be wrong."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Shape = Sequence[int | str | None]
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def weight(name: str, *shape: int, dtype: Any = np.float32) -> onnx.TensorProto:
    return numpy_helper.from_array(np.ones(shape, dtype=dtype), name)


def numbers(name: str, *values: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(values, dtype=np.int64), name)


def number(name: str, value: Any, dtype: Any = np.int64) -> onnx.TensorProto:
    return numpy_helper.from_array(np.array(value, dtype=dtype), name)


def info(name: str, shape: Shape | None, kind: int = FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, [x.strip("-") for x in inputs.split()], outputs.split(), **attributes)


def graph(
    nodes: Sequence[onnx.NodeProto],
    inputs: dict[str, Shape | None] | Sequence[onnx.ValueInfoProto],
    outputs: Sequence[str],
    stored: Sequence[onnx.TensorProto] = (),
    told: Sequence[onnx.ValueInfoProto] = (),
) -> onnx.GraphProto:
    given = [info(name, shape) for name, shape in inputs.items()] if isinstance(inputs, dict) else list(inputs)
    results = [helper.make_tensor_value_info(name, FLOAT, None) for name in outputs]
    return helper.make_graph(list(nodes), "g", given, results, list(stored), value_info=list(told))


def save(folder: Path, *parts: Any, opset: int = 21, functions: Sequence[onnx.FunctionProto] = (), **more: Any) -> Path:
    """Write `graph(*parts)`; nothing is checked, as the files are often wrong on purpose."""
    made = helper.make_model(graph(*parts, **more), opset_imports=[helper.make_opsetid("", opset)], functions=functions)
    path = folder / "net.onnx"
    path.write_bytes(made.SerializeToString())
    return path
