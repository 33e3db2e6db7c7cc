"""The lines around the panes: what is estimated (head), which pane has the keys (tabs), what the keys do or what is
typed (footer).

The action of a click is in the style of the text, so Textual finds it. Textual's Footer is not used: it takes 14 ms of
the first frame, and does not drop keys by importance.
"""

import re
from collections.abc import Collection, Sequence
from functools import lru_cache, partial
from time import monotonic
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from hardware.base.text import safe
from hwexplorer.settings import labels
from hwexplorer.state import State, pinned
from hwexplorer.tui import keys as actions
from hwexplorer.tui.palette import CAUSE, CLICK, CURSOR, PLAIN, Palette, bar
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.session.state_changes import current_phase
from hwexplorer.tui.widgets.framed_pane import FramedPane
from hwexplorer.views import layout, plain

KEYS_WIDTH_MIN = 15  # cells; fewer show nothing useful
Part = tuple[str, str]  # role, text


@lru_cache(maxsize=512)
def _style(palette: Palette, role: str, action: str) -> Style:
    return palette.get(role) + (Style(meta={CLICK: action}) if action else Style())


def _segments(parts: Sequence[Part], palette: Palette, action: str = "") -> list[Segment]:
    return [Segment(text, _style(palette, role, action)) for role, text in parts if text]


def _width(parts: Sequence[Part]) -> int:
    return sum([layout.width_of(text) for _, text in parts])


def settings_text(state: State) -> str:
    """Return the settings of a state as the head line shows them."""
    return " · ".join(text for text, _ in labels(state))


class _Row:
    def __init__(self, palette: Palette) -> None:
        self.palette, self.segments, self.width = palette, list[Segment](), 0

    def add(self, *parts: Part, action: str = "") -> None:
        """Add parts. If `action` is one of a pair, the left half does the action that goes down."""
        width = _width(parts)
        half = width // 2 if action in actions.PAIRS else 0
        for role, text in parts:
            if half > 0:
                self.segments += _segments([(role, text[:half])], self.palette, actions.PAIRS[action])
            self.segments += _segments([(role, text[max(0, half) :])], self.palette, action)
            half -= len(text)
        self.width += width


def head_line(state: State, status: str, width: int, palette: Palette) -> list[Segment]:
    """Return the model, settings, device and pin, and on the right the status."""
    row = _Row(palette)

    def chip(role: str, text: str, action: str, space: str) -> None:
        """Add a text that can be clicked."""
        row.add((role, text), action=action)
        row.add(("dim", space))

    phase, named = current_phase(state.model, state.load), current_phase(state.model)
    name = state.model.removesuffix(f":{named}").replace(f":{named},", ":")
    chip("title", " " + layout.shorten(safe(name), max(8, width // 3), True), "models", " " if phase else "  ")
    if phase:
        chip("text", phase, "phase", "  ")
    *most, last = labels(state)
    for text, action in most:
        chip("text", text, action, " · ")
    chip("text", *last, "  on ")
    is_baseline = len(state.devices) > 1 and state.baseline == state.on and row.width + len(state.on) + 15 < width
    chip("strong", safe(state.on), "devices", ", the baseline" * is_baseline)
    pin = pinned(state) if state.pin else None
    if pin is not None:
        other = [text for text, _ in labels(pin) if text not in settings_text(state).split(" · ")]
        row.add(("dim", "  vs "))
        chip("warn", " · ".join(other if other and pin.on == state.on else [safe(pin.on), *other]), "", "")
    rest = width - row.width - 3
    if row.width > width:
        return [*Strip(row.segments).crop(0, width - 1), Segment("…", palette.get("dim"))]
    is_warning = status.startswith("Warning")
    text = layout.whole(safe(status), rest, "; ") or (layout.shorten(safe(status), rest) if is_warning else "")
    row.add(("text", " " * (rest + 2 - layout.width_of(text))), ("warn" if is_warning else "dim", text))
    return row.segments


def legend(palette: Palette, width: int) -> list[Segment]:
    """Return a legend of what each colour, texture or letter of a bar means; [] if there is no room for all."""
    for names in ([look.name for look in plain.LOOKS], [look.short for look in plain.LOOKS]):
        parts: list[Part] = []
        for place, (look, name) in enumerate(zip(plain.LOOKS, names, strict=True)):
            sign = look.letter if palette.ascii else look.texture if palette.textured else "█"
            parts += [
                ("dim", " " * bool(parts)),
                (f"{CAUSE}{place}", sign),
                ("dim", f"={name}" if palette.ascii else name),
            ]
        if _width(parts) <= width:
            return _segments(parts, palette)
    return []


@lru_cache(maxsize=16)
def tab_line(pane: str, width: int, palette: Palette) -> list[Segment]:
    """Return the panes as tabs, the one with the keys in brackets."""
    row = _Row(palette)
    row.add(("dim", " "))
    space = " " * (1 + sum(len(name) + 4 for name in actions.PANE_KEYS) <= width)  # between tabs
    for name, number in actions.PANE_KEYS.items():
        is_current = name == pane
        text = f"[{number} {name.title()}]" if is_current else f"{space}{number} {name.title()} "
        row.add(("title" if is_current else "dim", text), action=f"pane_{name}")
    return row.segments


@lru_cache(maxsize=64)
def hint_line(hints: tuple[actions.Hint, ...], width: int, palette: Palette, status: str = "") -> list[Segment]:
    """Return keys and what they do, as many as there is room for. The status is on the right, so that keys stay under
    the pointer when it comes."""
    row = _Row(palette)
    if layout.width_of(status) + KEYS_WIDTH_MIN > width:
        status = ""
    free = width - layout.width_of(status)
    for action, key, word in hints:
        parts = ("key", f" {key}"), ("dim", f" {word} ")
        if row.width + _width(parts) > free:
            break
        row.add(*parts, action=action)
    if status:
        row.add(("text", " " * (free - row.width)))
        row.add(("text", status), action="devices")
    return row.segments


def idle_actions(session: Session) -> tuple[str, ...]:
    """Return the actions that would do nothing in the present state. The footer leaves them out."""
    state, saved = session.state, session.saved_sessions
    idle = {
        "try_it": not (session.cache.has("next_step", state) and session.cache.view("next_step", state)),
        "phase": not current_phase(state.model),
        "sessions": saved is None or not saved.path.exists(),
        "one_format": session.views is None or len(session.formats(state)) < 2,
    }
    return tuple(action for action, is_idle in idle.items() if is_idle)


def name_load(state: State, hints: tuple[actions.Hint, ...]) -> tuple[actions.Hint, ...]:
    """Return the hints; for a load, the word of the batch keys is `load`."""
    names = {"batch": "load"} if state.load else {}
    return tuple([(action, key, names.get(word, word)) for action, key, word in hints])


def is_cut(text: str, width: int) -> bool:
    """Return True if a message is longer than the footer."""
    return layout.width_of(safe(text)) > width - 2


def message_line(text: str, role: str, width: int, palette: Palette, hints: tuple[actions.Hint, ...]) -> list[Segment]:
    """Return as many keys as there is room for, then the message. If the message is cut, help shows all of it."""
    key = next((key for action, key, _ in hints if action == "help"), "")
    if key and is_cut(text, width):
        row, more = _Row(palette), (("key", f" {key}"), ("dim", " all of it "))
        row.add(("text", " "), (role, layout.shorten(safe(text), width - _width(more) - 1)))
        row.add(*more, action="help")
        return row.segments
    text = layout.shorten(safe(text), width - 2)
    room = width - layout.width_of(text) - 2
    segments = hint_line(hints, room, palette) if room > 2 * KEYS_WIDTH_MIN else []
    used = sum(layout.width_of(segment.text) for segment in segments)
    space = " " * (room - used + 1) if segments else " "
    return [*segments, *_segments([("text", space), (role, text)], palette)]


def prompt_line(
    label: str, line: actions.EditedLine, note: str, offers: Collection[str], width: int, palette: Palette
) -> list[Segment]:
    """Return the label, the text with a block cursor and, if there is room, a note on the right. A click on a word of
    the note that is in `offers` does what the prompt does with it."""
    label = f" {layout.shorten(label, max(8, width - 12))} "
    free = width - layout.width_of(label) - layout.width_of(safe(line.text)) - 5
    note = layout.whole(note, free) or layout.shorten(note, free) if free > 8 else ""
    room = max(4, width - layout.width_of(label) - layout.width_of(note) - 3)
    start = max(0, line.place - room + 2)
    segments = [
        Segment(label, palette.get("key")),
        Segment(safe(line.text[start : line.place]), palette.get("strong", CURSOR if line.selected else PLAIN)),
        Segment(safe(line.text[line.place : line.place + 1]) or " ", palette.get("strong") + Style(reverse=True)),
        Segment(safe(line.text[line.place + 1 : start + room]), palette.get("strong")),
    ]
    rest = width - sum(layout.width_of(s.text) for s in segments) - layout.width_of(note) - 1
    if rest > 0:
        segments.append(Segment(" " * rest, palette.get("text")))
        for word in re.split(r"([ ,]+)", note):
            is_offered = word in offers
            segments += _segments([("key" if is_offered else "dim", word)], palette, word if is_offered else "")
    return segments


def progress_line(phase: str, fraction: float, elapsed_s: float, width: int, palette: Palette) -> list[Segment]:
    """Return the progress bar of a job (if known), its phase, the time it took so far, and how to stop it."""
    drawn = f" {bar(min(1.0, fraction), 20, palette.ascii)} {fraction * 100:3.0f} %" if fraction >= 0 else ""
    text = f"{safe(phase)} · {elapsed_s:.1f} s"
    parts: list[Part] = [("bar", drawn), ("text", " " + layout.shorten(text, max(8, width - len(drawn) - 16)))]
    return _segments([*parts, ("key", "  esc"), ("dim", " cancel")], palette)


class Prompt:
    """A line being typed. Escape goes back to the text `before`."""

    label = ""
    is_live: ClassVar = False  # True if the screen follows the text; a click on a pane then keeps it
    rows: FramedPane | None = None  # the pane in which up and down move
    keys: ClassVar = {"enter": "enter", "esc": "escape", "tab": "tab"}  # words of the note that stand for keys

    def __init__(self, session: Session, text: str = "", selected: bool = False) -> None:
        self.session, self.before = session, text
        self.line = actions.EditedLine(text, len(text), selected=selected and bool(text))

    @property
    def text(self) -> str:
        """The text that is typed."""
        return self.line.text

    def note(self) -> str:
        """Return the text on the right of the line: what the typed text means so far."""
        return ""

    def offers(self) -> dict[str, str]:
        """Return the words of the note that can be clicked, each with the text that the line becomes."""
        return {}

    def _append_words(self, words: Sequence[str]) -> dict[str, str]:
        return {word: f"{self.text.rstrip()} {word} ".lstrip() for word in words if word not in self.text}

    def ends_prompt(self, key: str, character: str | None) -> bool:
        """Return True if the key enters the line or leaves it."""
        return key in ("escape", "ctrl+c", "enter")

    def end(self, key: str, character: str | None) -> None:
        """Do what the key that ended the line means. The prompt is closed already."""
        (self.enter if key == "enter" else self.leave)()

    def edit(self, key: str, character: str | None) -> None:
        """Edit the line by a key that does not end it, or move in the pane of its rows."""
        if self.rows is not None and key in ("up", "down", "pageup", "pagedown"):
            self.rows.step(key.replace("page", "page_"))
        else:
            self.change(actions.edit_line(self.line, key, character))

    def change(self, line: actions.EditedLine) -> None:
        """Replace the line; if its text changes, follow it."""
        is_other, self.line = line.text != self.line.text, line
        if is_other:
            self.session.attempt(partial(self.follow, line.text))

    def follow(self, text: str) -> None:
        """Show what the text means so far."""

    def enter(self) -> None:
        """Do what the text says."""

    def leave(self) -> None:
        """Go back to what was there before."""
        self.follow(self.before)


def footer(
    session: Session,
    prompt: Prompt | None,
    hints: tuple[actions.Hint, ...],
    width: int,
    palette: Palette,
    shows_limits: bool = False,
) -> list[Segment]:
    """Return the footer: the prompt, else the message, else a job's progress, else the key hints with the limits."""
    if prompt is not None:
        offers = {*prompt.offers(), *prompt.keys}
        is_full = len(prompt.text) >= actions.LENGTH_MAX
        label = f"{prompt.label} (at most {actions.LENGTH_MAX} characters)" if is_full else prompt.label
        return prompt_line(label, prompt.line, prompt.note(), offers, width, palette)
    if session.message is not None:
        return message_line(*session.message, width, palette, hints)
    if session.jobs:
        job = session.jobs[0]
        return progress_line(*job.progress, monotonic() - job.started, width, palette)
    limits = ""
    if shows_limits and session.views is not None and session.state.limits:
        summary = session.limits.summary(session.state)
        limits = f" {layout.whole(summary, width // 2, '; ') or layout.shorten(summary, width // 2)} "
    return hint_line(hints, width, palette, limits)
