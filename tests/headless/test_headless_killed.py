"""A sweep that is killed leaves no worker, and no file that looks whole."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from hwexplorer.export.kept_parts import KeptParts
from tests.waiting import wait_until

WORDS = ["sweep", "--all", "--on", "t4,l4", "--batches", "1,2,4,8,16,32,64", "--precisions", "fp16,fp32,int8"]
WORDS += ["--workers", "2"]


class Piece(msgspec.Struct, frozen=True):
    name: str


def started(folder: Path, form: str, *words: str) -> subprocess.Popen[str]:
    """A sweep into `out.FORM`, in a session of its own."""
    command = [sys.executable, "-m", "hwexplorer", *WORDS, "-o", str(folder / f"out.{form}"), *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)


def session(leader: int) -> list[int]:
    """The processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if entry.name.isdigit() and int(fields[3]) == leader and fields[0] != "Z":
            found.append(int(entry.name))
    return found


def written(folder: Path) -> int:
    return max((path.stat().st_size for path in folder.iterdir()), default=0)


@pytest.mark.parametrize(
    ("number", "of_worker"), [(signal.SIGTERM, False), (signal.SIGKILL, False), (signal.SIGKILL, True)]
)
def test_killed_sweep_leaves_no_worker_and_no_file(number: int, of_worker: bool, tmp_path: Path) -> None:
    with started(tmp_path, "csv") as process:
        wait_until(lambda: process.poll() is not None or written(tmp_path))
        with suppress(ProcessLookupError):  # it had just ended
            os.kill(session(process.pid)[-1] if of_worker else process.pid, number)
        said = process.communicate(timeout=300)[1]
    wait_until(lambda: not session(process.pid))
    assert "Traceback" not in said
    assert "internal error" not in said
    assert process.returncode != 0
    assert not (tmp_path / "out.csv").exists()
    is_told = not (number == signal.SIGKILL and not of_worker)  # which no process can answer
    assert not (is_told and list(tmp_path.iterdir()))


def test_a_stopped_run_continues_with_its_finished_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", str(tmp_path))
    work = [Piece(name="a"), Piece(name="b"), Piece(name="c")]
    first = KeptParts(work, ()).continue_with(iter("xyz"))
    assert [next(first), next(first)] == ["x", "y"]  # and stops
    second = KeptParts(work, ())
    assert second.texts == ["x", "y"]
    assert list(second.continue_with(iter("z"))) == ["x", "y", "z"]
    assert KeptParts(work, ()).texts == []
    assert KeptParts(work[:2], ()).texts == []
