"""What a session tells its subscribers, each event a frozen value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from hwexplorer.state import State
from hwexplorer.views.plain import Text

if TYPE_CHECKING:
    from hwexplorer.export.sheet import Sheet


class SessionEvent(msgspec.Struct, frozen=True):
    """Something that a session tells."""


class StateChanged(SessionEvent, frozen=True):
    """Another state is present, or its views are newer."""


class MessageChanged(SessionEvent, frozen=True):
    """The message of the session is another, or gone."""


class JobsChanged(SessionEvent, frozen=True):
    """A job started, went on or ended."""


class LimitsCounted(SessionEvent, frozen=True):
    """More devices are known to be within the limits or not."""


class TextOpened(SessionEvent, frozen=True):
    """A text is to be read; `name` says what kind of text."""

    name: str
    heading: str
    text: Text


class SheetOpened(SessionEvent, frozen=True):
    """A report is to be shown. `state_of` reads where a row leads; without it rows are configurations."""

    name: str
    sheet: Sheet
    state_of: Callable[[str], State] | None = None


class ActionRequested(SessionEvent, frozen=True):
    """An action of the registry (keys/actions.py) is to be done."""

    action: str


class ThemeRequested(SessionEvent, frozen=True):
    """The screen is to take another theme."""

    theme: str


class ExportRequested(SessionEvent, frozen=True):
    """The view in focus is to be written to a file."""

    path: str


Listener = Callable[[SessionEvent], None]
