"""A device in use: with the formats that it computes in, the runtime, and the layout of tensors."""

from __future__ import annotations

import msgspec

from hardware.coefficients import Coefficients, coefficients
from hardware.device import Device
from hardware.plan import Plan, plan
from hardware.runtime import LAYOUTS, Runtime


class Setup(msgspec.Struct, frozen=True):
    """Everything that decides how a device serves a demand. `layout` is that of the images of convolutions."""

    device: Device
    plan: Plan
    runtime: Runtime
    layout: str = LAYOUTS[0]

    @property
    def joins(self) -> str:
        """How operators are joined into kernels, as analysis/estimate/kernels.py calls it."""
        return self.runtime.joins(self.device)

    @property
    def prices(self) -> Coefficients:
        """The energy of every event."""
        return coefficients(self.device, self.plan)


def make_setup(device: Device, precision: str, runtime: Runtime, layout: str = LAYOUTS[0]) -> Setup:
    """Return the setup that serves a requested precision. Raises RequestError for an unknown one."""
    return Setup(device, plan(device, precision, runtime.narrow_sums), runtime, layout)
