"""The real program in a pseudo-terminal, beside memray, harlequin and posting: `python tests/bench_terminal.py`.

The peers are installed on demand, each in an environment of its own in the user's cache folder; one that cannot be
is left out, with a line that says so, and so is one that shows nothing. Everything is measured in the same run, the
programs in turn, so that a busy machine slows all of them. Prints each figure beside its target; asserts nothing.
`--alone` leaves the peers out.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import msgspec

from tests.peers import PEERS, install
from tests.terminal import SIZE, Program

ROUNDS = 7
MOVES = 40
NUMBERS = re.compile(rb"events add up to\D+[\d.]+")  # the proof that events add up: drawn with everything else
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


def subjects(folder: Path, alone: bool) -> list[Subject]:
    """The explorer and the peers that can be had here."""
    found = [explorer(STATES[0], folder)]
    for peer in () if alone else PEERS:
        if why := install(peer):
            print(f"{peer.name} left out, {why}")
        else:
            found.append(Subject(peer.name, peer.words, peer.shown, peer.key, peer.home))
    return found


class Start(msgspec.Struct, frozen=True):
    """Seconds to the first frame with content: on the clock, and of the processor."""

    wall: float
    processor: float


def first_frames(each: Sequence[Subject]) -> dict[str, list[Start]]:
    """The programs in turn; the round that warms the disk is not counted. Without those that show nothing."""
    starts: dict[str, list[Start]] = {}
    for subject in each:
        try:
            first_frame(subject)
        except SystemExit as error:
            print(f"{subject.name} left out, {str(error)[:300]}")
        else:
            starts[subject.name] = []
    for _ in range(ROUNDS):
        for subject in each:
            if subject.name in starts:
                starts[subject.name].append(first_frame(subject))
    return starts


def first_frame(subject: Subject) -> Start:
    program = subject.start()
    try:
        return Start(program.until(subject.shown), program.processor())
    finally:
        program.end()


def at_rest(subject: Subject) -> tuple[float, int, list[float], list[float]]:
    """MB resident and bytes written in two idle seconds; seconds from a cursor key to the first and the last byte."""
    program = subject.start()
    program.until(subject.shown)
    program.settle(1.5)
    memory, idle = program.memory(), program.idle(2.0)
    moves = [found for _ in range(MOVES) if (found := program.key(subject.key))]
    program.end()
    return memory, idle, [move.first for move in moves], [move.last for move in moves]


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


def beside(each: Sequence[Subject]) -> None:
    """The explorer's default state and the peers."""
    print(f"\nBeside others, {SIZE[0]}x{SIZE[1]}, {ROUNDS} starts in turn")
    starts = first_frames(each)
    ours = starts[each[0].name]
    for subject in each:
        if subject.name not in starts:
            continue
        name = f"hwexplorer {subject.name}" if subject is each[0] else subject.name
        memory, idle, first, last = at_rest(subject)
        print(f"{name}")
        started(starts[subject.name], "400" if subject is each[0] else "")
        told("cursor key to first repaint", first, "6" if subject is each[0] else "")
        told("cursor key to the end of its repaint", last)
        print(f"  memory at rest {memory:.0f} MB; {idle} bytes written in 2 idle seconds")
        if subject.name == "memray":
            theirs = starts[subject.name]
            wall = median(start.wall for start in ours) / median(start.wall for start in theirs)
            work = median(start.processor for start in ours) / median(start.processor for start in theirs)
            print(f"  the explorer's first frame takes {wall:.2f} of memray's, {work:.2f} of its processor   target 1")


def scrubbed(subject: Subject) -> None:
    """One state: to the first numbers, batch keys, cursor keys, memory before and after."""
    print(f"\nhwexplorer '{subject.name}'")
    started(first_frames([subject])[subject.name], "400")
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
    turns = [found for key in [b"7", *[b"l", b"l", b"l", b"h", b"h", b"h"] * 3] if (found := program.key(key))]
    told("a knob of the chip turned, everything new", [turn.last for turn in turns[1:]], "30")
    program.settle(0.5)
    idle = program.idle(2.0)
    print(f"  memory at rest {memory:.0f} MB (target 70), after all these keys {program.memory():.0f} MB")
    print(f"  {idle} bytes written in 2 idle seconds")
    program.end()


def main() -> None:
    words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        states = [word for word in words if word != "--alone"]
        if not states:
            beside(subjects(folder, "--alone" in words))
        for state in states or STATES:
            scrubbed(explorer(state, folder))


if __name__ == "__main__":
    main()
