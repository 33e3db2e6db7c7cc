"""Validation of single kernels: each row of a table of kernels is predicted as one kernel.

One shipped table has fp32 PyTorch kernels; the other has products, attention and the operators between them in language
models, in 16 and 8 bit. Both exclude host dispatch. The first repeats a kernel on the same data, which stays in the
last-level cache if it fits. In the second, weights come from memory. Kernels of a framework in a layout of tensors
(`n=32 c=64 h=56 w=56 r=3 stride=2 pad=1`) take all data from memory, as in a graph. `operator_rows` has operators of
engines.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column
from analysis.estimate.trust import Factors, find_trust, work_class
from analysis.model.ir.lengths import through_window
from analysis.model.ir.workload import Floats
from analysis.model.operators.contractions import ATTENTION_FLOPS, ATTENTION_SPECIAL, DEPTHWISE_CHANNELS
from analysis.validation.measured_rows import SHIPPED, catalogue_device, read_rows
from analysis.validation.prediction_errors import PredictionErrors, measure_errors
from analysis.validation.row_validation import PredictionPoint
from hardware.demand import READ, READ_WEIGHT, WRITE, Calls, Demand, OpClass, Transfers
from hardware.device import Device
from hardware.device_catalog import load_device
from hardware.engines.runtime import runtimes
from hardware.errors import RequestError
from hardware.execute import execute
from hardware.grouping import group_by
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


class KernelErrors(PredictionErrors, frozen=True, kw_only=True):
    """Errors of one operator kind on one device."""

    device: Annotated[str, column("Device")]
    op: Annotated[str, column("Kernel")]


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


def validate_kernels() -> tuple[KernelErrors, ...]:
    """Return the errors by device and operator kind, without devices that are not in the catalogue."""
    groups = group_by(kernel_points(TABLE), lambda point: (point.device, point.family))
    return tuple(
        measure_errors(KernelErrors, [point.error_row for point in points], device=device, op=op)
        for (device, op), points in groups.items()
    )


def is_kernel_table(columns: Iterable[str]) -> bool:
    """Return True if a table with these columns measures kernels: it has `op` and `shape`."""
    return {"op", "shape"} <= set(columns)


def kernel_points(path: Path | None = None, folders: tuple[Path, ...] = ()) -> list[PredictionPoint]:
    """Predict each kernel of a table, or of all shipped tables. Devices that are not in the catalogue and operators
    that hwexplorer does not predict (rotary embeddings, collectives, grouped products) are left out."""
    by_kind: dict[tuple[str, str, str, bool], list[dict[str, str]]] = {}
    for row in read_rows((path,) if path else (TABLE, NARROW), ("device", "op", "shape")):
        library = row.get("library", "")
        if row["op"] in KERNEL_KINDS and library not in SEVERAL:
            form = row["format"].split()[0] if "seconds" in row else "fp32"
            key = (SAME.get(row["device"], row["device"]), form, row["op"], library not in OLDER)
            by_kind.setdefault(key, []).append(row)
    points: list[PredictionPoint] = []
    for (name, form, op, newest), members in sorted(by_kind.items()):
        try:
            points.extend(_predict_kernels(load_device(name, folders), form, op, members, newest))
        except RequestError:
            continue
    return points


def _predict_kernels(
    device: Device, form: str, op: str, rows: Sequence[dict[str, str]], newest: bool = True
) -> list[PredictionPoint]:
    runs = make_plan(device, form)
    if form == "fp32":  # fp32 also in matrix products and, with TF32 off, convolutions
        runs = msgspec.structs.replace(runs, convolution=("vector", "fp32"), contraction=("vector", "fp32"))
    runtime = msgspec.structs.replace(runtime_of_mode(device, "fused"), asynchronous=newest)
    # The sources of 16 bit and less time kernels within a layer (vidur), after a flush of the caches (DeepGEMM), or
    # with weights larger than any cache (LLMCompass), so weights are never on chip.
    setup, layers = Setup(device, runs, runtime, "blocked"), 1.0 if form == "fp32" else np.inf
    kernels = (msgspec.structs.replace(KERNEL_KINDS[op](parse_shape(row["shape"])), layers=layers) for row in rows)
    measured = (float(row.get("seconds") or float(row["latency_ms"]) * 1e-3) for row in rows)
    members = [(op, seconds, (kernel,)) for seconds, kernel in zip(measured, kernels, strict=True)]
    return make_points(setup, members)


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
                kernel = KERNEL_KINDS[row["op"]](parse_shape(row["shape"]))
                wide = 4.0 if (row["op"], form) == ("gemm", "int8") else 1.0  # results are sums in 32 bits
                kernel = msgspec.structs.replace(kernel, layers=np.inf, written=wide * kernel.written)
                known.append((f"{row['op']}, {form}", float(row["seconds"]), (kernel,)))
            except KeyError as missing:
                skipped[f"{row['op'][:40]}: {missing.args[0]} is not known"] += 1
            except ValueError:
                skipped[f"{row['op'][:40]}: the time is not a number"] += 1
        try:
            points += make_points(_graph_setup(device, form, layout), known) if known else []
        except RequestError as error:
            skipped[str(error)] += len(known)
    return points, skipped


def _graph_setup(device: Device, form: str, layout: str) -> Setup:
    """Return the setup of kernels: those of 8 bits are products of a library that a framework does not choose."""
    runtime = runtimes()["eager_graph"]  # without waits for the host
    is_wide = form not in FORMATS or FORMATS[form].bits >= FORMATS[WIDE].bits
    plan = make_plan(device, form, runtime) if is_wide else make_plan(device, form)
    return Setup(device, plan, runtime, layout or "channels_last")


def make_points(
    setup: Setup,
    rows: Sequence[tuple[str, float, Sequence[SingleKernel]]],
    bands: Mapping[str, Factors] | None = None,
) -> list[PredictionPoint]:
    """Return the points of rows: family of work, seconds, and kernels that run in turn. The band is that of single
    kernels, or the one in `bands` by family."""
    kernels = [kernel for row in rows for kernel in row[2]]
    kernel_s = execute(kernel_demand(kernels, setup.plan.widths), setup).kernel_s
    first = np.cumsum([0, *(len(row[2]) for row in rows)])[:-1]
    predicted = np.add.reduceat(kernel_s + [kernel.waits_s for kernel in kernels], first).tolist()
    work, runtime = work_class(setup, "kernel", 1, False), setup.runtime
    ends = [(bands or {}).get(name) or find_trust(setup, work)[0].band for name, _, _ in rows]
    return [
        PredictionPoint(
            work, "latency", setup.device.key, name, runtime.id, runtime.mode, work, seconds, each,
            (low * each, high * each),
        )
        for (name, seconds, _), each, (low, high) in zip(rows, predicted, ends, strict=True)
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
