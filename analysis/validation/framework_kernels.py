"""Kernels of PyTorch timed alone: the work of each from its shape, as `n=32 c=64 h=56 w=56 r=3 stride=2 pad=1`.

Weights and inputs come from memory, and no host is waited for, as in a graph of these kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import numpy as np

from analysis.model.operators.contractions import DEPTHWISE_CHANNELS
from analysis.validation.kernel_validation import (
    Shape,
    SingleKernel,
    attention,
    count_elements,
    make_points,
    parse_shape,
    product,
    rowwise,
)
from analysis.validation.measured_rows import catalogue_device, read_rows
from analysis.validation.row_validation import PredictionPoint
from hardware.demand import OpClass
from hardware.device import Device
from hardware.engines.runtime import runtimes
from hardware.errors import RequestError
from hardware.grouping import group_by
from hardware.plan import make_plan
from hardware.precision import FORMATS, WIDE
from hardware.setup import Setup

_RUNTIME = "eager_graph"  # without waits for the host
_NONE = (0.0, 0.0, 0.0, 0.0)


def _side(shape: Shape) -> float:
    return shape["out"] if "out" in shape else (shape["h"] + 2 * shape["pad"] - shape["r"]) // shape["stride"] + 1


def _convolution(shape: Shape) -> SingleKernel:
    groups, window = shape["groups"], shape["r"] ** 2
    rows, channels = shape["n"] * _side(shape) ** 2, shape["c"] / groups
    few = groups > 1 and max(channels, shape["k"] / groups) <= DEPTHWISE_CHANNELS
    patches = shape["n"] * np.ceil(_side(shape) / 4) ** 2 if (shape["r"], shape["stride"], groups) == (3, 1, 1) else 0.0
    return SingleKernel(
        OpClass.DEPTHWISE if few else OpClass.CONV, (groups, rows, shape["k"] / groups, channels * window), 0, 0,
        count_elements(shape), shape["k"] * channels * window, rows * shape["k"], patches, window, _side(shape) ** 2,
    )  # fmt: skip


def _pool(shape: Shape) -> SingleKernel:
    read, written = count_elements(shape), shape["n"] * shape["c"] * _side(shape) ** 2
    return SingleKernel(OpClass.POOL, _NONE, written * shape["r"] ** 2 if "r" in shape else read, 0, read, 0, written)


def _attention(shape: Shape) -> SingleKernel:
    return attention({**shape, "q": shape["seq"], "dim_qk": shape["head_dim"], "dim_v": shape["head_dim"]})


KINDS: dict[str, Callable[[Shape], SingleKernel]] = {
    "gemm": lambda shape: product(1, *(shape[name] for name in "mnk")),
    "conv2d": _convolution,
    **dict.fromkeys(("attention_decode", "attention_encoder", "attention_prefill"), _attention),
    **dict.fromkeys(("add", "mul"), rowwise(OpClass.ELEMENTWISE, 2, 1)),
    "relu": rowwise(OpClass.ELEMENTWISE, 1, 1),
    "gelu": rowwise(OpClass.ELEMENTWISE, 1, 5, 1),
    "silu": rowwise(OpClass.ELEMENTWISE, 1, 4, 2),
    "hardswish": rowwise(OpClass.ELEMENTWISE, 1, 5),
    "batch_norm": rowwise(OpClass.NORM, 1, 2),
    "layer_norm": rowwise(OpClass.ROW_NORM, 1, 8),
    "rms_norm": rowwise(OpClass.ROW_NORM, 1, 4),
    "softmax": rowwise(OpClass.SOFTMAX, 1, 5, 1),
    **dict.fromkeys(("max_pool2d", "adaptive_avg_pool2d"), _pool),
    "cat": rowwise(OpClass.ELEMENTWISE),  # several tensors in their order
    "transpose_copy": rowwise(OpClass.MOVEMENT),
    "embedding": rowwise(OpClass.GATHER),
}


def is_framework_table(columns: Iterable[str]) -> bool:
    """Return True if a table with these columns has kernels of a framework, in a layout of tensors."""
    return {"op", "shape", "format", "layout", "seconds"} <= set(columns)


def predict_framework_kernels(path: Path, folders: tuple[Path, ...] = ()) -> tuple[list[PredictionPoint], Counter[str]]:
    """Return the predicted rows of a table, in families by operator and format, and the number of others by reason."""
    points, skipped = list[PredictionPoint](), Counter[str]()
    rows = read_rows((path,), ("device", "op", "shape", "format", "layout", "seconds"))
    groups = group_by(rows, lambda row: (row["device"], row["format"].split(" ")[0], row["layout"]))
    for (name, form, layout), members in groups.items():
        device = catalogue_device(name, folders)
        if device is None:
            skipped[f"device is not in the catalogue: {name[:40]}"] += len(members)
            continue
        known = list[tuple[str, float, tuple[SingleKernel]]]()
        for row in members:
            try:
                kernel = msgspec.structs.replace(KINDS[row["op"]](parse_shape(row["shape"])), layers=np.inf)
                known.append((f"{row['op']}, {form}", float(row["seconds"]), (kernel,)))
            except KeyError as missing:
                skipped[f"{row['op'][:40]}: {missing.args[0]} is not known"] += 1
            except ValueError:
                skipped[f"{row['op'][:40]}: the time is not a number"] += 1
        try:
            points += make_points(_setup(device, form, layout), known) if known else []
        except RequestError as error:
            skipped[str(error)] += len(known)
    return points, skipped


def _setup(device: Device, form: str, layout: str) -> Setup:
    """Return the setup of kernels: those of 8 bits are products of a library that a framework does not choose."""
    runtime = runtimes()[_RUNTIME]
    is_wide = form not in FORMATS or FORMATS[form].bits >= FORMATS[WIDE].bits
    plan = make_plan(device, form, runtime) if is_wide else make_plan(device, form)
    return Setup(device, plan, runtime, layout or "channels_last")
