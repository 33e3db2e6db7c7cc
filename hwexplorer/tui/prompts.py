"""The prompts: find, command, export, and the question whether an export may overwrite a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, ClassVar, Protocol

from hardware.base.errors import RequestError
from hwexplorer.export import files
from hwexplorer.state import replace
from hwexplorer.tui import commands
from hwexplorer.tui.commands import run_verb
from hwexplorer.tui.session import state_changes
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.widgets.status_lines import Prompt

if TYPE_CHECKING:
    from hwexplorer.tui.panes import ViewPane
    from hwexplorer.tui.widgets.tree_table import TreeTable


PICTURE = ".svg"
SUFFIXES = (*files.SUFFIXES, PICTURE)
_GO_TO_NEXT = " · enter, then n goes to the next"


class Finder(Protocol):
    """A pane or overlay that finds rows of its own table."""

    content: TreeTable

    def do_find(self, step: int) -> None:
        """Go to the next row that matches `content.find`; step 0 may stay."""


class FindPrompt(Prompt):
    """Searches rows by words and conditions: the rows of a finder's table, else of the tree."""

    is_live = True

    def __init__(self, session: Session, finder: Finder | None = None, label: str = "find") -> None:
        super().__init__(session, finder.content.find if finder else session.state.find, selected=True)
        self.label, self._finder = label, finder

    def note(self) -> str:
        """Return how many rows match."""
        if not self.text:
            return "words" if self._finder else state_changes.HINT
        table = self._finder.content.table if self._finder else self.session.index.table
        try:
            count = len(state_changes.matching_rows(table, self.text))
        except RequestError as error:
            return str(error)
        return f"{count} row{'s' * (count != 1)}{_GO_TO_NEXT}" if count else "no row here has it"

    def offers(self) -> dict[str, str]:
        """Return examples of conditions."""
        return {} if self._finder else self._append_words(state_changes.HINT.split()[2:])

    def follow(self, text: str) -> None:
        """Go to the first row that matches."""
        session = self.session
        with suppress(RequestError):  # a condition is half typed; the note says what is missing
            if self._finder is not None:
                state_changes.matching_rows(self._finder.content.table, text)
                self._finder.content.find = text
                self._finder.do_find(0)
                return
            session.apply(replace(session.state, find=text))
            if (target := state_changes.next_match(session.index.table, text, session.state.at, 0)) is not None:
                session.move_to(target)

    def enter(self) -> None:
        """Say so and end the search if no row matches."""
        if self.text.strip() and not (note := self.note()).endswith(_GO_TO_NEXT):
            self.session.say(f"find {self.text.strip()}: {note}", "warn")
            self.follow("")


class CommandPrompt(Prompt):
    """Takes a command or a verb of the shell."""

    label = ":"

    def note(self) -> str:
        """Return what the command does."""
        runs = ["enter runs it"] * bool(self.text.strip())
        return " · ".join(filter(None, (commands.describe(self.session, self.text), *runs)))

    def offers(self) -> dict[str, str]:
        """Return the completions of the line."""
        completions = commands.completions_by_word(self.session, self.text)
        return {word: f"{line} " for word, line in completions.items()}

    def edit(self, key: str, character: str | None) -> None:
        """Complete the line by tab and arrows, else edit it."""
        if key in ("tab", "shift+tab", "up", "down"):
            self.change(commands.complete_line(self.session, self.line, key))
        else:
            super().edit(key, character)

    def follow(self, text: str) -> None:
        """Show a theme while its name is in the line."""
        command, _, name = text.strip().partition(" ")
        self.session.request("preview_theme", name if command == "theme" and name else "none")

    def enter(self) -> None:
        """Run the command."""
        commands.submit(self.session, self.text)


class ExportPrompt(Prompt):
    """Asks for a file name and proposes one. It writes the focused pane, or what the `words` of a verb print."""

    label = "export to"

    def __init__(self, session: Session, words: Sequence[str] = ()) -> None:
        state, self._words = session.state, words
        subject = words[0] if words else state.view
        name = re.split("[,(]", state.model.rpartition("/")[2])[0]  # without lengths and inputs
        self._stem = re.sub(r"[^\w.-]", "_", f"{name}_{subject}")
        self._error = ""
        super().__init__(session, f"{self._stem}.txt", selected=True)

    def note(self) -> str:
        """Return what is wrong with the name, or where the file goes."""
        path = self._path()
        saves = f" to {path}" if path != self.text.strip() else ""
        return self._error or f"{' '.join(SUFFIXES)} · enter saves{saves}, esc cancels"

    def offers(self) -> dict[str, str]:
        """Return the name with each suffix."""
        path = PurePath(self.text)
        stem = str(path.with_suffix("")) if path.name else self.text
        return {suffix: stem + suffix for suffix in SUFFIXES}

    def _path(self) -> str:
        """Return the file that the text names. A format alone (`json`) means the proposed name in that format."""
        text = self.text.strip()
        return self._stem + f".{text.lower()}" if f".{text.lower()}" in SUFFIXES else text

    def ends_prompt(self, key: str, character: str | None) -> bool:
        """Return True if the key leaves the prompt, or enters a name that can be written."""
        if key == "enter":
            self._error = self._find_error()
        return super().ends_prompt(key, character) and not (key == "enter" and self._error)

    def _find_error(self) -> str:
        path = Path(self._path())
        try:
            if not self._path():
                return "expected a file name, e.g. resnet50.json"
            path = path.expanduser()
            files.format_of(path, dict.fromkeys(SUFFIXES, ""))
            if self._is_of_verb and path.exists():
                return f"{path.name} exists: choose another name"
            return "" if path.parent.is_dir() else "that folder does not exist"
        except (OSError, RequestError, RuntimeError, ValueError) as error:
            return str(error)

    def follow(self, text: str) -> None:
        """Clear the error of the text before."""
        self._error = ""

    def enter(self) -> None:
        """Write the file."""
        if self._is_of_verb:
            run_verb(self.session, [*self._words, "-o", str(Path(self._path()).expanduser())])
        else:
            self.session.request("export", self._path())

    @property
    def _is_of_verb(self) -> bool:
        return bool(self._words) and not self._path().endswith(PICTURE)


class OverwritePrompt(Prompt):
    """Asks whether to overwrite a file; one key decides."""

    keys: ClassVar = {"y": "y", "n": "n"}

    def __init__(self, session: Session, question: str, overwrite: Callable[[], None]) -> None:
        super().__init__(session)
        self.label, self._overwrite = question, overwrite

    def note(self) -> str:
        """Return what the keys do."""
        return "y overwrites it, n keeps it"

    def ends_prompt(self, key: str, character: str | None) -> bool:
        """Return True: any key decides."""
        return True

    def end(self, key: str, character: str | None) -> None:
        """Overwrite the file on y, else keep it."""
        if character in ("y", "Y"):
            self._overwrite()
        else:
            self.session.say("left as it was", "dim")


def make_prompt(kind: str, session: Session, panes: Mapping[str, ViewPane]) -> Prompt:
    """Create the prompt of a kind: find, command or export."""
    pane = panes[session.state.pane]
    if kind == "find" and pane.finds_rows:
        return FindPrompt(session, pane, f"find in {pane.pane}")
    kinds: dict[str, type[Prompt]] = {"find": FindPrompt, "command": CommandPrompt, "export": ExportPrompt}
    return kinds[kind](session)
