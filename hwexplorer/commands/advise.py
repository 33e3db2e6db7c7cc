"""`hwexplorer advise`: what to change, each suggestion run."""

from __future__ import annotations

import argparse

from hwexplorer.commands import common

AIMS = ("energy", "latency", "memory", "throughput", "edp")


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV")
    parser.add_argument("--aim", choices=AIMS, default="energy", metavar="AIM", help=f"{', '.join(AIMS)}")
    parser.add_argument("--instead", metavar="DEV,..", help="devices to try instead (default: the catalogue)")
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from hwexplorer.commands import choices
    from hwexplorer.views import advise as views

    state = common.state(arguments)
    common.prepare(state)
    named = common.listed(arguments.instead, "device") if arguments.instead is not None else choices.catalogue()
    found = views.found(state, arguments.aim, tuple(named))
    common.show(arguments, lambda: views.view(found), lambda: found)
