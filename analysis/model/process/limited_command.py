"""Set limits of this process, then become a command: `python -I -S limited_command.py LIMITS COMMAND ..`.

The kernel limits the memory, the processor time and the size of files of each process. On Linux it kills the command
when the thread that started it ends, so also when the program is killed. This is not a sandbox: the command has all
rights of its user. Only the standard library is imported, so that it starts in 30 ms.
"""

import contextlib
import json
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> None:
    """Become the command with the limits."""
    limits = json.loads(sys.argv[1])
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
    if os.getppid() != limits["parent"]:
        return
    _limit(limits)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execvp(sys.argv[2], sys.argv[2:])


def _limit(limits: dict[str, float | None]) -> None:
    """Set the limits of each process. File sizes are limited as memory is, because shared memory consists of files."""
    size, seconds = limits["memory_bytes"], limits["cpu_s"]
    kinds: dict[int, float] = {resource.RLIMIT_CORE: 0}
    if size is not None:
        kinds |= {resource.RLIMIT_DATA: size, resource.RLIMIT_FSIZE: size}
    if seconds is not None:
        kinds[resource.RLIMIT_CPU] = seconds + 2
    for kind, limit in kinds.items():
        hard = resource.getrlimit(kind)[1]
        most = int(limit) if hard == resource.RLIM_INFINITY else min(int(limit), hard)
        soft = most - 1 if kind == resource.RLIMIT_CPU else most  # SIGXCPU comes before the hard limit kills
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (soft, most))


if __name__ == "__main__":
    main()
