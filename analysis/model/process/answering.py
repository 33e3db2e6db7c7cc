"""The answering side of a subprocess: it sends lines of progress, then a block of bytes or an error message.

`python -m analysis.model.process.answering TARGET` reads a file of data so, with limits and the option to cancel it.
"""

import gc
import json
import os
import sys
from collections.abc import Callable
from typing import Any, BinaryIO

from analysis.model.ir.workload import Workload, encode
from analysis.model.names import targets
from analysis.model.reading_budget import Budget, Progress
from hardware.base import plugins
from hardware.base.errors import RequestError

_TEXT_MAX = 2000


def answer(work: Callable[[Progress], bytes]) -> int:
    """Do the work, send its bytes and return the exit code. All other output goes to standard error."""
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def progress(phase: str, fraction: float) -> None:
        """Send the phase and the fraction of it that is done."""
        _line(pipe, {"phase": phase, "fraction": fraction})

    gc.disable()  # the process ends after one piece of work; collecting took a fifth of its time
    try:
        data = work(progress)
    except RequestError as error:
        _line(pipe, {"error": str(error)[:_TEXT_MAX]})
        return 2
    except BaseException as error:  # a model may call sys.exit
        _line(pipe, {"error": one_line(error)})
        return 1
    _line(pipe, {"bytes": len(data)})
    pipe.write(data)
    pipe.flush()
    # Interpreter shutdown with torch loaded takes a second.
    os._exit(0)


def one_line(error: BaseException) -> str:
    """Return the type and the first line of an error."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}"[:300]


def _line(pipe: BinaryIO, message: dict[str, Any]) -> None:
    pipe.write(json.dumps(message).encode() + b"\n")
    pipe.flush()


def main() -> int:
    """Read the file that the arguments name and answer. Return the exit code."""
    return answer(lambda progress: encode(_read(sys.argv[-1], progress)))


def _read(text: str, progress: Progress) -> Workload:
    target = targets.parse(text)
    if target is None:
        raise ValueError(text)
    budget, path = Budget(progress=progress), targets.source(target)
    if target.path.endswith(targets.WEIGHTS):
        from analysis.model.transformer import weight_headers

        return weight_headers.load(path, target.factory, budget)
    workload: Workload = plugins.load("readers", path.suffix)(path, target.inputs, budget)
    return workload


if __name__ == "__main__":
    sys.exit(main())
