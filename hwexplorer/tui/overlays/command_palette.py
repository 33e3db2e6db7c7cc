"""The items of the command palette, and Textual's palette made safe against messages that arrive after it closed.

Two enters in one read chose twice and closed the screen below; a letter after escape searched a list that was gone.
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
from textual.events import Click, Key
from textual.message import Message
from textual.widgets import Button, Input, OptionList
from textual.worker import Worker

from analysis.model.names.model_ref import phases
from hardware.names import fold_name, matching_places
from hardware.quantity import quantity
from hwexplorer import registry
from hwexplorer.state import replace
from hwexplorer.text import terms
from hwexplorer.tui.commands import command_line
from hwexplorer.tui.commands.command_table import COMMANDS, names
from hwexplorer.tui.keys import key_table
from hwexplorer.tui.keys.key_table import Action, Keymap
from hwexplorer.tui.prompts.prompt_kinds import CommandPrompt
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.session.session_events import TextOpened
from hwexplorer.views.plain import NUMBERS, Text

# Commands that would list all devices once more, and commands that the user completes with a text.
_REPEAT = ("devices", "add", "remove", "baseline", "device")
_TAKES_TEXT = ("limits", "trace")
ID = "--command-palette"  # the id of Textual's own palette
# Scores of how well a text fits (0 to 1), and what each kind of item adds: tasks come before terms.
IS_IT, BEGINS, HAS_WORDS, HOLDS, IN_HELP, IS_LIKE = 1.0, 0.9, 0.8, 0.6, 0.4, 0.3
TASK, ACTION, LINE, TERM = 0.6, 0.3, 0.2, -0.3
# Common tasks: title, further search words, and an action or the beginning of a `:` line.
TASKS = (
    ("Open a model ..", "load another network llm", "filter"),
    ("Open a model of your own ..", "load file.py:factory pytorch torch onnx gguf pt2 hf file mine", ":model "),
    ("Add a device ..", "choose remove chip accelerator gpu cpu tpu hardware", "devices"),
    ("Set a limit ..", "limits budget at most maximum power memory latency energy constraint", "devices"),
    ("Why is it slow", "bottleneck limited bound expensive explain cause", "why"),
    ("What to change: advise", "faster cheaper optimise improve suggestion", "advise"),
    ("Change the batch ..", "batch size inputs at once throughput", ":batch "),
    ("Compare the devices", "table side by side against best chip", "pane_compare"),
    ("Compare with what is on screen now: pin it", "difference delta before after", "pin"),
    ("What if the chip were different: turn its facts", "knobs bandwidth clock units memory double", "pane_knobs"),
    ("Find an operator ..", "search layer row node", "find"),
    ("Lay a measured trace beside the tree ..", "profile profiler kineto nsight measured", ":trace "),
    ("Export this view ..", "save file json csv html svg picture report write", "export"),
    ("Restore a session ..", "saved last load state", "sessions"),
)
PHASE_TASKS = {
    "request": ("Time to first token: open the request phase", "ttft tpot latency prompt tokens serving llm"),
    "decode": ("Time per output token: open the decode phase", "tpot generate generation tokens llm"),
    "prefill": ("The prompt: open the prefill phase", "prefill context tokens llm"),
    "serve": ("A service: requests that arrive and wait", "load rate concurrency queue p99 goodput serving llm"),
}


class PaletteItem(msgspec.Struct, frozen=True):
    """Something to do, found by its title, by further `words` or by its help. `rank` is added to its score."""

    title: str
    help: str
    run: Callable[[], object]
    words: str = ""
    rank: float = ACTION

    def score(self, typed: str) -> float:
        """Return how well the item fits what is typed, its rank included: 0 (not at all) to 1."""
        typed, own = typed.casefold(), f"{self.title}\n{self.words}".casefold()
        words = typed.split()
        if typed in own.split("\n"):
            fits = IS_IT
        elif any(line.startswith(typed) for line in own.split("\n")):
            fits = BEGINS
        elif all(any(other.startswith(word) for other in own.split()) for word in words):
            fits = HAS_WORDS
        elif all(word in own for word in words):
            fits = HOLDS
        elif all(word in self.help.casefold() for word in words):
            fits = IN_HELP
        elif self.rank == LINE and len(typed) > 2 and matching_places(typed, (self.words,)):
            fits = HOLDS if fold_name(typed) in fold_name(self.words) else IS_LIKE / len(self.words)  # shorter first
        else:
            return 0.0
        return (fits + self.rank) / (IS_IT + TASK)


class PaletteItems(Provider):
    """Searches tasks, actions, terms, and the `:` lines with every completion: models, devices, verbs, plots, nodes,
    settings, themes, sessions."""

    async def startup(self) -> None:
        """List everything that can be found."""
        explorer = self.app.explorer  # type: ignore[attr-defined]  # HwExplorer, which imports this
        session, keymap = explorer.session, explorer.keymap

        def ask(line: str) -> None:
            """Open the `:` line with a text to be completed."""
            explorer.ask(CommandPrompt(session, line))

        self._first = [*_task_items(session, keymap, ask), *_action_items(session, keymap)]
        self._items = [*self._first, *_term_items(session), *_line_items(session, ask)]

    async def discover(self) -> Hits:
        """Yield tasks and actions, before anything is typed."""
        for item in self._first:
            yield DiscoveryHit(item.title, item.run, help=item.help)

    async def search(self, query: str) -> Hits:
        """Yield a scored hit for each item that fits the text."""
        matcher = self.matcher(query)
        for item in self._items:
            if score := item.score(query):
                yield Hit(score, matcher.highlight(item.title), item.run, help=item.help)


def _task_items(session: Session, keymap: Keymap, ask: Callable[[str], None]) -> list[PaletteItem]:
    """Return the tasks. If a language model is on screen, its tasks come first."""
    on_screen = phases(session.state.model)
    named = on_screen or phases("llama3_8b")
    lines = {phase: f"model {named[phase]}" for phase in PHASE_TASKS}
    of_phases = [
        PaletteItem(title, line, partial(command_line.submit, session, line), f"{phase} {words}", TASK)
        for (phase, line), (title, words) in zip(lines.items(), PHASE_TASKS.values(), strict=True)
    ]
    items = [
        PaletteItem(title, f"as {does}..", partial(ask, does[1:]), words, TASK)
        if does.startswith(":")
        else _action_item(session, keymap.by_id[does], title, f"{title} {words}", TASK)
        for title, words, does in TASKS
    ]
    return [*of_phases, *items] if on_screen else [*items, *of_phases]


def _action_items(session: Session, keymap: Keymap) -> Iterator[PaletteItem]:
    for action in keymap.actions:
        if not action.panes or session.state.pane in action.panes:
            yield _action_item(session, action, action.title, action.title, ACTION)


def _action_item(session: Session, action: Action, title: str, words: str, rank: float) -> PaletteItem:
    def perform() -> None:
        """Do the action, in its first pane if this one does not have it."""
        if action.panes and session.state.pane not in action.panes:
            session.apply(replace(session.state, pane=action.panes[0]))
        session.request(action.id)

    return PaletteItem(f"{title} ({key_table.keys_text(action)})", action.help, perform, words, rank)


def _term_items(session: Session) -> Iterator[PaletteItem]:
    for term in terms.terms():
        text = Text("help", term.name, ((term.name, (term.says,)),))
        run = partial(session.emit, TextOpened("help", term.name, text))
        yield PaletteItem(f"term: {term.name}", term.says, run, term.name, TERM)


def _line_items(session: Session, ask: Callable[[str], None]) -> Iterator[PaletteItem]:
    """Yield items for commands, their completions, and verbs. A command that takes a text opens the `:` line."""
    captions = {**_model_captions(session), **_device_captions(session)}
    helps: dict[str, str] = {}
    for name in names():
        if (known := COMMANDS.get(name)) is None:
            sections = registry.sections(name) or (name,)
            helps |= {registry.full_name(section): registry.help_of(section) for section in sections}
            continue
        if name in _TAKES_TEXT or (" " in known.usage and "[" not in known.usage):
            yield PaletteItem(f"{name} ..", known.help, partial(ask, f"{name} "), name, LINE)
        else:
            helps[name] = known.help
        if name not in _REPEAT:
            helps |= dict.fromkeys(command_line.completions(session, f"{name} "), known.help)
    for line, says in helps.items():
        yield PaletteItem(captions.get(line, line), says, partial(command_line.submit, session, line), line, LINE)


def _model_captions(session: Session) -> dict[str, str]:
    """Return a caption for each line that opens a model: its name, parameters and MACs."""
    table = session.cache.view("models", replace(session.state, filter=""))
    columns = {column.key: place for place, column in enumerate(table.columns)}
    captions = {}
    for row in table.rows:
        figures = (("parameters", "SI", " parameters"), ("macs", "MAC", ""))
        cells = [(row.cells[columns[key]], unit, word) for key, unit, word in figures if key in columns]
        known = [quantity(float(cell), unit) + word for cell, unit, word in cells if isinstance(cell, NUMBERS)]
        captions[f"model {row.key}"] = f"Open {row.key}" + (f" ({', '.join(known)})" if known else "")
    return captions


def _device_captions(session: Session) -> dict[str, str]:
    """Return a caption for each line that goes to a device."""
    table, there = session.provider.devices(session.state), session.state.devices
    place = next((place for place, column in enumerate(table.columns) if column.key == "name"), 0)
    names = {row.key: row.cells[place] for row in table.rows}
    return {f"on {key}": f"Go to {name}" if key in there else f"Add {name}, or go to it" for key, name in names.items()}


class PaletteScreen(CommandPalette):
    """Textual's palette, which closes only once and ignores messages that arrive late."""

    _is_dismissed = False

    def on_mount(self) -> None:
        """Drop clicks on rows that the list no longer has, since it is filled again while the user types."""
        found = self.query_one(OptionList)
        dispatch = found._dispatch_message

        async def dispatch_known(message: Message) -> None:
            """Dispatch a message, but not a click on a row that is gone."""
            row = message.style.meta.get("option") if isinstance(message, Click) else None
            if row is None or row < found.option_count:
                await dispatch(message)

        found._dispatch_message = dispatch_known  # type: ignore[method-assign]
        line = self.query_one(Input)
        type_into = line._dispatch_message

        async def dispatch_typed(message: Message) -> None:
            """Dispatch a message; what is typed after escape means what it does to the screen below."""
            if isinstance(message, Key) and not self._is_dismissed and message.key.startswith(("escape", "alt+")):
                self._action_escape()
                if message.key == "escape":
                    return
                message = Key(message.key.removeprefix("alt+"), message.character)  # read with the escape before it
            if isinstance(message, Key) and self._is_dismissed:
                self.app.explorer.post_message(message)  # type: ignore[attr-defined]  # HwExplorer, which imports this
            else:
                await type_into(message)

        line._dispatch_message = dispatch_typed  # type: ignore[method-assign]

    async def _dispatch_message(self, message: Message) -> None:
        """Handle a message, but no choice once the palette is closed, and no text that was typed further meanwhile. Its
        widgets may not exist yet, or no longer."""
        if isinstance(message, Input.Changed) and message.value != message.input.value:
            return
        if self.is_current or not isinstance(message, (Input.Submitted, Button.Pressed, OptionList.OptionSelected)):
            with suppress(NoMatches):
                await super()._dispatch_message(message)

    async def _watch__show_busy(self) -> None:
        """Show that a search takes long, if the widget for it exists."""
        with suppress(NoMatches):
            await super()._watch__show_busy()

    def _gather_commands(self, search_value: str) -> Worker[None]:
        """Gather what fits. This does nothing if the palette was closed meanwhile and has no list."""

        async def gather() -> None:
            """Run Textual's search."""
            with suppress(NoMatches):
                await CommandPalette._gather_commands.__wrapped__(self, search_value)  # type: ignore[attr-defined]

        return self.run_worker(gather, exclusive=True, group=self._GATHER_COMMANDS_GROUP)

    def _action_command_list(self, action: str) -> None:
        """Move in the list. A move by a page is ignored until the matches are laid out."""
        with suppress(KeyError):
            super()._action_command_list(action)

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Close the palette, unless it is closed already."""
        is_open = self.is_current and self.app.screen is self and not self._is_dismissed
        self._is_dismissed = self._is_dismissed or is_open
        return super().dismiss(result) if is_open else AwaitComplete.nothing()  # type: ignore[no-untyped-call]
