"""`hwexplorer plot MODEL --plot NAME`: the points of a plot of the screen."""

from __future__ import annotations

import argparse

from hwexplorer.commands import common
from hwexplorer.state import PLOTS, replace


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV,..")
    parser.add_argument("--plot", choices=PLOTS, metavar="NAME", help=", ".join(PLOTS) + " (default roofline)")
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from hwexplorer.export.render import render

    state = common.state(arguments)
    if arguments.plot is not None:
        state = replace(state, plot=arguments.plot)
    common.prepare(state)
    common.emit(arguments, lambda form: render(state, "plot", form, common.width()))
