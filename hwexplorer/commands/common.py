"""What the verbs share: options, the state they describe, and where the output goes."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardware.errors import RequestError
from hwexplorer.commands import own
from hwexplorer.format import safe, to_ascii
from hwexplorer.state import (
    BATCH_MAX,
    IMAGE_MAX,
    LAYOUTS,
    PRECISIONS,
    TOKENS_MAX,
    State,
    executions,
    parse,
    preferred,
    replace,
)

if TYPE_CHECKING:
    from hwexplorer.views.plain import View

FORMATS = ("text", "json", "csv", "md", "html")


_strict = False  # --strict of the command that runs


class OutputError(Exception):
    """What was asked for is made, but standard output does not take it. The message is one line."""


def whole(least: int = 1, most: int = BATCH_MAX) -> Callable[[str], int]:
    """A converter for argparse. It must not raise a ValueError: argparse would hide the message."""

    def convert(text: str) -> int:
        # int() would also take 1_0, Arabic digits and line breaks, and refuse the longest numbers as no numbers.
        if not re.fullmatch(r"[+-]?[0-9]+", text):
            raise argparse.ArgumentTypeError(f"{text[:40]!r} is not a whole number (allowed: {least} to {most})")
        if len(text) > 12 or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text[:40]} is out of range (allowed: {least} to {most})")
        return int(text)

    return convert


def scenario_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch", type=whole(1, BATCH_MAX), metavar="N", help="inputs at once, 1-4096 (default 1)")
    parser.add_argument("--precision", choices=PRECISIONS, metavar="P", help=f"{', '.join(PRECISIONS)} (default fp32)")
    parser.add_argument(
        "--runtime", "--execution", dest="execution", choices=executions(), metavar="R",
        help="what runs it: auto, eager, compiled, fused, deployed (what one would deploy on each device), or a "
        f"runtime: {', '.join(executions()[5:])} (default auto)",
    )  # fmt: skip
    parser.add_argument("--layout", choices=LAYOUTS, metavar="L", help="nchw or channels_last (default nchw)")
    parser.add_argument("--image-size", type=whole(1, IMAGE_MAX), metavar="S", help="pixels (default: the weights')")
    lengths = parser.add_argument_group("language models")
    lengths.add_argument("--sequence", type=whole(1, TOKENS_MAX), metavar="N", help="new tokens (default: the phase's)")
    lengths.add_argument("--kv", type=whole(0, TOKENS_MAX), metavar="N", help="tokens in the cache (as --sequence)")


def model_options(parser: argparse.ArgumentParser, devices: str, default: str | None = None) -> None:
    """A model or state string (`default` where it may be left out), the scenario, and the devices (`DEV` for
    verbs about one)."""
    optional: dict[str, Any] = {"nargs": "?", "default": default} if default is not None else {}
    parser.add_argument("model", help="a model, a building block, or a state string", **optional)
    scenario_options(parser)
    own.options(parser)
    parser.add_argument("--on", metavar=devices, help="device ids, id:power_mode, or classes (`hwexplorer devices`)")
    parser.set_defaults(several=devices != "DEV", baseline=None, node=None)


def output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=FORMATS, metavar="F", help=f"{', '.join(FORMATS)} (default text)")
    parser.add_argument("-o", "--output", metavar="FILE", help="write here; the suffix picks the format")


def state(arguments: argparse.Namespace) -> State:
    """The state that the model argument (or state string) and the flags describe."""
    if not arguments.model.strip():
        raise RequestError("the model is an empty word (hwexplorer models lists them)")
    global _strict
    _strict = getattr(arguments, "strict", False)
    named = own.model(arguments)
    state = State(model=named) if named else parse(arguments.model)
    changes: dict[str, Any] = {
        name: getattr(arguments, name)
        for name in ("batch", "precision", "execution", "layout", "image_size", "sequence", "kv")
        if getattr(arguments, name, None) is not None
    }
    if arguments.on is not None:
        named = tuple(part.strip() for part in arguments.on.split(",") if part.strip())
        if arguments.several:
            changes["devices"] = named
        elif len(named) != 1:
            raise RequestError(f"{arguments.verb} takes one device after --on, not {len(named)}")
        else:
            changes["devices"], changes["on"] = _including(named[0], state.devices)
    if arguments.baseline is not None:
        devices = changes.get("devices", state.devices)
        changes["devices"], changes["baseline"] = _including(arguments.baseline, devices)
    elif arguments.several and "baseline=" not in arguments.model:
        changes["baseline"] = _first_gpu(changes.get("devices", state.devices)) or state.baseline
    if arguments.node:
        changes["at"] = arguments.node
    state = replace(state, **changes)
    if getattr(arguments, "again", False):
        from hwexplorer import engine

        engine.capture_again(state)
    return state if state.on in state.devices else replace(state, on=preferred(state.devices))


def _first_gpu(devices: tuple[str, ...]) -> str:
    """The default baseline, by whatever name it goes: the H100, or the first of `gpu`, `l4` ...; '' without one."""
    from hardware.architectures import registry
    from hwexplorer import engine

    candidates = (preferred(devices), *devices) if devices else ()
    return next((name for name in candidates if engine.device(name).arch is registry.BASELINE), "")


def _including(name: str, devices: tuple[str, ...]) -> tuple[tuple[str, ...], str]:
    """The devices with this one among them, and how it is spelt there: `gpu` and `h100_sxm` are one."""
    from hwexplorer import engine

    key = engine.device(name).key
    spelt = next((other for other in devices if engine.device(other).key == key), None)
    return (devices, spelt) if spelt is not None else ((*devices, name), name)


def prepare(state: State) -> None:
    """Check devices, and capture the model if it must be, with progress on a terminal."""
    from hwexplorer import engine

    spelt: dict[str, str] = {}
    for name in state.devices:
        other = spelt.setdefault(engine.device(name).key, name)
        if other != name:
            raise RequestError(f"{other!r} and {name!r} are the same device: name it once")
    capture(state)
    if _strict and (gap := own.gap(engine.captured(state))):
        raise OutputError(gap)


def capture(state: State) -> None:
    """Capture the model if it must be, with progress on a terminal."""
    from hwexplorer import engine

    if engine.is_ready(state):
        return
    if sys.stderr is None or not sys.stderr.isatty():
        engine.capture(state)
        return
    try:
        engine.capture(state, _progress)
    finally:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)  # what follows starts on a line of its own


def _progress(phase: str, fraction: float) -> None:
    done = f"{fraction:4.0%}" if fraction >= 0 else ""
    print(f"\r\x1b[Kcapturing: {phase} {done}", end="", file=sys.stderr, flush=True)


def emit(arguments: argparse.Namespace, make: Callable[[str], str]) -> None:
    """Make the output in the format asked for and put it where it was asked for."""
    from hwexplorer.export import files

    target = Path(arguments.output) if arguments.output is not None else None
    if target is not None:
        files.check(target, overwrite=True)  # said before the work, not after
    text = make(arguments.format or (files.format_of(target) if target is not None else "text"))
    if target is not None:
        files.write(target, text, overwrite=True)
    else:
        put(text)


def show(arguments: argparse.Namespace, view: Callable[[], View], document: Callable[[], object]) -> None:
    """Put out a view in a format for people and spreadsheets, or its document as JSON."""
    from hwexplorer.export.render import encode, plain

    emit(arguments, lambda form: encode(document()) if form == "json" else plain(view(), form, width()))


def listed(text: str, what: str) -> tuple[str, ...]:
    """The parts of `a,b,c`, each once. Raises RequestError for a list without any."""
    parts = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not parts:
        raise RequestError(f"no {what} in {text[:40]!r}: a list like 1,2,4 is expected")
    return parts


def whole_list(text: str, what: str, most: int) -> tuple[int, ...]:
    """The whole numbers of `1,2,4`, ascending. Raises RequestError."""
    convert = whole(1, most)
    try:
        return tuple(sorted({convert(part) for part in listed(text, what)}))
    except argparse.ArgumentTypeError as error:
        raise RequestError(f"{what} {error}") from None


def ticking(what: str) -> Callable[[int, int], None] | None:
    """Progress on standard error where that is a terminal; the line is cleared at the end."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None

    def tick(done: int, total: int) -> None:
        line = f"{what}: {done:,} of {total:,}" if done < total else ""
        print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    return tick


def complain(message: str) -> None:
    """One line that cannot steer the terminal; where even that cannot be written, the exit code tells."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(f"hwexplorer: {safe(' '.join(message.split()))}", file=sys.stderr, flush=True)


def put(text: str) -> None:
    """Write to standard output, in ASCII where its encoding lacks a character. Raises OutputError."""
    out = sys.stdout
    if out is None:
        raise OutputError("standard output is closed")
    try:
        text.encode(out.encoding or "utf-8", out.errors or "strict")
    except UnicodeEncodeError:
        text = to_ascii(text)
    try:
        out.write(text)
        out.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write to standard output: {error.strerror or error}") from None


def width() -> int:
    """Columns of the terminal; 0 (no limit) when the output is not one."""
    if sys.stdout is None or not sys.stdout.isatty():
        return 0
    return os.get_terminal_size(sys.stdout.fileno()).columns
