"""Which devices of a state are within the limits that it sets."""

from __future__ import annotations

import msgspec

from analysis.explore.constraint import broken_limits
from hwexplorer import engine
from hwexplorer.state import State


class Held(msgspec.Struct, frozen=True):
    """The devices of a state held against its limits; of each that fails, which it is not within."""

    asked: str
    passing: tuple[str, ...]
    failing: dict[str, tuple[str, ...]]

    def __str__(self) -> str:
        total = len(self.passing) + len(self.failing)
        names = f": {', '.join(self.passing)}" if self.passing else ""
        return f"limits {self.asked}: {len(self.passing)} of {total} devices pass{names}"


def held(state: State) -> Held | None:
    """None where the state sets no limits."""
    if not state.limits:
        return None
    results = {name: engine.result(state, name) for name in state.devices}
    found = {name: broken_limits(state.limits, r) if r.fits else ("does not fit",) for name, r in results.items()}
    failing = {name: why for name, why in found.items() if why}
    return Held(state.limits, tuple(name for name in state.devices if name not in failing), failing)
