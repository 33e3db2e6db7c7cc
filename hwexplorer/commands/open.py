"""`hwexplorer MODEL`: the screen; without a terminal, the comparison as text."""

from __future__ import annotations

import argparse
import sys

from hwexplorer.commands import common


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV,..", default="resnet50")
    parser.add_argument("--baseline", metavar="DEV", help="the device others are compared with (default: the GPU)")
    parser.add_argument("--ascii", action="store_true", help="plain characters only")


def run(arguments: argparse.Namespace) -> None:
    state = common.state(arguments)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        from hwexplorer.export.render import render

        common.prepare(state)
        sys.stdout.write(render(state, "compare", "text"))
        return
    from hwexplorer import engine

    for name in state.devices:
        engine.device(name)
    engine.is_ready(state)  # an unknown model is better said here than on a screen
    from hwexplorer.provider import Engine
    from hwexplorer.tui.app import run as run_screen

    run_screen(state, Engine(), ascii=arguments.ascii)
