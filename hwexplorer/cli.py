"""The command line: headless verbs, and the door to the screen. Only the verb that is asked for is imported.

Exit codes: 0 done, 1 something failed that was asked rightly, 2 the request was wrong (one line on stderr), 128 + n
ended by signal n.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from hardware.errors import RequestError, unknown
from hwexplorer import signals
from hwexplorer.commands.common import OutputError, complain, put

# Verb -> help line. Each is a module of hwexplorer.commands.
VERBS: dict[str, str] = {
    "open": "open the explorer (the default verb)",
    "compare": "one model on several devices",
    "tree": "model, subgraphs and operators with their energy-delay product",
    "events": "architectural energy events of a node",
    "why": "why a node costs what it costs",
    "plot": "points of a plot: roofline, roofs, energy_roofs, cumulative, batch, pareto, memory",
    "mapping": "how a device runs a model: utilisation, bounds, and each kernel's grid",
    "concurrency": "stages, critical path, parallelism, hardware units each subgraph can use",
    "roofline": "every kernel under its roofs: what bounds it, what would flip it",
    "energy": "where the energy goes: components, power, idle losses, top consumers",
    "memory": "what is held when, live at the peak, fits where, and what would save some",
    "edp": "energy-delay product: components, concentration, top nodes, eager against fused",
    "partition": "operators and subgraphs by type, traffic, parallelism, dependencies",
    "sweep": "a model over batches, precisions, image sizes; or the whole catalogue",
    "explain": "why one device costs more than another",
    "pareto": "what no other configuration beats in energy and latency",
    "search": "configurations within limits of energy, latency, memory, power, cost",
    "rank": "models on one device, with their published accuracy",
    "advise": "what to change, each suggestion run with the change",
    "check": "rules that must hold, for CI: exit 1 where one is broken",
    "cost": "money and carbon per million inferences, break-even of two devices",
    "report": "everything about one model on one device: text, Markdown, or a page to open offline",
    "capture": "capture a model, of your own or not: coverage, and a file to open elsewhere",
    "models": "the models that can be opened",
    "devices": "the device catalogue",
    "device": "one device with the source of every fact",
    "coefficients": "every energy constant of a device with its spread and source",
    "serve": "the explorer in a browser",
    "validate": "predictions against measurements",
}


class _Parser(argparse.ArgumentParser):
    """Errors are one line with the nearest match, raised rather than printed with a usage block."""

    def error(self, message: str) -> NoReturn:
        raise RequestError(message)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Help and version; argparse would not notice that they cannot be written."""
        if message:
            put(message)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            what = (action.option_strings or [action.dest])[-1].lstrip("-").replace("_", " ")
            raise unknown(what, value, [str(choice) for choice in action.choices])


def _parse(words: list[str]) -> argparse.Namespace:
    """Parsed words; the first word that is no option is the verb, or a model to open."""
    first = next((word for word in words if not word.startswith("-")), None)
    if first is None and {"-h", "--help", "--version"} & set(words):
        return _overview().parse_args(words)
    if words and words[0] in VERBS:
        verb, rest = words[0], words[1:]
    else:
        _check_typo(words)
        verb, rest = "open", words
    parser = _Parser(prog=f"hwexplorer {verb}", description=VERBS[verb], allow_abbrev=False)
    command = import_module(f"hwexplorer.commands.{verb}")
    command.arguments(parser)
    parser.add_argument(
        "--devices-dir", action="append", default=[], type=Path, metavar="DIR", help="a folder of your device files"
    )
    parser.set_defaults(verb=verb, run=command.run)
    return parser.parse_args(rest)


def _check_typo(words: list[str]) -> None:
    """`compre resnet50` is a misspelt verb, not a model called compre; nor is `foo` in `foo resnet50`."""
    if not words or words[0].startswith("-"):
        return
    followed = len(words) > 1 and not words[1].startswith("-")
    if followed or get_close_matches(words[0], VERBS, cutoff=0.75):
        from analysis.workload import zoo

        if words[0] not in zoo.names() and words[0] not in zoo.BLOCKS:
            raise unknown("verb", words[0], VERBS)


def _overview() -> argparse.ArgumentParser:
    from hwexplorer import __version__

    verbs = "\n".join(f"  {name:14} {line}" for name, line in VERBS.items())
    parser = _Parser(
        prog="hwexplorer",
        usage="hwexplorer [MODEL | STATE | VERB] [options]",
        description="What neural networks cost on hardware, in a terminal. `hwexplorer MODEL` opens the screen.",
        epilog=f"verbs (hwexplorer VERB --help for options):\n{verbs}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"hwexplorer {__version__}")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """The console script. No traceback reaches the user unless HWEXPLORER_DEBUG is set."""
    if words is None:  # whatever Python starts from here (pools, their trackers) takes nothing from the current folder
        os.environ["PYTHONSAFEPATH"] = "1"
    try:
        with signals.listening():
            _run(list(sys.argv[1:] if words is None else words))
    except RequestError as error:
        return _complain(str(error), 2)
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    except signals.Ended as error:
        return _complain(str(error), 128 + error.number)
    except BrokenPipeError:
        _discard_output()  # the reader went away, as `head` does
        return 0
    except OutputError as error:
        _discard_output()
        return _complain(str(error), 1)
    except Exception as error:
        if os.environ.get("HWEXPLORER_DEBUG"):
            raise
        return _complain(f"internal error: {type(error).__name__}: {error} (HWEXPLORER_DEBUG=1 shows where)", 1)
    return 0


def _run(words: list[str]) -> None:
    arguments = _parse(words)
    if arguments.devices_dir:
        from hwexplorer import engine

        engine.use_folders(arguments.devices_dir)
    arguments.run(arguments)


def _discard_output() -> None:
    """Python flushes standard output at exit and would complain a second time about what it cannot write."""
    if sys.stdout is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(message: str, code: int) -> int:
    complain(message)
    return code
