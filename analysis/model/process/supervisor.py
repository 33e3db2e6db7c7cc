"""Runs a command under limits and leaves none of its processes: `python -I -S supervisor.py LIMITS COMMAND ..`.

It ends the command and all it started when the command ends, when a limit is passed, and when its own standard input
closes: then whoever asked is gone. It runs no foreign code and imports nothing of ours: it starts in 30 ms.

The kernel holds each process to a limit; all of them together are looked at ten times a second. On Linux a process that
cuts itself loose becomes a child of this one and is found; elsewhere only those whose parents still run, or that stayed
in the process group. It is no sandbox: what runs has all rights of its user.
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

_EVERY_S = 0.1  # between two looks at what the processes use
_ENDING_S = 5.0  # a process that does not die of SIGKILL in this time hangs in the kernel
_PROCESSES_MAX = 256
# Exit codes of this script for a limit that all processes together passed; otherwise it ends as the command did.
PASSED = {91: "memory", 92: "processor time", 93: "processes"}
_CODES = {what: code for code, what in PASSED.items()}
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h


class Process(NamedTuple):
    """The use of one process: bytes of memory that no file backs, seconds of processors (ended children included)."""

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
    os.close(1)  # whoever reads the answer sees its end when the command has ended
    status: int | None = None
    seen = passed = ""
    while status is None and not passed and not _asked_to_end:
        ready = select.select([0, woken], [], [], _EVERY_S)[0]
        if 0 in ready and not os.read(0, 4096):
            break
        if woken in ready:
            os.read(woken, 4096)
        status = _reap(command)
        before, seen = seen, _limit_passed(limits)  # seen twice: a process may end while the others are counted
        passed = seen if seen == before and status is None else ""
    _end_all()
    if passed:
        return _CODES[passed]
    code = os.waitstatus_to_exitcode(status) if status is not None else 0
    if code < 0:  # ends as the command did
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
    """Start the command in a process of its own, in our process group, which ends with this one. Return its pid."""
    warden = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != warden:
            os._exit(1)
        _limit(limits)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.execvp(command[0], command)
    except OSError:
        os._exit(127)


def _limit(limits: dict[str, float | None]) -> None:
    """Set the limits of each process. Files may be no larger than memory: shared memory is files."""
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
    """Return how the command ended, None while it runs. Orphans that ended are reaped as well."""
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
    """Yield every process below `root`, itself not included."""
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
    # After the name, which may hold anything: fields 14 to 17 of proc_pid_stat(5).
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _kibibytes(path: str, names: tuple[str, ...]) -> int:
    return sum(int(line.split()[1]) for line in _text(path).splitlines() if line.startswith(names))


def _shared_bytes(there: list[Process]) -> int:
    """Return the bytes of all; pages that several hold, as children the weights of their parent, count once."""
    total = 0
    for each in there:
        try:
            total += _kibibytes(f"/proc/{each.pid}/smaps_rollup", _SHARE) << 10
        except OSError:  # ended, or no such file here
            total += each.memory_bytes
    return total


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def _by_ps(root: int) -> Iterator[Process]:
    """Yield what `ps` lists below this process or in its process group, for systems without /proc."""
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
