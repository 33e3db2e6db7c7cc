"""A capture's subprocess that does what it likes: its parent neither hangs nor fills, and nothing of it stays."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.model import store
from analysis.model.model_errors import CaptureError
from analysis.model.process import child_job as job_module
from analysis.model.reading_budget import ProcessLimits
from tests import mischief

MEBIBYTE = 1 << 20
SOON = ProcessLimits(seconds=60.0, memory_bytes=128 * MEBIBYTE)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def left(tmp_path: Path) -> Iterator[Path]:
    """A file for the numbers of processes, none of which may be there when the test ends."""
    path = tmp_path / "pids"
    path.touch()
    yield path
    there = gone(path)
    for pid in there:
        os.kill(pid, signal.SIGKILL)
    assert not there


def gone(path: Path, within_s: float = 60.0) -> list[int]:
    """Those of the processes that are still there after this time."""
    until = time.monotonic() + within_s
    while there := [pid for pid in map(int, path.read_text().split()) if runs(pid)]:
        if time.monotonic() > until:
            return there
        time.sleep(0.02)
    return []


def runs(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def refused(monkeypatch: pytest.MonkeyPatch, code: str, limits: ProcessLimits = SOON) -> str:
    """What a capture says whose subprocess runs this code."""
    monkeypatch.setattr(job_module.ModelCapture, "command", mischief.command(code))
    with pytest.raises(CaptureError) as caught:
        store.load("resnet18", 64, limits=limits)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- what it says -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code",
    [
        "while True: os.write(number, b'x' * 1000)",
        "while True: send(phase='a', fraction=0.5)",
        "pipe.send_bytes(bytes([0x91]) * 60_000)",
        "pipe.send_bytes(b'')",
        "pipe.send(print); time.sleep(100)",
        "send(answer=5); time.sleep(100)",
        "send(phase=5, fraction=[]); time.sleep(100)",
        "os.write(number, struct.pack('!i', -5)); time.sleep(100)",
        "os.write(number, struct.pack('!iQ', -1, 1 << 60)); time.sleep(100)",
        "os.write(number, struct.pack('!i', 99) + b'short')",
    ],
)
def test_any_content_is_read_and_refused(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    said = refused(monkeypatch, code)
    assert "sent something unreadable" in said
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10  # KiB


def test_progress_steers_no_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    phase, shown = "\u001b]0;owned\u0007\u009b2J\u202ebuild\n", "\u241b]0;owned\u2407\ufffd2J\ufffdbuild"
    wait = f"while not os.path.exists({str(tmp_path / 'seen')!r}): time.sleep(0.01)"
    code = f"send(phase={phase!r}, fraction=1e9)\n{wait}\nraise SystemExit(3)"
    monkeypatch.setattr(job_module.ModelCapture, "command", mischief.command(code))

    def see(*now: object) -> None:
        if now == (shown, 1.0):
            (tmp_path / "seen").touch()

    with pytest.raises(CaptureError, match="code 3") as caught:
        store.load("resnet18", 64, progress=see)
    assert (tmp_path / "seen").exists()
    assert str(caught.value).isprintable()


def test_a_reason_steers_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "no\u001b[2J \u009b such \n thing"
    said = refused(monkeypatch, f"send(error={reason!r})")
    assert said.endswith(": no\u241b[2J \ufffd such thing")


def test_output_without_end_is_drained(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys\nfor _ in range(20_000): print('y' * 999, file=sys.stderr)\nsys.exit(3)"
    said = refused(monkeypatch, code)
    assert "ended with code 3" in said


# --- what it starts ---------------------------------------------------------------------------------------

LOOSE = """
import os, sys, time
def note():
    with open({path!r}, "a") as file: print(os.getpid(), file=file)
def loose(work):
    if os.fork() == 0:
        if os.fork() == 0:
            note()
            work()
        os._exit(0)
def until_noted(count):
    while open({path!r}).read().count("\\n") < count: time.sleep(0.01)
note()
"""


def loose(path: Path, code: str) -> str:
    return LOOSE.format(path=str(path)) + code


@pytest.mark.parametrize("then", ["os._exit(3)", "pipe.send(print); time.sleep(100)"])
def test_what_it_started_ends_with_it(monkeypatch: pytest.MonkeyPatch, left: Path, then: str) -> None:
    start = "for _ in range(3): loose(lambda: (os.close(number), time.sleep(600)))\nuntil_noted(4)\n"
    refused(monkeypatch, loose(left, start + then))
    assert len(left.read_text().split()) == 4


def test_ending_it_needs_no_cooperation(monkeypatch: pytest.MonkeyPatch, left: Path) -> None:
    stop = """
import signal
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(number, signal.SIG_IGN)
"""
    started = "loose(lambda: time.sleep(600))\ntime.sleep(600)"
    said = refused(monkeypatch, loose(left, stop + started), ProcessLimits(seconds=1.0))
    assert "longer than 1 s" in said


def test_a_process_that_leaves_the_group_holds_nobody_up(monkeypatch: pytest.MonkeyPatch, left: Path) -> None:
    """It holds the pipe, with half a message in it."""
    escape = "os.write(number, struct.pack('!i', 99))\nloose(lambda: (os.setsid(), time.sleep(600)))\nuntil_noted(2)\n"
    refused(monkeypatch, loose(left, escape + "os._exit(3)"), ProcessLimits(seconds=8.0))
    (escaped,) = filter(runs, map(int, left.read_text().split()))  # it ran on while the capture ended
    os.kill(escaped, signal.SIGKILL)


# --- what it takes ----------------------------------------------------------------------------------------


def test_a_process_has_its_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    said = refused(monkeypatch, "try: bytearray(1 << 28)\nexcept MemoryError: raise SystemExit(5)")
    assert "code 5" in said


def test_no_file_is_larger_than_its_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    code = f"try: open({str(tmp_path / 'file')!r}, 'wb').truncate(1 << 28)\nexcept OSError: raise SystemExit(5)"
    said = refused(monkeypatch, code)
    assert "code 5" in said


# --- when its parent goes ---------------------------------------------------------------------------------


def test_it_ends_with_its_parent(left: Path) -> None:
    code = loose(left, "sum(range(10 ** 13))")  # holds the GIL
    parent = (
        "import sys, time\nfrom analysis.model.names import model_ref\n"
        "from analysis.model.process import child_job as job\nfrom tests import mischief\n"
        f"job.ModelCapture.command = mischief.command({code!r})\n"
        "one = job.ModelCapture(model_ref.refer('resnet18', 64)); one.start()\n"
        "print('runs', flush=True); time.sleep(100)"
    )
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"runs\n"
        until = time.monotonic() + 30
        while not left.read_text() and time.monotonic() < until:
            time.sleep(0.02)
        process.kill()
    assert left.read_text()
