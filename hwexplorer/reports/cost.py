"""Compute money and carbon per million inferences, and the break-even of two devices."""

from analysis.document import Column, columns
from analysis.explore.deployment_cost import BreakEven, CostReport, DeviceCost, cost, settings
from hardware.base.errors import RequestError
from hardware.base.text import plain_number, quantity
from hwexplorer import engine
from hwexplorer.configurations import INCLUDE_PAPER, asks_for_paper
from hwexplorer.declare import DEVICES, Report, Rows, Section, summary_text
from hwexplorer.options import amount, option
from hwexplorer.state import State
from hwexplorer.views.captions import MARKED
from hwexplorer.views.plain import Text

_MONEY = (
    *columns(DeviceCost, "device total_usd", device={"shown": MARKED}),
    Column(
        "band", "Range USD", role="text", keep=1,
        of=lambda row: f"{plain_number(row.total_low_usd)} - {plain_number(row.total_high_usd)}",
        help="range over the bands of time and energy and over the prices offered",
    ),
    *columns(DeviceCost, "pays_for kwh carbon_kg"),
)  # fmt: skip
_SETUP = Column("device", "Device", role="text", keep=0,
                of=lambda row: MARKED[row.device] + f"*{row.devices}" * (row.devices > 1))  # fmt: skip
COLUMNS = (*_MONEY, *columns(DeviceCost, "electricity_usd hire_usd purchase_usd time lifetime"))
_Price = tuple[str, float]


def _price(text: str) -> _Price:
    """Parse `DEV=USD`. Raises RequestError."""
    name, equals, usd = text.rpartition("=")
    if not equals or not name:
        raise RequestError(f"{text[:40]!r}: expected DEVICE=USD, e.g. h100_sxm=2.5")
    return name, amount("USD")(usd)


def _document(
    state: State, hourly: list[_Price] | None, price: list[_Price] | None, on_paper: bool, **given: float | None
) -> CostReport:
    hire, purchase = ({engine.device(name).key: usd for name, usd in prices or ()} for prices in (hourly, price))
    assumptions = {name: value for name, value in given.items() if value is not None}
    outcomes = [engine.outcome(state, name) for name in state.devices]
    assumed, is_paper_asked = settings(assumptions, hire, purchase), asks_for_paper(state, on_paper)
    return cost([outcome.per_unit for outcome in outcomes], assumed, is_paper_asked, f"{outcomes[0].work}s")


def _assumed(bill: CostReport, state: State) -> tuple[str, ...]:
    """Return prices and assumptions in brief, without their ranges and sources."""
    paid = [f"{p.device} {p.value:g} USD {'an hour' if p.kind == 'hire' else 'to buy'}" for p in bill.prices]
    values = [f"{a.name} {a.value:g}{'x' if a.unit == 'x' else f' {a.unit}'}" for a in bill.assumptions]
    return (
        *((f"Prices: {', '.join(paid)}",) if paid else ()),
        f"Assumed: {', '.join(values)}",
        "Ranges and sources of both: --all. Your own: --hourly, --price, --electricity ..",
    )


def _assumptions(bill: CostReport, state: State) -> Text:
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


VERB = Report(
    subject=DEVICES,
    options=(
        option("--electricity", type=amount("USD"), metavar="USD", help="price of a kWh"),
        option("--carbon", type=amount(""), metavar="G", help="grams of CO2 per kWh"),
        option("--overhead", type=amount(""), metavar="X",
               help="energy of the data centre per energy of the device (PUE)"),
        option("--lifetime", type=amount(""), metavar="YEARS", help="lifetime of a device in years"),
        option(
            "--duty", type=amount("fraction"), metavar="X", help="share of its lifetime spent on this work: 0.5 or 50%"
        ),
        option("--hourly", type=_price, action="append", metavar="DEV=USD", help="hire per hour, power included"),
        option("--price", type=_price, action="append", metavar="DEV=USD", help="purchase price"),
        INCLUDE_PAPER,
    ),
    document=_document,
    title="Cost",
    parts=(
        summary_text(lambda bill, state: (bill.cheapest,)),
        Rows(
            "cost", lambda bill: f"Per million {bill.counted}", COLUMNS, of="rows", key="device",
            brief={"columns": (_SETUP, *_MONEY[1:]), "footer": _assumed},
        ),
        Rows(
            "break_even", "Break-even", columns(BreakEven, first={"shown": MARKED}, then={"shown": MARKED}),
            key=("first", "then"), optional=True,
        ),
        _assumptions,
    ),
    brief_parts=("summary", "cost", "break_even"),
    main="cost",
    section=Section(110, "What it costs"),
    examples={"cost": "conv2d --on h100_sxm,tpu_v4"},
)  # fmt: skip
