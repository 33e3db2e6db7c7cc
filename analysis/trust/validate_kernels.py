"""Single kernels against measurement: each row of the shipped kernel table as a kernel of its own.

The table times fp32 PyTorch kernels on the device alone, repeated on the same data, so there is no host dispatch
and what fits in the last-level cache stays there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from analysis.trust.measurement import SHIPPED, read
from analysis.trust.validate import spearman
from analysis.workload.workload import Floats
from hardware.demand import READ, READ_WEIGHT, WRITE, Demand, OpClass
from hardware.device import load
from hardware.errors import RequestError
from hardware.execute import execute
from hardware.plan import plan
from hardware.runtime import of_mode

TABLE = SHIPPED / "gpu_kernels_fp32.csv.gz"
Shape = dict[str, float]


class Kernel(msgspec.Struct, frozen=True):
    """What one kernel does: its class, GEMM dimensions (G, M, N, K; zeros for none), element-wise FLOPs and special
    functions per result, elements read, of weights, and written, and the 4 x 4 patches of a 3 x 3 convolution."""

    op_class: OpClass
    gemm: tuple[float, float, float, float]
    flops: float
    special: float
    read: float
    weights: float
    written: float
    patches: float = 0.0


class KernelGroup(msgspec.Struct, frozen=True):
    """Errors of one operator kind on one device; fractions, `bias` the median of predicted / measured - 1."""

    device: str
    op: str
    n: int
    median_ape: float
    p90_ape: float
    bias: float
    spearman: float | None


def _gemm(shape: Shape) -> Kernel:
    b, m, n, k = (shape[name] for name in "BMNK")
    return Kernel(OpClass.GEMM, (b, m, n, k), 0, 0, b * m * k, b * n * k, b * m * n)


def _conv(shape: Shape) -> Kernel:
    b, cin, cout = shape["B"], shape["Input_Channel"], shape["Output_Channel"]
    kernel, size = shape["Kernel_Szie"], shape["Input_Size"]  # spelt so in the table
    out = (size + 2 * shape["Padding"] - kernel) // shape["Stride"] + 1
    m, k = b * out * out, cin * kernel * kernel
    patches = b * np.ceil(out / 4) ** 2 if kernel == 3 and shape["Stride"] == 1 else 0.0
    return Kernel(OpClass.CONV, (1, m, cout, k), 0, 0, b * cin * size * size, cout * k, m * cout, patches)


def _rows(op_class: OpClass, operands: float, flops: float, special: float) -> Callable[[Shape], Kernel]:
    def build(shape: Shape) -> Kernel:
        n = shape["B"] * shape["H"]
        return Kernel(op_class, (0, 0, 0, 0), flops * n, special * n, operands * n, 0, n)

    return build


_BINARY, _UNARY = _rows(OpClass.ELEMENTWISE, 2, 1, 0), _rows(OpClass.ELEMENTWISE, 1, 1, 0)
_SPECIAL = _rows(OpClass.ELEMENTWISE, 1, 4, 1)
KINDS: dict[str, Callable[[Shape], Kernel]] = {
    "linear": _gemm,
    "bmm": _gemm,
    "conv": _conv,
    "add": _BINARY,
    "mul": _BINARY,
    "div": _BINARY,
    "pow": _rows(OpClass.ELEMENTWISE, 2, 4, 1),
    "addu": _UNARY,
    "mulu": _UNARY,
    "divu": _UNARY,
    "relu": _UNARY,
    "powu": _SPECIAL,
    "gelu": _SPECIAL,
    "tanh": _SPECIAL,
    "ln": _rows(OpClass.ROW_NORM, 1, 8, 0),
    "softmax": _rows(OpClass.SOFTMAX, 1, 5, 1),
}


def validate_kernels(path: Path = TABLE, folders: tuple[Path, ...] = ()) -> tuple[KernelGroup, ...]:
    """Errors by device and operator kind; devices that are not in the catalogue are left out."""
    rows = [row for row in read([path], ("device", "op", "shape", "latency_ms")) if row["op"] in KINDS]
    groups: list[KernelGroup] = []
    for name in dict.fromkeys(row["device"] for row in rows):
        mine = [row for row in rows if row["device"] == name]
        try:
            groups.extend(_device(name, mine, folders))
        except RequestError:
            continue
    return tuple(groups)


def _device(name: str, rows: Sequence[dict[str, str]], folders: tuple[Path, ...]) -> list[KernelGroup]:
    device = load(name, folders)
    kernels = [KINDS[row["op"]](_shape(row["shape"])) for row in rows]
    runs = plan(device, "fp32")
    # The kernels of the table are fp32 throughout: matrix products and, with TF32 off, convolutions.
    runs = msgspec.structs.replace(runs, convolution=("vector", "fp32"), contraction=("vector", "fp32"))
    predicted = execute(demand(kernels), device, runs, of_mode(device, "fused"), "channels_last").kernel_s
    measured = np.array([float(row["latency_ms"]) * 1e-3 for row in rows])
    ops = np.array([row["op"] for row in rows])
    found = []
    for op in sorted(set(ops.tolist())):
        chosen = ops == op
        error = predicted[chosen] / measured[chosen] - 1.0
        size = np.abs(error)
        rank = spearman(measured[chosen], predicted[chosen])
        median, p90 = float(np.median(size)), float(np.quantile(size, 0.9))
        found.append(KernelGroup(device.key, op, int(chosen.sum()), median, p90, float(np.median(error)), rank))
    return found


def _shape(text: str) -> Shape:
    pairs = (part.split("=", 1) for part in text.split(";"))
    return {key: float(value) for key, value in pairs if value.replace(".", "").isdigit()}


def demand(kernels: Sequence[Kernel]) -> Demand:
    """Kernels side by side, each repeated on its own data: what it touches besides lies between two uses."""
    n = len(kernels)
    gemm = np.array([kernel.gemm for kernel in kernels]).T
    macs = np.prod(gemm, axis=0)
    moved = np.array([[kernel.read, kernel.weights, kernel.written] for kernel in kernels]) * 4.0
    others: Floats = moved.sum(axis=1, keepdims=True) - moved
    index = np.arange(n)
    return Demand(
        np.array([kernel.op_class for kernel in kernels]),
        macs,
        np.array([kernel.flops for kernel in kernels]),
        np.array([kernel.special for kernel in kernels]),
        np.array([kernel.written for kernel in kernels]),
        np.ascontiguousarray(gemm),
        np.zeros(n),
        moved[:, 1],
        index,
        np.ones(n, dtype=np.bool_),
        n,
        np.repeat(index, 3),
        moved.ravel(),
        np.tile(np.array([READ, READ_WEIGHT, WRITE]), n),
        others.ravel(),
        4.0,
        np.array([kernel.patches for kernel in kernels]),
        np.zeros(n),
    )
