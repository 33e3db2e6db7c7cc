"""`python -m analysis.annexes.traces FILE`: the subprocess in which `trace_reading` reads a trace."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from analysis.annexes.traces.trace_file import read_trace
from analysis.annexes.traces.trace_reading import ANSWER_MAX
from analysis.annexes.traces.trace_record import TraceError
from analysis.model.model_errors import UnreadableError
from analysis.model.process.answering import answer


def _encoded_trace(path: Path) -> bytes:
    try:
        data = msgspec.msgpack.encode(read_trace(path))
    except TraceError as error:
        raise UnreadableError(str(error)) from None
    if len(data) > ANSWER_MAX:
        raise UnreadableError(f"{path.name}: it is too large to read; trace fewer runs")
    return data


if __name__ == "__main__":
    sys.exit(answer(lambda progress: _encoded_trace(Path(sys.argv[-1]))))
