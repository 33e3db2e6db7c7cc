"""Limits over the whole catalogue, `L<5ms,E<1J,P<30W,M<8GB`: what fails them is grey. The figures come a few devices at
a time, so that typing goes on meanwhile."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING

import msgspec

from analysis.document import Cell, Column
from hardware.errors import RequestError
from hwexplorer.history import changed_fields
from hwexplorer.settings import NAMES
from hwexplorer.state import State
from hwexplorer.tui import query
from hwexplorer.views.plain import Table

if TYPE_CHECKING:
    from hwexplorer.tui.session import Session

COLUMNS = (
    Column("latency", "Latency", "s", role="quantity", keep=0),
    Column("energy_per_inference", "Energy/inf", "J", role="quantity", keep=0),
    Column("power", "Power", "W", role="quantity", keep=0),
    Column("memory", "Memory", "byte", role="quantity", keep=0),
)
_LETTERS = {"l": "latency", "e": "energy_per_inference", "energy": "energy_per_inference", "p": "power", "m": "memory"}
_RUN = frozenset({"model", *NAMES})
SLICE_S = 0.01  # of computing between two looks at the keyboard


class Limits:
    """The figures of the catalogue in one scenario, as far as they are known."""

    def __init__(self) -> None:
        self._state: State | None = None
        self._figures: dict[str, tuple[Cell, ...]] = {}
        self._told: tuple[object, str] = (None, "")

    def _follow(self, state: State) -> None:
        """Figures of another scenario are of no use."""
        if self._state is None or changed_fields(self._state, state) & _RUN:
            self._state, self._figures = state, {}

    def applied(self, session: Session, table: Table, text: str) -> Table:
        """The devices with their figures, those within the limits first, the others dim. Raises RequestError."""
        self._follow(session.state)
        unknown: tuple[Cell, ...] = (None,) * len(COLUMNS)
        rows = [
            msgspec.structs.replace(row, cells=(*row.cells[:2], *(self._figures.get(row.key) or unknown)))
            for row in table.rows
        ]
        known = msgspec.structs.replace(table, columns=(*table.columns[:2], *COLUMNS), rows=tuple(rows))
        tests = query.conditions(known, text, _LETTERS)
        held = {row.key for row in rows if all(test(row) for test in tests)}
        ordered = sorted(rows, key=lambda row: row.key not in held)
        dimmed = (msgspec.structs.replace(row, dim=row.key not in held) for row in ordered)
        return msgspec.structs.replace(known, rows=tuple(dimmed))

    def more(self, session: Session, keys: list[str]) -> bool:
        """Compute for a moment; whether there is more to do."""
        self._follow(session.state)
        missing = [key for key in keys if key not in self._figures]
        until = perf_counter() + SLICE_S
        for key in missing:
            try:
                self._figures[key] = session.provider.figures(session.state, key)
            except RequestError:  # it cannot run this: it is within no limit
                self._figures[key] = (None,) * len(COLUMNS)
            if perf_counter() > until:
                break
        return len(missing) > 0

    def said(self, session: Session) -> str:
        """`limits L<5ms E<1J: 3 of 74 pass`, `...` while not all devices are known."""
        self._follow(session.state)
        key = (session.state.limits, session.state.devices, len(self._figures), id(self._state))
        if key != self._told[0]:
            rows = self.applied(session, session.cache.view("devices", session.state), session.state.limits).rows
            tried = sum(bool(self._figures.get(row.key)) for row in rows)
            is_done = all(row.key in self._figures for row in rows)
            told = f"{sum(not row.dim for row in rows)} of {tried} pass" if is_done else "..."
            self._told = key, f"limits {session.state.limits}: {told}"
        return self._told[1]


def typed(text: str) -> str:
    """The limits among what is typed to narrow the devices. Raises RequestError where an amount is wrong."""
    from analysis.explore.constraint import parse_limit

    return " ".join(str(limit) for word in text.split() if (limit := parse_limit(word)) is not None)
