"""The levels of memory that a device file may state; their sizes are facts: NAME_bytes, NAME_width and NAME_banks."""

from typing import Literal

import msgspec

Kind = Literal["sram", "register"]
Stationary = Literal["weight", "output", "input", "free"]
Port = Literal["read", "write", "read write"]


class Level(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One memory. Each port takes an access per cycle of the kinds that it names."""

    name: str
    kind: Kind = "sram"
    ports: tuple[Port, ...] = ("read", "write")

    def wrong(self) -> str:
        """Return what is wrong with the level, '' if nothing is."""
        missing = {"read", "write"} - set(" ".join(self.ports).split())
        return f"{self.name}: no port takes '{min(missing)}'" if missing else ""


class Hierarchy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The `levels`, outermost first. The cells keep `stationary`."""

    stationary: Stationary
    levels: tuple[Level, ...]

    def level(self, name: str) -> Level:
        """Return the level of a name."""
        return next(level for level in self.levels if level.name == name)
