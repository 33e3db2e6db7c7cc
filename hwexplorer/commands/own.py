"""Options for a model of the user's own: what goes in, and what its code may take."""

from __future__ import annotations

import argparse
import re
from typing import TYPE_CHECKING

from hardware.errors import RequestError

if TYPE_CHECKING:
    from analysis.workload.job import Limits
    from analysis.workload.workload import Workload

_UNITS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def memory(text: str) -> int:
    """A converter for argparse: `8G`, `512M`."""
    match = re.fullmatch(r"([0-9]{1,6})([kmgt])(i?b)?", text.strip().lower())
    if match is None or not int(match[1]):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no amount of memory (as 8G or 512M)")
    return int(match[1]) * _UNITS[match[2]]


def seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) or not float(text):
        raise argparse.ArgumentTypeError(f"{text[:40]!r} is no number of seconds (as 120)")
    return float(text)


def options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "your own model (path/to/file.py:factory, package.module:factory, file.pt2, file.onnx)",
        "Its code runs with all your rights in a process of its own, under limits of time and memory: that is no "
        "sandbox. A stored capture is used while its source files and packages are what they were; data files and "
        "the environment are not watched.",
    )
    group.add_argument("--input", action="append", metavar="SHAPE", help="as 1x3x224x224 or 1x128:int64; repeatable")
    group.add_argument(
        "--batch-dim", metavar="N", help="dimension of the inputs that is the batch, or none (default 0)"
    )
    group.add_argument("--time-limit", type=seconds, metavar="S", help="seconds of clock and processor (default 120)")
    group.add_argument("--memory-limit", type=memory, metavar="SIZE", help="of all its processes (default 8G)")
    group.add_argument("--show-output", action="store_true", help="show on stderr what the model's code prints")
    group.add_argument("--again", action="store_true", help="capture it anew though a capture is stored")
    group.add_argument("--strict", action="store_true", help="exit 1 where an operator has no cost rule")
    group.add_argument("--run-code", action="store_true", help="capture a model that a state string names")


def model(arguments: argparse.Namespace) -> str:
    """The complete name of the user's model that the arguments give, '' for a state string. Naming it here is what
    lets its code run; a state string does not, unless --run-code says so."""
    from analysis.workload import targets
    from analysis.workload.errors import ModelError
    from hwexplorer import engine

    try:
        is_target = targets.parse(arguments.model) is not None
    except ModelError as error:
        raise RequestError(str(error)) from None
    inputs = arguments.input or ()
    if is_target or inputs or arguments.batch_dim is not None:
        trusted = arguments.run_code
        return engine.named(arguments.model, inputs, arguments.batch_dim, _limits(arguments), trusted=trusted)
    return _of_state(arguments)


def _of_state(arguments: argparse.Namespace) -> str:
    """A state string is read by its own parser; here only whether its model may run. `hf:` and a folder is none:
    the slashes are the folder's."""
    if arguments.model.startswith("hf:") and not any(mark in arguments.model for mark in "@?%"):
        return str(arguments.model)
    if arguments.run_code:
        from hwexplorer import engine
        from hwexplorer.state import parse

        engine.allow(parse(arguments.model).model, _limits(arguments))
    return ""


def gap(model: Workload) -> str:
    """What has no cost rule, in one line; '' where everything has one."""
    known = model.operators.has_rule
    names = uncovered(model)
    if not names:
        return ""
    listed = ", ".join(f"{name} ({count}x)" for name, count in list(names.items())[:8])
    return f"{model.name}: {len(known) - int(known.sum())} of {len(known)} operators have no cost rule: {listed}"


def uncovered(model: Workload) -> dict[str, int]:
    """Operators without a cost rule and how often each occurs, the most frequent first."""
    counts: dict[str, int] = {}
    for target, known in zip(model.operators.target, model.operators.has_rule.tolist(), strict=True):
        if not known:
            counts[target] = counts.get(target, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: -item[1]))


def _limits(arguments: argparse.Namespace) -> Limits:
    from analysis.workload.job import USER_LIMITS, Limits

    seconds, size = arguments.time_limit, arguments.memory_limit
    return Limits(seconds or USER_LIMITS.seconds, size or USER_LIMITS.memory_bytes, arguments.show_output)
