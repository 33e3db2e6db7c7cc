"""Every hostile file is read or refused, in one line, for no more than a budget of work and memory."""

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from analysis.model import store
from analysis.model.model_errors import CaptureCancelledError, ModelError, UnreadableError
from analysis.model.names import targets
from analysis.model.process.child_job import FileReading
from analysis.model.reading_budget import STEPS, Budget, ProcessLimits
from hwexplorer.cli import main
from hwexplorer_annexes.onnx import onnx_model as onnx_model
from hwexplorer_annexes.onnx.onnx_file import Wire
from tests.attack import onnx_files
from tests.sampling import first
from tests.waiting import ENDLESS_S, LIMIT_S, never_endless

# What a budget of a tenth may come to: two seconds of a fast machine and a tenth of its gigabyte.
_SHARE = 10
SAYS = {
    "a size that a batch makes negative": "Pad: the shape of its result is unknown: a size comes out",
    "a window of less than nothing": "net.onnx: an operator does a negative amount of work (y@2: onnx.LRN)",
    "graphs in graphs": "nested too deeply",
    "a function that calls itself": "calls itself",
}


def written(folder: Path, name: str) -> Path:
    path = folder / "net.onnx"
    path.write_bytes((onnx_files.SMALL | onnx_files.LARGE)[name]())
    return path


def read(path: Path, budget: Budget) -> str:
    """The line it is refused with, or nothing where it is read."""
    try:
        operators = onnx_model.load(path, budget=budget).n_operators
    except ModelError as error:
        return str(error)
    assert operators > 0
    return ""


@pytest.mark.parametrize("name", onnx_files.SMALL)
def test_a_small_file_is_read_or_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = written(tmp_path, name)
    with never_endless():
        line = read(path, Budget(STEPS // _SHARE))
    assert not line or line.startswith(path.name)
    assert SAYS.get(name, "") in line
    assert len(line) < 400
    assert "\n" not in line
    assert sorted(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", first(list(onnx_files.LARGE), 3))
def test_a_large_file_costs_no_more_than_its_budget(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name)
    code = """
import resource, sys
from pathlib import Path
from analysis.model.reading_budget import STEPS, Budget
from tests.attack.test_attack_files import read
before = resource.getrusage(resource.RUSAGE_SELF)
line = read(Path(sys.argv[1]), Budget(STEPS // 10))
after = resource.getrusage(resource.RUSAGE_SELF)
print(after.ru_utime - before.ru_utime, (after.ru_maxrss - before.ru_maxrss) << 10, line)
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    seconds, taken, line = done.stdout.split(maxsplit=2)
    assert line.startswith(path.name), done.stderr
    assert float(seconds) < ENDLESS_S
    assert int(taken) < 700 << 20


def test_the_whole_budget_is_spent_before_the_limits_of_its_process(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="takes more work than any known model"):
        store.load(str(written(tmp_path, "10,000,000 empty constants")))


def test_reading_is_given_up_at_once(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx_files.chain(40_000))
    job = FileReading(targets.Target(str(path)))
    job.start()
    threading.Timer(0.5, job.cancel).start()
    with pytest.raises(CaptureCancelledError):
        job.result(LIMIT_S)


def test_an_honest_file_says_how_far_it_is(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx_files.chain(5_000))
    said: list[tuple[str, float]] = []
    workload = onnx_model.load(path, budget=Budget(progress=lambda phase, fraction: said.append((phase, fraction))))
    assert workload.n_operators == 5_000
    phases = [phase for phase, _ in said]
    assert phases == sorted(phases, key=["read", "shapes", "lower"].index)
    assert phases.count("shapes") == 10
    assert all(0 <= fraction <= 1 for _, fraction in said)


def test_a_limit_of_the_process_holds_where_the_budget_would_not(tmp_path: Path) -> None:
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx_files.chain(40_000))
    job = FileReading(targets.Target(str(path)), ProcessLimits(seconds=60, memory_bytes=70 << 20))
    job.start()
    with pytest.raises(ModelError, match=r"memory|MemoryError"):
        job.result(120)


def test_a_file_that_is_cut_while_it_is_read_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mapped file would end the process with SIGBUS."""
    path = tmp_path / "net.onnx"
    path.write_bytes(onnx_files.chain(20_000))
    fields = Wire._fields
    seen = 0

    def cutting(wire: Wire, at: int, end: int) -> object:
        nonlocal seen
        seen += 1
        if seen == 100:
            with path.open("r+b") as file:
                file.truncate(10_000)
        return fields(wire, at, end)

    monkeypatch.setattr(Wire, "_fields", cutting)
    with pytest.raises(UnreadableError, match="truncated"):
        onnx_model.load(path)


@pytest.mark.parametrize("path", ["/home/me/real.onxx", "/etc/passwd", "/real.onxx", "./models/real.onxx", "/"])
def test_a_path_is_never_another_model(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty model before a slash is the model of a bare start, but what follows must be devices."""
    for words in (["compare", path, "--on", "h100_sxm"], ["capture", path]):
        assert main(words) == 2
        said = capsys.readouterr()
        assert "resnet50" not in said.out
        assert "unknown" in said.err
