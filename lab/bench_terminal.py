"""Times of the real program in a pseudo-terminal: `python -m lab.bench_terminal [STATE ..]`.

Prints each figure beside its target; asserts nothing.
"""

import re
import sys
import tempfile
from pathlib import Path
from statistics import median

import msgspec

from tests.terminal import Program

ROUNDS = 7
MOVES = 40
NUMBERS = re.compile(rb"static power\D+[\d.]+")  # a row of the events: drawn with everything else
SIX = "xeon_8490h,h100_sxm,tpu_v4,kpu_t256,jetson_agx_orin,a100_sxm4_80gb"
LARGEST = f"efficientnet_b7@b8,fp16/{SIX}"  # the most operators of all torchvision models
STATES = ("resnet50", "vit_b_16@b64,fp16/h100_sxm,tpu_v4", LARGEST, "efficientnet_b7@b8,int8,fused?pin=tpu_v4")
SCRUB = [b"]", b"]", b"]", b"[", b"[", b"["] * 6


class Subject(msgspec.Struct, frozen=True):
    """A program to be measured."""

    name: str
    words: list[str]
    shown: re.Pattern[bytes]
    key: bytes
    folder: Path

    def start(self) -> Program:
        home = str(self.folder)
        kept = {"HOME": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home, "XDG_CACHE_HOME": home}
        kept["PYTHONDONTWRITEBYTECODE"] = ""  # compiled once, as what is installed is
        return Program(self.words, environment=kept, folder=self.folder)


def explorer(state: str, folder: Path) -> Subject:
    return Subject(state, [sys.executable, "-m", "hwexplorer", state], NUMBERS, b"j", folder)


class Start(msgspec.Struct, frozen=True):
    """Seconds to the first frame with content: on the clock, and of the processor."""

    wall: float
    processor: float


def first_frames(subject: Subject) -> list[Start]:
    """Return the starts of a program, without the first, which warms the disk."""
    return [first_frame(subject) for _ in range(ROUNDS + 1)][1:]


def first_frame(subject: Subject) -> Start:
    program = subject.start()
    try:
        return Start(program.until(subject.shown), program.processor())
    finally:
        program.end()


def told(what: str, seconds: list[float], target: str = "") -> None:
    if not seconds:
        print(f"  {what:<42} nothing was repainted")
        return
    best, middle, worst = (1e3 * value for value in (min(seconds), median(seconds), max(seconds)))
    figures = f"median {middle:6.1f} ms   best {best:6.1f}   worst {worst:6.1f}"
    print(f"  {what:<42} {figures}{f'   target {target}' if target else ''}")


def started(starts: list[Start], target: str) -> None:
    told("start to first frame with content", [start.wall for start in starts], target)
    told("the processor's part of it", [start.processor for start in starts])


def scrubbed(subject: Subject) -> None:
    """One state: to the first numbers, batch keys, cursor keys, memory before and after."""
    print(f"\nhwexplorer '{subject.name}'")
    started(first_frames(subject), "400")
    program = subject.start()
    program.until(subject.shown)
    program.settle(1.5)
    memory = program.memory()
    batches = [found for key in SCRUB if (found := program.key(key))]
    again = [found for key in SCRUB if (found := program.key(key))]
    told("batch key to the last new number, new", [b.last for b in batches], "30 (worst 100)")
    told("batch key to the last new number, seen", [b.last for b in again])
    moves = [found for _ in range(MOVES) if (found := program.key(b"j"))]
    told("cursor key to first repaint", [move.first for move in moves], "6")
    told("cursor key to the end of its repaint", [move.last for move in moves])
    switches = [found for key in [b"2", *[b"j", b"k"] * 6] if (found := program.key(key))]
    told("next device, everything new", [switch.last for switch in switches[1:]])
    turns = [found for key in [b"6", *[b"l", b"l", b"l", b"h", b"h", b"h"] * 3] if (found := program.key(key))]
    told("a knob of the chip turned, everything new", [turn.last for turn in turns[1:]], "30")
    program.settle(0.5)
    idle = program.idle(2.0)
    print(f"  memory at rest {memory:.0f} MB (target 70), after all these keys {program.memory():.0f} MB")
    print(f"  {idle} bytes written in 2 idle seconds")
    program.end()


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        for state in sys.argv[1:] or STATES:
            scrubbed(explorer(state, Path(name)))


if __name__ == "__main__":
    main()
