"""What a session tells its subscribers, each event a frozen value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import msgspec

from hwexplorer.state import State
from hwexplorer.views.plain import Text

if TYPE_CHECKING:
    from hwexplorer.export.sheet import Sheet


class SessionEvent(msgspec.Struct, frozen=True):
    """Something that a session tells."""


class Changed(SessionEvent, frozen=True):
    """Another state is present or its views are newer; the message is another; a job started, went on or ended; or more
    devices are known to be within the limits."""

    what: Literal["state", "message", "jobs", "limits"]


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
    """An action of the table (keys/key_table.py) is to be done. With an `argument`, a theme or a path to export to, the
    screen does it: its method `do_ACTION`."""

    action: str
    argument: str = ""


Listener = Callable[[SessionEvent], None]
