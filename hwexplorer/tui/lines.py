"""The lines around the panes: what is estimated (head), where one is (tabs), what the keys do (foot)."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style

from analysis.model.names.model_ref import phases
from hwexplorer.format import safe
from hwexplorer.settings import labels
from hwexplorer.state import PANES, State, pinned
from hwexplorer.tui.cell_text import shorten, whole, width_of
from hwexplorer.tui.keymap import PAIRS
from hwexplorer.tui.palette import CAUSE, CURSOR, PLAIN, Palette
from hwexplorer.tui.prompt import Line
from hwexplorer.tui.standing import standing
from hwexplorer.tui.widgets.cells import bar
from hwexplorer.views.causes import LOOKS

if TYPE_CHECKING:
    from hwexplorer.tui.prompts import Prompt
    from hwexplorer.tui.session import Session

LEAST_KEYS = 15  # cells: fewer say nothing
Part = tuple[str, str]  # role, text
Hints = Sequence[tuple[str, str, str]]  # the action, key and word of each
Place = tuple[int, int, str]  # first column, the one after the last, the action of a click


def _segments(parts: list[Part], palette: Palette) -> list[Segment]:
    return [Segment(text, palette.get(role)) for role, text in parts if text]


def _width(parts: Sequence[Part]) -> int:
    return sum(width_of(text) for _, text in parts)


def settings(state: State) -> str:
    return " · ".join(text for text, _ in labels(state))


@lru_cache(maxsize=8)  # asked for with every key
def _phase(model: str) -> str:
    """What a language model is asked for; "" of another model."""
    return next(iter(phases(model)), "")


class _Row:
    """Parts side by side, and where what is clicked is."""

    def __init__(self, *parts: Part) -> None:
        self.parts: list[Part] = []
        self.places: list[Place] = []
        self.width = 0
        self.add(*parts)

    def add(self, *parts: Part, action: str = "") -> None:
        """Of a pair of actions the left half is the one that goes down."""
        start, end = self.width, self.width + _width(parts)
        self.parts += parts
        self.width = end
        if action in PAIRS:
            middle = (start + end) // 2
            self.places += [(start, middle, PAIRS[action]), (middle, end, action)]
        elif action:
            self.places.append((start, end, action))

    def segments(self, palette: Palette) -> tuple[list[Segment], list[Place]]:
        return _segments(self.parts, palette), self.places


def head(state: State, status: str, width: int, palette: Palette) -> tuple[list[Segment], list[Place]]:
    """Model, settings, device, pin, and where each is, for the mouse; on the right the marks, and what the colours of
    bars mean."""
    row = _Row()

    def chip(role: str, text: str, action: str, after: str) -> None:
        row.add((role, text), action=action)
        row.add(("dim", after))

    phase = _phase(state.model)
    name = state.model.removesuffix(f":{phase}")
    chip("title", " " + shorten(safe(name), max(8, width // 3), True), "pane_models", " " if phase else "  ")
    if phase:
        chip("text", phase, "phase", "  ")
    *most, last = labels(state)
    for text, action in most:
        chip("text", text, action, " · ")
    chip("text", *last, "  on ")
    chip("strong", safe(state.on), "devices", "")
    there = pinned(state) if state.pin else None
    if there is not None:
        changes = [name for name in ("batch", "precision", "execution") if getattr(there, name) != getattr(state, name)]
        pin = f"{safe(there.on)} {settings(there) if changes else ''}".strip()
        row.add(("dim", "  vs "))
        chip("warn", pin if state.diff else f"({pin})", "swap", "")
    rest = width - row.width - 1
    legends = [each for each in (legend(palette), legend(palette, True)) if _width(each) < rest]
    texts = [whole(safe(status), rest - _width(each) - 4, "; ") for each in legends]
    colours, told = next(
        (pair for pair in zip(legends, texts, strict=True) if pair[1]), (legends[0] if legends else [], "")
    )
    if not told and ("; " in status or not legends):  # what is not as it was asked is said before what colours mean
        colours, told = [], shorten(safe(status), rest - 4)
    rest -= _width(colours)
    row.add(("text", " " * (rest - width_of(told) - 2)), ("dim", told), ("text", " " * min(2, rest)), *colours)
    return row.segments(palette)


def legend(palette: Palette, is_short: bool = False) -> list[Part]:
    """What each colour, texture or letter of a bar stands for."""
    parts: list[Part] = []
    for place, look in enumerate(LOOKS):
        sign = look.letter if palette.ascii else look.texture if palette.textured else "█"
        told = look.short if is_short else f"{look.name} "
        parts += [(f"{CAUSE}{place}", sign), ("dim", f" {told.strip()} " if palette.ascii else told)]
    return parts


def tabs(state: State, width: int, palette: Palette) -> tuple[list[Segment], list[Place]]:
    """The panes as tabs, and where each one is, for the mouse."""
    row = _Row(("dim", " "))
    space = " " * (1 + sum(len(name) + 4 for name in PANES) <= width)  # between tabs
    for number, name in enumerate(PANES, 1):
        here = name == state.pane
        text = f"[{number} {name.title()}]" if here else f"{space}{number} {name.title()} "
        row.add(("title" if here else "dim", text), action=name)
    return row.segments(palette)


def told(
    session: Session, prompt: Prompt | None, hints: Hints, width: int, palette: Palette, is_over: bool = False
) -> tuple[list[Segment], list[Place]]:
    """The foot: whatever is most urgent. What stands there is of the panes, not of what lies over them."""
    if prompt is not None:
        offers = {*prompt.offers(), *prompt.keys}
        return prompt_line(prompt.label, prompt.line, prompt.note(), offers, width, palette)
    if session.said is not None:
        return message(*session.said, width, palette, hints)
    if session.jobs:
        job = session.jobs[0]
        return progress(*job.progress(), monotonic() - job.started, width, palette), []
    return foot(hints, width, palette, () if is_over else standing(session))


def foot(
    hints: Hints, width: int, palette: Palette, status: Sequence[tuple[str, str, str]] = ()
) -> tuple[list[Segment], list[Place]]:
    """Keys and what they do, as many as there is room for, and on the right what stands there: as that comes to be
    known, no key goes from under the pointer."""
    row = _Row()
    stands = status if sum(width_of(text) for _, text, _ in status) + LEAST_KEYS <= width else ()
    free = width - sum(width_of(text) for _, text, _ in stands)
    for action, key, word in hints:
        more = ("key", f" {key}"), ("dim", f" {word} ")
        if row.width + _width(more) > free:
            break
        row.add(*more, action=action)
    if stands:
        row.add(("text", " " * (free - row.width)))
    for role, text, action in stands:
        row.add((role, text), action=action)
    return row.segments(palette)


def at(places: Sequence[Place], x: int) -> str:
    """What a click there does; "" where nothing."""
    return next((name for start, end, name in places if start <= x < end), "")


def is_cut(text: str, width: int) -> bool:
    """Whether a message is longer than the foot."""
    return width_of(safe(text)) > width - 2


def message(text: str, role: str, width: int, palette: Palette, hints: Hints) -> tuple[list[Segment], list[Place]]:
    """What was said, on the right of as many keys as it leaves room for, so that they stay where they are; where there
    is no room for all of it, help shows it."""
    key = next((key for action, key, _ in hints if action == "help"), "")
    if key and is_cut(text, width):
        row, more = _Row(), (("key", f" {key}"), ("dim", " all of it "))
        row.add(("text", " "), (role, shorten(safe(text), width - _width(more) - 1)))
        row.add(*more, action="help")
        return row.segments(palette)
    text = shorten(safe(text), width - 2)
    room = width - width_of(text) - 2
    segments, places = foot(hints, room, palette) if room > 2 * LEAST_KEYS else ([], [])
    used = sum(width_of(segment.text) for segment in segments)
    space = " " * (room - used + 1) if segments else " "
    return [*segments, *_segments([("text", space), (role, text)], palette)], places


def prompt_line(
    label: str, line: Line, note: str, offers: Collection[str], width: int, palette: Palette
) -> tuple[list[Segment], list[Place]]:
    """The label, the text with a block where the cursor is, and on the right a remark where the text leaves room, with
    the places of the words in it that a click does something with."""
    label = f" {shorten(label, max(8, width - 12))} "
    free = width - width_of(label) - width_of(safe(line.text)) - 5
    note = whole(note, free) or shorten(note, free) if free > 8 else ""
    room = max(4, width - width_of(label) - width_of(note) - 3)
    start = max(0, line.place - room + 2)
    before = safe(line.text[start : line.place])
    under = safe(line.text[line.place : line.place + 1]) or " "
    after = safe(line.text[line.place + 1 : start + room])
    cursor = palette.get("strong") + Style(reverse=True)
    segments = [
        Segment(label, palette.get("key")),
        Segment(before, palette.get("strong", CURSOR if line.selected else PLAIN)),
        Segment(under, cursor),
        Segment(after, palette.get("strong")),
    ]
    rest = width - sum(width_of(s.text) for s in segments) - width_of(note) - 1
    if rest <= 0:
        return segments, []
    places: list[Place] = []
    segments.append(Segment(" " * rest, palette.get("text")))
    at = sum(width_of(segment.text) for segment in segments)
    for word in re.split(r"([ ,]+)", note):
        is_offered = word in offers
        segments.append(Segment(word, palette.get("key" if is_offered else "dim")))
        if is_offered:
            places.append((at, at + width_of(word), word))
        at += width_of(word)
    return segments, places


def progress(phase: str, fraction: float, elapsed: float, width: int, palette: Palette) -> list[Segment]:
    """A bar of what is known of the work, its phase, the time it took so far, how to stop it."""
    drawn = f" {bar(min(1.0, fraction), 20, palette.ascii)} {fraction * 100:3.0f} %" if fraction >= 0 else ""
    text = f"{safe(phase)} · {elapsed:.1f} s"
    parts: list[Part] = [("bar", drawn), ("text", " " + shorten(text, max(8, width - len(drawn) - 16)))]
    return _segments([*parts, ("key", "  esc"), ("dim", " cancel")], palette)
