"""`hwexplorer MODEL`: the screen; without a terminal, or with a format or file named, the comparison."""

from __future__ import annotations

import argparse
import gc
import os
import sys

from hwexplorer.commands import common
from hwexplorer.state import State, node, replace


def arguments(parser: argparse.ArgumentParser) -> None:
    common.model_options(parser, devices="DEV,..", default="resnet50")
    parser.add_argument("--baseline", metavar="DEV", help="the device others are compared with (default: the GPU)")
    parser.add_argument("--ascii", action="store_true", help="plain characters only")
    parser.add_argument("--no-mouse", action="store_true", help="leave the mouse to the terminal")
    parser.add_argument("--theme", default="", metavar="NAME", help="dark, light, ansi .. (default: your settings)")
    parser.add_argument("--plain", action="store_true", help="print the view that the screen would focus, as text")
    parser.add_argument("--last", action="store_true", help="go on where the last session ended")
    parser.add_argument("--session", metavar="NAME", help="a session saved with :save NAME")
    common.output_options(parser)


def run(arguments: argparse.Namespace) -> None:
    state = _state(arguments)
    if arguments.plain:
        _print(state, arguments)
        return
    asked = arguments.format is not None or arguments.output is not None
    # Textual reads keys from stdin and draws on stderr; with stdout redirected somebody wants the text.
    streams = (sys.stdin, sys.stdout, sys.stderr)
    served = "TEXTUAL_DRIVER" in os.environ  # by `hwexplorer serve`: the browser is the terminal
    if asked or not (served or all(stream is not None and stream.isatty() for stream in streams)):
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
    from hwexplorer.tui.program import run as run_screen

    kept = arguments.last or arguments.session is not None
    run_screen(
        state, Engine(), ascii=arguments.ascii, mouse=not arguments.no_mouse, theme=arguments.theme, fresh=not kept
    )


def _state(arguments: argparse.Namespace) -> State:
    """The state asked for, or one that was kept."""
    if not arguments.last and arguments.session is None:
        return common.state(arguments)
    from hwexplorer.tui import paths
    from hwexplorer.tui.sessions import LAST, Sessions

    return Sessions(paths.sessions_file()).state(arguments.session or LAST)


def _print(state: State, arguments: argparse.Namespace) -> None:
    """The focused view as text: what a screen reader, or a pipe, can do with."""
    from hwexplorer.export.render import render

    common.prepare(state)
    shown = replace(state, at="" if state.pane == "tree" else node(state.at))
    common.emit(arguments, lambda form: render(shown, state.pane, form, common.width()))
