"""`hwexplorer partition`: operators and subgraphs by type, traffic, parallelism, dependencies."""

from __future__ import annotations

import argparse

from hardware.errors import RequestError
from hwexplorer.commands import common, own, view


def arguments(parser: argparse.ArgumentParser) -> None:
    """No device: the partition follows from the model."""
    parser.add_argument("model", help="a model, a building block, or a state string")
    common.scenario_options(parser)
    own.options(parser)
    parser.set_defaults(several=False, on=None, baseline=None, node=None)
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    for name in ("execution", "layout"):
        if getattr(arguments, name) is not None:
            raise RequestError(f"partition follows from the model alone: --{name} changes nothing in it")
    view.run(arguments)
