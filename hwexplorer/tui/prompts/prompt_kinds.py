"""The lines that the screen opens by a key: find, filter, command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardware.errors import RequestError
from hwexplorer.state import replace
from hwexplorer.tui.commands import command_line
from hwexplorer.tui.prompts.prompt import Prompt
from hwexplorer.tui.session import row_query, tree_index
from hwexplorer.tui.session.session import Session

if TYPE_CHECKING:
    from hwexplorer.tui.panes.models_pane import ModelsPane

NO_MATCH = "enter opens it · none of the list: net.py:make 1x3x32x32, m.onnx, llama3_8b:decode"


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
