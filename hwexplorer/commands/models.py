"""`hwexplorer models`: the models that can be opened."""

from __future__ import annotations

import argparse

from hwexplorer.commands import common


def arguments(parser: argparse.ArgumentParser) -> None:
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    from hwexplorer.export.render import render
    from hwexplorer.state import State

    common.emit(arguments, lambda form: render(State(), arguments.verb, form, common.width()))
