"""What devices cost per million inferences, as columns of a comparison, and their break-even."""

from functools import partial
from typing import Any

from msgspec.structs import replace

from analysis.document import Column, columns
from analysis.explore.cost import Bill, BreakEven, Cost, bill_of, settings
from hardware.base.errors import RequestError
from hardware.base.text import plain_number, quantity
from hwexplorer import engine
from hwexplorer.declare import Rows
from hwexplorer.options import amount, option
from hwexplorer.state import State
from hwexplorer.views.device_rows import DeviceRow
from hwexplorer.views.plain import Table, Text

_Price = tuple[str, float]


def _price(text: str) -> _Price:
    """Parse `DEV=USD`. Raises RequestError."""
    name, equals, usd = text.rpartition("=")
    if not equals or not name:
        raise RequestError(f"{text[:40]!r}: expected DEVICE=USD, e.g. h100_sxm=2.5")
    return name, amount("USD")(usd)


_option = partial(option, applies_to="batch", group="what it costs")
OPTIONS = (
    _option("--cost", action="store_true", help="hire, purchase, electricity and carbon of a million inferences"),
    _option("--hourly", type=_price, action="append", metavar="DEV=USD", help="hire per hour, power included"),
    _option("--price", type=_price, action="append", metavar="DEV=USD", help="purchase price"),
    _option("--electricity", type=amount("USD"), metavar="USD", help="price of a kWh"),
    _option("--carbon", type=amount(""), metavar="G", help="grams of CO2 per kWh"),
    _option(
        "--overhead", type=amount(""), metavar="X", help="energy of the data centre per energy of the device (PUE)"
    ),
    _option("--lifetime", type=amount(""), metavar="YEARS", help="lifetime of a device in years"),
    _option(
        "--duty", type=amount("fraction"), metavar="X", help="share of its lifetime spent on this work: 0.5 or 50%"
    ),
)


def find_bill(
    state: State,
    on_paper: bool,
    cost: bool = False,
    hourly: list[_Price] | None = None,
    price: list[_Price] | None = None,
    **given: float | None,
) -> Bill | None:
    """Return what the devices of a state cost; None if neither the cost nor a price is asked for."""
    assumed = {name: value for name, value in given.items() if value is not None}
    if not (cost or hourly or price or assumed):
        return None
    hire, purchase = ({engine.device(name).key: usd for name, usd in prices or ()} for prices in (hourly, price))
    results = [engine.result(state, name) for name in state.devices]
    return bill_of(results, settings(assumed, hire, purchase), on_paper, f"{engine.outcome(state).work}s")


def _range(cost: Cost) -> str:
    return f"{plain_number(cost.total_low_usd)} - {plain_number(cost.total_high_usd)}"


_RANGE = Column("band", "Range USD", role="text", keep=1, of=_range,
                help="range over the bands of time and energy and over the prices offered")  # fmt: skip
COLUMNS = columns(
    Cost, "total_usd band pays_for electricity_usd hire_usd purchase_usd carbon_kg kwh time lifetime", _RANGE,
    carbon_kg=1, electricity_usd=2, hire_usd=2, purchase_usd=2,
)  # fmt: skip
_BRIEF = ("total_usd", "band", "pays_for", "electricity_usd", "carbon_kg")
_EVEN = Rows(
    "break_even", "Break-even",
    columns(BreakEven, first={"shown": engine.marked_key}, then={"shown": engine.marked_key}),
    key=("first", "then"),
)  # fmt: skip


def cost_columns(bill: Bill, is_whole: bool = True) -> tuple[Column, ...]:
    """Return the columns of costs, whose rows are the devices of a comparison."""

    def read(column: Column, row: DeviceRow) -> Any:
        """Return the cell of a device."""
        cost = bill.rows[row.run.device.key]
        return column.of(cost) if callable(column.of) else getattr(cost, column.of)

    chosen = COLUMNS if is_whole else tuple(column for column in COLUMNS if column.key in _BRIEF)
    return tuple(replace(column, of=partial(read, column)) for column in chosen)


def cost_views(bill: Bill, state: State, is_whole: bool) -> tuple[Text | Table, ...]:
    """Return the break-even of devices with a price, and what the costs rest on."""
    even = (_EVEN(bill, state),) if bill.break_even else ()
    return (*even, _assumptions(bill) if is_whole else _assumed(bill))


def _assumed(bill: Bill) -> Text:
    """Return prices and assumptions in brief, without their ranges and sources."""
    paid = [f"{p.device} {p.value:g} USD {'an hour' if p.kind == 'hire' else 'to buy'}" for p in bill.prices]
    values = [f"{a.name} {a.value:g}{'x' if a.unit == 'x' else f' {a.unit}'}" for a in bill.assumptions]
    lines = (
        *((f"Prices: {', '.join(paid)}",) if paid else ()),
        f"Assumed: {', '.join(values)}",
        "Ranges and sources of both: --all. Your own: --hourly, --price, --electricity ..",
    )
    return Text("assumptions", "", (("", lines),))


def _assumptions(bill: Bill) -> Text:
    lines = tuple(
        f"{a.name} {quantity(a.value)} {a.unit}"
        + (f" ({a.low:g} - {a.high:g})" if a.low is not None else "")
        + f" [{a.quality}: {a.source}]"
        for a in bill.assumptions
    )
    prices = (
        *(
            f"{p.device}: {p.value:g} USD to {'hire for an hour' if p.kind == 'hire' else 'buy'}"
            + (f" ({p.low:g} - {p.high:g})" if p.low < p.high else "")
            + "".join(f", {text}" for text in (f"{p.offers} offers" if p.offers > 1 else "", p.date, p.note) if text)
            for p in bill.prices
        ),
        *(f"source: {source}" for source in dict.fromkeys(p.source for p in bill.prices)),
    )
    blocks = (("Prices", prices), ("Assumptions", lines))
    return Text("assumptions", "", blocks[not prices :])
