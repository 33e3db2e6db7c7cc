"""Jobs that create a workload in a subprocess; several may run at once. This module does not import torch."""

import importlib.util
from collections.abc import Callable
from typing import Any

from analysis.model.ir.validation import decode
from analysis.model.ir.workload import Workload
from analysis.model.model_errors import CaptureError, ModelError, UnreadableError
from analysis.model.names import targets, zoo
from analysis.model.names.model_ref import ModelRef
from analysis.model.names.targets import Target
from analysis.model.process.child_job import ChildJob
from analysis.model.process.process_limits import READ_LIMITS, USER_LIMITS, ProcessLimits

_INSTALL = "pip install torch torchvision"
_CAPTURE = f"{__name__.partition('.model.')[0]}.capture"


class WorkloadJob(ChildJob[Workload]):
    """A job whose result is a workload."""

    def _decode(self, answer: bytes) -> Workload:
        return decode(answer)


class ModelCapture(WorkloadJob):
    """One capture. Construction checks that the file of a user's model exists."""

    def __init__(
        self,
        ref: ModelRef,
        *,
        limits: ProcessLimits | None = None,
        on_done: Callable[[Workload], Any] | None = None,
    ) -> None:
        self._ref, self.name = ref, ref.label
        if isinstance(ref, Target):
            targets.source(ref)
        size = () if ref.image_size is None else ("--image-size", str(ref.image_size))
        default = USER_LIMITS if isinstance(ref, Target) else ProcessLimits()
        arguments = (*size, "--", str(ref))
        super().__init__(f"capture of {ref.label}", _CAPTURE, arguments, limits or default, on_done)

    def _missing_library(self) -> ModelError | None:
        needs_torchvision = isinstance(self._ref, zoo.Spec) and not self._ref.is_block
        for name in ("torch", "torchvision") if needs_torchvision else ("torch",):
            if importlib.util.find_spec(name) is None:
                return CaptureError(f"capturing {self._ref.label} needs {name}: {_INSTALL}")
        return None

    def _explain(self, reason: str) -> ModelError:
        at = f" at image size {self._ref.image_size}" if self._ref.image_size else ""
        return CaptureError(f"cannot capture {self._ref.label}{at}: {reason}")


class FileReading(WorkloadJob):
    """The reading of a data file (`.onnx`). None of it runs, but a malicious file could occupy its reader for long."""

    def __init__(self, target: Target) -> None:
        targets.source(target)
        self.name = target.label
        arguments = ("--", str(target))
        super().__init__(f"reading of {self.name}", f"{__package__}.reading", arguments, READ_LIMITS)

    def _explain(self, reason: str) -> ModelError:
        return UnreadableError(reason)
