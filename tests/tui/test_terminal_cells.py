"""What is written to a terminal: the cells that change, after which it shows the same as after the whole drawing."""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hwexplorer.tui.terminal_cells import TerminalCells
from tests.fuzz.strategies import examples

STYLES = ("38;2;9;8;7;48;2;1;2;3", "1;38;2;9;8;7;48;2;1;2;3", "4;31;40", "7", "95;48;5;17", "3;9")
PIECE = st.tuples(
    st.integers(1, 3), st.integers(1, 30), st.sampled_from(STYLES), st.text("ab ─", min_size=1, max_size=9)
)
FRAMES = st.lists(st.lists(PIECE, min_size=1, max_size=9), min_size=1, max_size=5)


def draw(pieces: list[tuple[int, int, str, str]]) -> str:
    return "".join(f"\x1b[{y};{x}H\x1b[{style}m{text}\x1b[0m\n" for y, x, style, text in pieces) + "\x1b[1;1H"


def paint(text: str, cells: dict[Any, Any]) -> tuple[int, int]:
    """Draw on cells as a terminal does. Return where the cursor is."""
    y, x, attributes, colours = 1, 1, set[str](), {"3": "39", "4": "49"}
    for place, codes, letters in re.findall(r"\x1b\[(\d+;\d+)H|\x1b\[([\d;]+)m|([^\x1b\n]+)", text):
        if place:
            y, x = map(int, place.split(";"))
        for code in re.findall(r"[34]8;(?:2;\d+;\d+;\d+|5;\d+)|\d+", codes):
            if code == "0":
                attributes, colours = set(), {"3": "39", "4": "49"}
            elif len(code) == 1:
                attributes.add(code)
            else:
                colours["4" if code[0] == "4" else "3"] = code
        for letter in letters:
            shows_space = attributes & {"4", "7", "9"}
            whole = letter, frozenset(attributes), colours["3"], colours["4"]
            cells[y, x] = whole if letter != " " or shows_space else (" ", colours["4"])
            x += 1
    return y, x


@examples(100)
@given(FRAMES)
def test_a_terminal_shows_the_same_as_after_the_whole_drawing(frames: list[Any]) -> None:
    known, whole, changed = TerminalCells(120), dict[Any, Any](), dict[Any, Any]()
    for frame in map(draw, frames):
        written = known.changes(frame)
        assert paint(frame, whole) == paint(written, changed)
        assert changed == whole


def test_only_what_changes_is_written() -> None:
    known, line = TerminalCells(120), "\x1b[{}m latency {} ms \x1b[0m"
    before, after = (f"\x1b[2;1H{line.format(STYLES[0], n)}\x1b[1;1H" for n in (41, 42))
    assert known.changes(before).count("latency") == 1
    assert known.changes(before) == "\x1b[1;1H"
    assert known.changes(after) == f"\x1b[2;11H\x1b[{STYLES[0]}m2\x1b[39;49m\x1b[1;1H"
    known.forget()
    assert "latency" in known.changes(after)
    known.columns = 9
    known.forget()
    assert "latency" in known.changes(after)
    assert "ms" not in known.changes(before)


def test_what_is_no_drawing_is_written_as_it_is() -> None:
    known = TerminalCells(120)
    for text in ("\x1b[?2026h", "\x1b]0;H\x07", "\x1b[1;1H漢字", "\x1b[?1049h\x1b[1;1H"):
        assert known.changes(text) == text
