"""Verbs where nothing is as it should be: a home that is missing, a file, full or nobody's, and a folder of FIFOs, of
endless files under the names of models, devices and settings, and of Python files under the name of every module.
"""

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.model import store
from analysis.model.names.model_ref import refer
from hardware.base.errors import RequestError
from hwexplorer.state import State
from hwexplorer.tui.session.saved_sessions import SavedSessions, sessions_file
from hwexplorer.tui.user_settings import UserSettings, read, settings_file
from tests.terminal import Program

ROOT = Path(__file__).parents[2]
OURS = ("hwexplorer", "analysis", "hardware", "tests")
LIBRARIES = (
    *("numpy", "msgspec", "textual", "rich", "platformdirs", "networkx", "torch", "torchvision", "sympy"),
    *("jinja2", "tornado", "markdown_it", "psutil", "_curses", "sitecustomize", "usercustomize"),
)
# What the verbs, and the screen with its settings and sessions, answer: {words: (exit code, standard error)}. One
# process runs them all, as the console script of an installer does: Python is started without -P.
SCRIPT = """
import contextlib, io, json, sys
from analysis.model import store
from analysis.model.names.model_ref import refer
from hardware.base.errors import RequestError
from hwexplorer.cli import main
from hwexplorer.state import State
from hwexplorer.tui.session.saved_sessions import SavedSessions, sessions_file
from hwexplorer.tui.user_settings import read, settings_file

def answer(ask):
    try:
        return str(ask())
    except RequestError as error:
        return str(error)

if __name__ == "__main__":
    found = {}
    for words in json.loads(sys.argv[1]):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            sys.argv[1:] = words
            code = main()
        found[" ".join(words)] = [code, err.getvalue()]
    found["keep"] = answer(lambda: store.keep(refer("alexnet", 66), store.load("alexnet")))
    found["settings"] = answer(lambda: read(settings_file())[1])
    found["save"] = answer(lambda: SavedSessions(sessions_file()).save("mine", State()))
    print(json.dumps(found))
"""
# Verbs that keep something at home or look there for it, or that find files in the folder under the names given.
WORDS = [
    ["compare", "conv2d"], ["capture", "conv2d"], ["open", "conv2d"], ["models"], ["devices"],
    ["trace", "out.csv", "--model", "conv2d", "--on", "t4"],
]  # fmt: skip
SWEEP = ["sweep", "--all", "--on", "t4", "--batches", "1", "--precisions", "fp32", "--workers", "2"]
ANSWERS = {"trace": [2, "hwexplorer: out.csv: cannot be read (is no regular file)\n"]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the user happens to be: what a stranger may have put there. A module that runs leaves a mark."""
    place = tmp_path / "here"
    place.mkdir()
    mark = f"open({str(tmp_path / 'ran')!r}, 'a').write(__name__ + '\\n')\n"
    for name in {*sys.stdlib_module_names, *LIBRARIES, *OURS, "conftest"}:
        (place / f"{name}.py").write_text(mark)
    for name in OURS:
        (place / name).mkdir()
        (place / name / "__init__.py").write_text(mark)
    for name in ("conv2d", "settings.toml", "my_gpu.toml", "out.csv"):
        os.mkfifo(place / name)
    (place / "t4").symlink_to("/dev/zero")
    (place / "endless.toml").symlink_to("/dev/zero")
    (place / "round.toml").symlink_to("round.toml")
    (place / "alexnet").mkdir()
    return place


def environment(**home: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "HWEXPLORER_"))}
    kept.pop("PYTHONSAFEPATH", None)
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **home}


def answers(folder: Path, words: list[list[str]], *, is_full: bool = False, **home: str) -> dict[str, Any]:
    def restrict() -> None:
        if is_full:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    script = folder.parent / "script" / "hwexplorer"
    script.parent.mkdir()
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), json.dumps(words)], cwd=folder, env=environment(**home), capture_output=True,
        text=True, timeout=600, preexec_fn=restrict,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert not (folder.parent / "ran").exists(), "a module of the folder ran"
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("home", ["missing", "a file", "full"])
def test_verbs_answer_with_a_home_that_keeps_nothing(home: str, folder: Path) -> None:
    place = folder.parent / "home"
    if home == "a file":
        place.write_text("")
    elif home == "full":
        place.mkdir()
    before = sorted(folder.rglob("*"))
    missing = "/proc/nonexistent"  # where root cannot make one either
    words = [*WORDS, *([SWEEP] if home == "missing" else [])]
    found = answers(folder, words, is_full=home == "full", HOME=missing if home == "missing" else str(place))
    assert {each[0]: found[" ".join(each)] for each in words} == {
        each[0]: ANSWERS.get(each[0], [0, ""]) for each in words
    }
    assert found["keep"] == "False"
    assert found["settings"] == ""
    assert found["save"].startswith("sessions cannot be written, ")
    assert found["save"].isprintable()
    assert sorted(folder.rglob("*")) == before


def test_a_home_full_of_what_is_no_file(folder: Path) -> None:
    """FIFOs and endless files as settings, sessions and cache are said, not waited for."""
    home = folder.parent / "home"
    for kind in ("config", "state"):
        (home / kind / "hwexplorer").mkdir(parents=True)
    os.mkfifo(home / "config" / "hwexplorer" / "settings.toml")
    (home / "state" / "hwexplorer" / "sessions.json").symlink_to("/dev/zero")
    places = {f"XDG_{kind.upper()}_HOME": str(home / kind) for kind in ("config", "state", "cache")}
    answered = [["open", "conv2d"], ["compare", "conv2d", "--devices-dir", "."], ["devices", "--devices-dir", "."]]
    refused = [["open", "--last"], ["compare", "conv2d", "--on", "my_gpu", "--devices-dir", "."]]
    refused += [["validate", "out.csv"], ["validate", "t4"], ["capture", "t4.py:make"]]
    refused += [["compare", "hf:conv2d"], ["compare", "hf:~nosuchuser/x"], ["compare", "~nosuchuser/net.onnx"]]
    found = answers(folder, [*answered, *refused], HOME=str(home), **places)
    assert found["settings"].endswith("settings.toml: is no regular file")
    assert found["save"].endswith("sessions.json: is no regular file")
    assert found["keep"] == "True"
    for words in (*answered, *refused):
        code, said = found[" ".join(words)]
        assert (code, said.count("\n")) == ((2, 1) if words in refused else (0, 0)), words
        assert "internal error" not in said


@pytest.mark.parametrize("home", ["~nosuchuser", ".", ""])
def test_a_home_that_is_no_place_makes_none_here(home: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of platformdirs some versions take the password file's home then, some the words as they are: a folder here."""
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    for kind in ("cache", "config", "state"):
        monkeypatch.setattr(f"platformdirs.user_{kind}_dir", lambda name, **_: str(Path(home, ".local", name)))
    monkeypatch.delenv("HWEXPLORER_CACHE_DIR")
    assert store.keep(refer("alexnet", 66), store.load("alexnet")) is False
    assert read(settings_file()) == (UserSettings(), "")
    with pytest.raises(RequestError, match="sessions cannot be written"):
        SavedSessions(sessions_file()).save("mine", State())
    assert sorted(folder.rglob("*")) == before


def test_a_cache_that_nobody_has_is_said(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", "~nosuchuser/c")
    assert (
        refused("compare", "alexnet", "--image-size", "66")
        == "hwexplorer: HWEXPLORER_CACHE_DIR: no home for '~nosuchuser/c'\n"
    )


def test_the_explorer_and_its_processes_run_nothing_of_the_folder(folder: Path) -> None:
    """A verb typed on the screen runs in a process of its own, and captures in another."""
    start = "import sys; from hwexplorer.cli import main; sys.exit(main(sys.argv[1:]))"
    home = environment(HOME=str(folder.parent), HWEXPLORER_CACHE_DIR=str(folder.parent / "cache"))
    screen = Program([sys.executable, "-P", "-c", start, "resnet18"], environment=home, folder=folder)
    try:
        screen.until(re.compile(b"resnet18"))
        screen.settle()
        screen.type(b":why h100_sxm tpu_v4\r")
        screen.until(re.compile(b"esc closes"))
        screen.type(b"\x1b")
        screen.settle()
        screen.type(b":image-size 96\r")
        screen.until(re.compile(b"px vs batch 1"))
    finally:
        screen.end()
    assert not (folder.parent / "ran").exists()
