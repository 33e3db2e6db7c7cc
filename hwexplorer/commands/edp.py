"""`hwexplorer edp`: energy-delay product: components, concentration, top nodes, eager against fused."""

from __future__ import annotations

import argparse

from hwexplorer.commands import report_of_model, top
from hwexplorer.commands.top import run

__all__ = ["arguments", "run"]


def arguments(parser: argparse.ArgumentParser) -> None:
    report_of_model.arguments(parser)
    top.option(parser)
