"""Run a command under limits and end its process group: `python -I -S supervisor.py LIMITS COMMAND ..`.

The kernel limits the memory, the processor time and the size of files of each process. The group is killed when the
command ends, and when standard input closes because the parent has exited. A process that leaves the group is not
found, and several processes may take more together. This is not a sandbox: the command has all rights of its user.
Only the standard library is imported, so that it starts in 30 ms.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import sys

_PR_SET_PDEATHSIG = 1  # linux/prctl.h


def main() -> int:
    """Run the command. Return its exit code, or end with the signal that ended it."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # each writes its number to `wake`
    command = _start(sys.argv[2:], json.loads(sys.argv[1]))
    os.close(1)  # the reader of the answer sees its end when the command ends
    while not os.waitid(os.P_PID, command, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        ready = select.select([0, woken], [], [])[0]
        if 0 in ready or os.read(woken, 1)[0] != signal.SIGCHLD:
            break
    with contextlib.suppress(OSError):
        os.killpg(command, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    if code < 0:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), -code)
    return code


def _start(command: list[str], limits: dict[str, float | None]) -> int:
    """Start the command in a process group of its own; Linux kills it with this process. Return its pid."""
    supervisor_pid = os.getpid()
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)  # so does the child: whoever is first
        return pid
    try:
        os.setpgid(0, 0)
        if sys.platform == "linux":
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))
        if os.getppid() != supervisor_pid:
            os._exit(1)
        _limit(limits)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.execvp(command[0], command)
    except OSError:
        os._exit(127)


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
    sys.exit(main())
