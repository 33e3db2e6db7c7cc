"""What is asked of every device alike: batch, precision, execution, layout."""

from __future__ import annotations

import msgspec

from hardware.errors import RequestError, unknown
from hardware.precision import PRECISIONS

EXECUTIONS = ("auto", "eager", "fused")
LAYOUTS = ("nchw", "channels_last")
MAX_BATCH = 4096


class Scenario(msgspec.Struct, frozen=True):
    """`execution` auto means eager on CPU and GPU (a framework dispatches operators), fused on TPU and KPU
    (a compiler emits programs). `layout` matters for GPU convolutions. Raises RequestError when invalid."""

    batch: int = 1
    precision: str = "fp32"
    execution: str = "auto"
    layout: str = "nchw"

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= MAX_BATCH:
            raise RequestError(f"batch {self.batch} is out of range (allowed: 1 to {MAX_BATCH})")
        for what, value, allowed in (
            ("precision", self.precision, PRECISIONS),
            ("execution", self.execution, EXECUTIONS),
            ("layout", self.layout, LAYOUTS),
        ):
            if value not in allowed:
                raise unknown(what, value, allowed)

    def execution_on(self, architecture: str) -> str:
        """'eager' or 'fused': what `auto` means on an architecture."""
        if self.execution != "auto":
            return self.execution
        return "eager" if architecture in ("cpu", "gpu") else "fused"
