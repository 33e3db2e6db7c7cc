"""A served explorer: whatever is typed, no file of the machine is opened, none written, nothing started or connected.

Python itself tells: an audit hook hears of every file, process and connection, also of those nobody thought of here.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hardware import policy
from hardware.errors import RequestError

DRIVE = r"""
import asyncio, contextlib, io, json, os, sys
folder = os.getcwd()
seen, told, listening = [], [], False
STARTS = ("subprocess.Popen", "os.fork", "os.posix_spawn", "os.exec", "os.system", "socket.connect", "socket.bind")
CHANGES = ("os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.chmod", "os.link", "os.symlink", "os.truncate")

def hear(event, words):
    if not listening:
        return
    if event in STARTS or event in CHANGES:
        seen.append([event, str(words)[:200]])
    elif event in ("open", "os.listdir", "os.scandir") and words and isinstance(words[0], (str, bytes)):
        path = os.path.abspath(os.fsdecode(words[0]))
        writes = event == "open" and isinstance(words[2], int) and words[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if path.startswith(folder) or (writes and path != os.devnull):
            seen.append([event, path])

sys.addaudithook(hear)
from hwexplorer import registry
from hwexplorer.cli import main
from hwexplorer.tui.session import jobs
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.commands.command_table import COMMANDS
from hwexplorer.tui.commands.command_line import submit
from hwexplorer.tui.session.saved_sessions import SavedSessions, sessions_file
from hwexplorer.provider import EngineProvider
from hwexplorer.state import State

MODELS = ("evil.py:make", "evil:make", "net.onnx", "net.pt2", "kept.msgpack.gz", "hf:.", "evil.py:make(1x16)")
WORDS = [[name] for name in MODELS] + [["resnet18@i97"]]
WORDS += [["resnet18", "-o", "out.txt"], ["resnet18", "--devices-dir", "."]]
WORDS += [["evil.py:make", "--input", "1x16", "--run-code"]]
WORDS += [["data.csv", "--model", "resnet18", "--on", "t4"]]
WORDS += [["--data", "data.csv"], ["--all", "-o", "out.csv"], ["-o", "out.txt"], ["--devices-dir", "."]]
SCREEN = (["evil.py:make", "1x16"], ["resnet18?pin=net.onnx/gpu"])
EXTRA = {"explain": ["gpu", "tpu"], "check": ["--rule", "energy(gpu) < 1J"], "search": ["--max-energy", "1J"]}

def call(words):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as error:
            code = error.code
    told.append([words, code, err.getvalue()])
    return code

class Beside(jobs.VerbJob):  # a verb typed on the screen, in this process, where it is heard
    def start(self):
        self._code = call(self.words)
        self._thread.start()

    def _run(self):
        pass

async def typed():
    saved = SavedSessions(sessions_file())
    app = HwExplorer(State(model="resnet18"), EngineProvider(), saved_sessions=saved)
    async with app.run_test(size=(120, 40)) as pilot:
        for name in (*COMMANDS, *registry.names()):
            if name == "quit":
                continue
            for words in (*WORDS, ["out.svg"], ["all/"], ["../x.txt"], *SCREEN):
                submit(app.session, " ".join([name, *(f"'{word}'" for word in words)]))
            app.explorer.prompt = None
            while app.explorer.overlay_screen is not None:
                app.explorer.overlay_screen.close()
                await pilot.pause()
            await pilot.pause()
        for key in ("e", "E", "y", "L", "c"):
            await pilot.press(key, "enter")
        return app.session.failures

call(["compare", "resnet18"])  # what is imported and read by now is ours
jobs.VerbJob = Beside
told.clear()
listening = True
for verb in registry.names():
    for words in WORDS:
        call([verb, *words, *EXTRA.get(verb, [])])
failures = asyncio.run(typed())
listening = False
print(json.dumps({"seen": seen, "told": told, "failures": failures}))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What somebody could want to see, run or write over."""
    place = tmp_path / "place"
    place.mkdir()
    (place / "evil.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    for name in ("net.onnx", "net.pt2", "kept.msgpack.gz", "config.json", "data.csv", "device.toml"):
        (place / name).write_text("secret")
    return place


def test_whatever_is_typed(folder: Path, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        policy.VARIABLE: policy.encode(()),
        "HOME": str(folder),
        "HWEXPLORER_CACHE_DIR": str(tmp_path / "cache"),
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    done = subprocess.run(
        [sys.executable, "-P", "-c", DRIVE], cwd=folder, env=environment, capture_output=True, text=True, timeout=500
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["seen"] == []
    assert found["failures"] == []
    assert [words for words, code, _ in found["told"] if code != 2 and "pin=" not in words[1]] == []
    assert sum("is not allowed" in err for *_, err in found["told"]) > 200
    assert not (tmp_path / "ran").exists()
    assert len(list(folder.iterdir())) == 7


def test_only_what_was_named_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    policy.require_unserved("reading other.onnx", "other.onnx")
    monkeypatch.setenv(policy.VARIABLE, policy.encode(("mine.onnx", "devices")))
    policy.require_unserved("reading mine.onnx", "mine.onnx")
    for path in ("other.onnx", ""):
        with pytest.raises(RequestError, match="reading this is not allowed in an explorer that is served"):
            policy.require_unserved("reading this", path)


def test_a_variable_without_names_allows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(policy.VARIABLE, "")
    with pytest.raises(RequestError):
        policy.require_unserved("reading this", "")
