"""What software runs a model: how it makes kernels of operators, and what the host spends on each and on each call."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from hardware import file_access
from hardware.architectures.data import SourcedValue
from hardware.precision import DEFAULT, FORMATS, parse

if TYPE_CHECKING:
    from hardware.device import Device

PATH = Path(__file__).with_name("runtimes.toml")
MODES = ("eager", "compiled", "fused")
AUTO, LIKE_FOR_LIKE = "auto", "fused"  # the second: every device by its ahead-of-time compiler
LAYOUTS = ("nchw", "channels_last")
WORK = ("vision", "encoder", "language")


def _plain(value: float) -> SourcedValue:
    return SourcedValue(value=value, low=value, high=value, source="", quality="")


class Runtime(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One runtime. `mode`: 'eager', 'compiled' or 'fused'; `runs_on` classes of software, `vendors` of devices (or all
    but `not_vendors`) and beginnings of their `memory` technology (none named: all); `work` that it is for; `dispatch`
    and `launch` multiply the device's facts of these names (`dispatch_on` where a class of software has another);
    `prompt_dispatch` the first of them for prompts, where only steps that decode are recorded as graphs; `call_s`
    seconds per call of the model, in which the device waits, and `sequence_s` more for each sequence of its batch, in
    which it samples.

    By class of software: `compute` multiplies the efficiency of products, by class of operator; `unpack_rows`, the rows
    of activations that share one unpacking of weights (elsewhere the structural one); `streaming`, the share of the
    memory's bandwidth at which weights of products and cached keys and values are read (elsewhere the rate of other
    traffic). `resident`, whether weights stay in memory that software manages from one call to the next, where they
    leave room; `streams_rest`, whether of weights that do not all fit a part stays; `asynchronous`, whether its
    attention uses matrix instructions that no warp waits for (FlashAttention-3, cuDNN), else those of FlashAttention-2;
    `per_query_head`, whether decoding reads the keys and values that query heads share once for each of them;
    `bias_apart`, where its library adds the bias of a convolution in a kernel of its own; `narrow`, the part of their
    bandwidth that element-wise kernels reach on values of less than 32 bits; `narrow_sums`, whether
    products of fp16 are summed in fp16."""

    id: str = ""
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
    prompt_dispatch: SourcedValue = _plain(0.0)
    call_s: SourcedValue = _plain(0.0)
    sequence_s: SourcedValue = _plain(0.0)
    compute: dict[str, dict[str, SourcedValue]] = {}
    unpack_rows: dict[str, SourcedValue] = {}
    streaming: dict[str, SourcedValue] = {}
    resident: bool = False
    streams_rest: bool = False
    asynchronous: bool = False
    per_query_head: bool = False
    bias_apart: tuple[str, ...] = ()
    narrow: dict[str, SourcedValue] = {}
    narrow_sums: bool = False

    def joins(self, device: Device) -> str:
        """Return how it makes kernels of operators there: its mode, or 'apart', which is eager with a bias of a
        convolution as a kernel of its own."""
        return "apart" if device.software_class in self.bias_apart else self.mode

    def fits(self, device: Device, work: str) -> bool:
        """Return whether it runs this kind of work on the device."""
        return (
            device.software_class in self.runs_on
            and (not self.vendors or device.vendor in self.vendors)
            and device.vendor not in self.not_vendors
            and (not self.memory or device.memory_technology.startswith(self.memory))
            and work in self.work
        )


@lru_cache(maxsize=1)
def runtimes() -> dict[str, Runtime]:
    """All runtimes by their id."""
    rows = file_access.shipped(PATH)["runtimes"]
    none = msgspec.structs.asdict(_plain(0.0))  # a whole program is started at once
    dispatch = {key: {"dispatch": none} if row["mode"] == "fused" else {} for key, row in rows.items()}
    return {key: msgspec.convert({"id": key, **dispatch[key], **row}, Runtime) for key, row in rows.items()}


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
    """A mode by itself: the framework's dispatch, and nothing that only one runtime has. Where software manages the
    on-chip memory only the device's own compiler makes whole programs."""
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
    """Return the runtime that serves a request on the device: a mode is itself everywhere. 'auto' is what one would
    deploy on the device, llama.cpp for its own formats; so is what takes the place of a runtime that does not run
    there."""
    if name in MODES:
        return runtime_of_mode(device, name)
    if name == AUTO and FORMATS[parse(precision).weights].whole_file:
        name = file_access.shipped(PATH)["auto"]["files"]
    wanted = find_runtime(device, name)
    return wanted if wanted is not None and wanted.fits(device, work) else deployed_runtime(device, work)


def is_unsupported(device: Device, work: str) -> bool:
    """Return whether runtimes list this device for other kinds of work but not for `work`."""
    every = runtimes().values()
    if any(runtime.fits(device, work) for runtime in every):
        return False
    return any(runtime.fits(device, each) for runtime in every for each in WORK)


def find_runtime(device: Device, name: str) -> Runtime | None:
    """A runtime as it was measured on the device, else as it is anywhere; None for the name of none."""
    general = runtimes().get(name)
    own = device.file.runtimes.get(name)
    return general if own is None else msgspec.structs.replace(own, id=name)


def deployed_runtime(device: Device, work: str) -> Runtime:
    """Return the runtime that one would deploy on the device for a kind of work; where it was measured, the measured
    one."""
    for name in device.file.runtimes:
        own = find_runtime(device, name)
        if own is not None and own.fits(device, work):
            return own
    return _usual_runtime(device, work) or runtime_of_mode(device, device.arch.execution)


def _usual_runtime(device: Device, work: str) -> Runtime | None:
    runtime_names = file_access.shipped(PATH)["auto"].get(device.software_class, {}).get(work, ())
    return next((runtimes()[key] for key in runtime_names if runtimes()[key].fits(device, work)), None)
