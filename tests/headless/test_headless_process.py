"""What only a whole process shows: what it imports, how long it takes, pipes, encodings, the cache folder."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analysis.model import store
from analysis.model.names.model_ref import refer
from analysis.model.process import child_job
from hwexplorer import engine
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import State
from hwexplorer.tui.session.jobs import ModelCaptureJob
from tests import mischief
from tests.headless.conftest import Call
from tests.sampling import first
from tests.waiting import wait_until

HEAVY = {"torch", "torchvision", "textual", "rich", "networkx", "sympy"}
CALLS_MAX = 700_000  # with those of imports
PROGRAM = [sys.executable, "-m", "hwexplorer"]


def run(*words: str, shell: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    command: Any = [*PROGRAM, *words]
    if shell:
        quoted = " ".join(f"'{part}'" for part in command)
        command = ["bash", "-c", shell.replace("HWEXPLORER", quoted)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **environment})


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from hwexplorer import registry; from hwexplorer.cli import main\n"
        "declared = [registry.load(name) for name in registry.names()]\n"
        "reports = 'compare', 'tree', 'show kernels', 'show structure', 'show memory', 'tree edp'\n"
        "for words in (*([*verb.split(), 'resnet50'] for verb in reports), ['devices'], ['models']):\n"
        "    assert main(words) == 0\n"
        f"    assert not {HEAVY} & set(sys.modules), words"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_compare_answers_with_few_calls_of_functions() -> None:
    """Its time is in lab/bench_core.py."""
    code = (
        "import sys; from tests.waiting import CallCount; from hwexplorer.cli import main\n"
        "with CallCount() as count: main(['compare', 'resnet50'])\nprint(count.calls, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert int(done.stderr) < CALLS_MAX, done.stderr


def test_without_a_terminal_the_model_alone_prints_the_comparison() -> None:
    alone, compare = run("resnet18"), run("compare", "resnet18")
    assert (alone.returncode, alone.stderr) == (0, "")
    assert alone.stdout == compare.stdout
    assert json.loads(run("resnet18", "--format", "json").stdout)["model"] == "resnet18"
    assert run().stdout.startswith("resnet50, batch 1, bf16, ")


# --- streams ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", ["tree resnet152 --format json", "tree resnet18", "models", "devices"])
def test_a_reader_that_goes_away(words: str) -> None:
    done = run(shell=f"set -o pipefail; HWEXPLORER {words} | head -n 1; echo ${{PIPESTATUS[0]}}")
    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "redirect"),
    [("compare resnet18", ">&-"), ("--help", ">/dev/full"), ("--version", ">&-"), ("compare --help", ">/dev/full")],
)
def test_an_output_that_takes_nothing(words: str, redirect: str) -> None:
    done = run(shell=f"HWEXPLORER {words} {redirect}")
    assert done.returncode == 1
    assert done.stderr.startswith("hwexplorer: ")
    assert done.stderr.count("\n") == 1
    assert "internal error" not in done.stderr


@pytest.mark.parametrize("redirect", ["2>&-", "2>/dev/full"])
def test_an_error_that_cannot_be_said(redirect: str) -> None:
    done = run(shell=f"HWEXPLORER compare resnet5 {redirect}")
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize("form", first(["text", "csv", "json", "md"], 2))
def test_an_output_that_knows_only_ascii(form: str) -> None:
    done = run("compare", "resnet18", "--format", form, PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.isascii()


def test_an_error_that_ascii_has_no_letters_for() -> None:
    assert run("compare", "résnet", PYTHONIOENCODING="ascii").returncode == 2


# --- the cache of captures --------------------------------------------------------------------------------

MODEL, SIZE = "alexnet", 64


@pytest.fixture
def cached(quick_captures: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the capture of MODEL is kept."""
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", str(tmp_path / "cache"))
    return store.cache_path(refer(MODEL, SIZE))


def test_a_cache_folder_that_cannot_be_written(call: Call, cached: Path) -> None:
    cached.parent.write_text("a file where the folder should be")
    done = call("compare", MODEL, "--image-size", str(SIZE))
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{MODEL} at {SIZE} px, ")
    assert call("tree", MODEL, "--image-size", str(SIZE)).code == 0  # the same process does not capture twice


def test_the_screen_sees_a_capture_end(cached: Path) -> None:
    """Also where it cannot be kept on disk."""
    cached.parent.write_text("a file where the folder should be")
    state = State(model=MODEL, image_size=SIZE)
    job = ModelCaptureJob(state, ScreenQueries(), lambda _: None)
    job.start()
    _wait(job)
    assert (job.error(), engine.is_ready(state)) == ("", True)
    assert ScreenQueries().tree(state).rows


def test_the_screen_sees_a_capture_fail(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_job.ModelCapture, "command", mischief.command("raise SystemExit(3)"))
    job = ModelCaptureJob(State(model=MODEL, image_size=SIZE), ScreenQueries(), lambda _: None)
    job.start()
    _wait(job)
    assert "code 3" in job.error()


def _wait(job: ModelCaptureJob) -> None:
    wait_until(job.is_done)
