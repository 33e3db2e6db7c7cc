"""The subprocess of a job: `python -m analysis.model.process.child PIPE PARENT LIMITS MODULE:FUNCTION ARGUMENT ..`.

It limits itself before it loads anything, calls the function with its arguments and a callback for progress, and sends
the bytes that it returns, or an error. The kernel limits the memory, the processor time and the size of files of each
process. On Linux it kills this process when the thread that started it ends, so also when the program is killed. This
is not a sandbox: the work has all rights of its user.
"""

import contextlib
import gc
import importlib
import os
import resource
import signal
import sys
from multiprocessing.connection import Connection

import msgspec

from analysis.model.reading_budget import ProcessLimits
from hardware.base.errors import RequestError

TEXT_MAX = 2000
_PR_SET_PDEATHSIG = 1  # linux/prctl.h


class Message(msgspec.Struct):
    """A message of the subprocess: progress, an error, or the answer."""

    phase: str = ""
    fraction: float = 0.0
    error: str | None = None
    answer: bytes | None = None


def main() -> int:
    """Set the limits, then answer. Return the exit code."""
    pipe, parent, limits, *words = sys.argv[1:]
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != int(parent):
        return 1
    _limit(msgspec.json.decode(limits, type=ProcessLimits))
    return answer(int(pipe), *words)


def answer(pipe: int, work: str, *arguments: str) -> int:
    """Do the work and send its answer. Return the exit code."""
    os.set_inheritable(pipe, False)
    connection = Connection(pipe)

    def send(**fields: object) -> None:
        """Send a message with these fields."""
        connection.send_bytes(msgspec.msgpack.encode(fields))

    gc.disable()  # the process ends after one piece of work; collecting took a fifth of its time
    try:
        module, _, function = work.partition(":")
        call = getattr(importlib.import_module(module), function)
        data = call(*arguments, lambda phase, fraction: send(phase=phase, fraction=fraction))
    except RequestError as error:
        send(error=str(error)[:TEXT_MAX])
        return 2
    except BaseException as error:  # a model may call sys.exit
        send(error=one_line(error))
        return 1
    send(answer=data)
    # Interpreter shutdown with torch loaded takes a second.
    os._exit(0)


def one_line(error: BaseException) -> str:
    """Return the type and the first line of an error."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return f"{type(error).__name__}: {text}"[:300]


def _limit(limits: ProcessLimits) -> None:
    """Set the limits of each process. File sizes are limited as memory is, because shared memory consists of files."""
    kinds = {resource.RLIMIT_CORE: 0, resource.RLIMIT_CPU: int(limits.seconds) + 2}
    if limits.memory_bytes is not None:
        kinds |= dict.fromkeys((resource.RLIMIT_DATA, resource.RLIMIT_FSIZE), limits.memory_bytes)
    for kind, limit in kinds.items():
        hard = resource.getrlimit(kind)[1]
        most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        soft = most - 1 if kind == resource.RLIMIT_CPU else most  # SIGXCPU comes before the hard limit kills
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (soft, most))


if __name__ == "__main__":
    sys.exit(main())
