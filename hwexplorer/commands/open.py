"""Open the explorer (the default verb).

Without a terminal, or with a format or file named, the comparison is printed.
"""

import argparse
import os
import sys

from hwexplorer import answer, engine, options
from hwexplorer.declare import DEVICES, Subject, Verb
from hwexplorer.process import output
from hwexplorer.process.unused_modules import import_without_unused
from hwexplorer.state import State, parse, reading_note

_SUBJECT = Subject(options=(options.or_default(options.MODEL, None), *DEVICES.options[1:]), several=True)


def _run(arguments: argparse.Namespace) -> None:
    state = _state(arguments)
    wants_text = arguments.format is not None or arguments.output is not None
    # Textual reads keys from stdin and draws on stderr; redirected stdout means that the text is wanted.
    streams = (sys.stdin, sys.stdout, sys.stderr)
    in_browser = "TEXTUAL_DRIVER" in os.environ  # set by `textual serve`
    draws = os.environ.get("TERM") != "dumb" and all(stream is not None and stream.isatty() for stream in streams)
    if wants_text or not (in_browser or draws):
        answer.print_report("compare", arguments)
        return
    for name in state.devices:
        engine.device(name)
    if engine.is_ready(state):  # report an unknown model here, not on the screen
        engine.captured_model(state)
    else:
        engine.capture_job(state)  # also reports that it may not be captured; starts nothing
    import_without_unused("textual.app")
    from hwexplorer.screen_queries import ScreenQueries
    from hwexplorer.tui.app import run as run_screen

    fresh = not (arguments.last or arguments.session is not None)
    mouse = not arguments.no_mouse
    final_state = run_screen(
        state, ScreenQueries(), arguments.ascii, mouse, arguments.theme, fresh, reading_note(arguments.model or "")
    )
    if final_state and not in_browser:
        output.say("hwexplorer --last continues from here")


def _state(arguments: argparse.Namespace) -> State:
    """Return the state that the arguments describe, or the state of a saved session."""
    if not arguments.last and arguments.session is None:
        return answer.state_from_arguments(arguments, _SUBJECT)
    from hwexplorer.tui.session.saved_sessions import LAST, SavedSessions, sessions_file

    arguments.model = SavedSessions(sessions_file()).state_string(arguments.session or LAST)
    return parse(arguments.model)


VERB = Verb(
    options=(
        *_SUBJECT.options,
        options.BASELINE,
        options.option("--no-mouse", action="store_true", help="leave the mouse to the terminal"),
        options.option("--theme", default="", metavar="NAME", help="dark, light, ansi .. (default: your settings)"),
        options.option("--last", action="store_true", help="continue the last session"),
        options.option("--session", metavar="NAME", help="a session saved with :save NAME"),
        *options.OUTPUT,
    ),
    run=_run,
    shown=("", "resnet18@b8,fp16/h100_sxm,tpu_v4", "net.py:make --input 1x3x224x224"),
)
