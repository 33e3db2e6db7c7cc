"""The program of this environment in a real terminal: it draws, answers keys, and leaves."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from time import monotonic, sleep

from tests.terminal import Program

ANSWERS = ((b"6", rb"6 Plot . roofline"), (b"}}", rb"batch 1 . fp16"), (b"?", rb"esc closes"))


def test_it_opens_answers_and_leaves(tmp_path: Path) -> None:
    program = Program(
        [sys.executable, "-P", "-m", "hwexplorer", "resnet18", "--on", "cpu,t4"],
        environment={"HOME": str(tmp_path), "HWEXPLORER_CACHE_DIR": str(tmp_path)},
        folder=tmp_path,
    )
    code = None
    try:
        program.until(re.compile(rb"resnet18.*Xeon", re.DOTALL))
        program.settle()
        for keys, answer in ANSWERS:
            program.type(keys)
            program.until(re.compile(answer.replace(b" . ", " · ".encode())))
        program.type(b"\x1b")
        program.settle()
        program.type(b"q")
        code = left(program)
        assert code == 0
    finally:
        if code is None:
            program.end()


def left(program: Program) -> int | None:
    """The exit code; None where it has not gone after ten seconds."""
    deadline = monotonic() + 10.0
    while monotonic() < deadline:
        program.read(0.05)  # nobody leaves a terminal that takes nothing
        pid, status = os.waitpid(program.pid, os.WNOHANG)
        if pid == program.pid:
            os.close(program.fd)
            return os.waitstatus_to_exitcode(status)
        sleep(0.02)
    return None
