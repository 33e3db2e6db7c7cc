"""The prompts of an export: which file, and whether to overwrite it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePath
from typing import ClassVar

from hwexplorer.export import files
from hwexplorer.tui.prompts.prompt import Prompt
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.session.session_events import ExportRequested

PICTURE = ".svg"
SUFFIXES = (*files.SUFFIXES, PICTURE)


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
