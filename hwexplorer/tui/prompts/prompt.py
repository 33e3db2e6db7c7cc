"""The base class of the prompts (in prompt_kinds.py), and the footer that shows one."""

from collections.abc import Sequence
from time import monotonic
from typing import ClassVar

from rich.segment import Segment

from hwexplorer.tui.keys.key_table import Hint
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.widgets import line_editor, status_lines
from hwexplorer.tui.widgets.framed_pane import FramedPane
from hwexplorer.tui.widgets.line_editor import EditedLine
from hwexplorer.views.layout import shorten, whole


class Prompt:
    """A line being typed. Escape goes back to the text `before`."""

    label = ""
    is_live: ClassVar = False  # True if the screen follows the text; a click on a pane then keeps it
    rows: FramedPane | None = None  # the pane in which up and down move
    keys: ClassVar = {"enter": "enter", "esc": "escape", "tab": "tab"}  # words of the note that stand for keys

    def __init__(self, session: Session, text: str = "", selected: bool = False) -> None:
        self.session, self.before = session, text
        self.line = EditedLine(text, len(text), selected=selected and bool(text))

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
            self.change(line_editor.press_key(self.line, key, character))

    def change(self, line: EditedLine) -> None:
        """Replace the line; if its text changes, follow it."""
        is_other, self.line = line.text != self.line.text, line
        if is_other:
            self.follow(line.text)

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
    hints: Sequence[Hint],
    width: int,
    palette: Palette,
    shows_limits: bool = False,
) -> list[Segment]:
    """Return the footer: the prompt, else the message, else a job's progress, else the key hints with the limits."""
    if prompt is not None:
        offers = {*prompt.offers(), *prompt.keys}
        is_full = len(prompt.text) >= line_editor.LENGTH_MAX
        label = f"{prompt.label} (at most {line_editor.LENGTH_MAX} characters)" if is_full else prompt.label
        return status_lines.prompt_line(label, prompt.line, prompt.note(), offers, width, palette)
    if session.message is not None:
        return status_lines.message_line(*session.message, width, palette, hints)
    if session.jobs:
        job = session.jobs[0]
        return status_lines.progress_line(*job.progress, monotonic() - job.started, width, palette)
    limits = ""
    if shows_limits and session.views is not None and session.state.limits:
        summary = session.limits.summary(session.state)
        limits = f" {whole(summary, width // 2, '; ') or shorten(summary, width // 2)} "
    return status_lines.hint_line(hints, width, palette, limits)
