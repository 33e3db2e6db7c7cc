"""How long the real program takes in a real pseudo-terminal: `python tests/bench_tui.py [STATE..]`.

Prints, for each state: from starting the process to a frame with numbers (median and worst of some runs), from a
batch key to the last byte of the new numbers, from a cursor key to the last byte of the repaint, the memory at
rest, and what an idle screen writes. Run by hand; nothing is asserted.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
from statistics import median
from time import monotonic

SIZE = (120, 40)
RUNS = 7
KEYS = 30
QUIET = 0.06  # no byte for so long: the repaint is over
ESCAPE = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])")
NUMBERS = re.compile(rb"sum of \d+ events = [\d.]+")  # the proof that events add up: drawn with everything else
STATES = ("resnet50", "vit_b_16@b64,fp16/h100_sxm,tpu_v4?at=&sort=share", "efficientnet_b7@b8,int8,fused?pin=tpu_v4")


class Program:
    """hwexplorer in a pseudo-terminal of our size."""

    def __init__(self, state: str) -> None:
        self.started = monotonic()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ |= {"TERM": "xterm-256color", "COLORTERM": "truecolor"}
            os.environ.pop("NO_COLOR", None)
            os.execv(sys.executable, [sys.executable, "-m", "hwexplorer", state])
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", SIZE[1], SIZE[0], 0, 0))

    def read(self, timeout: float) -> bytes:
        if not select.select([self.fd], [], [], timeout)[0]:
            return b""
        try:
            return os.read(self.fd, 1 << 16)
        except OSError:
            return b""

    def first_frame(self) -> float:
        """Seconds from the start of the process until numbers are on screen."""
        seen = b""
        while monotonic() - self.started < 20:
            seen += self.read(0.5)
            if NUMBERS.search(ESCAPE.sub(b"", seen)):
                return monotonic() - self.started
        raise SystemExit(f"no numbers within 20 s: {ESCAPE.sub(b'', seen)[-2000:].decode(errors='replace')}")

    def settle(self, timeout: float = 2.0) -> None:
        while self.read(timeout):
            timeout = 0.3

    def key(self, key: bytes) -> float:
        """Seconds from a key to the last byte of what it changed."""
        os.write(self.fd, key)
        start = last = monotonic()
        while monotonic() - last < QUIET or last == start:
            if self.read(QUIET):
                last = monotonic()
            elif monotonic() - start > 2:
                break
        return last - start

    def memory(self) -> float:
        with open(f"/proc/{self.pid}/status") as status:
            return next(int(line.split()[1]) / 1e3 for line in status if line.startswith("VmRSS"))

    def end(self) -> None:
        os.kill(self.pid, signal.SIGTERM)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def first_frames(state: str) -> list[float]:
    times = []
    for _ in range(RUNS):
        program = Program(state)
        times.append(program.first_frame())
        program.end()
    return times


def told(what: str, times: list[float]) -> None:
    print(f"  {what:<34} median {median(times) * 1e3:6.1f} ms   worst {max(times) * 1e3:6.1f} ms")


def main() -> None:
    for state in sys.argv[1:] or STATES:
        print(f"{state}  ({SIZE[0]}x{SIZE[1]})")
        told("start to first frame with numbers", first_frames(state))
        program = Program(state)
        program.first_frame()
        program.settle()
        batch = [program.key(key) for _ in range(KEYS // 12 + 1) for key in [b"]"] * 6 + [b"["] * 6]
        told("batch key to the last new number", batch)
        told("cursor key to the end of its repaint", [program.key(b"j") for _ in range(KEYS)])
        told("next device, everything new", [program.key(k) for k in [b"2", *[b"j", b"k"] * 6]][1:])
        program.settle(0.3)
        idle = len(program.read(2.0))
        print(f"  memory at rest {program.memory():.0f} MB, bytes written in 2 idle seconds: {idle}\n")
        program.end()


if __name__ == "__main__":
    main()
