"""A folder of somebody else's: what lies there under the name of a module never runs, whatever is done in it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.terminal import Program

ROOT = Path(__file__).parents[2]
OURS = ("hwexplorer", "analysis", "hardware", "tests")
LIBRARIES = (
    *("numpy", "msgspec", "textual", "rich", "platformdirs", "networkx", "torch", "torchvision", "sympy"),
    *("jinja2", "tornado", "markdown_it", "psutil", "_curses"),
    *("sitecustomize", "usercustomize"),
)
SCRIPT = "import sys\nfrom hwexplorer.cli import main\nif __name__ == '__main__':\n    sys.exit(main())\n"


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder where every name that anything here imports is a file that leaves a mark when it runs."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in {*sys.stdlib_module_names, *LIBRARIES, *OURS, "conftest"}:
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + '\\n')\n")
    for name in OURS:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r} + '\\n')\n")
    return folder


def ran(folder: Path) -> list[str]:
    mark = folder.parent / "ran"
    return mark.read_text().split() if mark.exists() else []


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    """The console script as an installer writes it: Python is started without -P."""
    script = tmp_path / "bin" / "hwexplorer"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    return [sys.executable, str(script)]


def environment(folder: Path) -> dict[str, str]:
    home = {"HOME": str(folder.parent), "HWEXPLORER_CACHE_DIR": str(folder.parent / "cache")}
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    return {**kept, **home, "PYTHONPATH": str(ROOT)}


@pytest.mark.parametrize(
    "words",
    [
        ("compare", "resnet18"),
        ("tree", "resnet18"),
        ("sweep", "--all", "--on", "gpu", "--batches", "1", "--precisions", "fp32", "--workers", "2"),
        ("capture", "mlp:hidden=300"),
        ("validate", "--data", str(ROOT / "analysis/validation/measured/energy.csv.gz")),
    ],
    ids=lambda words: words[0],
)
def test_a_verb_runs_nothing_of_the_folder(words: tuple[str, ...], hostile: Path, program: list[str]) -> None:
    done = subprocess.run(
        [*program, *words], cwd=hostile, env=environment(hostile), capture_output=True, text=True, timeout=300
    )
    assert ran(hostile) == []
    assert done.returncode == 0, done.stderr


def test_as_a_module_no_library_comes_from_the_folder(hostile: Path) -> None:
    """`python -m` looks for the program itself, and for what Python needs to start it, in the folder: Python's own
    rule. The libraries that the program imports do not come from there."""
    for path in hostile.iterdir():
        if path.stem not in LIBRARIES:
            path.unlink() if path.is_file() else shutil.rmtree(path)
    words = [sys.executable, "-m", "hwexplorer", "compare", "resnet18"]
    done = subprocess.run(words, cwd=hostile, env=environment(hostile), capture_output=True, text=True, timeout=300)
    assert (ran(hostile), done.returncode) == ([], 0), done.stderr


def test_nor_does_the_explorer(hostile: Path, program: list[str]) -> None:
    """A verb typed on the screen runs in a process of its own, and captures in another."""
    screen = Program([*program, "resnet18"], environment=environment(hostile), folder=hostile)
    try:
        screen.until(re.compile(b"resnet18"))
        screen.settle()
        screen.type(b":why h100_sxm tpu_v4\r")
        screen.until(re.compile(b"esc closes"))
        screen.type(b"\x1b")
        screen.settle()
        screen.type(b":model mlp:hidden=200\r")
        screen.until(re.compile(b"loaded mlp:hidden=200"))
    finally:
        screen.end()
    assert ran(hostile) == []
