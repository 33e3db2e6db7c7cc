"""`hwexplorer coefficients`: every energy constant of a device with its spread and source."""

from __future__ import annotations

import argparse

from hwexplorer.commands import common


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--on", metavar="DEV", help="a device id, id:power_mode or class (default: the GPU)")
    parser.add_argument("--precision", choices=common.PRECISIONS, default="fp32", metavar="P", help="default fp32")
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from hardware.architectures import registry
    from hwexplorer import engine
    from hwexplorer.export.render import encode, plain
    from hwexplorer.state import State
    from hwexplorer.views.coefficients import prices, table

    on = arguments.on or registry.BASELINE.id
    state = State(devices=(on,), on=on, precision=arguments.precision)

    def make(form: str) -> str:
        if form == "json":
            found = {"device": engine.device(state.on).key, "precision": state.precision}
            return encode({**found, "coefficients": prices(state).rows})
        return plain(table(state), form, common.width())

    common.emit(arguments, make)
