"""Reading of traces in a subprocess with limits: even a small file can keep its reader busy for minutes."""

from collections.abc import Callable
from pathlib import Path

import msgspec

from hwexplorer.extend import child_job, file_access, model_errors
from hwexplorer_annexes.traces.trace_record import Trace, TraceError

ANSWER_MAX = 1 << 26  # most bytes of an encoded trace that the subprocess returns; ten million kernels take more


class TraceReading(child_job.ChildJob[Trace]):
    """A job that reads a trace. Unless it is cancelled, it calls `on_end` with the file's stamp and the trace or a
    TraceError."""

    def __init__(self, file: str, on_end: Callable[[file_access.Stamp, Trace | TraceError], None]) -> None:
        self.stamp, self._on_end = file_access.stamp(file), on_end
        path = Path(self.stamp[0])
        self.name = path.name
        words = ("--", str(path.absolute()))
        super().__init__(f"reading of {path.name}", str(__package__), words, child_job.READ_LIMITS)
        self.progress = (f"reading {path.name}", 0.0)

    def _decode(self, answer: bytes) -> Trace:
        return msgspec.msgpack.decode(answer, type=Trace)

    def _finish(self, result: Trace | None = None, error: model_errors.ModelError | None = None) -> None:
        if not isinstance(error, model_errors.CaptureCancelledError):
            self._on_end(self.stamp, result if result is not None else TraceError(str(error)))
        super()._finish(result, error)
