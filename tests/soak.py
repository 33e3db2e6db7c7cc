"""`python -m tests.soak [MINUTES] [SEED]`: the real program in a terminal under random keys, clicks, pastes and sizes.

The minutes are shared by five starts (a model, a wide and a narrow state, a request, a design). Prints the memory each
minute, the slowest of the events that were timed, and whether `q`, typed behind 2,000 keys, left within 3 s with the
terminal as it was. A random click on `quit`, or on its row of the palette, is counted and does nothing. Run by hand.
"""

from __future__ import annotations

import fcntl
import os
import re
import struct
import sys
import tempfile
import termios
from contextlib import suppress
from pathlib import Path
from random import Random
from time import monotonic

from tests.terminal import ESCAPE, Program

STARTS = (
    "resnet50",
    "vit_b_16@b8,fp16/h100_sxm,tpu_v4,kpu_t256",
    "llama3_8b:request,in=256,out=32/l4,h100_sxm",
    "mobilenet_v2@int8/coral_edge_tpu,jetson_orin_nano",
    "resnet18/h100_sxm{memory_bandwidth*2},h100_sxm",
)
MODELS = ("resnet50", "vit_b_16", "mobilenet_v2", "resnet18@b64,fp16/h100_sxm,tpu_v4", "efficientnet_b7", "mlp")
KEYS = (
    *map(str.encode, "123456jkhlgG[]{}xmsSnNpDPvAuUzZTfF.,wWbBcCyYtrR/?:0 \r\t\x1b\x7f"),
    *(b"\x1b[A", b"\x1b[B", b"\x1b[C", b"\x1b[D", b"\x1b[5~", b"\x1b[6~", b"\x1b[Z", b"\x1b[H", b"\x1b[F"),
)
COMMANDS = (
    *("batch 32", "precision int8", "model {model}", "on tpu_v4", "at layer3", "devices cpu,gpu", "find share>5"),
    *("plot pareto", "theme paper", "fold 3", "sessions", "save a", "state {model}", "energy", "nonsense"),
)
# Until the file `leave` is there, what leaves adds a line to the file `quits`: by what, as the stack has it.
LAUNCH = """
import sys, traceback
from pathlib import Path
from hwexplorer.tui.app import HwExplorer

leave = HwExplorer.do_leave

def asked(app):
    if Path("leave").exists():
        leave(app)
    else:
        with open("quits", "a") as file:
            print(*(frame.name for frame in traceback.extract_stack()[-7:-1]), file=file)

HwExplorer.do_leave = asked
from hwexplorer.__main__ import main
sys.exit(main())
"""
AHEAD = b"jk]}x[lhmS" * 200  # typed before the last `q`
LEAVES_WITHIN_S = 3.0
SIZES = ((120, 40), (80, 24), (200, 60), (59, 15), (20, 5), (300, 90))


def main(minutes: float, seed: int) -> int:
    random = Random(seed)
    return max(soak(start, minutes / len(STARTS), random) for start in STARTS)


def soak(state: str, minutes: float, random: Random) -> int:
    """0 if the program outlives random events for these minutes and leaves as it should."""
    with tempfile.TemporaryDirectory(prefix="hwexplorer-soak-") as folder:
        home = {"HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_DATA_HOME": folder, "XDG_CACHE_HOME": folder}
        words = [sys.executable, "-c", LAUNCH, state]
        program = Program(
            words, environment={**home, "HWEXPLORER_CACHE_DIR": folder, "HWEXPLORER_DEBUG": "1"}, folder=Path(folder)
        )
        before = termios.tcgetattr(program.fd)
        program.until(re.compile(state[:6].encode()))
        program.settle()
        start, told, events, slowest_s = monotonic(), 0, 0, (0.0, b"")
        print(f"{state}: {program.memory():.0f} MB", flush=True)
        while (passed := monotonic() - start) < minutes * 60:
            for _ in range(50):
                program.type(_event(random, program))
                program.read(0.02)
                events += 1
            program.settle(quiet=0.2, patience=10.0)
            timed = random.choice(KEYS)
            if repaint := program.key(timed):
                slowest_s = max(slowest_s, (repaint.first, timed))
            if (ended := os.waitpid(program.pid, os.WNOHANG))[0]:
                print(f"ENDED after {events} events with status {os.waitstatus_to_exitcode(ended[1])}")
                print(ESCAPE.sub(b"", bytes(program.written))[-3000:].decode(errors="replace"))
                return 1
            if passed // 60 >= told:
                told = int(passed // 60) + 1
                print(f"{passed / 60:.0f} min: {program.memory():.0f} MB after {events:,} events", flush=True)
        print(f"slowest of the timed keys: {slowest_s[0]:.2f} s for {slowest_s[1]!r}")
        quits = Path(folder, "quits")
        if quits.exists():
            print(f"asked to quit {len(quits.read_text().splitlines())} times: {quits.read_text().strip()}")
        Path(folder, "leave").touch()
        return _leave(program, before, events)


def _event(random: Random, program: Program) -> bytes:
    """The bytes of a key, a command, a mouse event, a paste or rubbish; a new size has none."""
    kind = random.random()
    if kind < 0.70:
        return random.choice(KEYS)
    if kind < 0.80:
        command = random.choice(COMMANDS).format(model=random.choice(MODELS))
        return b"\x1b\x1b:" + command.encode() + b"\r"
    if kind < 0.90:
        button, column, row = random.choice((0, 0, 0, 2, 35, 64, 65)), random.randint(1, 120), random.randint(1, 40)
        pressed = f"\x1b[<{button};{column};{row}M"
        return (pressed + f"\x1b[<{button};{column};{row}m" if button < 3 else pressed).encode()
    if kind < 0.94:
        return b"\x1b[200~" + random.randbytes(20).replace(b"\x1b", b"") + b"\x1b[201~"
    if kind < 0.97:
        rubbish = random.randbytes(8)
        return bytes(byte for byte in rubbish if byte not in b"\x03\x11\x1a\x1cqQ\x10")  # it may not leave, nor stop
    width, height = random.choice(SIZES)
    fcntl.ioctl(program.fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    return b""


def _leave(program: Program, before: list[object], events: int) -> int:
    """What `q` at the end leaves behind, with keys on their way before it."""
    for _ in range(3):  # one at a time: escape and a key in one read are alt and that key
        program.type(b"\x1b")
        program.settle()
    memory = program.memory()
    os.set_blocking(program.fd, False)
    left = AHEAD + b"q"
    asked = monotonic()
    while left:
        with suppress(BlockingIOError):
            left = left[os.write(program.fd, left) :]
        program.read(0.0)
    pid, status, until = 0, 0, asked + 30.0
    while not pid and monotonic() < until:
        program.read(0.05)
        pid, status = os.waitpid(program.pid, os.WNOHANG)
    if not pid:
        print(ESCAPE.sub(b"", bytes(program.written))[-8000:].decode(errors="replace"))
        program.end()
    is_same = termios.tcgetattr(program.fd) == before if pid else False
    seconds = monotonic() - asked
    left = f"left with {os.waitstatus_to_exitcode(status)} in {seconds:.1f} s" if pid else "did NOT leave"
    print(f"end: {memory:.0f} MB after {events:,} events, {left}, terminal {'as before' if is_same else 'CHANGED'}")
    return 0 if pid and status == 0 and is_same and seconds < LEAVES_WITHIN_S else 1


if __name__ == "__main__":
    given = sys.argv[1:] + ["20", "0"][len(sys.argv) - 1 :]
    sys.exit(main(float(given[0]), int(given[1])))
