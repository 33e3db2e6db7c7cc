"""What a workload runs on: a device with its plan of formats, its runtime, and the layout of tensors. The runtime is
the one that is named, that of a mode, or the one usually deployed on the device."""

from functools import cached_property, lru_cache
from typing import TypeVar

import msgspec

from hardware.architecture_facts import Efficiency
from hardware.base import file_access
from hardware.base.records import SourcedValue, exact_value, memoize
from hardware.device import Device
from hardware.engines.runtime import (
    AUTO,
    LAYOUTS,
    LIBRARIES,
    LIKE_FOR_LIKE,
    MODES,
    PATH,
    UNKNOWN,
    WORK,
    EngineKernels,
    Joining,
    ProductLibrary,
    Runtime,
    format_rule,
    runtimes,
)
from hardware.event_prices import Coefficients, coefficients
from hardware.plan import Plan, make_plan
from hardware.precision import BASE, DEFAULT, FORMATS, WIDE, parse

FRAMEWORK_MODES = {"eager": "pytorch_eager", "compiled": "torch_compile"}  # each with its typical runtime


@lru_cache(maxsize=2 * len(MODES))
def _plain_mode(mode: str, resident: str, call_s: SourcedValue) -> Runtime:
    engine = mode not in FRAMEWORK_MODES  # built for inference, of which no host waits
    dispatch = exact_value(0.0) if engine else runtimes()[FRAMEWORK_MODES[mode]].dispatch
    return Runtime(
        id=mode, name=mode, mode=mode, runs_on=(), dispatch=dispatch, resident=resident, call_s=call_s,
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
    if compiler is None:
        return _plain_mode(mode, "", exact_value(0.0))
    return _plain_mode(mode, compiler.resident, compiler.call_s)  # calls start over the same link


def resolve_runtime(device: Device, name: str, work: str, precision: str = DEFAULT) -> Runtime:
    """Return the runtime for a request: that of a mode, the usual one if it has it, a fused one if unknown, or a named
    one that fits (llama.cpp for its files). Otherwise return the runtime usually deployed on the device."""
    if name in (LIKE_FOR_LIKE, UNKNOWN):
        alike = runtime_of_mode(device, "fused")
        return alike if name == LIKE_FOR_LIKE else msgspec.structs.replace(alike, id=name, name="an unknown engine")
    if name in MODES:
        usual = _usual_runtime(device, work)
        if usual is not None and usual.mode == name:
            return find_runtime(device, usual.id) or usual
        return deployed_runtime(device, work) if name == "fused" else runtime_of_mode(device, name)
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


T = TypeVar("T")


class Setup(msgspec.Struct, frozen=True, dict=True):
    """Everything that decides how a device serves a demand. `layout` of images is one of LAYOUTS or 'blocked'."""

    device: Device
    plan: Plan
    runtime: Runtime
    layout: str

    @cached_property
    def joins(self) -> Joining:
        """The way in which operators are joined into kernels."""
        return self.runtime.joins(self.device)

    @cached_property
    def kernels(self) -> EngineKernels:
        """The libraries that its engine uses on its device for its formats."""
        cache = "bf16" if FORMATS[self.plan.cache].bits == FORMATS[WIDE].bits else self.plan.cache
        generation, products = self.device.kernel_generation, _name_formats(self.plan)
        uses, version = self.runtime.uses, self.runtime.version
        return EngineKernels(uses=uses, generation=generation, cache=cache, products=products, version=version)

    @cached_property
    def products(self) -> ProductLibrary:
        """The library of its products."""
        return self.runtime.product_library

    @cached_property
    def wide_setup(self) -> "Setup":
        """The setup of products whose weights stay as wide as activations where the others are narrow."""
        return Setup(self.device, make_plan(self.device, self.plan.stored, self.runtime), self.runtime, self.layout)

    @cached_property
    def cooler(self) -> "Setup | None":
        """The setup in which what was added to the device is switched off, and takes no power."""
        device = self.device.without_added
        return None if device is None else Setup(device, self.plan, self.runtime, self.layout)

    @property
    def is_synchronous(self) -> bool:
        """True if warps wait for each matrix instruction of its products."""
        return self.plan.operand in self.products.synchronous_operands

    @property
    def product_share(self) -> float:
        """The share of the matrix unit's peak that the instructions of its products reach."""
        return self.device.synchronous_matrix_rate if self.is_synchronous else 1.0

    @property
    def is_narrow(self) -> bool:
        """True if activations are narrower than 32 bits."""
        return self.plan.widths.activations < FORMATS[BASE].bytes

    @cached_property
    def has_wide_residuals(self) -> bool:
        """True if activations around matrix products, attention, row norms and softmax stay in 16 bits, because the
        runtime has no narrower residuals."""
        stored = self.plan.stored
        is_narrow = self.plan.operand == stored and self.plan.widths.activations < FORMATS[WIDE].bytes
        return is_narrow and format_rule(self.device, self.runtime.formats, stored, "residual") is not None

    def find(self, table: dict[str, T], kind: str) -> T | None:
        """Return what a table of the runtime states for the software of the device and a kind of products or values,
        else for the software."""
        name = self.device.software_class
        return table.get(f"{name}_{kind}", table.get(name))

    @cached_property
    def slower(self) -> float:
        """The time of all work over that of its software, by measurements with this engine, else with others."""
        name, measured = self.runtime.id, self.device.file.trust
        own = [each.slower for each in measured if each.runtime.startswith(name) or name.startswith(each.runtime)]
        return next(iter([*own, *(each.others_slower for each in measured)]), 1.0)

    @property
    def call_s(self) -> float:
        """Seconds of the host to start a call: those of the runtime, and on an NPU its request for a whole model."""
        request_s = self.device.dispatch_s * self.device.arch.places_models
        return (self.runtime.call_s.value + request_s) * self.runtime.starts_calls * self.slower

    @memoize(keep=4)
    def in_mode(self, mode: str) -> "Setup":
        """Return the same setup with operators joined into kernels as in `mode`."""
        runtime = msgspec.structs.replace(self.runtime, mode=mode)
        return Setup(self.device, self.plan, runtime, self.layout)

    @cached_property
    def matrix_flops(self) -> float:
        """The peak of all matrix units in the format of products, FLOP/s."""
        return 2.0 * self.device.units * self.device.mac_rate("matrix", self.plan.matrix) * self.plan.matrix_rate

    @cached_property
    def vector_mac_flops(self) -> float:
        """The peak of all vector units in the format of their products, FLOP/s."""
        return 2.0 * self.device.units * self.device.mac_rate("vector", self.plan.vector_mac)

    @cached_property
    def vector_flops(self) -> float:
        """The peak of all vector units in the format of element-wise work, FLOP/s."""
        return 2.0 * self.device.units * self.device.mac_rate("vector", self.plan.vector)

    @cached_property
    def efficiency(self) -> Efficiency:
        """The rates of software: the device's own if it was measured, else those of its class."""
        return self.device.software.efficiency

    @cached_property
    def prices(self) -> Coefficients:
        """The price of every event."""
        return coefficients(self.device, self.plan)


def _name_formats(plan: Plan) -> str:
    """Return the formats of weights and activations of a plan as uses name them. Weights of 8 bits are stored with
    scales of blocks, as models that are published in them; all integers of fewer bits are `int4`."""
    weights, operand, form = plan.weights, plan.operand, FORMATS[plan.weights]
    if operand == "fp4":
        return f"{weights} {'mxfp8' if weights == 'mxfp4' else weights}"
    if form.kind == "integer" and form.bits < FORMATS["int8"].bits:
        weights = "int4"
    names = file_access.shipped(LIBRARIES)["formats"]
    return f"{names.get(weights, weights)} {names.get(operand, operand)}"


def make_setup(device: Device, precision: str, runtime: Runtime, layout: str = LAYOUTS[0]) -> Setup:
    """Return the setup that serves a precision; compilers choose their own layout. Raises RequestError."""
    if runtime.mode == "compiled":
        layout = "channels_last"
    elif runtime.mode != "eager" or not device.arch.has_layouts:
        layout = "blocked"
    device = device.divided_equally if runtime.divides_equally else device
    return Setup(device, make_plan(device, precision, runtime), runtime, layout)


@memoize(keep=16)
def find_setup(device: Device, execution: str, work: str, precision: str, layout: str) -> Setup:
    """Return the setup for a kind of work; `execution` is 'auto', a mode or a runtime. The last few are remembered."""
    return make_setup(device, precision, resolve_runtime(device, execution, work, precision), layout)
