"""A sweep that is stopped leaves no worker and no file that looks whole, and goes on from its rows."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from analysis.explore.catalogue_sweep import Chunk, header, run_chunk
from hardware.base.errors import RequestError
from hwexplorer.reports._bulk_sweep import write_parts
from tests.terminal import hear
from tests.waiting import wait_until

WORDS = ["sweep", "--all", "--on", "t4,l4", "--batches", "1,2,4,8,16,32,64", "--precisions", "fp16,fp32,int8"]
WORDS += ["--workers", "2"]


def started(folder: Path, form: str, *words: str) -> subprocess.Popen[str]:
    """A sweep into `out.FORM`, in a session of its own."""
    command = [sys.executable, "-m", "hwexplorer", *WORDS, "-o", str(folder / f"out.{form}"), *words]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=hear)


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
    ("number", "of_worker"),
    [(signal.SIGTERM, False), (signal.SIGINT, False), (signal.SIGKILL, False), (signal.SIGKILL, True)],
)
def test_killed_sweep_leaves_no_worker_and_no_file_that_looks_whole(
    number: int, of_worker: bool, tmp_path: Path
) -> None:
    with started(tmp_path, "csv") as process:
        wait_until(lambda: process.poll() is not None or written(tmp_path))
        with suppress(ProcessLookupError):  # it had just ended
            os.kill(session(process.pid)[-1] if of_worker else process.pid, number)
        said = process.communicate(timeout=300)[1]
    wait_until(lambda: not session(process.pid))
    assert "Traceback" not in said
    assert "internal error" not in said
    assert process.returncode != 0
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv.part"]


WORK = [
    Chunk(models, ("t4", "l4"), (1, 8), ("fp16",), "auto", "nchw", (), "csv")
    for models in (("resnet18", "alexnet"), ("vgg11",), ("mlp",))
]
WHOLE = header("csv") + "".join(map(run_chunk, WORK))


@pytest.mark.parametrize("done", [0, 1, 2, 3])
@pytest.mark.parametrize("changed", ["", "request", "files"])
def test_a_stopped_run_goes_on_from_whole_rows_of_the_same_request(done: int, changed: str, tmp_path: Path) -> None:
    target, ran = tmp_path / "out.csv", list[Chunk]()
    work = [replace(chunk, batches=(1, 2)) for chunk in WORK] if changed == "request" else WORK

    def run_some(work: Sequence[Chunk], most: int) -> Iterator[str]:
        for chunk in work[:most]:
            ran.append(chunk)
            yield run_chunk(chunk)

    with suppress(ValueError):  # as if it were stopped
        write_parts(target, work, partial(run_some, most=done))
    assert target.exists() is (done == len(WORK))
    ran.clear()
    kept = [*(tmp_path / "out.csv.part").glob("?" * 64)] if changed == "files" else []
    for file, rows in zip(kept, [b"half a ", *(file.read_bytes() for file in kept)], strict=False):
        file.write_bytes(rows)
    write_parts(target, WORK, partial(run_some, most=len(WORK)))
    assert target.read_text() == WHOLE
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]
    assert ran == (WORK if changed or done == len(WORK) else WORK[done:])


def test_two_runs_cannot_write_one_file(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"

    def run_twice(work: Sequence[Chunk]) -> Iterator[str]:
        with pytest.raises(RequestError, match=r"another run is writing out\.csv"):
            write_parts(target, WORK, partial(map, run_chunk))
        yield from map(run_chunk, work)

    write_parts(target, WORK, run_twice)
    assert target.read_text() == WHOLE


def test_a_part_that_is_damaged_before_the_end_leaves_no_table(tmp_path: Path) -> None:
    def run_and_damage(work: Sequence[Chunk]) -> Iterator[str]:
        for chunk in work:
            yield run_chunk(chunk)
        next((tmp_path / "out.csv.part").glob("?" * 64)).write_bytes(b"half a ")

    with pytest.raises(RequestError, match=r"a part of out\.csv\.part was damaged.*: run again"):
        write_parts(tmp_path / "out.csv", WORK, run_and_damage)
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv.part"]
