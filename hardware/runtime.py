"""Runtimes: how each joins operators into kernels, and what the host spends per kernel and per call."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hardware import file_access
from hardware.precision import DEFAULT, FORMATS, parse
from hardware.quantity import SourcedValue

if TYPE_CHECKING:
    from hardware.device import Device

PATH = Path(__file__).with_name("runtimes.toml")
MODES = ("eager", "compiled", "fused")
AUTO, LIKE_FOR_LIKE = "auto", "fused"  # like for like: every device with its ahead-of-time compiler
LAYOUTS = ("nchw", "channels_last")
WORK = ("vision", "encoder", "language")


class FormatRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The formats that runtimes run if a format is `asked`: the first of `runs` that the device multiplies.

    `operators` are kinds of work; `on` are classes of software, all if empty. Matrix units multiply each format of
    `matrix_has` and none of `matrix_lacks`. The rules are rows of runtimes.toml."""

    runtimes: tuple[str, ...]
    asked: tuple[str, ...]
    runs: tuple[str, ...]
    why: str
    source: str
    operators: tuple[str, ...] = ("convolution", "contraction")
    on: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    matrix_has: tuple[str, ...] = ()
    matrix_lacks: tuple[str, ...] = ()
    keeps_weights: bool = False

    def fits(self, device: Device) -> bool:
        """Return True if the rule holds on the device."""
        multiplied = {form for unit, form in device.peaks if unit == "matrix"}
        return (
            (not self.on or device.software_class in self.on)
            and (not self.vendors or device.vendor in self.vendors)
            and multiplied.issuperset(self.matrix_has)
            and multiplied.isdisjoint(self.matrix_lacks)
        )


def _plain(value: float) -> SourcedValue:
    return SourcedValue(value=value, low=value, high=value, source="", quality="")


class Runtime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One runtime, for the software classes `runs_on`, the `vendors` (or all but `not_vendors`), memory technologies
    that begin with one of `memory`, and kinds of `work`.

    `dispatch` and `launch` multiply the device's facts of these names (`dispatch_on` and `launch_on` for some software
    classes); `prompt_dispatch` multiplies the dispatch of prompts if only decoding is recorded as graphs. In each call
    the device waits `call_s`, plus `sequence_s` per sequence. By software class: `compute` multiplies the efficiency of
    products by operator class, `compute_packed` that of products with packed weights, `compute_vector` that of products
    on vector units where it differs; `unpack_rows` rows share one unpacking of weights; weights and cache are read at
    the share `streaming` of the bandwidth (`streaming_packed` if packed), with at most `in_flight` bytes per unit and
    clock; lanes that do not multiply bytes unpack `widening` times as long; a prompt is multiplied in blocks of
    `micro_batch` rows, each after a kernel that unpacks weights if 16 bits are multiplied; `narrow` multiplies the
    bandwidth of element-wise kernels on narrow values; `bias_apart` adds the bias of a convolution in a separate
    kernel. `resident` keeps weights on chip between calls; `streams_rest` keeps a part of weights that do not all fit.
    `asynchronous` attention does not wait for matrix instructions (FlashAttention-3, cuDNN). One attention takes
    `attention_kernels` kernels. With `per_query_head`, decoding reads shared keys and values once per query head.
    `narrow_sums` accumulates fp16 products in fp16. `serves` joins products of one input and leaves library kernels
    alone. `plain_attention` stores all scores between the products of attention. `casts_weights` keeps fp32 weights and
    casts them in each call. `activations` is the format between narrower products. `library_collectives`
    calls NCCL instead of an engine's own kernels. `untuned_experts` has tiles for whole models, not for 16-bit experts
    divided among devices. `winograd` runs 3 x 3 convolutions on CPUs with fewer multiplications."""

    id: str = ""
    base: str = ""
    name: str
    mode: str
    runs_on: tuple[str, ...]
    vendors: tuple[str, ...] = ()
    not_vendors: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    work: tuple[str, ...] = WORK
    dispatch: SourcedValue = _plain(1.0)
    dispatch_on: dict[str, SourcedValue] = {}
    launch: SourcedValue = _plain(1.0)
    launch_on: dict[str, SourcedValue] = {}
    prompt_dispatch: SourcedValue = _plain(0.0)
    call_s: SourcedValue = _plain(0.0)
    sequence_s: SourcedValue = _plain(0.0)
    compute: dict[str, dict[str, SourcedValue]] = {}
    compute_packed: dict[str, dict[str, SourcedValue]] = {}
    compute_vector: dict[str, dict[str, SourcedValue]] = {}
    unpack_rows: dict[str, SourcedValue] = {}
    widening: SourcedValue = _plain(1.0)
    micro_batch: dict[str, SourcedValue] = {}
    streaming: dict[str, SourcedValue] = {}
    streaming_packed: dict[str, SourcedValue] = {}
    in_flight: dict[str, SourcedValue] = {}
    resident: bool = False
    streams_rest: bool = False
    asynchronous: bool = False
    per_query_head: bool = False
    bias_apart: tuple[str, ...] = ()
    narrow: dict[str, SourcedValue] = {}
    narrow_sums: bool = False
    serves: bool = False
    activations: dict[str, str] = {}
    untuned_experts: bool = False
    plain_attention: bool = False
    library_collectives: bool = False
    casts_weights: bool = False
    winograd: bool = False
    attention_kernels: SourcedValue = _plain(1.0)

    def joins(self, device: Device) -> str:
        """Return how operators are joined: 'served', as engines of language models do; 'apart', eager with the bias of
        a convolution in a separate kernel; else the mode."""
        if self.serves and self.mode == "fused":
            return "served"
        return "apart" if self.mode == "eager" and device.software_class in self.bias_apart else self.mode

    def fits(self, device: Device, work: str) -> bool:
        """Return True if the runtime runs this kind of work on the device."""
        return (
            device.software_class in self.runs_on
            and (not self.vendors or device.vendor in self.vendors)
            and device.vendor not in self.not_vendors
            and (not self.memory or device.memory_technology.startswith(self.memory))
            and work in self.work
        )


@lru_cache(maxsize=1)
def runtimes() -> dict[str, Runtime]:
    """Return all runtimes by id."""
    rows = file_access.shipped(PATH)["runtimes"]
    rows = {key: {**rows.get(row.get("base"), {}), **row} for key, row in rows.items()}
    none = msgspec.structs.asdict(_plain(0.0))  # a whole program is started at once
    dispatch = {key: {"dispatch": none} if row["mode"] == "fused" else {} for key, row in rows.items()}
    return {key: msgspec.convert({"id": key, **dispatch[key], **row}, Runtime) for key, row in rows.items()}


@lru_cache(maxsize=1)
def format_rules() -> tuple[FormatRule, ...]:
    """Return the table of formats by runtime and kind of operator."""
    return tuple(msgspec.convert(file_access.shipped(PATH)["formats"], list[FormatRule]))


def format_rule(device: Device, runtime: str, asked: str, operator: str) -> FormatRule | None:
    """Return the first rule for a format asked of a runtime, or None if the runtime runs what the device has."""
    return next(
        (
            rule
            for rule in format_rules()
            if runtime in rule.runtimes and asked in rule.asked and operator in rule.operators and rule.fits(device)
        ),
        None,
    )


_TYPICAL = {"eager": "pytorch_eager", "compiled": "torch_compile"}


@lru_cache(maxsize=2 * len(MODES))
def _plain_mode(mode: str, resident: bool) -> Runtime:
    costs = runtimes()[_TYPICAL[mode]] if mode in _TYPICAL else None
    dispatch = costs.dispatch if costs else _plain(float(mode != "fused"))
    engine = mode == "fused"  # built for inference
    return Runtime(
        id=mode, name="ahead of time" if engine else mode, mode=mode, runs_on=(), dispatch=dispatch, resident=resident,
        asynchronous=engine, narrow_sums=engine,
    )  # fmt: skip


def runtime_of_mode(device: Device, mode: str) -> Runtime:
    """Return the runtime of a mode: the device's own compiler if it manages memory in that mode, else a framework's."""
    compiler = _usual_runtime(device, WORK[0]) if device.arch.is_managed else None
    if compiler is not None and mode == compiler.mode:
        return compiler
    typical = find_runtime(device, _TYPICAL.get(mode, ""))
    if typical is not None and device.software_class in typical.runs_on:
        return typical
    return _plain_mode(mode, compiler is not None and compiler.resident)


@lru_cache(maxsize=1)
def runtime_names() -> tuple[str, ...]:
    """Return the names that can be asked for: 'auto', a mode, or a runtime."""
    return AUTO, *MODES, *runtimes()


def resolve_runtime(device: Device, name: str, work: str, precision: str = DEFAULT) -> Runtime:
    """Return the runtime for a request: a mode, or a named runtime that fits ('auto' with a file format of llama.cpp
    names llama.cpp). Otherwise return the runtime usually deployed on the device."""
    if name in MODES:
        return runtime_of_mode(device, name)
    if name == AUTO and FORMATS[parse(precision).weights].whole_file:
        name = file_access.shipped(PATH)["auto"]["files"]
    wanted = find_runtime(device, name)
    return wanted if wanted is not None and wanted.fits(device, work) else deployed_runtime(device, work)


def is_unsupported(device: Device, work: str) -> bool:
    """Return True if runtimes list this device for other kinds of work but not for `work`."""
    every = runtimes().values()
    if any(runtime.fits(device, work) for runtime in every):
        return False
    return any(runtime.fits(device, each) for runtime in every for each in WORK)


def find_runtime(device: Device, name: str) -> Runtime | None:
    """Return a runtime as measured on the device, else as in runtimes.toml; None for an unknown name."""
    general = runtimes().get(name)
    own = device.file.runtimes.get(name)
    return general if own is None else msgspec.structs.replace(own, id=name)


def deployed_runtime(device: Device, work: str) -> Runtime:
    """Return the runtime usually deployed on the device for a kind of work, a measured one first."""
    for name in device.file.runtimes:
        own = find_runtime(device, name)
        if own is not None and own.fits(device, work):
            return own
    return _usual_runtime(device, work) or runtime_of_mode(device, device.arch.execution)


def _usual_runtime(device: Device, work: str) -> Runtime | None:
    runtime_names = file_access.shipped(PATH)["auto"].get(device.software_class, {}).get(work, ())
    return next((runtimes()[key] for key in runtime_names if runtimes()[key].fits(device, work)), None)
