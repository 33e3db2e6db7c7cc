"""The lines that the screen opens by a key: find, filter, command, export; and whether an export may overwrite."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import TYPE_CHECKING, ClassVar

from hardware.errors import RequestError
from hwexplorer.export import files
from hwexplorer.state import replace
from hwexplorer.tui.commands import command_line
from hwexplorer.tui.prompts.prompt import Prompt
from hwexplorer.tui.session import row_query, tree_index
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.session.session_events import ExportRequested

if TYPE_CHECKING:
    from hwexplorer.tui.panes.models_pane import ModelsPane

NO_MATCH = "enter opens it · none of the list: net.py:make 1x3x32x32, m.onnx, llama3_8b:decode"
PICTURE = ".svg"
SUFFIXES = (*files.SUFFIXES, PICTURE)


class FindPrompt(Prompt):
    """Words and conditions of rows of the tree."""

    label = "find"

    def __init__(self, session: Session) -> None:
        super().__init__(session, session.state.find, selected=True)

    def note(self) -> str:
        """Return what stands on the right of the line."""
        if not self.text:
            return row_query.HINT
        try:
            count = len(row_query.matching_rows(self.session.unfolded.table, self.text))
        except RequestError as error:
            return str(error)
        return f"{count} row{'s' * (count != 1)}"

    def offers(self) -> dict[str, str]:
        """Return the words that can be clicked, and the text that comes of each."""
        return self._append_words(row_query.HINT.split()[2:])

    def follow(self, text: str) -> None:
        """Narrow what is shown to the text."""
        session = self.session
        session.apply(replace(session.state, find=text))
        try:
            target = tree_index.next_match(session.unfolded.table, text, session.state.at, 0)
        except RequestError:
            return  # half typed; the note says what is missing
        if target is not None:
            session.move_to(target)


class FilterPrompt(Prompt):
    """Letters that narrow the models."""

    label = "filter"

    def __init__(self, session: Session, models: ModelsPane) -> None:
        super().__init__(session, session.state.filter, selected=True)
        self._models = models

    def note(self) -> str:
        """Return what stands on the right of the line."""
        count = len(self._models.content.visible)
        return f"{count} models · enter loads" if count else NO_MATCH

    def follow(self, text: str) -> None:
        """Narrow what is shown to the text."""
        self.session.apply(replace(self.session.state, filter=text))

    def edit(self, key: str, character: str | None) -> None:
        """Move in the list by its keys, else edit the line."""
        if key in ("up", "down"):
            self._models.do_move(1 if key == "down" else -1)
        else:
            super().edit(key, character)

    def enter(self) -> None:
        """Do what the line says."""
        self._models.do_choose()


class CommandPrompt(Prompt):
    """A command or a verb of the shell."""

    label = ":"

    def note(self) -> str:
        """Return what stands on the right of the line."""
        return command_line.describe(self.session, self.text)

    def offers(self) -> dict[str, str]:
        """Return the words that can be clicked, and the text that comes of each."""
        completions = command_line.completions_by_word(self.session, self.text)
        return {word: f"{line} " for word, line in completions.items()}

    def edit(self, key: str, character: str | None) -> None:
        """Move in the list by its keys, else edit the line."""
        if key in ("tab", "shift+tab", "up", "down"):
            self.change(command_line.complete_line(self.session, self.line, key))
        else:
            super().edit(key, character)

    def enter(self) -> None:
        """Do what the line says."""
        command_line.submit(self.session, self.text)


class ExportPrompt(Prompt):
    """A file name, proposed at first, or a folder."""

    label = "export to"

    def __init__(self, session: Session) -> None:
        state = session.state
        name = f"{state.model.rpartition('/')[2].partition(':')[0]}_{state.pane}.txt"
        super().__init__(session, name, selected=True)

    def note(self) -> str:
        """Return what stands on the right of the line."""
        return f"{' '.join(SUFFIXES)} or a folder/ · enter writes, esc leaves"

    def offers(self) -> dict[str, str]:
        """Return the words that can be clicked, and the text that comes of each."""
        path = PurePath(self.text)
        stem = str(path.with_suffix("")) if path.name else self.text
        return {suffix: stem + suffix for suffix in SUFFIXES} | {"folder/": f"{stem}/"}

    def enter(self) -> None:
        """Do what the line says."""
        self.session.emit(ExportRequested(self.text.strip()))


class OverwritePrompt(Prompt):
    """A question that one key decides."""

    keys: ClassVar = {"y": "y", "n": "n"}

    def __init__(self, session: Session, question: str, overwrite: Callable[[], None]) -> None:
        super().__init__(session)
        self.label, self._overwrite = question, overwrite

    def note(self) -> str:
        """Return what stands on the right of the line."""
        return "y overwrites, n leaves it"

    def ends_with(self, key: str, character: str | None) -> bool:
        """Return True: any key decides."""
        return True

    def end(self, key: str, character: str | None) -> None:
        """Overwrite on y, else leave what is there."""
        if character in ("y", "Y"):
            self._overwrite()
        else:
            self.session.say("left as it was", "dim")
