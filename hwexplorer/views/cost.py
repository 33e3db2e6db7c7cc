"""Cost and carbon per million inferences, the assumptions behind them, and where two devices break even."""

from __future__ import annotations

from analysis.decide.cost import Cost, Settings, settings
from analysis.decide.cost import cost as find_cost
from hardware.quantity import quantity
from hwexplorer import engine
from hwexplorer.state import State
from hwexplorer.views.compare import title
from hwexplorer.views.plain import Column, Report, Row, Table, Text

COLUMNS = (
    Column("device", "Device", role="text", keep=0),
    Column("total_usd", "Total USD", keep=0, help="of everything given: electricity, hire, purchase"),
    Column("band", "Band USD", role="text", keep=4, help="over the band of the energy"),
    Column("electricity_usd", "Electricity USD", keep=1),
    Column("hire_usd", "Hire USD", keep=2),
    Column("purchase_usd", "Purchase USD", keep=2, help="the part of the purchase price these inferences wear off"),
    Column("kwh", "kWh", keep=2),
    Column("carbon_kg", "CO2 kg", keep=1),
    Column("time", "Time", "s", keep=3, help="of a million inferences on one device"),
    Column("lifetime", "In a lifetime", "SI", role="quantity", keep=5, help="inferences one device can do"),
)
EVEN = (
    Column("first", "Cheaper at first", role="text", keep=0),
    Column("then", "Against", role="text", keep=0),
    Column("inferences", "Break-even", "SI", role="quantity", keep=0, help="inferences"),
    Column("says", "", role="text", keep=1),
)


def found(state: State, by: Settings | None = None) -> Cost:
    return find_cost([engine.result(state, name) for name in state.devices], by or settings())


def view(state: State, document: Cost) -> Report:
    """A row per device; the assumptions with their sources; the break-even of each pair."""
    rows = tuple(
        Row(
            r.device,
            (
                r.device, r.total_usd, f"{r.total_low_usd:.3g} - {r.total_high_usd:.3g}", r.electricity_usd,
                r.hire_usd, r.purchase_usd, r.kwh, r.carbon_kg, r.time_s, r.lifetime_inferences,
            ),
        )
        for r in document.rows
    )  # fmt: skip
    lines = tuple(
        f"{a.name} {quantity(a.value)} {a.unit}"
        + (f" ({a.low:g} - {a.high:g})" if a.low is not None else "")
        + f" [{a.quality}: {a.source}]"
        for a in document.assumptions
    )
    even = tuple(Row(f"{e.first}/{e.then}", (e.first, e.then, e.inferences, e.says)) for e in document.break_even)
    return Report(
        "cost",
        f"{title(state)}: per million inferences",
        (
            Table("cost", "", COLUMNS, rows),
            Table("break_even", "Break-even", EVEN, even),
            Text("assumptions", "", (("Assumptions", lines),)),
        ),
        0,
    )
