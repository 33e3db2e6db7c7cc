"""`hwexplorer cost`: money and carbon per million inferences."""

from __future__ import annotations

import argparse

from hardware.amount import parse_amount
from hardware.errors import RequestError
from hwexplorer.commands import common


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV,..")
    parser.add_argument("--electricity", metavar="USD", help="price of a kWh")
    parser.add_argument("--carbon", metavar="G", help="grams of CO2 per kWh")
    parser.add_argument("--overhead", metavar="X", help="energy of the data centre per energy of the device (PUE)")
    parser.add_argument("--lifetime", metavar="YEARS", help="years a device serves")
    parser.add_argument("--duty", metavar="X", help="share of its life that it works on this: 0.5 or 50%%")
    parser.add_argument("--hourly", action="append", default=[], metavar="DEV=USD", help="hire per hour")
    parser.add_argument("--price", action="append", default=[], metavar="DEV=USD", help="purchase price")
    common.output_options(parser)


def _prices(words: list[str], flag: str) -> dict[str, float]:
    """`DEV=USD` pairs by the device's key."""
    from hwexplorer import engine

    found: dict[str, float] = {}
    for word in words:
        name, equals, amount = word.rpartition("=")
        if not equals or not name:
            raise RequestError(f"{flag} {word[:40]!r}: DEVICE=USD is expected, as h100_sxm=2.5")
        found[engine.device(name).key] = parse_amount(amount, "USD")
    return found


def run(arguments: argparse.Namespace) -> None:
    from analysis.decide.cost import settings
    from hwexplorer.views import cost as views

    units = {"electricity": "USD", "carbon": "", "overhead": "", "lifetime": "", "duty": "fraction"}
    given = {
        name: parse_amount(getattr(arguments, name), unit)
        for name, unit in units.items()
        if getattr(arguments, name) is not None
    }
    by = settings(given, _prices(arguments.hourly, "--hourly"), _prices(arguments.price, "--price"))
    state = common.state(arguments)
    common.prepare(state)
    found = views.found(state, by)
    common.show(arguments, lambda: views.view(state, found), lambda: found)
