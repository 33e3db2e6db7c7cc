"""Execution of modules that need torch in a limited subprocess. This module does not import torch."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import msgspec

from hwexplorer.extend import RequestError, child_job
from hwexplorer_annexes.measure.device_parts import ProcessLimits, Progress
from hwexplorer_annexes.measure.measurement_log import MeasurementLog, read_log

_SPARE_S = 240.0  # for building models and the first rounds, which are always completed
_INSTALL = "pip install torch torchvision"


class _TorchRun(child_job.ChildJob[bytes]):
    def _decode(self, answer: bytes) -> bytes:
        return answer


def run_module(module: str, plan: dict[str, Any], file: Path, limits: ProcessLimits, progress: Progress) -> bytes:
    """Run a module of this annex and return its answer. Raises RequestError, in one line, if it fails."""
    if importlib.util.find_spec("torch") is None:
        raise RequestError(f"running models here needs torch: {_INSTALL}")
    words = (msgspec.json.encode(plan).decode(), str(file))
    return _TorchRun("run", module, words, limits).run(progress)


def measure_models(plan: dict[str, Any], log: Path, seconds: float, progress: Progress) -> MeasurementLog:
    """Time the probes and models of a plan, add the samples to the log and return the log. Raises RequestError."""
    limits = ProcessLimits(seconds=(seconds + _SPARE_S) * (os.cpu_count() or 1))
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.touch()
        run_module(f"{__package__}.benchmark", plan, log, limits, progress)
    except OSError as error:
        raise RequestError(f"cannot write {log}: {error.strerror}") from None
    return read_log(log)
