"""The runtime of a request: the one that is named, that of a mode, or the one usually deployed on a device."""

from functools import lru_cache

import msgspec

from hardware.base import file_access
from hardware.device import Device
from hardware.engines.runtime import AUTO, MODES, PATH, WORK, Runtime, runtimes
from hardware.precision import DEFAULT, FORMATS, parse
from hardware.published_prices import exact_value

FRAMEWORK_MODES = {"eager": "pytorch_eager", "compiled": "torch_compile"}  # each with its typical runtime


@lru_cache(maxsize=2 * len(MODES))
def _plain_mode(mode: str, resident: str) -> Runtime:
    costs = runtimes()[FRAMEWORK_MODES[mode]] if mode in FRAMEWORK_MODES else None
    dispatch = costs.dispatch if costs else exact_value(float(mode != "fused"))
    engine = mode == "fused"  # built for inference
    return Runtime(
        id=mode, name="ahead of time" if engine else mode, mode=mode, runs_on=(), dispatch=dispatch, resident=resident,
        asynchronous=engine, products="tensorrt" if engine else "default",
        formats=runtimes()["tensorrt"].formats if engine else (),
    )  # fmt: skip


def runtime_of_mode(device: Device, mode: str) -> Runtime:
    """Return the runtime of a mode: the device's own compiler if it manages memory in that mode, else a framework's."""
    compiler = _usual_runtime(device, WORK[0]) if device.arch.is_managed else None
    if compiler is not None and mode == compiler.mode:
        return compiler
    typical = find_runtime(device, FRAMEWORK_MODES.get(mode, ""))
    if typical is not None and device.software_class in typical.runs_on:
        return typical
    return _plain_mode(mode, compiler.resident if compiler is not None else "")


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
    kinds = {kind for runtime in runtimes().values() for kind in WORK if runtime.fits(device, kind)}
    return bool(kinds) and work not in kinds


def find_runtime(device: Device, name: str) -> Runtime | None:
    """Return a runtime as measured on the device, else as in runtimes.toml; None for an unknown name."""
    if name in ("", AUTO, *MODES):
        return None
    fitted, known = device.file.runtimes.get(name), runtimes().get(name)
    if fitted is None or known is None:
        return known
    return msgspec.structs.replace(fitted, id=name, formats=known.formats, scheduler=known.scheduler)


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
