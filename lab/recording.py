"""Recordings of the real program (asciinema v2): `python -m lab.recording screenshots/tour.cast`, or wavefront.cast.

Keys are typed in a pseudo-terminal and what comes back is kept. The times are the script's, not the clock's, so that
a recording differs from the last only where the screen does. Played with `asciinema play screenshots/tour.cast`.
"""

import codecs
import json
import re
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.terminal import Program

TYPED = 0.08  # seconds between two keys of a word
MOST_BYTES = 600_000
RESET = re.compile(rb"\x1b\[0m\x1b\[(?=[\d;]+m)")  # two sequences that can be one
QUESTIONS = re.compile(rb"\x1b\[\?\d+\$p|\x1b\[>\d*[uq]")  # a player's terminal shall not answer for ours


class Step(msgspec.Struct, frozen=True):
    """Keys, and the seconds to look at what they did."""

    keys: str
    seconds: float = 1.2
    word: bool = False  # typed key by key, faster


TOUR = (
    Step("1", 0.6),
    Step("mobilenet_v3_l", 0.6, word=True),
    Step("\r", 1.6),
    Step("2a", 0.8),
    Step("jetson_agx_orin", 0.8, word=True),
    Step("\r", 1.4),
    Step("3.", 2.0),
    Step("p", 1.0),
    *(Step("]", 0.5) for _ in range(2)),
    Step("}}", 2.5),
    Step("w", 2.0),
    *(Step("v", 1.8) for _ in range(2)),
    Step("3", 1.0),
    Step("?", 2.0),
    Step("\x1b", 0.6),
    Step(":export tour.html", 0.8, word=True),
    Step("\r", 2.0),
    Step("q", 0.2),
)


# A product in each machine's own time, frame by frame, then all machines on one clock.
WAVEFRONT = (
    Step("W ", 1.0),
    Step("0c", 0.3),
    *(Step("lll", 0.1) for _ in range(33)),
    Step("0c", 0.6),
    *(Step("llll", 0.1) for _ in range(24)),
    Step("G", 1.5),
)
FILMS = {
    "tour": ("resnet50@b8,fp16", (100, 30), TOUR, {}),
    "wavefront": (
        "vit_b_16@b8,int8/xeon_8490h,h100_sxm,tpu_v4,kpu_t256?at=encoder.layers.encoder_layer_0.mlp.0",
        (100, 34),
        WAVEFRONT,
        {"COLORTERM": ""},  # 256 colours take half the bytes
    ),
}


def record(state: str, size: tuple[int, int], steps: Sequence[Step], settings: dict[str, str]) -> str:
    """The recording as text: a header, then a line for each thing that was written."""
    header = {"version": 2, "width": size[0], "height": size[1], "title": f"hwexplorer {state}"}
    lines = [json.dumps(header)]
    decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def told(seconds: float, written: bytes) -> None:
        if text := decoder.decode(RESET.sub(b"\x1b[0;", QUESTIONS.sub(b"", written))):
            lines.append(json.dumps([round(seconds, 3), "o", text], ensure_ascii=False))

    with tempfile.TemporaryDirectory() as folder:
        home = {"HOME": folder, "XDG_CONFIG_HOME": folder, "XDG_DATA_HOME": folder, **settings}
        program = Program([sys.executable, "-m", "hwexplorer", state], size, home, Path(folder))
        now = 0.3
        told(now, program.gather(1.5))
        now += 2.0
        for step in steps:
            for key in step.keys if step.word else [step.keys]:
                now += TYPED
                program.type(key.encode())
                told(now, program.gather(0.4))
            now += step.seconds
        program.end()
    return "\n".join(lines) + "\n"


def main(path: Path) -> None:
    text = record(*FILMS[path.stem])
    if len(text.encode()) > MOST_BYTES:
        raise SystemExit(f"{path}: {len(text.encode())} bytes, more than {MOST_BYTES}: shorten the film")
    path.write_text(text, encoding="utf-8")
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "screenshots/tour.cast"))
