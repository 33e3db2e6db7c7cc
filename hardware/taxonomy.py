"""One thing that an architecture spends energy on, and the rows that all taxonomies share.

`component` is compute, memory (bytes moved) or static (seconds); `family` and `argument` say where the price comes from
(event_prices.py). Counts come from the graph and the mapping; only clock and static events count time."""

from __future__ import annotations

import msgspec

ARITHMETIC = ("mac", "tensor_mac", "flop", "special")


class Event(msgspec.Struct, frozen=True, array_like=True):
    """One kind of event that an architecture spends energy on. `count` is the unit in which it is counted."""

    category: str
    name: str
    count: str
    component: str
    family: str
    argument: str = ""

    @property
    def label(self) -> str:
        """The unique name of the event within a taxonomy: several categories have a MAC or a read."""
        return f"{self.category}.{self.name}"

    @property
    def is_overhead(self) -> bool:
        """True for everything but arithmetic, data movement and static power."""
        return self.component == "compute" and self.family not in ARITHMETIC


def taxonomy(own: tuple[Event, ...], clocked: dict[str, str]) -> tuple[Event, ...]:
    """Return an architecture's own events, clock events of the `clocked` parts (name: component), and static power."""
    parts = [Event("clock", name, "cycle", component, "clock", name) for name, component in clocked.items()]
    return (*own, *(parts or [_CLOCK]), *_STATIC)


_CLOCK = Event("clock", "unit_cycles", "cycle", "compute", "clock")
_STATIC = (
    Event("static", "leakage_and_idle", "s", "static", "static", "logic"),
    Event("static", "memory_background", "s", "static", "static", "memory"),
)
