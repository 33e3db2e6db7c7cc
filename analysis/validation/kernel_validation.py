"""Validation of single kernels: each row of a table of kernels is predicted as one kernel.

One shipped table has fp32 PyTorch kernels; the other has products, attention and the operators between them in language
models, in 16 and 8 bit. Both exclude host dispatch. The first repeats a kernel on the same data, which stays in the
last-level cache if it fits. In the second, weights come from memory. Kernels of a framework in a layout of tensors
(`n=32 c=64 h=56 w=56 r=3 stride=2 pad=1`) take all data from memory, as in a graph. `operator_rows` has operators of
engines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from analysis.estimate.trust import Factors, find_trust, work_class
from analysis.model.ir.workload import Floats, through_window
from analysis.model.operators.contractions import ATTENTION_FLOPS, ATTENTION_SPECIAL, DEPTHWISE_CHANNELS
from analysis.validation.measured_rows import (
    SHIPPED,
    Tick,
    Unpredictable,
    catalogue_device,
    map_groups,
    parse_cell,
    read_rows,
)
from analysis.validation.prediction_errors import PredictionPoint
from hardware.demand import READ, READ_WEIGHT, WRITE, Calls, Demand, OpClass, Transfers
from hardware.device import Device
from hardware.device_catalog import load_device
from hardware.engines.runtime import runtimes
from hardware.execute import execute
from hardware.plan import make_plan
from hardware.precision import FORMATS, WIDE, Widths
from hardware.runtime_choice import runtime_of_mode
from hardware.setup import Setup

TABLE = SHIPPED / "gpu_kernels_fp32.csv.gz"
NARROW = SHIPPED / "kernels.csv.gz"
SAME = {"H800 SXM5 (compute of an H100 SXM)": "h100_sxm"}  # devices that compute like one of the catalogue
OLDER = ("FlashAttention-2",)  # attention with synchronous matrix instructions: a warp waits for them
SEVERAL = ("PyTorch standard",)  # attention as several kernels, not predicted
Shape = dict[str, float]


class SingleKernel(msgspec.Struct, frozen=True):
    """The work of one kernel: its class, GEMM dimensions (G, M, N, K; zeros for none), element-wise FLOPs and special
    functions, and elements read, of weights, and written. `patches` are the 4 x 4 patches of the result of a 3 x 3
    convolution at stride 1, `window` the values of an input channel that one result takes, `image` the results of an
    image in each channel. `macs` is None if it is the product of `gemm`. `cached` elements are read in the format of
    the cache. Weights of so many `layers` are read in turn. `links` and `expert_rows` are those of a Demand. In
    `waits_s` no unit works."""

    op_class: OpClass
    gemm: tuple[float, float, float, float]
    flops: float
    special: float
    read: float
    weights: float
    written: float
    patches: float = 0.0
    window: float = 1.0
    image: float = 1.0
    macs: float | None = None
    cached: float = 0.0
    layers: float = 1.0
    expert_rows: tuple[float, float, float] = (0.0, 0.0, 0.0)
    is_prompt: bool = False
    waits_s: float = 0.0
    links: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)


class TimedKernels(NamedTuple):
    """A measured row as `kernels` that run in turn: the class of its errors, its seconds, and what sets up its
    prediction, equal for rows that are predicted together."""

    setup: tuple[Any, ...]
    family: str
    seconds: float
    kernels: tuple[SingleKernel, ...]


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
    few = groups > 1 and max(channels, shape["k"] / groups) <= DEPTHWISE_CHANNELS
    patches = shape["n"] * np.ceil(_side(shape) / 4) ** 2 if (shape["r"], shape["stride"], groups) == (3, 1, 1) else 0.0
    return SingleKernel(
        OpClass.DEPTHWISE if few else OpClass.CONV, (groups, rows, shape["k"] / groups, channels * window), 0, 0,
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
        return SingleKernel(op_class, (0, 0, 0, 0), flops * n, roots, operands * n, 0, n)

    return build


def _self_attention(shape: Shape) -> SingleKernel:
    return attention({**shape, "q": shape["seq"], "dim_qk": shape["head_dim"], "dim_v": shape["head_dim"]})


KERNEL_KINDS: dict[str, Callable[[Shape], SingleKernel]] = {
    **dict.fromkeys(("linear", "bmm"), lambda shape: product(*(shape[name] for name in "BMNK"))),
    "gemm": lambda shape: product(1, *(shape[name] for name in "mnk")),
    **dict.fromkeys(("conv", "conv2d"), _convolution),
    "attention_fwd": attention,
    **dict.fromkeys(("attention_decode", "attention_encoder", "attention_prefill"), _self_attention),
    **dict.fromkeys(("add", "mul", "div", "residual_add"), rowwise(OpClass.ELEMENTWISE, 2, 1)),
    **dict.fromkeys(("addu", "mulu", "divu", "relu"), rowwise(OpClass.ELEMENTWISE, 1, 1)),
    **dict.fromkeys(("powu", "gelu", "tanh"), rowwise(OpClass.ELEMENTWISE, 1, 4, 1)),
    "pow": rowwise(OpClass.ELEMENTWISE, 2, 4, 1),
    "silu": rowwise(OpClass.ELEMENTWISE, 1, 4, 2),
    "hardswish": rowwise(OpClass.ELEMENTWISE, 1, 5),
    "activation": rowwise(OpClass.ELEMENTWISE, 2, 5, 2),  # gated: reads twice the width
    "batch_norm": rowwise(OpClass.NORM, 1, 2),
    **dict.fromkeys(("ln", "layer_norm"), rowwise(OpClass.ROW_NORM, 1, 8)),
    **dict.fromkeys(("rms_norm", "rmsnorm_or_layernorm"), rowwise(OpClass.ROW_NORM, 1, 4)),
    "softmax": rowwise(OpClass.SOFTMAX, 1, 5, 1),
    **dict.fromkeys(("max_pool2d", "adaptive_avg_pool2d"), _pool),
    "cat": rowwise(OpClass.ELEMENTWISE),  # several tensors in their order
    **dict.fromkeys(("transpose_copy", "layout_copy", "heads_copy", "window_copy"), rowwise(OpClass.MOVEMENT)),
    "embedding": rowwise(OpClass.GATHER),
}


def is_kernel_table(columns: Iterable[str]) -> bool:
    """Return True if a table with these columns measures kernels: it has `op` and `shape`."""
    return {"op", "shape"} <= set(columns)


def shipped_kernels() -> list[PredictionPoint]:
    """Return the predicted rows of the shipped tables."""
    return predict_kernels(read_rows((TABLE, NARROW), ("device", "op", "shape")))[0]


def predict_kernels(
    rows: Sequence[dict[str, str]], folders: tuple[Path, ...] = (), tick: Tick | None = None
) -> tuple[list[PredictionPoint], Counter[str]]:
    """Return the predicted rows of a table of kernels, and the number of others by reason."""
    predict = partial(_predict_kernels, folders)
    return map_groups(rows, partial(_read_row, folders), lambda row: row.setup, predict, tick)


def _read_row(folders: tuple[Path, ...], row: dict[str, str]) -> TimedKernels:
    """Return the kernel of a row. Raises Unpredictable for what is not known, or is several kernels."""
    op, name, library = row["op"], SAME.get(row["device"], row["device"]), row.get("library", "")
    device = catalogue_device(name, folders)
    if device is None:
        raise Unpredictable(f"device is not in the catalogue: {name[:40]}")
    if library in SEVERAL:
        raise Unpredictable(f"{library}: several kernels")
    seconds = parse_cell(row, "seconds") or parse_cell(row, "latency_ms", 1e-3)
    if seconds is None:
        raise Unpredictable(f"{op[:40]}: the time is not a number")
    form = row.get("format", "fp32").partition(" ")[0]
    # The sources of 16 bit and less time kernels within a layer (vidur), after a flush of the caches (DeepGEMM), or
    # with weights larger than any cache (LLMCompass), so weights are never on chip.
    layers = 1.0 if form == "fp32" and "layout" not in row else np.inf
    wide = 4.0 if (op, form) == ("gemm", "int8") and "layout" in row else 1.0  # results are sums in 32 bits
    try:
        kernel = KERNEL_KINDS[op](parse_shape(row["shape"]))
        kernel = msgspec.structs.replace(kernel, layers=layers, written=wide * kernel.written)
    except KeyError as missing:
        raise Unpredictable(f"{op[:40]}: {missing.args[0]} is not known") from None
    family = f"{op}, {form}" if "layout" in row else op
    return TimedKernels((device.id, form, row.get("layout"), op, library not in OLDER), family, seconds, (kernel,))


def _predict_kernels(folders: tuple[Path, ...], rows: Sequence[TimedKernels]) -> list[PredictionPoint]:
    name, form, layout, _, newest = rows[0].setup
    device = load_device(name, folders)
    if layout is not None:
        return make_points(_graph_setup(device, form, layout), rows)
    runs = make_plan(device, form)
    if form == "fp32":  # fp32 also in matrix products and, with TF32 off, convolutions
        runs = msgspec.structs.replace(runs, convolution=("vector", "fp32"), contraction=("vector", "fp32"))
    runtime = msgspec.structs.replace(runtime_of_mode(device, "fused"), asynchronous=newest)
    return make_points(Setup(device, runs, runtime, "blocked"), rows)


def _graph_setup(device: Device, form: str, layout: str) -> Setup:
    """Return the setup of kernels: those of 8 bits are products of a library that a framework does not choose."""
    runtime = runtimes()["eager_graph"]  # without waits for the host
    is_wide = form not in FORMATS or FORMATS[form].bits >= FORMATS[WIDE].bits
    plan = make_plan(device, form, runtime) if is_wide else make_plan(device, form)
    return Setup(device, plan, runtime, layout or "channels_last")


def make_points(
    setup: Setup, rows: Sequence[TimedKernels], bands: Mapping[str, Factors] | None = None
) -> list[PredictionPoint]:
    """Return the points of rows. The band is that of single kernels, or the one in `bands` by family."""
    kernels = [kernel for row in rows for kernel in row.kernels]
    kernel_s = execute(kernel_demand(kernels, setup.plan.widths), setup).kernel_s
    first = np.cumsum([0, *(len(row.kernels) for row in rows)])[:-1]
    predicted = np.add.reduceat(kernel_s + [kernel.waits_s for kernel in kernels], first).tolist()
    work, runtime = work_class(setup, "kernel", 1, False), setup.runtime
    ends = [(bands or {}).get(row.family) or find_trust(setup, work)[0].band for row in rows]
    return [
        PredictionPoint(
            work, "latency", setup.device.key, row.family, runtime.id, runtime.mode, work, row.seconds, each,
            (low * each, high * each),
        )
        for row, each, (low, high) in zip(rows, predicted, ends, strict=True)
    ]  # fmt: skip


def parse_shape(text: str) -> Shape:
    """Return the sizes of a shape, `m=128 n=64 causal=yes`, by name."""
    pairs = (part.split("=", 1) for part in re.split(r"[; ]", text))
    cells = {key: {"yes": "1", "no": "0"}.get(value, value) for key, value in pairs}
    return {key: float(value) for key, value in cells.items() if value.replace(".", "").isdigit()}


def kernel_demand(kernels: Sequence[SingleKernel], widths: Widths) -> Demand:
    """Return the demand of independent kernels, each repeated on the same data, so that only a kernel's other data and
    the weights of other `layers` are between two uses."""
    n, index = len(kernels), np.arange(len(kernels))
    macs = np.array([np.prod(k.gemm) if k.macs is None else k.macs for k in kernels], dtype=np.float64)
    cached, weights = (np.array([getattr(k, name) for k in kernels]) for name in ("cached", "weights"))
    moved = np.array([[kernel.read, 0.0, kernel.written] for kernel in kernels]) * widths.activations
    moved[:, 0] += cached * widths.cache
    moved[:, 1] = weights * widths.weights
    others: Floats = moved.sum(axis=1, keepdims=True) - moved
    others[:, 1] += (np.array([kernel.layers for kernel in kernels]) - 1.0) * np.maximum(moved[:, 1], 1.0)
    unpack_ops = weights * widths.unpack_weights + cached * widths.unpack_cache
    links, prompts = np.array([kernel.links for kernel in kernels]).T, np.array([float(k.is_prompt) for k in kernels])
    windows, expert_rows = np.ones((6, n)), np.array([kernel.expert_rows for kernel in kernels]).T
    windows[0], windows[2] = ([getattr(kernel, name) for kernel in kernels] for name in ("image", "window"))
    return Demand(
        op_class=np.array([kernel.op_class for kernel in kernels]),
        macs=macs,
        vector_flops=np.array([kernel.flops for kernel in kernels]),
        special=np.array([kernel.special for kernel in kernels]),
        elements=np.array([kernel.written for kernel in kernels]),
        gemm=np.array([kernel.gemm for kernel in kernels]).T.copy(),
        local_bytes=np.zeros(n),
        weight_bytes=moved[:, 1],
        kernel=index,
        head=np.ones(n, dtype=np.bool_),
        n_kernels=n,
        transfers=Transfers(
            op=np.repeat(index, 3),
            size_bytes=moved.ravel(),
            role=np.tile(np.array([READ, READ_WEIGHT, WRITE]), n),
            distance=others.ravel(),
            previous=np.full(3 * n, -1),
        ),
        element_bytes=widths.activations,
        right_bytes=np.where(weights > 0, widths.weights, np.where(cached > 0, widths.cache, widths.activations)),
        unpack_ops=unpack_ops if unpack_ops.any() else None,
        calls=Calls(
            begins=np.zeros(n), sequences=np.zeros(n), prompts=prompts, dispatched=np.ones(n), parts=np.ones(n)
        ),
        model=np.zeros(n, dtype=np.int64),
        batch=np.ones(n, dtype=np.int64),
        lag=np.zeros(n),
        windows=windows,
        patches=np.array([kernel.patches for kernel in kernels]),
        is_expert=expert_rows[0] > 0,
        expert_rows=expert_rows,
        links=links if links.any() else None,
    )
