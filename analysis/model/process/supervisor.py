"""Run a command under limits and leave none of its processes: `python -I -S supervisor.py LIMITS COMMAND ..`.

It kills the command and its descendants when the command ends, when a limit is exceeded, and when the supervisor's
standard input closes because the parent has exited. It imports only the standard library and starts in 30 ms.

The kernel limits each process; the sum over all processes is checked ten times a second. On Linux a process that
detaches becomes a child of the supervisor and is found. Elsewhere only processes with a running parent or in the same
process group are found. This is not a sandbox: the command has all rights of its user.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import NamedTuple

_EVERY_S = 0.1  # between two checks of the processes
_ENDING_S = 5.0  # a process that survives SIGKILL this long hangs in the kernel
_PROCESSES_MAX = 256
# Exit codes of this script if all processes together exceed a limit; otherwise it ends as the command did.
PASSED = {91: "memory", 92: "processor time", 93: "processes"}
_CODES = {what: code for code, what in PASSED.items()}
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


class Process(NamedTuple):
    """Resources of one process: memory not backed by files, and processor time including its ended children."""

    pid: int
    memory_bytes: int
    cpu_s: float


def main() -> int:
    """Run the command under the limits. Return the exit code."""
    limits: dict[str, float | None] = json.loads(sys.argv[1])
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _note)
    command = _start(sys.argv[2:], limits)
    os.close(1)  # the reader of the answer sees its end when the command ends
    status: int | None = None
    seen = passed = ""
    while status is None and not passed and not _asked_to_end:
        ready = select.select([0, woken], [], [], _EVERY_S)[0]
        if 0 in ready and not os.read(0, 4096):
            break
        if woken in ready:
            os.read(woken, 4096)
        status = _reap(command)
        before, seen = seen, _limit_passed(limits)  # must hold twice: a process may end during the count
        passed = seen if seen == before and status is None else ""
    _end_all()
    if passed:
        return _CODES[passed]
    code = os.waitstatus_to_exitcode(status) if status is not None else 0
    if code < 0:  # end with the same signal as the command
        with contextlib.suppress(OSError, ValueError):
            signal.signal(-code, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.kill(os.getpid(), -code)
    return code


_asked_to_end: list[int] = []


def _note(number: int, frame: object) -> None:
    if number != signal.SIGCHLD:
        _asked_to_end.append(number)


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0)))


def _start(command: list[str], limits: dict[str, float | None]) -> int:
    """Start the command in a child process of our process group; Linux kills it with this process. Return its pid."""
    supervisor_pid = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != supervisor_pid:
            os._exit(1)
        _limit(limits)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.execvp(command[0], command)
    except OSError:
        os._exit(127)


def _limit(limits: dict[str, float | None]) -> None:
    """Set the limits of each process. File sizes are limited as memory is, because shared memory consists of files."""
    size, seconds = limits["memory_bytes"], limits["cpu_s"]
    wanted = {resource.RLIMIT_CORE: 0}
    if size is not None:
        wanted |= {resource.RLIMIT_DATA: int(size), resource.RLIMIT_FSIZE: int(size)}
    if seconds is not None:
        wanted[resource.RLIMIT_CPU] = int(seconds) + 1
    for kind, limit in wanted.items():
        hard = resource.getrlimit(kind)[1]
        least = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(kind, (least, least))


def _reap(command: int) -> int | None:
    """Return the exit status of the command, None while it runs. Ended orphans are reaped as well."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == command:
                return ended[1]
    return None


def _limit_passed(limits: dict[str, float | None]) -> str:
    there = list(processes(os.getpid()))
    size, seconds = limits["memory_bytes"], limits["cpu_s"]
    if len(there) > _PROCESSES_MAX:
        return "processes"
    if size is not None and sum(each.memory_bytes for each in there) > size and _shared_bytes(there) > size:
        return "memory"
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = ended.ru_utime + ended.ru_stime + sum(each.cpu_s for each in there)
    return "processor time" if seconds is not None and used_s > seconds else ""


def _end_all() -> None:
    until = time.monotonic() + _ENDING_S
    while time.monotonic() < until:
        for each in processes(os.getpid()):
            with contextlib.suppress(OSError):
                os.kill(each.pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.002)


def processes(root: int) -> Iterator[Process]:
    """Yield all descendants of the process `root`."""
    if os.path.exists(f"/proc/{root}/task/{root}/children"):
        yield from _by_proc(root)
    else:
        yield from _by_ps(root)


def _by_proc(root: int) -> Iterator[Process]:
    waiting = [root]
    while waiting:
        with contextlib.suppress(OSError):  # it has ended meanwhile
            folder = f"/proc/{waiting.pop()}/task"
            for thread in os.listdir(folder):
                with contextlib.suppress(OSError):
                    children = [int(word) for word in _text(f"{folder}/{thread}/children").split()]
                    waiting += children
                    for pid in children:
                        yield Process(pid, _kibibytes(f"/proc/{pid}/status", _OWN) << 10, _cpu_s(pid))


_OWN = ("RssAnon:", "RssShmem:", "VmSwap:")
_SHARE = ("Pss_Anon:", "Pss_Shmem:", "SwapPss:")


def _cpu_s(pid: int) -> float:
    # Fields 14 to 17 of proc_pid_stat(5), counted after the name, which may contain any character.
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _kibibytes(path: str, names: tuple[str, ...]) -> int:
    return sum(int(line.split()[1]) for line in _text(path).splitlines() if line.startswith(names))


def _shared_bytes(there: list[Process]) -> int:
    """Return the memory of all processes in bytes. Pages that several share (weights after a fork) count once."""
    total = 0
    for each in there:
        try:
            total += _kibibytes(f"/proc/{each.pid}/smaps_rollup", _SHARE) << 10
        except OSError:  # the process has ended, or the kernel lacks this file
            total += each.memory_bytes
    return total


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _by_ps(root: int) -> Iterator[Process]:
    """Yield the descendants of `root` and its process group as `ps` lists them, for systems without /proc."""
    try:
        ps = subprocess.Popen(["ps", "-A", "-o", "pid=,ppid=,pgid=,rss=,time="], stdout=subprocess.PIPE, text=True)
    except OSError:
        return
    listed = ps.communicate()[0]
    rows = {int(words[0]): words for line in listed.splitlines() if len(words := line.split()) == 5}
    rows.pop(ps.pid, None)
    group = str(os.getpgid(root))
    for pid, (_, parent, its_group, kibibytes, cpu_time) in rows.items():
        above = [int(parent)]
        while above[-1] in rows and above[-1] != root and len(above) < len(rows):
            above.append(int(rows[above[-1]][1]))
        if pid != root and (above[-1] == root or its_group == group):
            yield Process(pid, int(kibibytes) << 10, _seconds(cpu_time))


def _seconds(text: str) -> float:
    """Parse `[days-]hours:minutes:seconds`, or `minutes:seconds.hundredths`."""
    days, _, rest = text.rpartition("-")
    total = 0.0
    for part in rest.split(":"):
        total = total * 60 + float(part)
    return total + 86400 * int(days or 0)


if __name__ == "__main__":
    sys.exit(main())
