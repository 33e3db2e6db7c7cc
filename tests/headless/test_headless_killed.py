"""A sweep that is killed: no worker and no file stays but what --resume goes on with, to the bytes of a whole run.

`python -m tests.headless.test_headless_killed 50` kills at so many random moments.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

import pytest

from analysis.estimate.scenario import Scenario
from analysis.explore.search import catalogue_sweep, workers
from analysis.model.names import zoo
from hwexplorer import cli

MODELS = zoo.models()[:15]
CHUNKS = 8  # of two models each
WORDS = ["sweep", "--all", "--on", "t4", "--batches", "1,8", "--precisions", "fp16", "--workers", "2"]


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


@cache
def whole(form: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        with started(Path(folder), form) as process:
            assert process.wait(300) == 0
        (path,) = Path(folder).iterdir()
        return path.read_bytes()


def killed(folder: Path, form: str, number: int, share: float, *, worker: bool = False) -> str:
    """Kill a sweep (or a worker of it) once so much of it is written; what it says. Nothing of it stays."""
    enough = share * len(whole(form))
    with started(folder, form, "--resume") as process:
        while process.poll() is None and (written(folder) < enough or (worker and len(session(process.pid)) < 3)):
            time.sleep(0.01)
        victims = session(process.pid)[1:] if worker else [process.pid]
        for victim in victims[-1:]:
            with suppress(ProcessLookupError):  # it had just ended
                os.kill(victim, number)
        said = process.communicate(timeout=120)[1]
    until = time.monotonic() + 20
    while (left := session(process.pid)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left
    names = [path.name for path in folder.iterdir() if path.name != f"out.{form}"]
    assert len(names) <= 1, names
    assert all(name.startswith(f"out.{form}.") and name.endswith(".part") for name in names), names
    return said


def written(folder: Path) -> int:
    return max((path.stat().st_size for path in folder.glob("*.part")), default=0)


def finished(folder: Path, form: str) -> bytes:
    with started(folder, form, "--resume") as process:
        assert process.wait(300) == 0
    (path,) = folder.iterdir()
    return path.read_bytes()


def test_a_sweep_that_is_killed_goes_on(tmp_path: Path) -> None:
    """Killed again while it goes on, and with a worker of its own killed."""
    for number, share, worker in (
        (signal.SIGTERM, 0.1, False),
        (signal.SIGKILL, 0.3, True),
        (signal.SIGKILL, 0.5, False),
    ):
        said = killed(tmp_path, "csv", number, share, worker=worker)
        assert "Traceback" not in said
        assert "internal error" not in said
    assert 0 < written(tmp_path) < len(whole("csv"))
    assert finished(tmp_path, "csv") == whole("csv")


@pytest.mark.parametrize("form", ["csv", "json"])
def test_what_was_made_is_kept_and_not_made_again(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where the disk is full, and then where a person interrupts it; at last the end of a row is not there."""
    made: list[int] = []
    errors: list[BaseException] = [OSError(28, "No space left on device"), KeyboardInterrupt()]

    def local(_run: object, work: Sequence[catalogue_sweep.Chunk], _workers: int) -> Iterator[str]:
        for place, chunk in enumerate(work):
            if place == 3 and errors:
                raise errors.pop(0)
            made.append(chunk.n_rows)
            yield catalogue_sweep.run_chunk(chunk)

    path = tmp_path / f"out.{form}"
    words = ["sweep", "--all", "--on", "t4", "--batches", "1", "--precisions", "fp16", "-o", str(path), "--resume"]
    monkeypatch.setattr(workers, "local", local)
    monkeypatch.setattr(catalogue_sweep, "GROUP", 2)
    monkeypatch.setattr(catalogue_sweep.zoo, "models", lambda: MODELS)
    missing = form == "json"  # its end is not written before the next begins
    for code, kept in ((2, 3 - missing), (130, 6 - 2 * missing)):
        assert cli.main(words) == code
        assert f"{kept} of {CHUNKS} parts are kept: --resume goes on with them" in capsys.readouterr().err
        assert not path.exists()
    (part,) = tmp_path.iterdir()
    part.write_bytes(part.read_bytes() + b"half a row")
    assert cli.main(words) == 0
    assert len(made) == CHUNKS + 2 * missing
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    resumed = path.read_bytes()
    assert cli.main([*words[:-2], str(path)]) == 0
    assert path.read_bytes() == resumed
    for wrong in ([*words[:-3], "--resume"], ["sweep", "resnet18", "--resume"]):
        assert cli.main(wrong) == 2


def test_a_part_of_another_request_is_not_gone_on_with(tmp_path: Path) -> None:
    one, other = (catalogue_sweep.chunks([batch], ["fp32"], ["t4"], Scenario(), (), "csv") for batch in (1, 2))
    assert catalogue_sweep.key(one, ()) == catalogue_sweep.key(one, ()) != catalogue_sweep.key(other, ())
    path = tmp_path / "part"
    path.write_text("something else\n" * 5000)
    assert catalogue_sweep.count_whole_chunks(path, one) == (0, 0)


def by_hand(count: int) -> None:
    random, expected = Random(0), whole("csv")
    for place in range(count):
        with tempfile.TemporaryDirectory() as name:
            folder, worker = Path(name), place % 5 == 4
            number = random.choice((signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
            killed(folder, "csv", signal.SIGKILL if worker else number, random.random(), worker=worker)
            left = [path.stat().st_size for path in folder.iterdir()]
            assert finished(folder, "csv") == expected
            print(place, number.name, "worker" if worker else "", left, flush=True)


if __name__ == "__main__":
    by_hand(int(sys.argv[1]))
