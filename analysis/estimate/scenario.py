"""A scenario: the settings that are the same for every device: batch, precision, execution, layout, lengths."""

import re

import msgspec

from analysis.model import request_bounds
from analysis.model.ir.workload import Workload
from hardware.base.errors import RequestError, unknown
from hardware.device import Device
from hardware.engines import runtime as runtimes
from hardware.engines.runtime import LAYOUTS
from hardware.precision import DEFAULT, canonical
from hardware.setup import Setup, find_setup


def family_of(model: str) -> str:
    """Return the family of a model: `resnet` of wide_resnet50_2."""
    return re.sub(r"[\d_:].*", "", re.sub("^(wide_|timm:)", "", model))


class Scenario(msgspec.Struct, frozen=True):
    """The settings with which a model is run. Raises RequestError when invalid.

    `execution`: a runtime by name (runtimes.toml), 'auto' for what one would deploy on each device, or a mode:
    eager (a framework dispatches operators), compiled (chains of element-wise operators become one kernel, contractions
    call libraries), fused (a subgraph is one kernel: each device by its usual ahead-of-time compiler). `layout` matters
    for GPU convolutions. `sequence` (new tokens) and `kv` (tokens in the cache) are for models that have these
    dimensions; None means the model's own lengths. `prices` is the evidence of energies of events on all devices,
    measured or bottom-up; own is that of each architecture.
    """

    batch: int = 1
    precision: str = DEFAULT
    execution: str = "auto"
    layout: str = "nchw"
    sequence: int | None = None
    kv: int | None = None
    prices: str = "own"

    def __post_init__(self) -> None:
        for what, number, most, least in (
            ("batch", self.batch, request_bounds.BATCH, 1),
            ("sequence", self.sequence, request_bounds.TOKENS, 1),
            ("kv", self.kv, request_bounds.TOKENS, 0),
        ):
            if number is not None and (wrong := request_bounds.range_error(what, number, most, least)):
                raise RequestError(wrong)
        msgspec.structs.force_setattr(self, "precision", canonical(self.precision))
        if self.execution not in (known := runtimes.runtime_names()) and self.execution != runtimes.LIKE_FOR_LIKE:
            raise unknown("runtime", self.execution, known)
        if self.layout not in LAYOUTS:
            raise unknown("layout", self.layout, LAYOUTS)

    def setup_on(self, device: Device, workload: Workload) -> Setup:
        """Return the setup of a device for a workload in this scenario."""
        device = device.priced_by(self.prices)
        setup = find_setup(device, self.execution, workload.work, self.precision, self.layout)
        own = device.timed_in(*self.name_run(workload, setup.runtime.id)) if device.file.timed else device
        return setup if own is device else find_setup(own, self.execution, workload.work, self.precision, self.layout)

    def name_run(self, workload: Workload, runtime_id: str) -> tuple[str, str]:
        """Return the words that tell runs of models on a device apart, `resnet50 batch 8 fp16 tensorrt`, and those of
        their families, `resnet vision tensorrt`."""
        lengths = (f"{name}={value}" for name, value in sorted(workload.defaults.items()))
        run = " ".join([workload.name, *lengths, f"batch {self.batch}", self.precision, runtime_id])
        return run, f"{family_of(workload.name)} {workload.kind} {runtime_id}"
