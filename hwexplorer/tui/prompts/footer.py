"""The footer of whatever has the keys: the screen, or what lies over it."""

from __future__ import annotations

from collections.abc import Sequence
from time import monotonic

from rich.segment import Segment

from hwexplorer.tui.keys.keymap import Hint
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.prompts.prompt import Prompt
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.widgets import status_lines
from hwexplorer.tui.widgets.cell_text import shorten

LIMITS_WIDTH_MAX = 44  # cells


def footer(
    session: Session,
    prompt: Prompt | None,
    hints: Sequence[Hint],
    width: int,
    palette: Palette,
    shows_limits: bool = False,
) -> list[Segment]:
    """Return the prompt, else the message, else the progress of a job, else the keys, beside them the limits."""
    if prompt is not None:
        offers = {*prompt.offers(), *prompt.keys}
        return status_lines.prompt_line(prompt.label, prompt.line, prompt.note(), offers, width, palette)
    if session.message is not None:
        return status_lines.message_line(*session.message, width, palette, hints)
    if session.jobs:
        job = session.jobs[0]
        return status_lines.progress_line(*job.progress(), monotonic() - job.started, width, palette)
    limits = ""
    if shows_limits and session.views is not None and session.state.limits:
        limits = f" {shorten(session.limits.summary(session.state), LIMITS_WIDTH_MAX)} "
    return status_lines.hint_line(hints, width, palette, limits)
