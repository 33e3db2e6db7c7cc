"""What the palette finds, and Textual's palette, which closes once: what is still on its way to it then means nothing.

Two enters in one read chose twice and closed the screen under it; a letter after escape searched in what was gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from textual.await_complete import AwaitComplete
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.css.query import NoMatches
from textual.message import Message
from textual.widgets import Button, Input, OptionList
from textual.worker import Worker

from hwexplorer import registry
from hwexplorer.text import terms
from hwexplorer.tui.commands import command_line
from hwexplorer.tui.commands.command_table import COMMANDS, names
from hwexplorer.tui.keys import key_table
from hwexplorer.tui.keys.keymap import Keymap
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.session.session_events import ActionRequested

IN_HELP = 0.1  # the score of what has the words in its help alone: below every title
# Commands that would list all devices once more.
_REPEAT = ("devices", "add", "remove", "baseline", "device")
ID = "--command-palette"  # by which Textual knows it


class PaletteItem(msgspec.Struct, frozen=True):
    """A thing to do, found by its title or by words of its help."""

    title: str
    help: str
    run: Callable[[], None]


class PaletteItems(Provider):
    """Actions, terms, and every line that `:` takes with all that completes it: models, devices, verbs, plots, nodes,
    settings, themes, sessions."""

    async def startup(self) -> None:
        """List everything that can be found."""
        session, keymap = self.app.session, self.app.keymap  # type: ignore[attr-defined]  # HwExplorer, which imports this
        self._actions = list(_action_items(session, keymap))
        self._items = [*self._actions, *_term_items(session), *_line_items(session)]

    async def discover(self) -> Hits:
        """Yield the actions, before anything is typed."""
        for item in self._actions:
            yield DiscoveryHit(item.title, item.run, help=item.help)

    async def search(self, query: str) -> Hits:
        """Yield what fits the text, by title before help."""
        matcher, words = self.matcher(query), query.casefold().split()
        for item in self._items:
            score = matcher.match(item.title)
            if not score and all(word in item.help.casefold() for word in words):
                score = IN_HELP
            if score > 0:
                yield Hit(score, matcher.highlight(item.title), item.run, help=item.help)


def _action_items(session: Session, keymap: Keymap) -> Iterator[PaletteItem]:
    for action in keymap.actions:
        if not action.panes or session.state.pane in action.panes:
            yield PaletteItem(
                f"{action.title} ({key_table.keys_text(action)})",
                action.help,
                partial(session.emit, ActionRequested(action.id)),
            )


def _term_items(session: Session) -> Iterator[PaletteItem]:
    for term in terms.terms():
        yield PaletteItem(f"term: {term.name}", term.says, partial(session.say, f"{term.name}: {term.says}"))


def _line_items(session: Session) -> Iterator[PaletteItem]:
    """Yield the commands: as they are where nothing must follow, else one for each way to complete it."""
    helps = registry.helps()
    for name in names():
        known = COMMANDS.get(name)
        help_text = known.help if known is not None else helps[name]
        if known is None:
            for section in registry.sections(name):
                line, says = registry.full_name(section), registry.help_of(section)
                yield PaletteItem(line, says, partial(command_line.submit, session, line))
            if registry.sections(name):
                continue
        lines = command_line.completions(session, f"{name} ") if known is not None and name not in _REPEAT else []
        if not lines or "[" in (known.usage if known is not None else ""):
            lines = [name, *lines]
        for line in lines:
            yield PaletteItem(line, help_text, partial(command_line.submit, session, line))


class PaletteScreen(CommandPalette):
    """Textual's palette, closed once and safe from what comes late."""

    async def _dispatch_message(self, message: Message) -> None:
        if self.is_current or not isinstance(message, (Input.Submitted, Button.Pressed, OptionList.OptionSelected)):
            await super()._dispatch_message(message)

    def _gather_commands(self, search_value: str) -> Worker[None]:
        """Gather what fits; in vain where the palette was left meanwhile, whose list is gone or was never made."""

        async def gather() -> None:
            """Run Textual's search."""
            with suppress(NoMatches):
                await CommandPalette._gather_commands.__wrapped__(self, search_value)  # type: ignore[attr-defined]

        return self.run_worker(gather, exclusive=True, group=self._GATHER_COMMANDS_GROUP)

    def _action_command_list(self, action: str) -> None:
        """Move in the list, but not by a page before what was found has its place."""
        with suppress(KeyError):
            super()._action_command_list(action)

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Close, unless that has happened."""
        return super().dismiss(result) if self.is_current else AwaitComplete.nothing()  # type: ignore[no-untyped-call]
