"""Execution of modules that need torch in a limited subprocess. This module does not import torch."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from analysis.annexes.machine.measurement_log import MeasurementLog, read_log
from analysis.model.model_errors import ModelError
from analysis.model.process.child_process import Child
from analysis.model.process.process_limits import ProcessLimits
from analysis.model.reading_budget import Progress
from hardware.errors import RequestError

_SPARE_S = 240.0  # for building models and the first rounds, which are always completed
_INSTALL = "pip install torch torchvision"


def run_module(module: str, plan: dict[str, Any], file: Path, limits: ProcessLimits, progress: Progress) -> bytes:
    """Run a module of this annex and return its answer. Raises RequestError, in one line, if it fails."""
    if importlib.util.find_spec("torch") is None:
        raise RequestError(f"running models here needs torch: {_INSTALL}")
    words = (sys.executable, "-P", "-m", module, msgspec.json.encode(plan).decode(), str(file))
    child = Child(words, limits)
    try:
        answer = child.answer(progress)
    except ModelError as error:
        raise RequestError(str(error)) from None
    if answer is None:
        raise RequestError(f"the run {child.why()}")
    return answer


def measure_models(plan: dict[str, Any], log: Path, seconds: float, progress: Progress) -> MeasurementLog:
    """Time the probes and models of a plan, add the samples to the log and return the log. Raises RequestError."""
    limits = ProcessLimits(seconds=(seconds + _SPARE_S) * (os.cpu_count() or 1))
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        run_module("analysis.annexes.machine.benchmark", plan, log, limits, progress)
    except OSError as error:
        raise RequestError(f"cannot write {log}: {error.strerror}") from None
    return read_log(log)
