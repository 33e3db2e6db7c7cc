"""The command line: headless verbs, and the door to the screen. Imports the screen only when it opens it.

Exit codes: 0 done, 1 something failed that was asked rightly, 2 the request was wrong (one line on stderr).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from hardware.errors import RequestError, unknown
from hwexplorer.state import (
    BATCH_MAX,
    EXECUTIONS,
    IMAGE_MAX,
    LAYOUTS,
    PRECISIONS,
    State,
    parse,
    preferred,
    replace,
)

DEFAULT_MODEL = "resnet50"
FORMATS = ("text", "json", "csv", "md")
LEVELS = ("summary", "detailed")


class _Parser(argparse.ArgumentParser):
    """Errors are one line with the nearest match, raised rather than printed with a usage block."""

    def error(self, message: str) -> NoReturn:
        raise RequestError(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            what = (action.option_strings or [action.dest])[-1].lstrip("-").replace("_", " ")
            raise unknown(what, value, [str(choice) for choice in action.choices])


def _whole(least: int = 1, most: int = BATCH_MAX) -> Callable[[str], int]:
    """A converter for argparse. It must not raise a ValueError: argparse would hide the message."""

    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number") from None
        if not least <= value <= most:
            raise argparse.ArgumentTypeError(f"{value} is out of range (allowed: {least} to {most})")
        return value

    return convert


def _scenario_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch", type=_whole(1, BATCH_MAX), help="inputs at once, 1-4096 (default 1)")
    parser.add_argument("--precision", choices=PRECISIONS, metavar="P", help=f"{', '.join(PRECISIONS)} (default fp32)")
    parser.add_argument("--execution", choices=EXECUTIONS, metavar="X", help="auto, eager or fused (default auto)")
    parser.add_argument("--layout", choices=LAYOUTS, metavar="L", help="nchw or channels_last (default nchw)")
    parser.add_argument("--image-size", type=_whole(1, IMAGE_MAX), metavar="S", help="pixels (default: the weights')")


def _common_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--devices-dir", action="append", default=[], type=Path, metavar="DIR", help="your device files"
    )


def _output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=FORMATS, metavar="F", help=f"{', '.join(FORMATS)} (default text)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write here; the suffix picks the format")


def _parser() -> argparse.ArgumentParser:
    top = _Parser(
        prog="hwexplorer",
        description="What neural networks cost on hardware, in a terminal. `hwexplorer MODEL` opens the screen.",
        allow_abbrev=False,
    )
    from hwexplorer import __version__

    top.add_argument("--version", action="version", version=f"hwexplorer {__version__}")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", parser_class=_Parser)
    for name, (help_line, needs_model, _) in VERBS.items():
        verb = verbs.add_parser(name, help=help_line, description=help_line, allow_abbrev=False)
        if needs_model:
            verb.add_argument("model", help="a model, a building block, or a state string")
            _scenario_options(verb)
            many = name in ("compare", "open")
            verb.add_argument(
                "--on", metavar="DEV,.." if many else "DEV", help="device ids, id:power_mode, or cpu gpu tpu kpu"
            )
            verb.add_argument("--baseline", metavar="DEV", help="the device others are compared with")
        if name in ("tree", "events", "why"):
            verb.add_argument("--node", metavar="PATH", help="a subgraph or operator (default: the model)")
        if name == "compare":
            verb.add_argument("--level", choices=LEVELS, default="summary", metavar="LEVEL", help="summary or detailed")
        if name == "device":
            verb.add_argument("device", help="a device id, id:power_mode, alias, or class")
        if name == "open":
            verb.add_argument("--ascii", action="store_true", help="plain characters only")
        else:
            _output_options(verb)
        _common_options(verb)
    return top


def _state(arguments: argparse.Namespace) -> State:
    """The state that the model argument (or state string) and the flags describe."""
    state = parse(arguments.model)
    changes: dict[str, Any] = {
        name: getattr(arguments, name)
        for name in ("batch", "precision", "execution", "layout", "image_size")
        if getattr(arguments, name) is not None
    }
    if arguments.on:
        named = tuple(part.strip() for part in arguments.on.split(",") if part.strip())
        if arguments.verb in ("compare", "open"):
            changes["devices"] = named
        elif len(named) != 1:
            raise RequestError(f"{arguments.verb} takes one device after --on, not {len(named)}")
        else:
            changes["devices"] = tuple(dict.fromkeys((*state.devices, *named)))
            changes["on"] = named[0]
    if arguments.baseline:
        devices = changes.get("devices", state.devices)
        changes["devices"] = devices if arguments.baseline in devices else (*devices, arguments.baseline)
        changes["baseline"] = arguments.baseline
    if getattr(arguments, "node", None):
        changes["at"] = arguments.node
    state = replace(state, **changes)
    return state if state.on in state.devices else replace(state, on=preferred(state.devices))


def _prepare(state: State) -> None:
    """Check devices, and capture the model if it must be, with progress on a terminal."""
    from hwexplorer import engine

    for name in state.devices:
        engine.device(name)
    if not engine.is_ready(state):
        engine.capture(state, _progress if sys.stderr.isatty() else None)


def _progress(phase: str, fraction: float) -> None:
    done = f"{fraction:4.0%}" if fraction >= 0 else ""
    end = "\n" if fraction >= 1 else ""
    print(f"\r\x1b[Kcapturing: {phase} {done}", end=end, file=sys.stderr, flush=True)


def _emit(arguments: argparse.Namespace, make: Callable[[str], str]) -> None:
    """Make the output in the format asked for and put it where it was asked for."""
    from hwexplorer.export import files

    form = arguments.format or (files.format_of(arguments.output) if arguments.output else "text")
    if arguments.output and not arguments.output.parent.is_dir():
        raise RequestError(f"folder {arguments.output.parent} does not exist")
    text = make(form)
    if arguments.output:
        files.write(arguments.output, text, overwrite=True)
    else:
        sys.stdout.write(text)
        sys.stdout.flush()


def _width() -> int:
    """Columns of the terminal; 0 (no limit) when the output is not one."""
    return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0


def _view(arguments: argparse.Namespace) -> None:
    from hwexplorer.export.render import render

    state = _state(arguments)
    _prepare(state)
    width = _width()
    _emit(arguments, lambda form: render(state, arguments.verb, form, width))


def _compare(arguments: argparse.Namespace) -> None:
    from hwexplorer.export.render import plain, render
    from hwexplorer.views.compare import compare

    state = _state(arguments)
    _prepare(state)
    if arguments.level == "summary" or arguments.format == "json":
        width = _width()
        _emit(arguments, lambda form: render(state, "compare", form, width))
    else:
        _emit(arguments, lambda form: plain(compare(state, arguments.level), form, _width()))


def _list(arguments: argparse.Namespace) -> None:
    from hwexplorer.export.render import render

    _emit(arguments, lambda form: render(State(), arguments.verb, form, _width()))


def _device(arguments: argparse.Namespace) -> None:
    from hwexplorer import documents
    from hwexplorer.export.render import encode, plain
    from hwexplorer.views.devices import device

    def make(form: str) -> str:
        if form == "json":
            return encode(documents.device(arguments.device))
        return plain(device(arguments.device), form)

    _emit(arguments, make)


def _open(arguments: argparse.Namespace) -> None:
    """The screen; without a terminal, the comparison as text."""
    state = _state(arguments)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        from hwexplorer.export.render import render

        _prepare(state)
        sys.stdout.write(render(state, "compare", "text"))
        return
    from hwexplorer import engine

    for name in state.devices:
        engine.device(name)
    engine.is_ready(state)  # an unknown model is better said here than on a screen
    from hwexplorer.provider import Engine
    from hwexplorer.tui.app import run

    run(state, Engine(), ascii=arguments.ascii)


# verb -> help, whether it is about a model, what it does
VERBS: dict[str, tuple[str, bool, Callable[[argparse.Namespace], None]]] = {
    "open": ("open the explorer (the default verb)", True, _open),
    "compare": ("one model on several devices", True, _compare),
    "tree": ("model, subgraphs and operators with their energy-delay product", True, _view),
    "events": ("architectural energy events of a node", True, _view),
    "why": ("why a node costs what it costs", True, _view),
    "models": ("the models that can be opened", False, _list),
    "devices": ("the device catalogue", False, _list),
    "device": ("one device with the source of every fact", False, _device),
}


def _arguments(words: Sequence[str]) -> argparse.Namespace:
    """Parsed words; a first word that is no verb is a model to open."""
    words = list(words)
    first = next((word for word in words if not word.startswith("-")), None)
    if first is None and not {"-h", "--help", "--version"} & set(words):
        words = ["open", DEFAULT_MODEL, *words]
    elif first is not None and first not in VERBS:
        words = ["open", *words]
    return _parser().parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """The console script. No traceback reaches the user unless HWEXPLORER_DEBUG is set."""
    try:
        arguments = _arguments(sys.argv[1:] if words is None else words)
        if arguments.devices_dir:
            from hwexplorer import engine

            engine.use_folders(arguments.devices_dir)
        VERBS[arguments.verb][2](arguments)
    except RequestError as error:
        return _complain(str(error), 2)
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    except BrokenPipeError:
        # The reader went away; Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("HWEXPLORER_DEBUG"):
            raise
        return _complain(f"internal error: {type(error).__name__}: {error} (HWEXPLORER_DEBUG=1 shows where)", 1)
    return 0


def _complain(message: str, code: int) -> int:
    line = " ".join(message.split())
    print(f"hwexplorer: {line}", file=sys.stderr)
    return code
