"""Rows of kernels timed alone: each becomes the kernels that a framework, or an engine of language models, starts.

One shipped table has fp32 PyTorch kernels; the other has products, attention and the operators between them in language
models, in 16 and 8 bit. Both exclude host dispatch. The first repeats a kernel on the same data, which stays in the
last-level cache if it fits. In the second, weights come from memory. Kernels of a framework in a layout of tensors
(`n=32 c=64 h=56 w=56 r=3 stride=2 pad=1`) read all from memory, in bursts. Of operators of engines (products,
attention, experts, collectives), weights come from memory; what else is read stays in the cache if it fits."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from analysis.estimate.trust import find_trust, work_class
from analysis.measured.predictions import PredictionPoint
from analysis.measured.tables import (
    Cells,
    Tick,
    Unpredictable,
    catalogue_device,
    first_rule,
    map_groups,
)
from analysis.model.ir.workload import Parallel
from hardware.base import file_access
from hardware.base.records import exact_value
from hardware.demand import OpClass
from hardware.device_catalog import load_device
from hardware.engines import runtime as libraries
from hardware.engines.runtime import KernelUse, runtimes
from hardware.execute import execute
from hardware.plan import make_plan
from hardware.precision import FORMATS, WIDE
from hardware.setup import Setup, runtime_of_mode
from lab import single_kernels as kernels
from lab.single_kernels import KERNEL_KINDS, Shape, SingleKernel, product

_RULES = Path(__file__).with_name("operators.toml")
_Kernels = tuple[SingleKernel, ...]
_gather, _round = (kernels.rowwise(kind, 1, 0, 0) for kind in (OpClass.GATHER, OpClass.ELEMENTWISE))


class KernelSetup(NamedTuple):
    """The facts that set up a prediction, equal for rows that are predicted together: the runtime or mode with
    `changes` of its fields, the format, whose plan is that of the runtime unless it `plans_alone`, the layout, and the
    format of attention if it differs. A burst is shorter than the time over which a device limits its mean power."""

    device: str
    runtime: str
    changes: tuple[tuple[str, Any], ...]
    precision: str
    plans_alone: bool = False
    layout: str = "blocked"
    attended: str = ""
    in_burst: bool = False

    def open(self, folders: tuple[Path, ...]) -> Setup:
        """Return the setup."""
        device = load_device(self.device, folders)
        usual = runtimes()[self.runtime] if self.runtime in runtimes() else runtime_of_mode(device, self.runtime)
        runtime = msgspec.structs.replace(usual, **dict(self.changes))
        plan = make_plan(device, self.precision, None if self.plans_alone else runtime)
        if self.attended:
            plan = msgspec.structs.replace(plan, attention=self.attended)
        return Setup(device, plan, runtime, self.layout)


class TimedKernels(NamedTuple):
    """A measured row as `kernels` that run in turn: the class of its errors and its seconds."""

    setup: KernelSetup
    family: str
    seconds: float
    kernels: _Kernels


def _rules() -> dict[str, Any]:
    return file_access.shipped(_RULES)


def _rule_of(row: dict[str, str], table: str) -> dict[str, Any]:
    return first_rule(_rules()[table], row)


def is_operator_table(columns: Iterable[str]) -> bool:
    """Return True if a table with these columns has operators of engines."""
    return {"device", "engine", "operator", "latency_s"} <= set(columns)


def is_kernel_table(columns: Iterable[str]) -> bool:
    """Return True if a table with these columns measures kernels or operators."""
    return {"op", "shape"} <= set(columns) or is_operator_table(columns)


def predict_kernels(
    rows: Sequence[dict[str, str]], folders: tuple[Path, ...] = (), tick: Tick | None = None
) -> tuple[list[PredictionPoint], Counter[str]]:
    """Return the predicted rows of a table, in families by operator and format, and the number of others by reason."""
    read, predict = partial(_read, folders), lambda members: predict_group(members[0].setup.open(folders), members)
    points, skipped = map_groups(rows, read, lambda row: row.setup, predict, tick)
    return sorted(points, key=lambda point: point.family), skipped


def predict_group(setup: Setup, rows: Sequence[TimedKernels]) -> list[PredictionPoint]:
    """Return the predicted rows of a setup. The band is that of single kernels, or that of the family of operators,
    which is wider if no constant was set by operators of the device."""
    place = 2 if setup.device.id not in _rules()["devices"] else 0
    started = [kernel for row in rows for kernel in row.kernels]
    run = execute(kernels.kernel_demand(started, setup.plan.widths), setup)
    kernel_s = run.unthrottled_s if rows[0].setup.in_burst else run.kernel_s
    starts = np.cumsum([0, *(len(row.kernels) for row in rows)])[:-1]
    seconds_of_rows = np.add.reduceat(kernel_s + [kernel.waits_s for kernel in started], starts).tolist()
    work, runtime = work_class(setup, "kernel", 1, False), setup.runtime
    usual = find_trust(setup, work)[0].band
    bands = _rules()["bands"] if runtime.uses and setup.device.vendor == "NVIDIA" else {}
    points = []
    for row, seconds in zip(rows, seconds_of_rows, strict=True):
        own = next((ends for name, ends in bands.items() if row.family.startswith(name)), None)
        low, high = own[place : place + 2] if own else usual
        labels = setup.device.key, row.family, runtime.id, runtime.mode, work
        points.append(PredictionPoint(work, "latency", *labels, row.seconds, seconds, (low * seconds, high * seconds)))
    return points


def _read(folders: tuple[Path, ...], cells: dict[str, str]) -> TimedKernels:
    """Return the kernels of a row. Raises Unpredictable."""
    device = catalogue_device(_rules()["alike"].get(cells["device"], cells["device"]), folders)
    if device is None:
        raise Unpredictable(f"device is not in the catalogue: {cells['device'][:40]}")
    row = Cells(cells | {"device": device.id, "generation": device.kernel_generation})
    if rule := _rule_of(row, "unfit"):
        raise Unpredictable(rule["reason"])
    return _read_operator(row) if "operator" in row else _read_kernel(row)


def _read_kernel(row: Cells) -> TimedKernels:
    """Return the kernel of a row of a framework. Raises Unpredictable for what is not known."""
    op, form, layout = row["op"], (row["format"] or "fp32").partition(" ")[0], row.get("layout")
    seconds = row.number("seconds") or row.number("latency_ms", 1e-3)
    if seconds is None:
        raise Unpredictable(f"{op[:40]}: the time is not a number")
    # The sources of 16 bit and less time kernels within a layer (vidur), after a flush of the caches (DeepGEMM), or
    # with weights larger than any cache (LLMCompass), so weights are never on chip.
    layers = 1.0 if form == "fp32" and layout is None else np.inf
    wide = 4.0 if (op, form) == ("gemm", "int8") and layout is not None else 1.0  # results are sums in 32 bits
    try:
        kernel = KERNEL_KINDS[op](kernels.parse_shape(row["shape"]) | {"is_last": float(layout != "nchw")})
        inputs = 1.0 if layout is None else np.inf
        kernel = msgspec.structs.replace(kernel, layers=layers, inputs=inputs, elements=wide * kernel.elements)
    except KeyError as missing:
        raise Unpredictable(f"{op[:40]}: {missing.args[0]} is not known") from None
    if layout is None:  # fp32 also in matrix products and, with TF32 off, convolutions
        waits = ("asynchronous", not _rule_of(row, "synchronous"))
        exact = "fp32_strict" if form == "fp32" else form
        return TimedKernels(KernelSetup(row["device"], "fused", (waits,), exact, True), op, seconds, (kernel,))
    # Kernels of 8 bits are products of a library that a framework does not choose.
    is_narrow = form in FORMATS and FORMATS[form].bits < FORMATS[WIDE].bits
    setup = KernelSetup(row["device"], "eager_graph", (), form, is_narrow, layout or "channels_last", in_burst=True)
    return TimedKernels(setup, f"{op}, {form}", seconds, (kernel,))


def _read_operator(row: Cells) -> TimedKernels:
    """Return the kernels that an engine starts for an operator. Raises Unpredictable."""
    rules, operator, engine = _rules(), row["operator"], row["engine"]
    if engine not in rules["engines"] or operator not in _OPERATORS:
        raise Unpredictable(f"unknown engine or operator: {engine[:20]} {operator[:20]}")
    weights, multiplied = row["weights_format"], row["activations_format"]
    family, form = operator, "bf16 bf16"
    if cache := row["cache_format"]:
        family, form = f"{operator}, cache {cache}", f"cache {cache}"
    elif weights:
        family, form = f"{operator}, {weights} x {multiplied}", f"{weights} {multiplied}"
    extra = _rule_of(row, "beside")
    precision = extra.get("precision") or rules["precision"].get(form)
    if precision is None:
        raise Unpredictable(f"format of {operator}: {form}")
    sizes = defaultdict(float, {name: row.number(name) or 0.0 for name in row} | rules["sizes"].get(operator, {}))
    try:
        started = _OPERATORS[operator](row, sizes)
    except (ZeroDivisionError, ValueError, IndexError):
        started = ()
    if not sizes["latency_s"] or not any(min(kernel.gemm) > 0 or kernel.links[0] for kernel in started):
        raise Unpredictable(f"a size or the time of {operator} is missing")
    changes = {
        "uses": (KernelUse(operator=("moe",) if operator == "moe" else _ATTENTION, library=_use(row, sizes).library),),
        "dispatch": exact_value(extra.get("dispatch", 0.0)),
        "prompt_dispatch": exact_value(0.0),
        "early_launch": exact_value(1.0),
        "library_collectives": engine not in runtimes(),
    }
    attended = multiplied if cache and multiplied in FORMATS else ""
    setup = KernelSetup(row["device"], rules["engines"][engine], (*changes.items(),), precision, attended=attended)
    return TimedKernels(setup, family, sizes["latency_s"], started)


def _use(row: Cells, sizes: Shape) -> KernelUse:
    """Return the use of the engine that holds for a row."""
    cached, multiplied = row["cache_format"], row["activations_format"]
    call = libraries.KernelCall(
        operator=row["operator"],
        generation=row["generation"],
        formats=f"{cached or row.get('weights_format', '')} {multiplied}",
        width=sizes["head_dim"],
        group=sizes["heads"] / (sizes["kv_heads"] or 1.0),
        divided=sizes["ep"] > 1 and sizes["tokens"] * sizes["ep"] > sizes["experts"],
        kernel=row["kernel"],
        version=row["engine_version"],
        windowed=sizes["window"] > 0,
    )
    return libraries.find_use(runtimes()[_rules()["engines"][row["engine"]]].uses, call)


def _attend(row: Cells, sizes: Shape) -> _Kernels:
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


def _experts(row: Cells, sizes: Shape) -> _Kernels:
    """Return an expert layer. Kernels differ in whether they copy rows, and write and add up rows of other devices."""
    library = libraries.expert_libraries()[_use(row, sizes).library]
    tokens, experts, active, devices = (sizes[name] or 1.0 for name in ("tokens", "experts", "topk", "ep"))
    touched = max(min(experts, tokens * active) / devices, 1.0)
    rows = max(tokens * active / devices, 1.0) / touched
    if "power_law" in row["distribution"]:  # the device with the most tokens was timed
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


def _multiply(row: Cells, sizes: Shape) -> _Kernels:
    shape = (sizes["heads"], sizes["tokens"] or sizes["m"], sizes["n"], sizes["k"])
    rule = _rule_of(row, "beside")
    waits_s = shape[0] * shape[1] * rule.get("row_s", 0.0)
    read = msgspec.structs.replace(_round({"tokens": shape[1], "width": shape[3]}), elements=0.0)
    multiplied = msgspec.structs.replace(product(*shape), waits_s=waits_s, layers=sizes["layers"])
    return *_small_kernels(row), *(read,) * rule.get("reads", 0), multiplied


def _small_kernels(row: Cells) -> _Kernels:
    """Return the small kernels that the engine's table includes."""
    return (_gather({"tokens": 0.0, "width": 0.0}),) * int(_rule_of(row, "beside").get("starts", 0))


def _exchange(row: Cells, sizes: Shape) -> _Kernels:
    rule, devices = _rule_of(row, "parts"), int(sizes["devices"] or 8)
    share, messages, peers = Parallel(devices, 0.0).sent(_COLLECTIVES.get(row["operator"], "all_to_all"))
    width = rule.get("width", 0.0) * devices * (1.0 - (1.0 - 1.0 / devices) ** sizes["topk"])  # once to each device
    moved = sizes["bytes"] * devices ** rule.get("of_one", 0) or sizes["tokens"] * sizes["hidden"] * width
    links, values = (share * moved, messages, 0.0, peers), moved / 2.0
    return (SingleKernel(OpClass.OTHER, (0, 0, 0, 0), values, 0, values, 0, values, links=links),)


_COLLECTIVES = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "all_gather"}
_ATTENTION = ("attention_prefill", "attention_decode", "attention_encoder", "mla_prefill", "mla_decode")
_OPERATORS: dict[str, Callable[[Cells, Shape], _Kernels]] = {
    **dict.fromkeys(("gemm", "mla_bmm"), _multiply),
    "moe": _experts,
    **dict.fromkeys(_ATTENTION, _attend),
    **dict.fromkeys((*_COLLECTIVES, "alltoall", "alltoall_dispatch", "alltoall_combine"), _exchange),
}
