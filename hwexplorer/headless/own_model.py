"""A model of the user's own, as the command line names it: its inputs, and the limits of its code."""

from __future__ import annotations

import argparse

from analysis.model.ir.coverage import coverage
from analysis.model.ir.workload import Workload
from analysis.model.model_errors import ModelError
from analysis.model.names.model_ref import user_target
from analysis.model.process.process_limits import USER_LIMITS, ProcessLimits
from hardware.errors import RequestError
from hwexplorer import engine
from hwexplorer.state import parse


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
        return engine.resolve_model_name(model, inputs, arguments.batch_dim, _limits(arguments), trusted=trusted)
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
