"""Rows of operators timed alone as an engine of language models runs them: products, attention, experts, collectives.

Each row becomes the kernels that the engine starts. Weights come from memory; what else is read stays in the last-level
cache between calls if it fits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis.model.ir.workload import Parallel
from analysis.validation import kernel_validation as kernels
from analysis.validation.kernel_validation import KERNEL_KINDS, Shape, SingleKernel, TimedKernels, product
from analysis.validation.measured_rows import (
    SHIPPED,
    Tick,
    Unpredictable,
    catalogue_device,
    first_rule,
    map_groups,
    parse_cell,
)
from analysis.validation.prediction_errors import PredictionPoint
from hardware import file_access
from hardware.demand import OpClass
from hardware.device_catalog import load_device
from hardware.engines.runtime import runtimes
from hardware.kernels import library as libraries
from hardware.kernels.library import KernelUse
from hardware.precision import FORMATS
from hardware.quantity import exact_value
from hardware.setup import Setup, make_setup

_Kernels = tuple[SingleKernel, ...]
_gather, _round = (kernels.rowwise(kind, 1, 0, 0) for kind in (OpClass.GATHER, OpClass.ELEMENTWISE))


def _rules() -> dict[str, Any]:
    return file_access.shipped(SHIPPED / "operators.toml")


def _rule_of(row: dict[str, str], table: str) -> dict[str, Any]:
    return first_rule(_rules()[table], row)


def is_operator_table(columns: Iterable[str]) -> bool:
    """Return True if a table with these columns has operators of engines."""
    return set(_rules()["columns"]) <= set(columns)


class TimedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Operators of one setup, whose runtime uses one library. `is_known` says that constants were set by operators of
    its device."""

    setup: Setup
    is_known: bool
    members: Sequence[TimedKernels]


def read_operators(
    rows: Sequence[dict[str, str]], folders: tuple[Path, ...] = ()
) -> tuple[list[TimedGroup], Counter[str]]:
    """Return the rows in groups, and the number of other rows by reason."""
    return map_groups(rows, partial(_read, folders), lambda row: row.setup, lambda rows: [_make_group(folders, rows)])


def _make_group(folders: tuple[Path, ...], rows: Sequence[TimedKernels]) -> TimedGroup:
    device, engine, precision, attended, use, dispatch = rows[0].setup
    runtime = msgspec.structs.replace(
        runtimes()[_rules()["engines"][engine]],
        uses=(use,),
        dispatch=exact_value(dispatch),
        prompt_dispatch=exact_value(0.0),
        library_collectives=engine not in runtimes(),
    )
    setup = make_setup(load_device(device, folders), precision, runtime)
    if attended:
        setup = msgspec.structs.replace(setup, plan=msgspec.structs.replace(setup.plan, attention=attended))
    return TimedGroup(setup=setup, is_known=device in _rules()["devices"], members=rows)


def predict_operators(
    rows: Sequence[dict[str, str]], folders: tuple[Path, ...] = (), tick: Tick | None = None
) -> tuple[list[PredictionPoint], Counter[str]]:
    """Return the predicted rows, in families by operator and format, and the number of other rows by reason."""

    def predict(members: Sequence[TimedKernels]) -> list[PredictionPoint]:
        """Return the predicted operators of a setup."""
        return predict_group(_make_group(folders, members))

    points, skipped = map_groups(rows, partial(_read, folders), lambda row: row.setup, predict, tick)
    return sorted(points, key=lambda point: point.family), skipped


def predict_group(group: TimedGroup) -> list[PredictionPoint]:
    """Return the predicted operators of a group."""
    ends = slice(0, 2) if group.is_known else slice(2, 4)
    bands = {name: tuple(factors[ends]) for name, factors in _rules()["bands"].items()}
    is_covered = group.setup.device.vendor == "NVIDIA"
    return kernels.make_points(group.setup, group.members, bands if is_covered else None)


def _read(folders: tuple[Path, ...], stated: dict[str, str]) -> TimedKernels:
    """Return a row, set up by device, engine, precision, format of attention ('' for that of the precision), library
    and the host's time for an operator. Raises Unpredictable."""
    device, rules, operator = catalogue_device(stated["device"], folders), _rules(), stated["operator"]
    if device is None:
        raise Unpredictable(f"device is not in the catalogue: {stated['device']}")
    row = stated | {"device": device.id, "generation": device.kernel_generation}
    if rule := _rule_of(row, "unfit"):
        raise Unpredictable(rule["reason"])
    if row["engine"] not in rules["engines"] or operator not in _OPERATORS:
        raise Unpredictable(f"unknown engine or operator: {row['engine'][:20]} {operator[:20]}")
    stored, multiplied = row.get("weights_format", ""), row.get("activations_format", "")
    family, form = operator, "bf16 bf16"
    if cache := row.get("cache_format", ""):
        family, form = f"{operator}, cache {cache}", f"cache {cache}"
    elif stored:
        family, form = f"{operator}, {stored} x {multiplied}", f"{stored} {multiplied}"
    beside = _rule_of(row, "beside")
    precision = beside.get("precision") or rules["precision"].get(form)
    if precision is None:
        raise Unpredictable(f"format of {operator}: {form}")
    cells = {name: parse_cell(row, name) or 0.0 for name in row} | rules["sizes"].get(operator, {})
    sizes = defaultdict(float, cells)
    try:
        started = _OPERATORS[operator](row, sizes)
    except (ZeroDivisionError, ValueError, IndexError):
        started = ()
    if not sizes["latency_s"] or not any(min(kernel.gemm) > 0 or kernel.links[0] for kernel in started):
        raise Unpredictable(f"a size or the time of {operator} is missing")
    use = KernelUse(operator=("moe",) if operator == "moe" else _ATTENTION, library=_use(row, sizes).library)
    attended = multiplied if cache and multiplied in FORMATS else ""
    setup = row["device"], row["engine"], precision, attended, use, beside.get("dispatch", 0.0)
    return TimedKernels(setup, family, sizes["latency_s"], started)


def _use(row: dict[str, str], sizes: Shape) -> KernelUse:
    """Return the use of the engine that holds for a row."""
    cached, multiplied = row.get("cache_format", ""), row.get("activations_format", "")
    call = libraries.KernelCall(
        operator=row["operator"],
        generation=row["generation"],
        formats=f"{cached or row.get('weights_format', '')} {multiplied}",
        width=sizes["head_dim"],
        group=sizes["heads"] / (sizes["kv_heads"] or 1.0),
        divided=sizes["ep"] > 1 and sizes["tokens"] * sizes["ep"] > sizes["experts"],
        kernel=row.get("kernel", ""),
        version=row.get("engine_version", ""),
        windowed=sizes["window"] > 0,
    )
    return libraries.find_use(runtimes()[_rules()["engines"][row["engine"]]].uses, call)


def _attend(row: dict[str, str], sizes: Shape) -> _Kernels:
    """Return attention, after the kernels that the engine's table includes."""
    operator, dim, rows = row["operator"], sizes["head_dim"], sizes["seq"] or 1.0
    library = libraries.attention_libraries()[(use := _use(row, sizes)).library]
    shape = {"dim_qk": dim, "dim_v": dim, **sizes, "q": rows, "kv": sizes["kv"] or rows}
    shape["causal"] = float(operator != "attention_encoder")
    rule = _rule_of(row, "attention")
    if rule.get("is_absorbed", False):
        shape |= _rules()["sizes"]["mla_decode"]
    elif operator == "mla_prefill":  # each head has keys of its own
        shape["kv_heads"] = sizes["heads"]
    if rule.get("masks_window", False):
        shape["window"] = 0.0
    shape["packed"] = float(rows == 1 if library.packs is None else library.packs)
    tokens, rotated = sizes["batch"] * rows, sizes["rotated"] or dim
    widths = {"q": sizes["heads"] * rotated, "k": shape["kv_heads"] * rotated, "v": shape["kv_heads"] * dim}
    widths["c"] = (sizes["kv"] or rows) / rows * sizes["dim_kept"]
    widths["x"] = sizes["heads"] * shape["dim_qk"] + shape["kv_heads"] * (shape["dim_qk"] + shape["dim_v"])
    widths["x"] *= 0.75  # 16 bits are read, 8 written
    moved = ((kind, {"tokens": tokens, "width": sum(widths[each] for each in kind)}) for kind in use.before)
    special = {"x": _round, "c": kernels.rowwise(OpClass.ELEMENTWISE, 1, use.cast_flops, 0)}
    before = (special.get(kind, _gather)(size) for kind, size in moved)
    attended = msgspec.structs.replace(kernels.attention(shape), is_prompt="decode" not in operator)
    return *_small_kernels(row), *before, attended


def _experts(row: dict[str, str], sizes: Shape) -> _Kernels:
    """Return an expert layer. Kernels differ in whether they copy rows, and write and add up rows of other devices."""
    library = libraries.expert_libraries()[_use(row, sizes).library]
    tokens, experts, active, devices = (sizes[name] or 1.0 for name in ("tokens", "experts", "topk", "ep"))
    touched = max(min(experts, tokens * active) / devices, 1.0)
    rows = max(tokens * active / devices, 1.0) / touched
    if "power_law" in row.get("distribution", ""):  # the device with the most tokens was timed
        touched, rows = _power_law_load(int(tokens), int(experts), int(active), int(devices), row["distribution"])
    part, chosen = library.widens, touched * rows  # padded before two are one product
    hidden, inter = (np.ceil(width / part) * part for width in (sizes["hidden"], sizes["inter"] / (sizes["tp"] or 1.0)))
    wide = (1.0 if _rule_of(row, "ungated") else 2.0) * inter
    up, down = (product(touched, rows, *shape) for shape in ((wide, hidden), (hidden, inter)))
    up, down = (
        msgspec.structs.replace(each, layers=(wide + inter) / width)
        for each, width in zip((up, down), (wide, inter), strict=True)
    )
    summed = SingleKernel(OpClass.GATHER, (0, 0, 0, 0), 2 * chosen * hidden, 0, chosen * hidden, 0, tokens * hidden)
    gated = KERNEL_KINDS["activation"]({"tokens": chosen, "width": inter})
    before = (_gather({"tokens": chosen, "width": hidden}),) if library.copies else ()
    counts = experts / devices, chosen, max(tokens * active - chosen, 0.0)
    return tuple(msgspec.structs.replace(each, expert_rows=counts) for each in (*before, up, gated, down, summed))


@lru_cache(8192)
def _power_law_load(tokens: int, experts: int, active: int, devices: int, law: str) -> tuple[float, float]:
    """Return the experts hit on the device with the most tokens, and the tokens at each, as the benchmark draws them:
    loads by a power law are rounded, no expert has more than all tokens, and the least loaded experts of each device in
    turn get the rest."""
    rule, held, power = _rules()["power_law"], min(experts, 8192) // devices, 1.0 - float(law.split("_")[2])
    low, high = (1.0, rule["most"] * tokens) if tokens * active > experts else rule["few"]
    loads = np.random.default_rng(0).random((rule["draws"], held * devices))
    loads = (low**power + (high**power - low**power) * loads) ** (1.0 / power)
    loads = np.minimum(np.round(loads * (tokens * active / loads.sum(axis=1, keepdims=True))), tokens)
    loads, place = np.sort(loads.reshape(rule["draws"], devices, held)), np.arange(1, held + 1)
    lacking = np.maximum(tokens * active - loads.sum(axis=(1, 2)), 0.0)[:, None]
    lacking = np.ceil((lacking - np.arange(devices)) / devices)[:, :, None]  # of each device in turn
    levelled = (loads * place - np.cumsum(loads, axis=2) <= lacking).sum(axis=2, keepdims=True)
    lacking = np.where(place <= levelled, loads, 0.0).sum(axis=2, keepdims=True) + lacking
    loads = np.where(place <= levelled, np.floor(lacking / levelled) + (place <= lacking % levelled), loads)
    busiest = np.take_along_axis(loads, loads.sum(axis=2).argmax(axis=1)[:, None, None], axis=1)
    hit = max((busiest > 0).sum() / rule["draws"], 1.0)
    return hit, busiest.sum() / rule["draws"] / hit


def _multiply(row: dict[str, str], sizes: Shape) -> _Kernels:
    shape = (sizes["heads"], sizes["tokens"] or sizes["m"], sizes["n"], sizes["k"])
    rule = _rule_of(row, "beside")
    waits_s = shape[0] * shape[1] * rule.get("row_s", 0.0)
    read = msgspec.structs.replace(_round({"tokens": shape[1], "width": shape[3]}), written=0.0)
    multiplied = msgspec.structs.replace(product(*shape), waits_s=waits_s, layers=sizes["layers"])
    return *_small_kernels(row), *(read,) * rule.get("reads", 0), multiplied


def _small_kernels(row: dict[str, str]) -> _Kernels:
    """Return the small kernels that the engine's table includes."""
    return (_gather({"tokens": 0.0, "width": 0.0}),) * int(_rule_of(row, "beside").get("starts", 0))


def _exchange(row: dict[str, str], sizes: Shape) -> _Kernels:
    rule, devices = _rule_of(row, "parts"), int(sizes["devices"] or 8)
    share, messages, peers = Parallel(devices, 0.0).sent(_COLLECTIVES.get(row["operator"], "all_to_all"))
    width = rule.get("width", 0.0) * devices * (1.0 - (1.0 - 1.0 / devices) ** sizes["topk"])  # once to each device
    moved = sizes["bytes"] * devices ** rule.get("of_one", 0) or sizes["tokens"] * sizes["hidden"] * width
    links, values = (share * moved, messages, 0.0, peers), moved / 2.0
    return (SingleKernel(OpClass.OTHER, (0, 0, 0, 0), values, 0, values, 0, values, links=links),)


_COLLECTIVES = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "all_gather"}
_ATTENTION = ("attention_prefill", "attention_decode", "attention_encoder", "mla_prefill", "mla_decode")
_OPERATORS: dict[str, Callable[[dict[str, str], Shape], _Kernels]] = {
    **dict.fromkeys(("gemm", "mla_bmm"), _multiply),
    "moe": _experts,
    **dict.fromkeys(_ATTENTION, _attend),
    **dict.fromkeys((*_COLLECTIVES, "alltoall", "alltoall_dispatch", "alltoall_combine"), _exchange),
}
