"""What the verbs share: options, the state they describe, and where the output goes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hardware.errors import RequestError
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

FORMATS = ("text", "json", "csv", "md")


def whole(least: int = 1, most: int = BATCH_MAX) -> Callable[[str], int]:
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


def scenario_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--batch", type=whole(1, BATCH_MAX), help="inputs at once, 1-4096 (default 1)")
    parser.add_argument("--precision", choices=PRECISIONS, metavar="P", help=f"{', '.join(PRECISIONS)} (default fp32)")
    parser.add_argument("--execution", choices=EXECUTIONS, metavar="X", help="auto, eager or fused (default auto)")
    parser.add_argument("--layout", choices=LAYOUTS, metavar="L", help="nchw or channels_last (default nchw)")
    parser.add_argument("--image-size", type=whole(1, IMAGE_MAX), metavar="S", help="pixels (default: the weights')")


def model_options(parser: argparse.ArgumentParser, devices: str, default: str = "") -> None:
    """A model or state string (`default` where it may be left out), the scenario, and the devices (`DEV` for
    verbs about one)."""
    optional: dict[str, Any] = {"nargs": "?", "default": default} if default else {}
    parser.add_argument("model", help="a model, a building block, or a state string", **optional)
    scenario_options(parser)
    parser.add_argument("--on", metavar=devices, help="device ids, id:power_mode, or a class: cpu gpu tpu kpu")
    parser.set_defaults(several=devices != "DEV", baseline=None, node=None)


def output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--format", choices=FORMATS, metavar="F", help=f"{', '.join(FORMATS)} (default text)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write here; the suffix picks the format")


def state(arguments: argparse.Namespace) -> State:
    """The state that the model argument (or state string) and the flags describe."""
    state = parse(arguments.model)
    changes: dict[str, Any] = {
        name: getattr(arguments, name)
        for name in ("batch", "precision", "execution", "layout", "image_size")
        if getattr(arguments, name) is not None
    }
    if arguments.on:
        named = tuple(part.strip() for part in arguments.on.split(",") if part.strip())
        if arguments.several:
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
    if arguments.node:
        changes["at"] = arguments.node
    state = replace(state, **changes)
    return state if state.on in state.devices else replace(state, on=preferred(state.devices))


def prepare(state: State) -> None:
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


def emit(arguments: argparse.Namespace, make: Callable[[str], str]) -> None:
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


def width() -> int:
    """Columns of the terminal; 0 (no limit) when the output is not one."""
    return os.get_terminal_size(sys.stdout.fileno()).columns if sys.stdout.isatty() else 0
