"""Verbs where nothing is as it should be: a home that is missing, a file, read-only, full or nobody's, and a
folder of FIFOs and endless files under the names of models, devices and settings.

One process runs them all, so a home costs one start.
"""

import json
import os
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
from tests.sampling import first

ROOT = Path(__file__).parents[2]
# Verbs that keep something at home or look there for it, or that find files in the folder under the names given.
WORDS: list[tuple[str, ...]] = [
    ("compare", "conv2d"), ("capture", "conv2d"), ("open", "conv2d"), ("models",), ("devices",), ("calibrate",),
    ("trace", "out.csv", "--model", "conv2d", "--on", "t4"),
]  # fmt: skip
ANSWERS = {
    "trace": [2, "hwexplorer: out.csv: cannot be read (is no regular file)\n"],
    "calibrate": [2, 'hwexplorer: calibrate needs the file of a measurement, or "9.7 ms MODEL batch 8"\n'],
}
# What the verbs, and the screen with its settings and sessions, answer: {words: (exit code, standard error)}.
SCRIPT = """
import contextlib, io, json, sys
from analysis.model import store
from analysis.model.names.model_ref import refer
from hardware.base.errors import RequestError
from hwexplorer.cli import main
from hwexplorer.state import State
from hwexplorer.tui.session.saved_sessions import SavedSessions, sessions_file
from hwexplorer.tui.user_settings import read, settings_file
found = {}
for words in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(words)
    found[" ".join(words)] = [code, err.getvalue()]
def answer(ask):
    try:
        return str(ask())
    except RequestError as error:
        return str(error)
found["keep"] = answer(lambda: store.keep(refer("mlp:hidden=300"), store.load("mlp")))
found["settings"] = answer(lambda: read(settings_file())[1])
found["save"] = answer(lambda: SavedSessions(sessions_file()).save("mine", State()))
print(json.dumps(found))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the user happens to be: what a stranger may have put there."""
    place = tmp_path / "here"
    place.mkdir()
    for name in ("conv2d", "settings.toml", "my_gpu.toml", "out.csv"):
        os.mkfifo(place / name)
    (place / "t4").symlink_to("/dev/zero")
    (place / "endless.toml").symlink_to("/dev/zero")
    (place / "round.toml").symlink_to("round.toml")
    (place / "alexnet").mkdir()
    return place


def answers(folder: Path, words: list[tuple[str, ...]], *, limit: bool = False, **home: str) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "HWEXPLORER_"))}

    def restrict() -> None:
        if limit:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT, json.dumps(words)],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **home},
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=restrict,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return dict(json.loads(done.stdout))


def _missing(folder: Path) -> dict[str, Any]:
    return {"HOME": "/nonexistent/home"} if os.getuid() else {"HOME": "/proc/nonexistent"}  # where root cannot either


def _file(folder: Path) -> dict[str, Any]:
    (folder.parent / "file").write_text("")
    return {"HOME": str(folder.parent / "file")}


def _full(folder: Path) -> dict[str, Any]:
    (folder.parent / "full").mkdir()
    return {"HOME": str(folder.parent / "full"), "limit": True}


def _readonly(folder: Path) -> dict[str, Any]:
    home = folder.parent / "readonly"
    home.mkdir()
    home.chmod(0o555)
    if os.access(home, os.W_OK):
        pytest.skip("root may write everywhere")
    return {"HOME": str(home)}


HOMES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "missing": _missing,
    "a file": _file,
    "full": _full,
    "readonly": _readonly,
}


@pytest.mark.parametrize("home", first(list(HOMES), 2))
def test_verbs_answer_with_a_home_that_keeps_nothing(home: str, folder: Path) -> None:
    before = sorted(folder.rglob("*"))
    found = answers(folder, WORDS, **HOMES[home](folder))
    assert {words[0]: found[" ".join(words)] for words in WORDS} == {words[0]: [0, ""] for words in WORDS} | ANSWERS
    assert found["keep"] == "False"
    assert found["settings"] == ""
    assert found["save"].startswith("sessions cannot be written, ")
    assert found["save"].isprintable()
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("home", ["~nosuchuser", ".", ""])
def test_a_home_that_is_no_place_makes_none_here(home: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of platformdirs some versions take the password file's home then, some the words as they are: a folder here."""
    monkeypatch.chdir(folder)
    before = sorted(folder.rglob("*"))
    for kind in ("cache", "config", "state"):
        monkeypatch.setattr(f"platformdirs.user_{kind}_dir", lambda name, **_: str(Path(home, ".local", name)))
    monkeypatch.delenv("HWEXPLORER_CACHE_DIR")
    assert store.keep(refer("mlp:hidden=300"), store.load("mlp")) is False
    assert read(settings_file()) == (UserSettings(), "")
    with pytest.raises(RequestError, match="sessions cannot be written"):
        SavedSessions(sessions_file()).save("mine", State())
    assert sorted(folder.rglob("*")) == before


def test_a_home_full_of_what_is_no_file(folder: Path) -> None:
    """FIFOs and endless files as settings, sessions and cache are said, not waited for."""
    home = folder.parent / "home"
    for kind in ("config", "state"):
        (home / kind / "hwexplorer").mkdir(parents=True)
    os.mkfifo(home / "config" / "hwexplorer" / "settings.toml")
    (home / "state" / "hwexplorer" / "sessions.json").symlink_to("/dev/zero")
    places = {f"XDG_{kind.upper()}_HOME": str(home / kind) for kind in ("config", "state", "cache")}
    words = [("open", "--last"), ("open", "conv2d"), ("compare", "conv2d", "--devices-dir", ".")]
    words += [("devices", "--devices-dir", "."), ("compare", "conv2d", "--on", "my_gpu", "--devices-dir", ".")]
    words += [("validate", "--data", "out.csv"), ("validate", "--data", "t4"), ("capture", "t4.py:make")]
    words += [("compare", "hf:conv2d"), ("compare", "hf:~nosuchuser/x"), ("compare", "~nosuchuser/net.onnx")]
    found = answers(folder, words, HOME=str(home), **places)
    assert found["settings"].endswith("settings.toml: is no regular file")
    assert found["save"].endswith("sessions.json: is no regular file")
    assert found["keep"] == "True"
    codes = {" ".join(each): 0 for each in words[1:4]} | {" ".join(each): 2 for each in (words[0], *words[4:])}
    assert {each: found[each][0] for each in codes} == codes
    for code, said in (found[" ".join(each)] for each in words):
        assert said.count("\n") == (code != 0)
        assert "internal error" not in said


def test_a_cache_that_nobody_has_is_said(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", "~nosuchuser/c")
    assert refused("compare", "mlp:hidden=301") == "hwexplorer: HWEXPLORER_CACHE_DIR: no home for '~nosuchuser/c'\n"
