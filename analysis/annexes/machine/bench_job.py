"""The benchmarks of analysis/capture/bench.py in a subprocess under limits; no torch here."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from analysis.annexes.machine.here import Measured, read
from analysis.model.model_errors import ModelError
from analysis.model.process.child_process import Child
from analysis.model.process.process_limits import ProcessLimits
from hardware import policy
from hardware.errors import RequestError

_SPARE_S = 240.0  # for building models and the first round, which ends whatever time it takes
_INSTALL = "pip install torch torchvision"


Report = Callable[[str, float], None]


def run(module: str, plan: dict[str, Any], file: Path, limits: ProcessLimits, report: Report) -> bytes:
    """What a module of ours answers that runs models here. Raises RequestError, in a line, for what went wrong."""
    policy.require_unserved("running models")
    if importlib.util.find_spec("torch") is None:
        raise RequestError(f"running models here needs torch: {_INSTALL}")
    words = (sys.executable, "-P", "-m", module, msgspec.json.encode(plan).decode(), str(file))
    child = Child(words, limits)
    try:
        answer = child.answer(report)
    except ModelError as error:
        raise RequestError(str(error)) from None
    if answer is None:
        raise RequestError(f"the run {child.why()}")
    return answer


def measure(plan: dict[str, Any], log: Path, seconds: float, report: Report) -> Measured:
    """Time what the plan asks for and add it to the log; what the log then holds."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
    except OSError as error:
        raise RequestError(f"cannot write {log}: {error.strerror}") from None
    limits = ProcessLimits(seconds=(seconds + _SPARE_S) * (os.cpu_count() or 1))
    try:
        run("analysis.capture.bench", plan, log, limits, report)
    except OSError as error:
        raise RequestError(f"cannot write {log}: {error.strerror}") from None
    return read(log)
