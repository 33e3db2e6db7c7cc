"""The program of this environment in a real terminal and in a browser: it draws, answers keys, and leaves."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

from tests.terminal import Program
from tests.waiting import LIMIT_S

ANSWERS = ((b"v", rb"Why . roofline"), (b"{", rb"vs bf16"), (b"?", rb"esc closes"))


def test_it_opens_answers_and_leaves(tmp_path: Path) -> None:
    program = Program(
        [sys.executable, "-P", "-m", "hwexplorer", "resnet18", "--on", "cpu,t4"],
        environment={"HOME": str(tmp_path), "HWEXPLORER_CACHE_DIR": str(tmp_path)},
        folder=tmp_path,
    )
    try:
        program.until(re.compile(rb"resnet18.*Xeon", re.DOTALL))
        program.settle()
        for keys, answer in ANSWERS:
            program.type(keys)
            program.until(re.compile(answer.replace(b" . ", " · ".encode())))
        program.type(b"\x1b")
        program.settle()
        program.type(b"q")
        assert program.ended() == 0
    finally:
        program.end()


@pytest.mark.parametrize(("last", "code"), [(b'{"type": "quit"}', 0), (b"", 128 + signal.SIGTERM)])
def test_it_opens_in_a_browser_sends_exports_there_and_ends_with_it(tmp_path: Path, last: bytes, code: int) -> None:
    """`textual serve` starts the program with this driver and exchanges packets with it: a kind, a length, the data.
    The last one closes the page; without it the server is gone, and the input with it."""
    driver = {"TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver", "COLUMNS": "120", "ROWS": "40"}
    folders = {"HOME": str(tmp_path / "home"), "HWEXPLORER_CACHE_DIR": str(tmp_path / "home")}
    (tmp_path / "here").mkdir()
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "hwexplorer", "resnet18"],
        env={**os.environ, **driver, **folders},
        cwd=tmp_path / "here",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        limit = Timer(LIMIT_S, program.kill)
        limit.start()
        try:
            seen = b""
            for wanted, kind, answer in (
                (b"resnet18", b"D", b":export tree.json\r"),
                (b"deliver_file_start", b"M", last),
            ):
                while wanted not in seen and (read := os.read(program.stdout.fileno(), 1 << 16)):
                    seen += read
                assert wanted in seen
                if answer:
                    program.stdin.write(kind + len(answer).to_bytes(4, "big") + answer)
                program.stdin.flush()
            program.communicate()
            assert program.returncode == code
        finally:
            program.kill()
            limit.cancel()
    assert list((tmp_path / "here").iterdir()) == []
