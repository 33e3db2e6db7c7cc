"""Rows of operators timed alone as an engine of language models runs them: products, attention, experts, collectives.

Each row becomes the kernels that the engine starts. Weights come from memory; what else is read stays in the last-level
cache between calls if it fits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.annexes.machine import kernel_validation as kernels
from analysis.annexes.machine.kernel_validation import NARROW_KINDS, Shape, SingleKernel, product
from analysis.annexes.machine.measured_rows import SHIPPED, Unpredictable, parse_cell
from analysis.annexes.machine.row_validation import PredictionPoint
from analysis.model.ir.lengths import Routing
from analysis.model.ir.workload import Parallel
from hardware import file_access
from hardware.demand import OpClass
from hardware.device import load_device
from hardware.errors import RequestError
from hardware.execute import execute
from hardware.runtime import runtimes
from hardware.setup import make_setup

_Kernels = tuple[SingleKernel, ...]
_gather = kernels.rowwise(OpClass.GATHER, 1, 0, 0)


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
    groups: dict[tuple[str, str, str], list[tuple[str, float, _Kernels]]] = {}
    points, skipped = list[PredictionPoint](), Counter[str]()
    for row in rows:
        try:
            key, member = _read(row)
            groups.setdefault(key, []).append(member)
        except Unpredictable as reason:
            skipped[str(reason)] += 1
    for (device, engine, precision), members in groups.items():
        runtime = runtimes()[_rules()["engines"][engine]]
        if engine not in runtimes():
            runtime = msgspec.structs.replace(runtime, library_collectives=True)
        try:
            setup = make_setup(load_device(device, folders), precision, runtime)
        except RequestError:
            skipped[f"device is not in the catalogue: {device}"] += len(members)
            continue
        names, measured, started = zip(*members, strict=True)
        needs = kernels.kernel_demand([each for row in started for each in row], setup.plan.widths, in_layers=True)
        first = np.cumsum([0, *map(len, started)])[:-1]
        seconds = np.add.reduceat(execute(needs, setup).kernel_s, first)
        found = kernels.make_points(setup, names, measured, seconds.tolist())
        points += [msgspec.structs.replace(point, name=point.family) for point in found]
        if progress is not None:
            progress(len(points), len(rows))
    return sorted(points, key=lambda point: point.name), skipped


def _read(row: dict[str, str]) -> tuple[tuple[str, str, str], tuple[str, float, _Kernels]]:
    """Return the device, engine and precision of a row, and its family, seconds and kernels. Raises Unpredictable."""
    rules, operator = _rules(), row["operator"]
    for rule in rules["unfit"]:
        if all(part in (row.get(name) or "") for name, part in rule.items() if name != "reason"):
            raise Unpredictable(rule["reason"])
    if row["engine"] not in rules["engines"] or operator not in _OPERATORS:
        raise Unpredictable(f"unknown engine or operator: {row['engine'][:20]} {operator[:20]}")
    stored, multiplied = row.get("weights_format", ""), row.get("activations_format", "")
    family, form = operator, "bf16 bf16"
    if cache := row.get("cache_format", ""):
        family, form = f"{operator}, cache {cache}", f"cache {cache}"
    elif stored:
        family, form = f"{operator}, {stored} x {multiplied}", f"{stored} {multiplied}"
    if form not in rules["precision"]:
        raise Unpredictable(f"format of {operator}: {form}")
    cells = {name: parse_cell(row, name) or 0.0 for name in row} | rules["sizes"].get(operator, {})
    sizes = defaultdict(float, cells)
    try:
        started = _OPERATORS[operator](row, sizes)
    except ZeroDivisionError:
        started = ()
    if not sizes["latency_s"] or not any(min(kernel.gemm) > 0 or kernel.sent for kernel in started):
        raise Unpredictable(f"a size or the time of {operator} is missing")
    return (row["device"], row["engine"], rules["precision"][form]), (family, sizes["latency_s"], started)


def _attend(row: dict[str, str], sizes: Shape) -> _Kernels:
    """Return attention, after a kernel that writes new keys and values where the engine's table includes it."""
    operator, dim, rows = row["operator"], sizes["head_dim"], sizes["seq"] or 1.0
    shape = {"dim_qk": dim, "dim_v": dim, **sizes, "q": rows, "kv": sizes["kv"] or rows}
    shape["causal"] = float(operator != "attention_encoder")
    if operator == "mla_prefill":  # each head has keys of its own
        shape["kv_heads"] = sizes["heads"]
    is_apart = operator.startswith("attention") and shape["causal"] and "flashinfer" not in row.get("kernel", "")
    written = {"tokens": sizes["batch"] * rows, "width": 2.0 * sizes["kv_heads"] * dim}
    stores = (_gather(written),) if is_apart and row["engine"] != "sglang" else ()
    return (*stores, kernels.attention(shape))


def _experts(row: dict[str, str], sizes: Shape) -> _Kernels:
    tokens, experts, active, devices = (sizes[name] or 1.0 for name in ("tokens", "experts", "topk", "ep"))
    touched = max(min(experts, tokens * active) / devices, 1.0)
    rows = max(tokens * active / devices, 1.0) / touched
    if "power_law" in row.get("distribution", ""):  # the device with the most tokens was timed
        routing = Routing(int(experts), int(active), int(devices), _rules()["power_law"]["spread"])
        touched, rows = (max(each, 1.0) for each in routing.expert_load(tokens))
    hidden, inter, chosen = sizes["hidden"], sizes["inter"] / (sizes["tp"] or 1.0), touched * rows
    up, down = (
        msgspec.structs.replace(product(touched, rows, n, k), is_expert=True)
        for n, k in ((2.0 * inter, hidden), (hidden, inter))
    )
    flops, read, written = 2 * chosen * hidden, chosen * hidden, tokens * hidden
    summed = SingleKernel(OpClass.GATHER, (0, 0, 0, 0), flops, 0, read, 0, written)
    gated = NARROW_KINDS["activation"]({"tokens": chosen, "width": inter})
    return _gather({"tokens": chosen, "width": hidden}), up, gated, down, summed


def _exchange(row: dict[str, str], sizes: Shape) -> _Kernels:
    share, messages = Parallel(int(sizes["devices"]), 0.0).sent(_COLLECTIVES[row["operator"]])
    values, sent = sizes["bytes"] / 2.0, share * sizes["bytes"]
    return (SingleKernel(OpClass.OTHER, (0, 0, 0, 0), values, 0, values, 0, values, sent=sent, messages=messages),)


_COLLECTIVES = {"allreduce": "all_reduce", "alltoall": "all_to_all"}
_COLLECTIVES |= dict.fromkeys(("allgather", "reducescatter"), "all_gather")
_ATTENTION = ("attention_prefill", "attention_decode", "attention_encoder", "mla_prefill", "mla_decode")
_OPERATORS: dict[str, Callable[[dict[str, str], Shape], _Kernels]] = {
    "gemm": lambda _, sizes: (product(1, *(sizes[name] for name in "mnk")),),
    "mla_bmm": lambda _, sizes: (product(*(sizes[name] for name in ("heads", "tokens", "n", "k"))),),
    "moe": _experts,
    **dict.fromkeys(_ATTENTION, _attend),
    **dict.fromkeys(_COLLECTIVES, _exchange),
}
