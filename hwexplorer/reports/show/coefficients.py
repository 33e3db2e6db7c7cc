"""List the energy of each hardware event of a device, with spread and source."""

import msgspec

from analysis.document import Column
from hardware.base.text import percent
from hardware.demand import OpClass
from hardware.event_prices import Coefficient, coefficients
from hardware.plan import make_plan
from hwexplorer import engine
from hwexplorer.declare import CATALOGUE, Report, Rows
from hwexplorer.options import PRECISION, option
from hwexplorer.state import State
from hwexplorer.views.captions import amount_of_one

COLUMNS = (
    Column("event", "Event", role="text", keep=0, of=lambda row: f"{row.category}.{row.event}"),
    Column("each", "Each", "J", role="quantity", keep=0, of=lambda row: amount_of_one(row.value_j, row.unit)),
    Column("unit", "Counted in", role="text", keep=1),
    Column("low", "Low", "J", role="quantity", keep=2, of=lambda row: amount_of_one(row.low_j, row.unit)),
    Column("high", "High", "J", role="quantity", keep=2, of=lambda row: amount_of_one(row.high_j, row.unit)),
    Column("quality", "Quality", role="text", keep=3),
    Column("source", "Source", role="text", keep=4),
)


class Prices(msgspec.Struct, frozen=True):
    """The energy of every event of a device at a precision."""

    device: str
    precision: str
    coefficients: tuple[Coefficient, ...]


def _document(state: State) -> Prices:
    device = engine.device(state.on)
    return Prices(device.key, state.precision, coefficients(device, make_plan(device, state.precision)).rows)


def _rates(prices: Prices, state: State) -> tuple[str, ...]:
    device = engine.device(prices.device)
    rates = device.software
    lines = []
    for name in OpClass.__members__:
        compute, bandwidth = (_ends(table.get(name, table["other"])) for table in (rates.compute, rates.bandwidth))
        lines.append(f"{name.lower()}: {compute} of peak, {bandwidth} of bandwidth")
    if (rates.nchw[0], rates.vector_convolution[0]) != (1.0, 1.0):
        lines.append(
            f"convolutions in NCHW: {_ends(rates.nchw)} of the rate in channels last; on vector units: "
            f"{_ends(rates.vector_convolution)} of the rate on matrix units"
        )
    return tuple(lines)


def _ends(rate: tuple[float, float, float]) -> str:
    nominal, low, high = rate
    return f"{percent(nominal)} ({low * 100:.0f} to {percent(high)})"


def _title(document: Prices) -> str:
    return f"Energy per event on {engine.device(document.device).name} at {document.precision}"


VERB = Report(
    subject=CATALOGUE,
    options=(option("--on", metavar="DEV", help="a device id, id:power_mode or class (default: the GPU)"), PRECISION),
    document=_document,
    parts=(Rows("coefficients", _title, COLUMNS, footer=_rates, brief={"footer": ()}),),
    examples={"coefficients": "--on h100_sxm"},
)
