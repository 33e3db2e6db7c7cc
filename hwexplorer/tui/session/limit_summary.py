"""Limits such as `L<5ms E<1J P<30W M<8GB`, and the devices of the catalogue that pass them.

Figures are computed for a few devices at a time, so that typing goes on meanwhile. analysis/explore/outcome.py
parses limits.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import thread_time
from typing import TYPE_CHECKING

from analysis.document import Cell, Column
from analysis.estimate.metrics import METRICS
from analysis.explore.outcome import parse_limits
from analysis.wording import EVIDENCE
from hardware.base.errors import RequestError
from hardware.base.text import count_noun
from hwexplorer.settings import SCENARIO_FIELDS
from hwexplorer.state import State, replace
from hwexplorer.tui.session import state_changes
from hwexplorer.views import plain

if TYPE_CHECKING:
    from analysis.explore.grid import Point
    from hwexplorer.tui.session.view_cache import ViewCache

COLUMNS = (
    Column("evidence", "Evidence", role="text", keep=0),
    Column("format", "Format", role="text", keep=1),
    Column("latency", "Latency", "s", role="quantity", keep=0),
    Column("energy_per_inference", "Energy/inf", "J", role="quantity", keep=0),
    Column("power", "Power", "W", role="quantity", keep=0),
    Column("memory", "Memory", "byte", role="quantity", keep=0),
    Column("odds", "Odds", "%", keep=1),
)
SLICE_S = 0.01  # computing time between two looks at the keyboard


class DeviceLimits:
    """The figures of the catalogue in the scenario of a state, as far as they are known."""

    def __init__(self, cache: ViewCache) -> None:
        self._cache, self._provider = cache, cache.provider
        self._state: State | None = None
        self._points: dict[str, Point | None] = {}  # None for a device that cannot run the model
        self._summary: tuple[object, str] = (None, "")

    def _forget_other_scenario(self, state: State) -> None:
        if self._state is None or state_changes.changed_fields(self._state, state) & (SCENARIO_FIELDS | {"model"}):
            self._state, self._points = state, {}

    def apply(self, state: State, table: plain.Table, text: str) -> plain.Table:
        """Return `table` with figures: the devices within the limits of `text` first, the best on top, the others dim.
        The title says how many pass and which is best. Raises RequestError for a wrong limit."""
        self._forget_other_scenario(state)
        words = set(text.split()) - set(state_changes.plain_words(text))
        limits = [limit for limit in parse_limits(" ".join(words)) if not METRICS[limit.figure].is_of_load]
        ranked = list[tuple[tuple[bool, bool, float], plain.Row]]()
        for row in table.rows:
            point = self._points.get(row.key)
            passes = point is not None and point.fits and all(one.holds(point.figure(one.figure)) for one in limits)
            rank = (False, not point.silicon, point.edp_js) if point is not None and passes else (True, False, 0.0)
            odds = min((point.odds_of_keeping(one) for one in limits), default=None) if point and passes else None
            ranked.append((rank, replace(row, cells=(*row.cells[:2], *_cells(point), odds), dim=not passes)))
        rows = tuple(row for _, row in sorted(ranked, key=lambda pair: pair[0]))
        return replace(table, columns=(*table.columns[:2], *COLUMNS), title=self._headline(rows), rows=rows)

    def _headline(self, rows: Sequence[plain.Row]) -> str:
        """Return `28 of 81 pass; best: l4; predicted better: tpu_v4; also 2 designs on paper`, or `counting 20 of
        85` while figures are missing.
        A device without measurements of it or of similar chips is predicted, never the best."""
        known = sum(row.key in self._points for row in rows)
        if known < len(rows):
            return f"counting {known} of {len(rows)}"
        is_design = {row.key: (point := self._points[row.key]) is not None and not point.silicon for row in rows}
        passing = [row.key for row in rows if not row.dim]
        designs = sum(is_design[key] for key in passing)
        parts = [f"{len(passing) - designs} of {len(rows) - sum(is_design.values())} pass"]
        best = next((key for key in passing if (point := self._points[key]) is not None and point.is_measured), None)
        if best:
            parts.append(f"best: {best}")
        if passing and passing[0] != best:
            parts.append(f"predicted {'better' if best else 'best'}: {passing[0]}")
        if designs:
            parts.append(f"also {count_noun(designs, 'design')} on paper")
        parts.append("only devices and designs that can run it count")
        return "; ".join(parts)

    def compute_some(self, state: State, devices: Sequence[str] | None = None) -> bool:
        """Compute missing figures for SLICE_S, by default of the whole catalogue. Return True if any were missing."""
        self._forget_other_scenario(state)
        names = self._provider.device_names(state) if devices is None else devices
        missing = [device for device in names if device not in self._points]
        end = thread_time() + SLICE_S
        for device in missing:
            try:
                self._points[device] = self._provider.point(state, device)
            except RequestError:  # the device cannot run the model, so it passes no limit
                self._points[device] = None
            if thread_time() > end:
                break
        return len(missing) > 0

    def summary(self, state: State) -> str:
        """Return `limits L<5ms E<1J: 3 of 74 pass; best: l4`."""
        if any(METRICS[limit.figure].is_of_load for limit in parse_limits(state.limits)):
            return f"limits {state.limits}"
        self._forget_other_scenario(state)
        if len(self._points) < (count := len(self._provider.device_names(state))):
            return f"limits {state.limits}: counting {len(self._points)} of {count}"
        key = (state.limits, state.devices, len(self._points), id(self._state))
        if key != self._summary[0]:
            table = self.apply(state, self._cache.view("devices", state), state.limits)
            self._summary = key, f"limits {state.limits}: {table.title}"
        return self._summary[1]


def _cells(point: Point | None) -> tuple[Cell, ...]:
    """Return the cells of COLUMNS but the last; without figures if the model does not fit, or no figure is known."""
    if point is None or not point.fits:
        return (None if point is None else "does not fit", *(None,) * (len(COLUMNS) - 2))
    figures = point.latency_s, point.energy_j_per_inference, point.average_power_w, point.peak_memory_bytes
    return EVIDENCE[point.trust.level], point.precision_run, *figures
