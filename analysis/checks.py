"""Whether the figures of a report agree with each other and with physics: each check passes or fails, in words."""

from __future__ import annotations

import msgspec


class Check(msgspec.Struct, frozen=True):
    """One check; the sentence quotes the numbers it compared."""

    name: str
    passed: bool
    sentence: str
