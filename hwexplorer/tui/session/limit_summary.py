"""Limits such as `L<5ms E<1J P<30W M<8GB`, and the devices of the catalogue that pass them.

Figures are computed for a few devices at a time, so that typing goes on meanwhile. analysis/explore/outcome.py
parses limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import TYPE_CHECKING

from analysis.document import Cell, Column
from analysis.explore.outcome import Constraint, parse_limits
from analysis.text.headline import EVIDENCE
from hardware.base.errors import RequestError
from hwexplorer.settings import SCENARIO_FIELDS
from hwexplorer.state import State, replace
from hwexplorer.tui.session import state_changes
from hwexplorer.tui.session.state_changes import changed_fields
from hwexplorer.views import plain

if TYPE_CHECKING:
    from hwexplorer.tui.session.view_cache import ViewCache

COLUMNS = (
    Column("evidence", "Evidence", role="text", keep=0),
    Column("latency", "Latency", "s", role="quantity", keep=0),
    Column("energy_per_inference", "Energy/inf", "J", role="quantity", keep=0),
    Column("power", "Power", "W", role="quantity", keep=0),
    Column("memory", "Memory", "byte", role="quantity", keep=0),
)
_PLACES = {"latency": 3, "energy": 4, "power": 5, "memory": 6}  # index of a figure in a row's cells
_RUN = SCENARIO_FIELDS | {"model"}
_UNKNOWN: tuple[Cell, ...] = (None,) * len(COLUMNS)
BACKED = (EVIDENCE["measured"], EVIDENCE["siblings"])  # only a device with such evidence can be the best
SLICE_S = 0.01  # computing time between two looks at the keyboard


class DeviceLimits:
    """The figures of the catalogue in the scenario of a state, as far as they are known."""

    def __init__(self, cache: ViewCache) -> None:
        self._cache, self._provider = cache, cache.provider
        self._state: State | None = None
        self._figures: dict[str, tuple[Cell, ...]] = {}
        self._summary: tuple[object, str] = (None, "")

    def _forget_other_scenario(self, state: State) -> None:
        if self._state is None or changed_fields(self._state, state) & _RUN:
            self._state, self._figures = state, {}  # the figures belong to another scenario

    def apply(self, state: State, table: plain.Table, text: str) -> plain.Table:
        """Return `table` with figures: the devices within the limits of `text` first, the best on top, the others dim.
        The title says how many pass and which is best. Raises RequestError for a wrong limit."""
        self._forget_other_scenario(state)
        rows = [replace(row, cells=(*row.cells[:2], *(self._figures.get(row.key) or _UNKNOWN))) for row in table.rows]
        with_figures = replace(table, columns=(*table.columns[:2], *COLUMNS), rows=tuple(rows))
        words = set(text.split()) - set(state_changes.plain_words(text))
        limits = [limit for limit in parse_limits(" ".join(words)) if limit.figure in _PLACES]
        dimmed = [replace(row, dim=not all(_holds(limit, row) for limit in limits)) for row in rows]
        ordered = tuple(sorted(dimmed, key=_rank))
        return replace(with_figures, title=self._headline(ordered), rows=ordered)

    def _headline(self, rows: Sequence[plain.Row]) -> str:
        """Return `28 of 85 pass; best: l4; predicted better: tpu_v4`, or `..` while figures are missing. A device
        without measurements of it or of similar chips is predicted, never the best."""
        if any(row.key not in self._figures for row in rows):
            return ".."
        passing = [row for row in rows if not row.dim]
        parts = [f"{len(passing)} of {sum(bool(self._figures[row.key]) for row in rows)} pass"]
        best = next((row for row in passing if row.cells[2] in BACKED), None)
        if best:
            parts.append(f"best: {best.key}")
        if passing and passing[0] is not best:
            parts.append(f"predicted {'better' if best else 'best'}: {passing[0].key}")
        parts.append("only devices and designs that can run it count")
        return "; ".join(parts)

    def compute_some(self, state: State, devices: Sequence[str] | None = None) -> bool:
        """Compute missing figures for SLICE_S, by default of the whole catalogue. Return True if any were missing."""
        self._forget_other_scenario(state)
        if devices is None:
            devices = [row.key for row in self._cache.view("devices", state).rows]
        missing = [device for device in devices if device not in self._figures]
        end = perf_counter() + SLICE_S
        for device in missing:
            try:
                self._figures[device] = self._provider.figures(state, device)
            except RequestError:  # the device cannot run the model, so it passes no limit
                self._figures[device] = _UNKNOWN
            if perf_counter() > end:
                break
        return len(missing) > 0

    def summary(self, state: State) -> str:
        """Return `limits L<5ms E<1J: 3 of 74 pass; best: l4`."""
        if any(limit.figure not in _PLACES for limit in parse_limits(state.limits)):  # a limit on figures of a load
            return f"limits {state.limits}"
        self._forget_other_scenario(state)
        key = (state.limits, state.devices, len(self._figures), id(self._state))
        if key != self._summary[0]:
            table = self.apply(state, self._cache.view("devices", state), state.limits)
            self._summary = key, f"limits {state.limits}: {table.title}"
        return self._summary[1]

    def describe_no_pass(self, state: State, cards: Sequence[plain.Card]) -> str:
        """Return `No device shown passes; limits L<5ms: 3 of 74 pass; best: l4.`, or '' if one passes."""
        is_passed = not state.limits or any(card.fits and not card.over for card in cards)
        return "" if is_passed else f"No device shown passes; {self.summary(state)}."


def _holds(limit: Constraint, row: plain.Row) -> bool:
    """Return True if a device is known to be within a limit."""
    value = row.cells[_PLACES[limit.figure]]
    return isinstance(value, plain.NUMBERS) and limit.holds(value)


def _rank(row: plain.Row) -> tuple[bool, bool, float]:
    """Return the sort key: devices within the limits first, designs on paper last among them, then energy x latency."""
    evidence, latency, energy = row.cells[2:5]
    if row.dim or not isinstance(latency, plain.NUMBERS) or not isinstance(energy, plain.NUMBERS):
        return row.dim, False, 0.0
    return False, evidence == EVIDENCE["design_target"], float(latency) * float(energy)
