"""The one line of progress: seen on a terminal only, never wider than it, gone at the end."""

import io
import re
from pathlib import Path

import pytest

import hwexplorer
from hwexplorer.process.output import Progress
from tests.waiting import wait_until


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _break_off() -> None:
    with Progress() as progress:
        tick = progress.ticking("rows")
        assert tick is not None
        tick(1, 2)
        progress.show("evil\x1b]0;title\x07 and much longer")
        raise ValueError("broken off")


def test_a_line_is_written_over_cut_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("COLUMNS", "12")
    with pytest.raises(ValueError, match="broken off"):
        _break_off()
    nothing, counted, evil, end = terminal.getvalue().split("\r\x1b[K")
    assert (nothing, counted, end) == ("", "rows: 1 of 2"[:11], "")
    assert len(evil) == 11
    assert "\x1b" not in evil


def test_nothing_is_written_where_nothing_was_shown_or_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal, file = Terminal(), io.StringIO()
    monkeypatch.setattr("sys.stderr", terminal)
    with Progress():
        pass
    monkeypatch.setattr("sys.stderr", file)
    with Progress() as progress:
        progress.show("capturing")
        assert progress.ticking("rows") is None
    assert terminal.getvalue() == file.getvalue() == ""


def test_there_is_one_such_line_in_the_program() -> None:
    erases = re.compile(r"\\r\\x1b\[K|\\r\\033\[K")
    folder = Path(hwexplorer.__file__).parent
    assert [p.name for p in folder.rglob("*.py") if erases.search(p.read_text("utf-8"))] == ["output.py"]


def test_work_that_shows_nothing_says_how_long_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hwexplorer.process.output._BEAT_S", 0.01)
    for _ in range(2):  # as often as it is entered
        terminal = Terminal()
        monkeypatch.setattr("sys.stderr", terminal)
        with Progress():
            wait_until(lambda terminal=terminal: "working: " in terminal.getvalue())
        assert re.search(r"\r\x1b\[Kworking: \d+ s\r\x1b\[K$", terminal.getvalue())
