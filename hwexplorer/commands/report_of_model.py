"""Verbs that report on one model as a whole, on one device: `view` without a node."""

from __future__ import annotations

import argparse

from hwexplorer.commands import common
from hwexplorer.commands.view import run

__all__ = ["arguments", "run"]


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV")
    common.output_options(parser)
