"""`hwexplorer search`: configurations within limits of energy, latency, memory, power, throughput, cost."""

from __future__ import annotations

import argparse

from hardware.amount import parse_amount
from hardware.errors import RequestError
from hwexplorer.commands import choices, common

# Flag -> figure, unit that is parsed, whether it is the least allowed.
LIMITS = {
    "max_energy": ("energy", "J", False, "energy per inference: 100mJ"),
    "max_latency": ("latency", "s", False, "latency of the batch: 50ms"),
    "max_memory": ("memory", "byte", False, "peak memory: 512MB"),
    "max_power": ("power", "W", False, "average power: 15W"),
    "min_throughput": ("throughput", "1/s", True, "inferences per second: 10000"),
    "max_cost": ("cost", "USD", False, "electricity of a million inferences, USD: 0.05"),
}
ORDERS = ("edp", "energy", "latency", "throughput", "cost")


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV,..")
    for name, (_, _, _, text) in LIMITS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="X", help=text)
    parser.add_argument("--sort", choices=ORDERS, default="edp", metavar="BY", help=f"{', '.join(ORDERS)}")
    choices.grid_options(parser)
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from analysis.decide.choose import FIGURES, Limit, search
    from hwexplorer.views import choose

    limits = []
    for name, (figure, unit, at_least, _) in LIMITS.items():
        text = getattr(arguments, name)
        if text is not None:
            value = parse_amount(text, unit)
            if value <= 0:
                raise RequestError(f"--{name.replace('_', '-')} {text[:40]!r}: more than 0 is expected")
            limits.append(Limit(figure, value, FIGURES[figure][1], at_least))
    if not limits:
        search([], limits)
    found = search(choices.evaluated(arguments, (), all_devices=True), limits, arguments.sort)
    common.show(arguments, lambda: choose.search(found), lambda: found)
