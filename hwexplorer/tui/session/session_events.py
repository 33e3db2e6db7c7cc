"""The events that a session emits to its subscribers, as frozen values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from hwexplorer.state import State
from hwexplorer.views.plain import Text

if TYPE_CHECKING:
    from hwexplorer.export.sheet import Sheet


class SessionEvent(msgspec.Struct, frozen=True):
    """An event that a session emits."""


class Changed(SessionEvent, frozen=True):
    """The state (or its views), the message or a job changed, or more devices were checked against the limits."""

    what: Literal["state", "message", "jobs", "limits"]


class TextOpened(SessionEvent, frozen=True):
    """A text is to be shown; `name` is its kind."""

    name: str
    heading: str
    text: Text


class SheetOpened(SessionEvent, frozen=True):
    """A report is to be shown. `state_of` parses the state that a row leads to; without it rows are configurations.
    `words` are those of the `:` line that print the report."""

    name: str
    sheet: Sheet
    state_of: Callable[[str], State] | None = None
    words: tuple[str, ...] = ()


class ActionRequested(SessionEvent, frozen=True):
    """An action of the table (keys/key_table.py) is to be done. With an `argument` (a theme, or a path to export to)
    the screen calls its own method `do_ACTION`."""

    action: str
    argument: str = ""


Listener = Callable[[SessionEvent], None]
