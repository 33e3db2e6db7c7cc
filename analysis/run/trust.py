"""How well an estimate is known: by device, kind of work and runtime, from measurements that were left out of the fit.

analysis/run/trust.toml is written by `python -m analysis.trust.calibrate`; here it is looked up, and nothing is read
but it. A factor multiplies an estimate: latency between `band[0]` and `band[1]` times what is stated.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from hardware import files
from hardware.device import Device
from hardware.precision import FORMATS, parse
from hardware.remember import remembered

FOLDER = Path(__file__).parent
PATH = FOLDER / "trust.toml"
LEVELS = ("measured", "siblings", "engineering", "design_target")
ENGINEERING = "engineering"  # the row of trust.toml for what nothing like it was measured of

Factors = tuple[float, float]


class Trust(msgspec.Struct, frozen=True):
    """How a figure is known. `level`: measured on this device with this runtime, on `siblings` of its class of work,
    'engineering' where nothing like it was, 'design_target' on paper only. `rows` that were measured and their
    `median_error`, a fraction; `band` holds the latency, as factors of it."""

    level: str
    rows: int
    median_error: float | None
    band: Factors


class Class(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A class of work; the fields are explained in classes.toml."""

    name: str
    kinds: tuple[str, ...] = ()
    on: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    least_batch: int = 1
    most_batch: float = float("inf")
    most_bits: float = float("inf")
    parallel: bool | None = None

    def holds(self, kind: str, device: Device, mode: str, batch: int, bits: float, is_parallel: bool) -> bool:
        """Whether such an estimate is of this class or of an earlier one."""
        return (
            (not self.kinds or kind in self.kinds)
            and (not self.on or device.software_class in self.on or device.id.startswith(self.on))
            and (not self.modes or mode in self.modes)
            and self.least_batch <= batch <= self.most_batch
            and bits <= self.most_bits
            and self.parallel in (None, is_parallel)
        )


@lru_cache(maxsize=1)
def classes() -> tuple[Class, ...]:
    return tuple(msgspec.convert(files.table(FOLDER / "classes.toml")["class"], list[Class]))


@lru_cache(maxsize=1)
def _tables() -> tuple[dict[str, dict[str, Any]], dict[tuple[str, str], dict[str, dict[str, Any]]]]:
    """What is known of each class by its name, and of each device and class by runtime."""
    try:
        found = files.table(PATH)
    except FileNotFoundError:  # before the first calibration
        found = {}
    cells: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for row in found.get("measured", ()):
        cells.setdefault((row["device"], row["class"]), {})[row["runtime"]] = row
    return {row["name"]: row for row in found.get("class", ())}, cells


@remembered(keep=256)
def work_class(device: Device, kind: str, mode: str, batch: int, precision: str, is_parallel: bool) -> str:
    """The class of work, '' where none is declared."""
    bits = FORMATS[parse(precision).weights].bits
    held = (each.name for each in classes() if each.holds(kind, device, mode, batch, bits, is_parallel))
    return next(held, "")


@remembered(keep=256)
def trust(device: Device, name: str, runtime: str, mode: str) -> tuple[Trust, Factors | None]:
    """How well a class of work is known on a device, and the factors that hold its energy (None: nothing like it was
    metered)."""
    by_class, by_device = _tables()
    group = by_class.get(name, {})
    band, energy = _factors(group), _factors(group, "energy_")
    cells = by_device.get((device.id, name), {})
    cell = cells.get(runtime) or next((row for row in cells.values() if row["mode"] == mode), None)
    if device.silicon and cell is not None and band is not None:
        return Trust("measured", cell["rows"], cell["median_error"], _factors(cell) or band), energy
    if device.silicon and band is not None:
        return Trust("siblings", group["rows"], group["median_error"], band), energy
    widest = _factors(by_class.get(ENGINEERING, {})) or (1.0, 1.0)
    return Trust("engineering" if device.silicon else "design_target", 0, None, widest), None


def _factors(row: dict[str, Any], prefix: str = "") -> Factors | None:
    return (row[f"{prefix}low"], row[f"{prefix}high"]) if f"{prefix}low" in row else None
