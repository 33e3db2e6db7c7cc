"""Runtimes: how each joins operators into kernels, and what the host spends per kernel and per call."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hardware import file_access
from hardware.kernels.library import KernelUse
from hardware.precision import DEFAULT, FORMATS, parse
from hardware.quantity import SourcedValue, exact_value
from hardware.records import convert_record, read_rows

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


class Runtime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One runtime: a row of runtimes.toml. Tables are by class of software of the device."""

    id: str = ""
    base: str = ""  # the runtime whose fields it has where it states none
    name: str
    mode: str  # how operators join into kernels, one of MODES
    # What it runs on: classes of software, vendors, technologies of memory by their beginning, and kinds of work.
    runs_on: tuple[str, ...]
    vendors: tuple[str, ...] = ()
    not_vendors: tuple[str, ...] = ()
    memory: tuple[str, ...] = ()
    work: tuple[str, ...] = WORK
    superseded: bool = False  # a later version is recorded

    # The host. `dispatch` and `launch` multiply the device's facts of these names, `dispatch_on` for some classes.
    dispatch: SourcedValue = exact_value(1.0)
    dispatch_on: dict[str, SourcedValue] = {}
    launch: SourcedValue = exact_value(1.0)
    prompt_dispatch: SourcedValue = exact_value(0.0)  # multiplies the dispatch of prompts if graphs hold decoding alone
    dispatches_ahead: bool = False  # dispatches all kernels of a call ahead of the device, not each during the last
    call_s: SourcedValue = exact_value(0.0)  # wait of the device in each call
    starts_calls: bool = True  # False where the work of the host is taken out of an estimate
    sequence_s: SourcedValue = exact_value(0.0)  # more wait for each sequence

    # Products. `compute` multiplies their efficiency by operator class.
    compute: dict[str, dict[str, SourcedValue]] = {}
    compute_packed: dict[str, dict[str, SourcedValue]] = {}  # with packed weights
    compute_vector: dict[str, dict[str, SourcedValue]] = {}  # on vector units, where it differs
    reached: dict[str, SourcedValue] = {}  # the largest share of the peak
    waits_for: tuple[str, ...] = ()  # operands for which warps wait in each matrix instruction
    narrow_sums: bool = False  # fp16 products accumulate in fp16
    untuned: bool = False  # kernels of a library on GPUs are not timed against each other
    winograd: bool = False  # 3 x 3 convolutions on CPUs take fewer multiplications
    activations: dict[str, str] = {}  # the format between narrower products
    casts_weights: bool = False  # keeps fp32 weights and casts them in each call
    scaling_ops: dict[str, SourcedValue] = {}  # lane operations for each block of K of packed weights
    unpack_rows: dict[str, SourcedValue] = {}  # rows of activations that share one unpacking of weights
    widening: dict[str, SourcedValue] = {}  # operations of lanes that unpack, over those of the format
    micro_batch: dict[str, SourcedValue] = {}  # rows of a prompt for which 16-bit kernels unpack weights once

    # Memory. Weights and cache are read at the share `streaming` of the bandwidth.
    streaming: dict[str, SourcedValue] = {}
    streaming_packed: dict[str, SourcedValue] = {}  # if packed
    in_flight: dict[str, SourcedValue] = {}  # most bytes on their way, per unit and clock
    bandwidth: dict[str, dict[str, SourcedValue]] = {}  # multiplies that of kernels by operator class
    narrow: dict[str, dict[str, SourcedValue]] = {}  # the same on values narrower than 32 bits
    resident: str = ""  # weights stay on chip between calls: if all fit ('whole'), else a 'part' of them

    # Kernels. Engines that `serve` join products of one input and leave library kernels alone.
    serves: bool = False
    smooth: str = ""  # activations as SiLU: 'clamped', kernels apart from products; 'split' into several kernels
    bias_apart: tuple[str, ...] = ()  # classes on which the bias of a convolution is a kernel
    plain_attention: bool = False  # stores all scores between the products of attention
    asynchronous: bool = False  # attention does not wait for matrix instructions (FlashAttention-3, cuDNN)
    attention_kernels: SourcedValue = exact_value(1.0)  # kernels of one attention
    uses: tuple[KernelUse, ...] = ()  # the libraries of its attention and experts
    library_collectives: bool = False  # NCCL instead of own kernels
    collective_s: SourcedValue = exact_value(0.0)  # the start of each collective

    def joins(self, device: Device) -> str:
        """Return how operators are joined: 'served', as engines of language models do; 'apart', eager with the bias of
        a convolution in a separate kernel; as `smooth`; else the mode."""
        if self.serves and self.mode == "fused":
            return "served"
        if self.smooth and self.mode == ("fused" if self.smooth == "clamped" else "eager"):
            return self.smooth
        return "apart" if self.mode == "eager" and device.software_class in self.bias_apart else self.mode

    def matrix_share(self, device: Device, operand: str) -> float:
        """Return the share of the matrix unit's peak that instructions of its kernels for these operands reach."""
        return device.synchronous_matrix_rate if operand in self.waits_for else 1.0

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
    rows = read_rows(PATH, "runtimes")
    none = msgspec.structs.asdict(exact_value(0.0))  # a whole program is started at once
    dispatch = {key: {"dispatch": none} if row["mode"] == "fused" else {} for key, row in rows.items()}
    rows = {key: {"id": key, **dispatch[key], **row} for key, row in rows.items()}
    return {key: convert_record(PATH, f"runtimes.{key}", row, Runtime) for key, row in rows.items()}


@lru_cache(maxsize=1)
def format_rules() -> tuple[FormatRule, ...]:
    """Return the table of formats by runtime and kind of operator."""
    rows = enumerate(file_access.shipped(PATH)["formats"], 1)
    return tuple(convert_record(PATH, f"formats, row {place}", row, FormatRule) for place, row in rows)


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
def _plain_mode(mode: str, resident: str) -> Runtime:
    costs = runtimes()[_TYPICAL[mode]] if mode in _TYPICAL else None
    dispatch = costs.dispatch if costs else exact_value(float(mode != "fused"))
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
    return _plain_mode(mode, compiler.resident if compiler is not None else "")


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
    own = device.file.runtimes.get(name)
    return runtimes().get(name) if own is None else msgspec.structs.replace(own, id=name)


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
