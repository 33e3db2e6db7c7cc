"""Signals in every state of the screen, and terminals that disappear, stall or send nonsense: the program ends as it
should, the terminal is as it was, the session is kept and nothing is left running.
"""

import json
import os
import signal
import subprocess
import sys
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hwexplorer.process import signals
from tests.terminal import ESCAPE, MODES, Program, hear, modes, processes
from tests.waiting import LIMIT_S, wait_until

ROOT = Path(__file__).parents[2]
SLOW = "import time\nopen({!r}, 'w').close()\ntime.sleep(600)\n"
# What is typed to get there, and what is on screen then.
STATES: dict[str, tuple[bytes, bytes]] = {
    "main screen": (b"", b"layer1"),
    "prompt": (b":batch", b"enter runs"),
    "capture": (b":model slow.py:make 1x8\r", b"slow"),
    "sweep": (
        b":sweep --power-modes --batches \x1b[200~" + b",".join(b"%d" % n for n in range(1, 999)) + b"\x1b[201~\r",
        b"sweep \xc2\xb7",
    ),
}


class Screen:
    """An explorer in a terminal, with a home of its own, and all that it starts marked."""

    def __init__(self, folder: Path, words: tuple[str, ...] = ("-m", "hwexplorer", "open", "resnet18")) -> None:
        folder.mkdir()
        (folder / "slow.py").write_text(SLOW.format(str(folder / "capturing")))
        self.folder, self.mark = folder, uuid.uuid4().hex
        home = {f"XDG_{kind}_HOME": str(folder / "home") for kind in ("STATE", "CONFIG", "CACHE")}
        paths = {"PYTHONPATH": str(ROOT), "HWEXPLORER_CACHE_DIR": str(folder / "cache"), "MARK": self.mark}
        self.program = Program([sys.executable, *words], environment=home | paths, folder=folder)
        self.before = self.program.settings()

    def get_to(self, state: str) -> None:
        keys, shown = STATES[state]
        self.until(lambda: b"layer" in self.shown())
        self.program.settle(0.2)
        if keys:
            self.program.type(keys)
            self.until(lambda: shown in self.shown())
        if state == "capture":
            self.until((self.folder / "capturing").exists)
        if state == "sweep":
            self.until(lambda: len(processes(self.mark)) == 2)

    def shown(self) -> bytes:
        """All that was ever on the screen."""
        return ESCAPE.sub(b"", bytes(self.program.written))

    def until(self, reached: Callable[[], bool], seconds: float = LIMIT_S) -> None:
        end = time.monotonic() + seconds
        while not reached():
            assert time.monotonic() < end, self.shown()[-500:]
            self.program.read(0.05)

    def last_session(self) -> str:
        return str(json.loads((self.folder / "home" / "hwexplorer" / "sessions.json").read_text())["last"]["state"])

    def left(self) -> list[str]:
        """What still runs long after the end."""
        end = time.monotonic() + LIMIT_S
        while (running := processes(self.mark)) and time.monotonic() < end:
            time.sleep(0.05)
        return running


@pytest.fixture
def screens(tmp_path: Path) -> Iterator[Callable[..., Screen]]:
    opened: list[Screen] = []

    def open_one(*words: str) -> Screen:
        opened.append(Screen(tmp_path / f"screen{len(opened)}", *([words] if words else [])))
        return opened[-1]

    yield open_one
    for screen in opened:
        screen.program.end()
        assert screen.left() == []


# What hears a signal knows no state, what ends a state no signal: each is tried once.
LEAVES = [
    ("main screen", signal.SIGTERM),
    ("prompt", signal.SIGHUP),
    ("sweep", signal.SIGQUIT),
    ("capture", signal.SIGINT),
]


@pytest.mark.parametrize(("state", "number"), LEAVES)
def test_a_signal_leaves_through_the_program(state: str, number: int, screens: Callable[..., Screen]) -> None:
    screen = screens()
    screen.get_to(state)
    assert modes(bytes(screen.program.written)) > {"?1049", "?1003"}
    os.kill(screen.program.pid, number)
    assert screen.program.ended() == 128 + number
    assert screen.program.settings() == screen.before
    assert modes(bytes(screen.program.written)) == MODES
    assert screen.left() == []
    assert screen.last_session().startswith("resnet18")


def test_several_signals_at_once_are_one(screens: Callable[..., Screen]) -> None:
    """A shell and the kernel both say that a terminal is gone; a person presses ctrl+c once more."""
    screen = screens()
    screen.get_to("prompt")
    os.kill(screen.program.pid, signal.SIGHUP)  # taken by a thread before the next is sent
    wait_until(lambda: "ShdPnd:\t0000000000000000" in Path(f"/proc/{screen.program.pid}/status").read_text())
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        os.kill(screen.program.pid, number)
        time.sleep(0.005)
    assert screen.program.ended() == 128 + signal.SIGHUP
    assert screen.program.settings() == screen.before
    assert modes(bytes(screen.program.written)) == MODES


@pytest.mark.parametrize(("state", "nohup"), [("main screen", True), ("capture", False)])
def test_a_terminal_that_disappears_ends_it(state: str, nohup: bool, screens: Callable[..., Screen]) -> None:
    ignoring = "import signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
    starting = "from hwexplorer.cli import main; sys.exit(main(['open', 'resnet18']))"
    screen = screens("-c", ignoring + starting) if nohup else screens()
    screen.get_to(state)
    screen.program.hang_up()
    assert screen.program.ended() == 128 + signal.SIGHUP
    assert screen.left() == []
    assert screen.last_session().startswith("resnet18")


def test_a_terminal_that_takes_nothing_holds_up_nothing(screens: Callable[..., Screen]) -> None:
    """Nobody reads what is drawn: the writing waits, the signal does not."""
    screen = screens()
    screen.get_to("main screen")
    for _ in range(300):
        screen.program.type(b"z")  # the zoom: a whole screen
        time.sleep(0.005)
    os.kill(screen.program.pid, signal.SIGTERM)
    wait_until(lambda: not screen.left())
    assert screen.program.ended() == 128 + signal.SIGTERM
    assert screen.program.settings() == screen.before


def test_bytes_that_are_no_text_are_replaced(screens: Callable[..., Screen]) -> None:
    screen = screens()
    screen.get_to("prompt")
    screen.program.type(b"\xff\xc3 \xe2\x82 \xf0\x9f")
    screen.program.type(b"4\x1b[200~\xfe\x1b[201~\x1b[99999999;1u\x1b[48;0;0;0;0t\x1b[48;30000;30000;1;1t\xed\xa0\x80")
    screen.program.settle()
    screen.program.type(b"\x1b")
    screen.program.settle()
    screen.program.type(b"q")
    assert screen.program.ended() == 0
    assert b"Traceback" not in screen.program.written
    assert screen.program.settings() == screen.before


def test_a_crash_is_one_line_and_never_0(screens: Callable[..., Screen]) -> None:
    code = (
        "import sys\nfrom hwexplorer.cli import main\nfrom hwexplorer.tui.screen import ExplorerScreen\n"
        "ExplorerScreen.press_key = lambda *_: 1 / 0\nsys.exit(main(['open', 'resnet18']))"
    )
    screen = screens("-c", code)
    screen.get_to("main screen")
    screen.program.type(b"j")
    assert screen.program.ended() == 1
    after = bytes(screen.program.written).partition(b"\x1b[?1049l")[2]
    says = b"hwexplorer: internal error: ZeroDivisionError: division by zero (HWEXPLORER_DEBUG=1 shows where)"
    assert ESCAPE.sub(b"", after).split(b"\r\n") == [says, b""]
    assert screen.program.settings() == screen.before
    assert modes(bytes(screen.program.written)) == MODES
    assert screen.last_session().startswith("resnet18")


# --- verbs ------------------------------------------------------------------------------------------------

VERBS: dict[str, tuple[str, ...]] = {
    "sweep": ("sweep", "--all", "--workers", "2", "-o", "out/rows.csv"),
    "capture": ("capture", "slow.py:make", "--input", "1x8", "-o", "out/net.msgpack.gz"),
}


def test_a_signal_in_a_callback_is_raised_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python raises no exception out of a callback of a weak reference."""
    monkeypatch.setattr(signals, "_end_here", lambda *_: None)  # the tests go on
    with signals.handle_signals():
        weakref.finalize(set(), signal.raise_signal, signal.SIGTERM)
        with pytest.raises(signals.EndedBySignal):
            wait_until(lambda: False)
        monkeypatch.setattr(signals, "_number", 0)  # else all signals stay ignored


@pytest.mark.parametrize(("verb", "number"), [("sweep", signal.SIGTERM), ("capture", signal.SIGINT)])
def test_a_signal_ends_a_verb(verb: str, number: int, tmp_path: Path) -> None:
    mark = uuid.uuid4().hex
    (tmp_path / "slow.py").write_text(SLOW.format(str(tmp_path / "capturing")))
    (tmp_path / "out").mkdir()
    environment = {"PYTHONPATH": str(ROOT), "HWEXPLORER_CACHE_DIR": str(tmp_path / "cache"), "MARK": mark}
    process = subprocess.Popen(
        [sys.executable, "-m", "hwexplorer", *VERBS[verb]],
        cwd=tmp_path,
        preexec_fn=hear,
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    started: dict[str, Callable[[], bool]] = {
        "sweep": lambda: len(list((tmp_path / "out").iterdir())) > 0 and len(processes(mark)) >= 3,
        "capture": (tmp_path / "capturing").exists,
    }
    wait_until(lambda: process.poll() is not None or started[verb]())
    assert process.poll() is None, process.communicate()
    process.send_signal(number)
    out, err = process.communicate(timeout=LIMIT_S)
    said = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
    assert (process.returncode, out, err) == (128 + number, "", f"hwexplorer: {said}\n")
    wait_until(lambda: processes(mark) == [])
    left = ["rows.csv.part"] if verb == "sweep" else []  # from which the same sweep goes on
    assert [path.name for path in (tmp_path / "out").iterdir()] == left
