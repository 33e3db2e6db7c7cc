"""`hwexplorer MODEL`: the screen; without a terminal, or with a format or file named, the comparison."""

from __future__ import annotations

import argparse
import gc
import sys

from hwexplorer.commands import common


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV,..", default="resnet50")
    parser.add_argument("--baseline", metavar="DEV", help="the device others are compared with (default: the GPU)")
    parser.add_argument("--ascii", action="store_true", help="plain characters only")
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    state = common.state(arguments)
    asked = arguments.format is not None or arguments.output is not None
    # Textual reads keys from stdin and draws on stderr; with stdout redirected somebody wants the text.
    streams = (sys.stdin, sys.stdout, sys.stderr)
    if asked or not all(stream is not None and stream.isatty() for stream in streams):
        from hwexplorer.export.render import render

        common.prepare(state)
        common.emit(arguments, lambda form: render(state, "compare", form, common.width()))
        return
    # Nothing of what start-up allocates dies before the first frame; the screen turns collection back on after it.
    gc.disable()
    from hwexplorer import engine

    for name in state.devices:
        engine.device(name)
    if not engine.is_ready(state):  # an unknown model is better said here than on a screen
        engine.capture_job(state)  # and so is one that may not be captured; nothing starts here
    from hwexplorer.provider import Engine
    from hwexplorer.tui.app import run as run_screen

    run_screen(state, Engine(), ascii=arguments.ascii)
