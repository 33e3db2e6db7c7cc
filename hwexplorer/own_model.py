"""Options for a model of the user's own: what goes in, and what its code may take."""

from __future__ import annotations

import argparse
import re
from typing import Any

from analysis.model.ir.coverage import coverage
from analysis.model.ir.workload import Workload
from analysis.model.model_errors import ModelError
from analysis.model.names.model_ref import user_target
from analysis.model.process.process_limits import USER_LIMITS, ProcessLimits
from hardware.amount import parse_amount
from hardware.errors import RequestError
from hwexplorer import engine
from hwexplorer.options import Option, option
from hwexplorer.state import parse


def parse_memory(text: str) -> int:
    """Convert an option like `8G` or `512MiB` to bytes, for argparse; prefixes are those of every other amount, G is
    1e9 and Gi 2^30."""
    amount = parse_amount(text, "byte")
    if not 1 <= amount < 1 << 50:
        raise RequestError(f"{text[:40]!r} is no amount of memory (as 8G or 512MiB)")
    return int(amount)


def parse_seconds(text: str) -> float:
    """Convert an option to seconds, for argparse."""
    if not re.fullmatch(r"[0-9]{1,6}(\.[0-9]{1,3})?", text) or not float(text):
        raise RequestError(f"{text[:40]!r} is no number of seconds (as 120)")
    return float(text)


_GROUP = (
    "your own model (path/to/file.py:factory, package.module:factory, file.pt2, file.onnx)\n"
    "Its code runs with all your rights in a process of its own, under limits of time and memory: that is no sandbox. "
    "A stored capture is used while its source files and packages are what they were; data files and the environment "
    "are not watched."
)


def _option(flag: str, help: str, **settings: Any) -> Option:
    return option(flag, help=help, group=_GROUP, **settings)


OPTIONS = (
    _option(
        "--input",
        "as 1x3x224x224, 1x128:int64, a list as '[1x3,1x5]' (also (..), {a=..}); repeatable",
        action="append",
        metavar="SHAPE",
    ),
    _option("--batch-dim", "dimension of the inputs that is the batch, or none (default 0)", metavar="N"),
    _option("--time-limit", "seconds of clock and processor (default 120)", type=parse_seconds, metavar="S"),
    _option("--memory-limit", "of all its processes (default 8GiB)", type=parse_memory, metavar="SIZE"),
    _option("--show-output", "show on stderr what the model's code prints", action="store_true"),
    _option("--again", "capture it anew though a capture is stored", action="store_true"),
    _option("--strict", "exit 1 where an operator has no cost rule", action="store_true"),
    _option("--run-code", "capture a model that a state string names", action="store_true"),
)


def user_model_name(model: str, arguments: argparse.Namespace) -> str:
    """Return the complete name of the user's model that the words give, '' for a state string. Naming it here lets its
    code run; a state string does not, unless --run-code says so."""
    if engine.is_adopted(model):
        return model
    try:
        is_target = user_target(model) is not None
    except ModelError as error:
        raise RequestError(str(error)) from None
    inputs = arguments.input or ()
    if is_target or inputs or arguments.batch_dim is not None:
        trusted = arguments.run_code
        return engine.named(model, inputs, arguments.batch_dim, _limits(arguments), trusted=trusted)
    # `hf:` and a folder is no state string: the slashes are the folder's.
    if model.startswith("hf:") and not any(mark in model for mark in "@?%"):
        return model
    if arguments.run_code:
        engine.allow(parse(model).model, _limits(arguments))
    return ""


def uncovered_text(model: Workload) -> str:
    """Return in one line which operators have no cost rule; '' if all have one."""
    missing = coverage(model).missing
    if not missing:
        return ""
    listed = ", ".join(f"{name} ({count}x)" for name, count in missing[:8])
    many = sum(count for _, count in missing)
    return f"{model.name}: {many} of {model.n_operators} operators have no cost rule: {listed}"


def _limits(arguments: argparse.Namespace) -> ProcessLimits:
    return ProcessLimits(
        arguments.time_limit or USER_LIMITS.seconds,
        arguments.memory_limit or USER_LIMITS.memory_bytes,
        arguments.show_output,
    )
