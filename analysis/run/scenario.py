"""What is asked of every device alike: batch, precision, execution, layout, and lengths of language models."""

from __future__ import annotations

import msgspec

from analysis.workload.workload import Workload
from hardware import runtime as runtimes
from hardware.device import Device
from hardware.errors import RequestError, unknown
from hardware.precision import PRECISIONS
from hardware.runtime import Runtime

LAYOUTS = ("nchw", "channels_last")
MAX_BATCH = 4096
MAX_TOKENS = 1 << 20


class Scenario(msgspec.Struct, frozen=True):
    """How a model is run. Raises RequestError when invalid.

    `execution`: a runtime by name (hardware/runtimes.toml), 'deployed' for what one would deploy on each device, or a
    mode: eager (a framework dispatches operators), compiled (chains of element-wise operators become one kernel,
    contractions call libraries), fused (a subgraph is one kernel); auto is the mode customary on the architecture.
    `layout` matters for GPU convolutions. `sequence` (new tokens) and `kv` (tokens in the cache) are for models that
    have these dimensions; None is the model's own.
    """

    batch: int = 1
    precision: str = "fp32"
    execution: str = "auto"
    layout: str = "nchw"
    sequence: int | None = None
    kv: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= MAX_BATCH:
            raise RequestError(f"batch {self.batch} is out of range (allowed: 1 to {MAX_BATCH})")
        for length, tokens, least in (("sequence", self.sequence, 1), ("kv", self.kv, 0)):
            if tokens is not None and not least <= tokens <= MAX_TOKENS:
                raise RequestError(f"{length} {tokens} is out of range (allowed: {least} to {MAX_TOKENS})")
        for what, value, allowed in (
            ("precision", self.precision, PRECISIONS),
            ("execution", self.execution, runtimes.names()),
            ("layout", self.layout, LAYOUTS),
        ):
            if value not in allowed:
                raise unknown(what, value, allowed)

    def runtime_on(self, device: Device, workload: Workload) -> Runtime:
        """What runs the workload on a device when so much is asked."""
        return runtimes.resolve(device, self.execution, workload.work)
