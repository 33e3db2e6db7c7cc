"""What the palette finds, and Textual's palette, which closes once: what is still on its way to it then means nothing.

Two enters in one read chose twice and closed the screen under it; a letter after escape searched in what was gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import msgspec
from textual.await_complete import AwaitComplete
from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.css.query import NoMatches
from textual.message import Message
from textual.widgets import Button, Input, OptionList
from textual.worker import Worker

from hwexplorer import registry, terms
from hwexplorer.tui import actions, command
from hwexplorer.tui.commands import COMMANDS, names

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer
    from hwexplorer.tui.session import Session

IN_HELP = 0.1  # the score of what has the words in its help alone: below every title
# Commands that would list all devices once more.
_REPEAT = ("devices", "add", "remove", "baseline", "device")
ID = "--command-palette"  # by which Textual knows it


class Item(msgspec.Struct, frozen=True):
    """What can be found: by its title, or by words of its help."""

    title: str
    help: str
    run: Callable[[], None]


class Everything(Provider):
    """Actions, terms, and every line that `:` takes with all that completes it: models, devices, verbs, plots, nodes,
    settings, themes, sessions."""

    async def startup(self) -> None:
        session = cast("HwExplorer", self.app).session
        self._actions = list(_actions(session))
        self._items = [*self._actions, *_terms(session), *_lines(session)]

    async def discover(self) -> Hits:
        for item in self._actions:
            yield DiscoveryHit(item.title, item.run, help=item.help)

    async def search(self, query: str) -> Hits:
        matcher, words = self.matcher(query), query.casefold().split()
        for item in self._items:
            score = matcher.match(item.title)
            if not score and all(word in item.help.casefold() for word in words):
                score = IN_HELP
            if score > 0:
                yield Hit(score, matcher.highlight(item.title), item.run, help=item.help)


def _actions(session: Session) -> Iterator[Item]:
    for action in session.keymap.actions:
        if not action.panes or session.state.pane in action.panes:
            yield Item(
                f"{action.title} ({actions.keys_of(action)})", action.help, partial(session.stage.perform, action.id)
            )


def _terms(session: Session) -> Iterator[Item]:
    for term in terms.terms():
        yield Item(f"term: {term.name}", term.says, partial(session.say, f"{term.name}: {term.says}"))


def _lines(session: Session) -> Iterator[Item]:
    """A command without what follows it where it needs nothing; else one for each way to complete it."""
    helps = registry.helps()
    for name in names():
        known = COMMANDS.get(name)
        told = known.help if known is not None else helps[name]
        if known is None:
            for section in registry.sections(name):
                line, says = registry.full_name(section), registry.helped(section)
                yield Item(line, says, partial(command.submit, session, line))
            if registry.sections(name):
                continue
        lines = command.candidates(session, f"{name} ") if known is not None and name not in _REPEAT else []
        if not lines or "[" in (known.usage if known is not None else ""):
            lines = [name, *lines]
        for line in lines:
            yield Item(line, told, partial(command.submit, session, line))


class Finder(CommandPalette):
    async def _dispatch_message(self, message: Message) -> None:
        if self.is_current or not isinstance(message, (Input.Submitted, Button.Pressed, OptionList.OptionSelected)):
            await super()._dispatch_message(message)

    def _gather_commands(self, search_value: str) -> Worker[None]:
        """In vain where the palette was left meanwhile: the list to show them in is gone, or was never made."""

        async def gather() -> None:
            with suppress(NoMatches):
                await CommandPalette._gather_commands.__wrapped__(self, search_value)  # type: ignore[attr-defined]

        return self.run_worker(gather, exclusive=True, group=self._GATHER_COMMANDS_GROUP)

    def _action_command_list(self, action: str) -> None:
        """Not by a page before what was found has its place."""
        with suppress(KeyError):
            super()._action_command_list(action)

    def dismiss(self, result: Any = None) -> AwaitComplete:
        return super().dismiss(result) if self.is_current else AwaitComplete.nothing()  # type: ignore[no-untyped-call]
