"""`hwexplorer energy`: where the energy goes: components, power, idle losses, top consumers."""

from __future__ import annotations

import argparse

from hwexplorer.commands import top, view
from hwexplorer.commands.top import run

__all__ = ["arguments", "run"]


def arguments(parser: argparse.ArgumentParser) -> None:
    view.arguments(parser)
    top.option(parser)
