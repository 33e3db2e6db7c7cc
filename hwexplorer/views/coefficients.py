"""Every energy constant of a device: value, spread, source."""

from __future__ import annotations

from hardware.coefficients import Coefficients, coefficients
from hardware.demand import Floats, OpClass
from hardware.plan import plan
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.plain import Column, Row, Table

COLUMNS = (
    Column("event", "Event", role="text", keep=0),
    Column("each", "Each", "J", role="quantity", keep=0),
    Column("unit", "per", role="text", keep=1),
    Column("low", "Low", "J", role="quantity", keep=2),
    Column("high", "High", "J", role="quantity", keep=2),
    Column("quality", "Quality", role="text", keep=3),
    Column("source", "Source", role="text", keep=4),
)


def prices(state: State) -> Coefficients:
    found = engine.device(state.on)
    return coefficients(found, plan(found, state.precision))


def table(state: State) -> Table:
    """Prices of all events on a device at a precision, then the efficiencies its times are scaled by."""
    found = engine.device(state.on)
    rows = tuple(
        Row(
            f"{row.category}.{row.event}",
            (f"{row.category}.{row.event}", row.value_j, row.unit, row.low_j, row.high_j, row.quality, row.source),
        )
        for row in prices(state).rows
    )
    rates = found.software.efficiency
    footer = tuple(
        f"{name.lower()}: {rates.compute[0, i]:.0%} of peak ({rates.compute[2, i]:.0%}-{rates.compute[1, i]:.0%}), "
        f"{rates.bandwidth[0, i]:.0%} of bandwidth ({rates.bandwidth[2, i]:.0%}-{rates.bandwidth[1, i]:.0%})"
        for i, name in enumerate(OpClass.__members__)
    )
    if (rates.nchw[0], rates.vector_convolution[0]) != (1.0, 1.0):
        footer += (
            f"convolutions in NCHW: {_ends(rates.nchw)} of the rate in channels last; on vector units: "
            f"{_ends(rates.vector_convolution)} of the rate on matrix units",
        )
    return Table("coefficients", f"Energy per event on {found.name} at {state.precision}", COLUMNS, rows, footer)


def _ends(rate: Floats) -> str:
    nominal, fast, slow = rate
    return f"{nominal:.0%} ({slow:.0%}-{fast:.0%})"
