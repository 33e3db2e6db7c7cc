"""What a session tells its subscribers, each event a frozen value."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from hwexplorer.export.sheet import Sheet
from hwexplorer.state import State
from hwexplorer.views.plain import Text


class StateChanged(msgspec.Struct, frozen=True):
    """Another state is present, or its views are newer."""


class MessageChanged(msgspec.Struct, frozen=True):
    """The message of the session is another, or gone."""


class JobsChanged(msgspec.Struct, frozen=True):
    """A job started, went on or ended."""


class LimitsCounted(msgspec.Struct, frozen=True):
    """More devices are known to be within the limits or not."""


class TextOpened(msgspec.Struct, frozen=True):
    """A text is to be read; `name` says what kind of text."""

    name: str
    heading: str
    text: Text


class SheetOpened(msgspec.Struct, frozen=True):
    """A report is to be shown. `state_of` reads where a row leads; without it rows are configurations."""

    name: str
    sheet: Sheet
    state_of: Callable[[str], State] | None = None


class ActionRequested(msgspec.Struct, frozen=True):
    """An action of the registry (keys/actions.py) is to be done."""

    action: str


class ThemeRequested(msgspec.Struct, frozen=True):
    """The screen is to take another theme."""

    theme: str


class ExportRequested(msgspec.Struct, frozen=True):
    """The view in focus is to be written to a file, or every view to a folder."""

    path: str


SessionEvent = (
    StateChanged
    | MessageChanged
    | JobsChanged
    | LimitsCounted
    | TextOpened
    | SheetOpened
    | ActionRequested
    | ThemeRequested
    | ExportRequested
)
Listener = Callable[[SessionEvent], None]
