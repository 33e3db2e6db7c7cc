"""`python -m hwexplorer_annexes.traces FILE`: the subprocess in which `trace_reading` reads a trace."""

import sys
from pathlib import Path

import msgspec

from hwexplorer.extend import answer, model_errors
from hwexplorer_annexes.traces.trace_file import read_trace
from hwexplorer_annexes.traces.trace_record import ANSWER_MAX, TraceError


def _encoded_trace(path: Path) -> bytes:
    try:
        data = msgspec.msgpack.encode(read_trace(path))
    except TraceError as error:
        raise model_errors.UnreadableError(str(error)) from None
    if len(data) > ANSWER_MAX:
        raise model_errors.UnreadableError(f"{path.name}: it is too large to read; trace fewer runs")
    return data


if __name__ == "__main__":
    sys.exit(answer(lambda progress: _encoded_trace(Path(sys.argv[-1]))))
