"""Rows of operators timed alone as an engine of language models runs them: products, attention, experts, collectives.

Each row becomes the kernels that the engine starts. Weights come from memory; what else is read stays in the last-level
cache between calls if it fits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.annexes.machine.kernel_validation import (
    NARROW_KINDS,
    Shape,
    SingleKernel,
    attention,
    kernel_demand,
    make_points,
    product,
    rowwise,
)
from analysis.annexes.machine.measured_rows import SHIPPED, Unpredictable, parse_cell
from analysis.annexes.machine.row_validation import PredictionPoint
from analysis.model.ir.workload import Parallel
from hardware import file_access
from hardware.demand import OpClass
from hardware.device import load_device
from hardware.errors import RequestError
from hardware.execute import execute
from hardware.runtime import runtimes
from hardware.setup import Setup, make_setup

COLLECTIVES = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "all_gather"}
COLLECTIVES["alltoall"] = "all_to_all"
_gather = rowwise(OpClass.GATHER, 1, 0, 0)


@lru_cache(maxsize=1)
def _rules() -> dict[str, Any]:
    return file_access.shipped(SHIPPED / "operators.toml")


def is_operator_table(columns: Iterable[str]) -> bool:
    """Return True if a table with these columns has operators of engines."""
    return set(_rules()["columns"]) <= set(columns)


def predict_operators(
    rows: Sequence[dict[str, str]],
    folders: tuple[Path, ...] = (),
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[PredictionPoint], Counter[str]]:
    """Return the predicted rows, in families by operator and format, and the number of other rows by reason."""
    groups: dict[tuple[str, str, str], list[tuple[str, float, tuple[SingleKernel, ...]]]] = {}
    points, skipped, done = list[PredictionPoint](), Counter[str](), 0
    for row in rows:
        try:
            key, member = _read(row)
            groups.setdefault(key, []).append(member)
        except Unpredictable as reason:
            skipped[str(reason)] += 1
            done += 1
    for (device, engine, precision), members in groups.items():
        try:
            setup = _setup(device, engine, precision, folders)
        except RequestError:
            skipped[f"device is not in the catalogue: {device}"] += len(members)
        else:
            names, measured, kernels = zip(*members, strict=True)
            needs = kernel_demand([kernel for each in kernels for kernel in each], setup.plan.widths, in_layers=True)
            first = np.cumsum([0, *(len(each) for each in kernels)])[:-1]
            seconds = np.add.reduceat(execute(needs, setup).kernel_s, first)
            found = make_points(setup, names, measured, seconds.tolist())
            points += [msgspec.structs.replace(point, name=point.family) for point in found]
        done += len(members)
        if progress is not None:
            progress(done, len(rows))
    return sorted(points, key=lambda point: point.name), skipped


@lru_cache(maxsize=256)
def _setup(device: str, engine: str, precision: str, folders: tuple[Path, ...]) -> Setup:
    runtime = runtimes()[_rules()["engines"][engine]]
    if engine not in runtimes():
        runtime = msgspec.structs.replace(runtime, library_collectives=True)
    return make_setup(load_device(device, folders), precision, runtime)


def _read(row: dict[str, str]) -> tuple[tuple[str, str, str], tuple[str, float, tuple[SingleKernel, ...]]]:
    """Return the device, engine and precision of a row, and its family, seconds and kernels. Raises Unpredictable."""
    rules, operator = _rules(), row["operator"]
    for rule in rules["unfit"]:
        if all(part in (row.get(name) or "") for name, part in rule.items() if name != "reason"):
            raise Unpredictable(rule["reason"])
    if row["engine"] not in rules["engines"]:
        raise Unpredictable(f"unknown engine {row['engine'][:20]}")
    if operator not in OPERATORS:
        raise Unpredictable(f"unknown operator {operator[:20]}")
    stored, multiplied = row.get("weights_format", ""), row.get("activations_format", "")
    if operator in COLLECTIVES:
        label, precision = "", "bf16"
    elif cache := row.get("cache_format", ""):
        label, precision = f", cache {cache}", "bf16kv8" if "8" in cache else "bf16"
    else:
        label = f", {stored} x {multiplied}" if stored else ""
        precision = rules["precision"].get(f"{stored or multiplied} {multiplied or stored}", "")
        if not precision:
            raise Unpredictable(f"format of {operator}: {stored} x {multiplied}")
    seconds = parse_cell(row, "latency_s")
    if seconds is None:
        raise Unpredictable("row states no latency")
    sizes = {name: parse_cell(row, name) or 0.0 for name in _SIZES}
    try:
        kernels = OPERATORS[operator](row, sizes)
    except (ZeroDivisionError, ValueError):
        kernels = ()
    if not any(min(kernel.gemm) > 0 or kernel.sent for kernel in kernels):
        raise Unpredictable(f"a size of {operator} is missing")
    return (row["device"], row["engine"], precision), (operator + label, seconds, kernels)


_SIZES = re.findall(
    r"\w+", "m n k batch heads kv_heads head_dim window seq kv tokens hidden inter experts topk tp ep bytes devices"
)


def _attend(row: dict[str, str], sizes: Shape) -> tuple[SingleKernel, ...]:
    """Return attention, after a kernel that writes new keys and values where the engine's table includes it."""
    operator, latent = row["operator"], _rules()["latent"]
    head, rotary = sizes["head_dim"], latent["rotary"]
    shape = {**sizes, "q": sizes["seq"] or 1.0, "causal": float(operator != "attention_encoder")}
    shape |= {"dim_qk": head, "dim_v": head, "kv": sizes["kv"] or shape["q"]}
    if operator == "mla_decode":  # keys and values are one array; the products with its matrices are others
        rank = latent["rank"]
        shape |= {"dim_qk": rank + rotary, "dim_v": rank, "dim_kept": rank + rotary}
    elif operator == "mla_prefill":
        shape |= {"dim_qk": latent["width"] + rotary, "dim_v": latent["width"], "kv_heads": sizes["heads"]}
    written = 2.0 * sizes["batch"] * sizes["kv_heads"] * shape["q"] * head
    is_apart = operator.startswith("attention") and shape["causal"] and "flashinfer" not in row.get("kernel", "")
    stores = (_gather({"tokens": 1.0, "width": written}),) if is_apart and row["engine"] != "sglang" else ()
    return (*stores, attention(shape))


def _route(row: dict[str, str], sizes: Shape) -> tuple[float, float]:
    """Return the experts that the timed device reads, and the tokens at each."""
    tokens, experts, devices = sizes["tokens"], sizes["experts"], sizes["ep"] or 1.0
    chosen, kind = tokens * sizes["topk"], row.get("distribution", "")
    if not kind.startswith("power_law"):
        touched = min(experts, chosen) / devices
        return max(touched, 1.0), max(chosen / devices, 1.0) / max(touched, 1.0)
    law = _rules()["power_law"]
    power, is_many = 1.0 - float(kind.split("_")[2]), chosen > experts
    ends = law["many" if is_many else "few"]
    least, most = ends["least"] ** power, (ends["most"] * (tokens if is_many else 1.0)) ** power
    drawn = np.random.default_rng(0).random((law["draws"], int(devices), int(experts / devices)))
    loads = (least + (most - least) * drawn) ** (1.0 / power)
    loads = np.round(loads * chosen / loads.sum(axis=(1, 2), keepdims=True))
    busiest = loads[np.arange(len(loads)), loads.sum(axis=2).argmax(axis=1)]
    touched = max(float((busiest > 0).sum(axis=1).mean()), 1.0)
    return touched, max(float(busiest.sum(axis=1).mean()), 1.0) / touched


def _experts(row: dict[str, str], sizes: Shape) -> tuple[SingleKernel, ...]:
    touched, rows = _route(row, sizes)
    hidden, inter, chosen = sizes["hidden"], sizes["inter"] / (sizes["tp"] or 1.0), touched * rows
    sizes_of_products = ((2.0 * inter, hidden), (hidden, inter))
    gate_up, down = (
        msgspec.structs.replace(product(touched, rows, n, k), is_expert=True) for n, k in sizes_of_products
    )
    summed = SingleKernel(
        OpClass.GATHER, (0, 0, 0, 0), 2 * chosen * hidden, 0, chosen * hidden, 0, sizes["tokens"] * hidden
    )
    gated = NARROW_KINDS["activation"]({"tokens": chosen, "width": inter})
    return _gather({"tokens": chosen, "width": hidden}), gate_up, gated, down, summed


def _dense(row: dict[str, str], sizes: Shape) -> tuple[SingleKernel, ...]:
    tokens, hidden, inter = (sizes[name] for name in ("tokens", "hidden", "inter"))
    gated = NARROW_KINDS["activation"]({"tokens": tokens, "width": inter})
    return product(1, tokens, 2.0 * inter, hidden), gated, product(1, tokens, hidden, inter)


def _absorbed(row: dict[str, str], sizes: Shape) -> tuple[SingleKernel, ...]:
    ends = _rules()["latent"]["rank"], _rules()["latent"]["width"]
    outer, inner = ends if "pre" in row.get("kernel", "") else ends[::-1]
    return (product(sizes["heads"], sizes["tokens"], outer, inner),)


def _exchange(row: dict[str, str], sizes: Shape) -> tuple[SingleKernel, ...]:
    share, messages = Parallel(int(sizes["devices"]), 0.0).sent(COLLECTIVES[row["operator"]])
    values = sizes["bytes"] / 2.0
    return (
        SingleKernel(
            OpClass.OTHER, (0, 0, 0, 0), values, 0, values, 0, values, sent=share * sizes["bytes"], messages=messages
        ),
    )


OPERATORS: dict[str, Callable[[dict[str, str], Shape], tuple[SingleKernel, ...]]] = {
    "gemm": lambda _, sizes: (product(1, *(sizes[name] for name in "mnk")),),
    **dict.fromkeys(
        ("attention_prefill", "attention_decode", "attention_encoder", "mla_prefill", "mla_decode"), _attend
    ),
    "mla_bmm": _absorbed,
    "moe": _experts,
    "mlp": _dense,
    **dict.fromkeys(COLLECTIVES, _exchange),
}
