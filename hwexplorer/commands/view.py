"""Verbs that print one view of a state: what `tree`, `events` and `why` share."""

from __future__ import annotations

import argparse

from hwexplorer.commands import common


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV")
    parser.add_argument("--node", metavar="PATH", help="a subgraph or operator (default: the model)")
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from hwexplorer.export.render import render

    state = common.state(arguments)
    common.prepare(state)
    common.emit(arguments, lambda form: render(state, arguments.verb, form, common.width()))
