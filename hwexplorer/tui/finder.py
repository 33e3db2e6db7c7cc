"""Textual's command palette, which closes once: what is still on its way to it then means nothing.

Two enters in one read chose twice and closed the screen under it; a letter after escape searched in what was gone.
"""

from __future__ import annotations

from typing import Any

from textual.await_complete import AwaitComplete
from textual.command import CommandList, CommandPalette
from textual.message import Message
from textual.widgets import Button, Input, OptionList
from textual.worker import Worker

ID = "--command-palette"  # by which Textual knows it


class Finder(CommandPalette):
    async def _dispatch_message(self, message: Message) -> None:
        if self.is_current or not isinstance(message, (Input.Submitted, Button.Pressed, OptionList.OptionSelected)):
            await super()._dispatch_message(message)

    def _gather_commands(self, search_value: str) -> Worker[None] | None:  # type: ignore[override, unused-ignore]
        """Not where the program was left meanwhile: the list to show them in is gone, or was never made."""
        return super()._gather_commands(search_value) if self.query(CommandList) else None

    def dismiss(self, result: Any = None) -> AwaitComplete:
        return super().dismiss(result) if self.is_current else AwaitComplete.nothing()  # type: ignore[no-untyped-call]
