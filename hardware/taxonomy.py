"""One thing that an architecture spends energy on, and the rows that all taxonomies share.

`component` is compute, memory (bytes moved) or static (seconds); `family` and `argument` say where the price comes from
(event_prices.py). Counts come from the graph and the mapping; only events by time and static events count time."""

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

    @property
    def is_static(self) -> bool:
        """True for power that is drawn whatever happens."""
        return self.component == "static"

    @property
    def is_on_chip(self) -> bool:
        """True for events whose energy falls with the voltage of the chip."""
        return self.family != "dram" and not self.is_static

    @property
    def is_by_time(self) -> bool:
        """True for what busy units take in each cycle beside the work that is counted. The argument of such an event is
        what it serves: 'matrix' or 'vector' products, either ('compute'), the last on-chip level ('chip'), or memory
        ('dram')."""
        return self.family == "by_time"

    @property
    def is_dynamic(self) -> bool:
        """True for events that are paid for work done, not for time that passes."""
        return not (self.is_static or self.is_by_time)


STATIC = (
    Event("static", "leakage_and_idle", "s", "static", "static", "logic"),
    Event("static", "memory_background", "s", "static", "static", "memory"),
)
