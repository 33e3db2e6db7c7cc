"""The lines around the panes: what is estimated (head), where one is (tabs), what the keys do (foot)."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style

from hwexplorer.format import safe, to_ascii
from hwexplorer.state import PANES, State, pinned
from hwexplorer.tui import actions
from hwexplorer.tui.cell_text import shorten, width_of
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.prompt import Prompt
from hwexplorer.tui.views import Views
from hwexplorer.tui.widgets.cells import bar

Part = tuple[str, str]  # role, text


def _segments(parts: list[Part], palette: Palette) -> list[Segment]:
    return [Segment(to_ascii(t) if palette.ascii else t, palette.get(r)) for r, t in parts if t]


def _width(parts: list[Part]) -> int:
    return sum(width_of(text) for _, text in parts)


def settings(state: State) -> str:
    words = [f"batch {state.batch}", state.precision, state.execution]
    if state.layout != "nchw":
        words.append(state.layout.replace("_", " "))
    if state.image_size is not None:
        words.append(f"{state.image_size} px")
    if state.sequence is not None:
        words.append(f"sequence {state.sequence}")
    if state.kv is not None:
        words.append(f"kv {state.kv}")
    return " · ".join(words)


def head(state: State, status: str, width: int, palette: Palette) -> list[Segment]:
    """Model, settings, device, pin; on the right the coverage and marks."""
    parts: list[Part] = [("title", " " + shorten(safe(state.model), max(8, width // 3), True)), ("dim", "  ")]
    parts += [("text", settings(state)), ("dim", "  on "), ("strong", safe(state.on))]
    there = pinned(state) if state.pin else None
    if there is not None:
        changes = [name for name in ("batch", "precision", "execution") if getattr(there, name) != getattr(state, name)]
        told = settings(there) if changes else ""
        pin = f"{safe(there.on)} {told}".strip()
        parts += [("dim", "  vs "), ("warn", pin if state.diff else f"({pin})")]
    rest = width - _width(parts) - 1
    if rest > 3:
        status = shorten(safe(status), rest - 2)
        parts += [("text", " " * (rest - width_of(status))), ("dim", status)]
    return _segments(parts, palette)


def heading(name: str, state: State, views: Views) -> str:
    """A pane's title: what it shows, short, for the line above the panes has told the rest."""
    device = next((str(r.cells[0]) for r in views.compare.rows if r.key == state.on), state.on)
    about = {
        "compare": views.verdict,
        "tree": f"{device} and others" if state.heat else device,
        "events": state.at or state.model,
        "why": state.at or state.model,
        "plot": f"{state.plot} · {device}",
    }.get(name, "")
    return f"{name.title()} · {about}" if about else name.title()


def tabs(state: State, width: int, palette: Palette) -> tuple[list[Segment], list[tuple[int, int, str]]]:
    """The panes as tabs, and where each one is, for the mouse."""
    parts: list[Part] = [("dim", " ")]
    places = []
    for number, name in enumerate(PANES, 1):
        here = name == state.pane
        text = f"[{number} {name.title()}]" if here else f" {number} {name.title()} "
        start = _width(parts)
        parts.append(("title" if here else "dim", text))
        places.append((start, start + width_of(text), name))
    return _segments(parts, palette), places


def foot(
    state: State, width: int, palette: Palette, keymap: actions.Keymap = actions.DEFAULT
) -> tuple[list[Segment], list[tuple[int, int, str]]]:
    """Keys and what they do, as many as there is room for."""
    parts: list[Part] = []
    places = []
    for action, key, word in keymap.hints(state.pane):
        start = _width(parts)
        more: list[Part] = [("key", f" {key}"), ("dim", f" {word} ")]
        if start + _width(more) > width:
            break
        parts += more
        places.append((start, start + _width(more), action))
    return _segments(parts, palette), places


def message(text: str, role: str, width: int, palette: Palette) -> list[Segment]:
    return _segments([(role, " " + shorten(safe(text), width - 2))], palette)


def prompt_line(prompt: Prompt, note: str, width: int, palette: Palette) -> list[Segment]:
    """The label, the text with a block where the cursor is, and a remark on the right."""
    label = f" {prompt.label} "
    note = to_ascii(note) if palette.ascii else note
    room = max(4, width - width_of(label) - width_of(note) - 3)
    start = max(0, prompt.place - room + 2)
    before = safe(prompt.text[start : prompt.place])
    under = safe(prompt.text[prompt.place : prompt.place + 1]) or " "
    after = safe(prompt.text[prompt.place + 1 : start + room])
    cursor = palette.get("strong") + Style(reverse=True)
    segments = [
        Segment(label, palette.get("key")),
        Segment(before, palette.get("strong")),
        Segment(under, cursor),
        Segment(after, palette.get("strong")),
    ]
    rest = width - sum(width_of(s.text) for s in segments) - width_of(note) - 1
    if rest > 0:
        segments += [Segment(" " * rest, palette.get("text")), Segment(note, palette.get("dim"))]
    return segments


def progress(phase: str, fraction: float, elapsed: float, width: int, palette: Palette) -> list[Segment]:
    """A bar of what is known of the work, its phase, the time it took so far, how to stop it."""
    drawn = f" {bar(min(1.0, fraction), 20, palette.ascii)} {fraction * 100:3.0f} %" if fraction >= 0 else ""
    text = f"{safe(phase)} · {elapsed:.1f} s"
    parts: list[Part] = [("bar", drawn), ("text", " " + shorten(text, max(8, width - len(drawn) - 16)))]
    return _segments([*parts, ("key", "  esc"), ("dim", " cancel")], palette)
