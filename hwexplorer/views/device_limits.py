"""The devices of a state that keep its limits, which analysis/explore/constraint.py parses."""

import msgspec

from analysis.explore.constraint import parse_limits
from hwexplorer import engine
from hwexplorer.state import State


class LimitsCheck(msgspec.Struct, frozen=True):
    """The devices of a state that pass its limits, and the broken limits of each that fails."""

    asked: str
    passing: tuple[str, ...]
    failing: dict[str, tuple[str, ...]]

    def __str__(self) -> str:
        total = len(self.passing) + len(self.failing)
        names = f": {', '.join(self.passing)}" if self.passing else ""
        return f"limits {self.asked}: {len(self.passing)} of {total} devices pass{names}"


def check_limits(state: State) -> LimitsCheck | None:
    """Check the devices of a state against its limits. Return None if the state has no limits."""
    if not state.limits:
        return None
    limits = parse_limits(state.limits)
    broken_limits = {name: engine.outcome(state, name).broken_limits(limits) for name in state.devices}
    failing = {name: why for name, why in broken_limits.items() if why}
    return LimitsCheck(state.limits, tuple(name for name in state.devices if name not in failing), failing)
