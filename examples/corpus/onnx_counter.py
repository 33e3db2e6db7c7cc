"""Multiply-accumulates of an ONNX file by the shapes that ONNX Runtime sees when it runs it, node by node."""

import json
import tempfile
from collections.abc import Callable, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from analysis.model.ir.workload import Workload
from analysis.model.names.targets import Input

Shapes = list[list[int]]


def _window(ins: Shapes, outs: Shapes) -> int:
    return prod(outs[0]) * prod(ins[1][1:])


def _quantised_window(ins: Shapes, outs: Shapes) -> int:
    return prod(outs[0]) * prod(ins[3][1:])


def _transposed(ins: Shapes, outs: Shapes) -> int:
    return prod(ins[0]) * prod(ins[1][1:])


def _product(ins: Shapes, outs: Shapes) -> int:
    return prod(outs[0]) * ins[0][-1]


def _gemm(ins: Shapes, outs: Shapes) -> int:
    return prod(ins[0]) * outs[0][1]


def _recurrent(ins: Shapes, outs: Shapes) -> int:
    return prod(ins[0][:2]) * (prod(ins[1]) + prod(ins[2]))


COUNTED: dict[str, Callable[[Shapes, Shapes], int]] = {
    "Conv": _window, "ConvInteger": _window, "QLinearConv": _quantised_window, "ConvTranspose": _transposed,
    "MatMul": _product, "MatMulInteger": _product, "DynamicQuantizeMatMul": _product, "QLinearMatMul": _product,
    "Gemm": _gemm, "LSTM": _recurrent, "GRU": _recurrent, "RNN": _recurrent, "DynamicQuantizeLSTM": _recurrent,
}  # fmt: skip
_HIDDEN = ("Attention", "Einsum", "DeformConv", "LinearAttention")  # work that shapes do not tell


def counted(path: Path, workload: Workload, given: Sequence[Input]) -> float | None:
    """For inputs of the sizes that the workload has at batch 1, and numbers as given. None where ONNX Runtime does not
    run it."""
    import onnxruntime

    numbers = {item.name: item.shape[0] for item in given}
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads, options.log_severity_level, options.enable_profiling = 1, 4, True
    options.add_session_config_entry("session.disable_prepacking", "1")  # else weights are not among the inputs
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = f"{folder}/run"
        try:
            session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            session.run(None, {item.name: _made(item, session, numbers.get(item.name, 1)) for item in workload.inputs})
        except Exception:
            return None
        events = json.loads(Path(session.end_profiling()).read_text())
    total = 0
    for event in events:
        of = event.get("args", {})
        if not event["name"].endswith("_kernel_time") or "op_name" not in of:
            continue
        if of["op_name"] in _HIDDEN:
            return None
        if of["op_name"] in COUNTED:
            total += COUNTED[of["op_name"]](_shapes(of["input_type_shape"]), _shapes(of["output_type_shape"]))
    return float(total)


def _shapes(listed: list[dict[str, list[int]]]) -> Shapes:
    return [next(iter(item.values()), []) for item in listed]


def _made(item: Any, session: Any, number: int) -> Any:
    """Ones, which are neither empty sizes nor indices out of range; the number where it is one."""
    shape = [1 if isinstance(size, str) else size for size in item.shape]
    kind = next(one.type for one in session.get_inputs() if one.name == item.name)
    if kind == "tensor(string)":
        return np.full(shape, "a", object)
    kind = {"float": "float32", "double": "float64"}.get(kind[7:-1], kind[7:-1])
    return np.full(shape, 1 if shape else number, kind)
