"""One module per architecture, with everything particular to it; known.toml lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardware.architecture import Levels
    from hardware.device import Device


def levels_of_units(name: str, unit_bytes: str, shared: dict[str, str]) -> Levels:
    """Return a function that returns the levels of a device: memories of its units, of the fact `unit_bytes` each, then
    the `shared` levels, each with the name of its fact, that its file states."""

    def levels(device: Device) -> tuple[tuple[str, float], ...]:
        """Return the levels of a device, innermost first, with the bytes of all units."""
        near = f"{name} of {device.units:.0f} {device.unit_name}s", device.values[unit_bytes] * device.units
        return near, *((level, device.values[fact]) for level, fact in shared.items() if fact in device.file.facts)

    return levels
