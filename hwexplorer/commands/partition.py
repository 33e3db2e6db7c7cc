"""`hwexplorer partition`: operators and subgraphs by type, traffic, parallelism, dependencies."""

from __future__ import annotations

import argparse

from hwexplorer.commands import common
from hwexplorer.commands.view import run

__all__ = ["arguments", "run"]


def arguments(parser: argparse.ArgumentParser) -> None:
    """No device, execution or layout: the partition follows from the model."""
    parser.add_argument("model", help="a model, a building block, or a state string")
    parser.add_argument("--batch", type=common.whole(1, common.BATCH_MAX), help="inputs at once, 1-4096 (default 1)")
    parser.add_argument("--precision", choices=common.PRECISIONS, metavar="P", help="width of tensors (default fp32)")
    parser.add_argument("--image-size", type=common.whole(1, common.IMAGE_MAX), metavar="S", help="pixels")
    parser.set_defaults(several=False, on=None, baseline=None, node=None, execution=None, layout=None)
    common.output_options(parser)
