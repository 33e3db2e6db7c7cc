"""What is typed in the foot: a class for each; every key shows what the line does so far."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from hardware.errors import RequestError
from hwexplorer.state import replace
from hwexplorer.tui import command, navigate, query
from hwexplorer.tui.prompt import Line, typed
from hwexplorer.tui.prompt import edit as edited
from hwexplorer.tui.session import Session

if TYPE_CHECKING:
    from hwexplorer.tui.panes.models import Models

FROM_A_FILE = "enter opens it · none of the list: net.py:make 1x3x32x32, m.onnx, llama3_8b:decode"


class Prompt:
    """`before` is what escape goes back to."""

    label = ""
    keys: ClassVar = {"enter": "enter", "esc": "escape", "tab": "tab"}  # words of a note that are keys

    def __init__(self, session: Session, text: str = "", selected: bool = False) -> None:
        self.session, self.before = session, text
        self.line = Line(text, len(text), selected=selected and bool(text))

    @property
    def text(self) -> str:
        return self.line.text

    def note(self) -> str:
        """What the text does so far, on the right of the line."""
        return ""

    def offers(self) -> dict[str, str]:
        """Words of the note that are clicked, and the text that comes of it."""
        return {}

    def click(self, word: str) -> None:
        """On a word of the note that is offered or a key; elsewhere it enters."""
        if text := self.offers().get(word, ""):
            self.change(Line(text, len(text)))
        else:
            self.press(self.keys.get(word, "enter"), None)

    def _with(self, words: Sequence[str]) -> dict[str, str]:
        """The text with one of these after it."""
        return {word: f"{self.text.rstrip()} {word} ".lstrip() for word in words if word not in self.text}

    def follow(self, text: str) -> None:
        """What every key shows."""

    def change(self, line: Line) -> None:
        is_other, self.line = line.text != self.line.text, line
        if is_other:
            self.follow(line.text)
        self.session.stage.show_lines()

    def paste(self, text: str) -> None:
        self.change(typed(self.line, text))

    def press(self, key: str, character: str | None) -> None:
        if key in ("escape", "ctrl+c", "enter"):
            self.session.stage.ask(None)  # a picture of the screen shows no line that is being typed
            (self.enter if key == "enter" else self.leave)()
            self.session.stage.show()
        else:
            self.edit(key, character)

    def edit(self, key: str, character: str | None) -> None:
        """A key that neither enters nor leaves."""
        self.change(edited(self.line, key, character))

    def enter(self) -> None:
        """Do it: the line is gone already."""

    def leave(self) -> None:
        """Escape: as it was before."""
        self.follow(self.before)


class Find(Prompt):
    label = "find"

    def __init__(self, session: Session) -> None:
        super().__init__(session, session.state.find, selected=True)

    def note(self) -> str:
        if not self.text:
            return query.HINT
        try:
            count = len(query.matches(self.session.unfolded.table, self.text))
        except RequestError as error:
            return str(error)
        return f"{count} row{'s' * (count != 1)}"

    def offers(self) -> dict[str, str]:
        return self._with(query.HINT.split()[2:])

    def follow(self, text: str) -> None:
        session = self.session
        session.apply(replace(session.state, find=text))
        try:
            target = navigate.find(session.unfolded.table, text, session.state.at, 0)
        except RequestError:
            return  # half typed; the note says what is missing
        if target is not None:
            session.move_to(target)


class Filter(Prompt):
    label = "filter"

    def __init__(self, session: Session) -> None:
        super().__init__(session, session.state.filter, selected=True)
        self._models = cast("Models", session.stage.views["models"])

    def note(self) -> str:
        count = len(self._models.content.visible)
        return f"{count} models · enter loads" if count else FROM_A_FILE

    def follow(self, text: str) -> None:
        self.session.apply(replace(self.session.state, filter=text))

    def edit(self, key: str, character: str | None) -> None:
        if key in ("up", "down"):
            self._models.do_move(1 if key == "down" else -1)
        else:
            super().edit(key, character)

    def enter(self) -> None:
        self._models.do_choose()


class Command(Prompt):
    label = ":"

    def note(self) -> str:
        return command.note(self.session, self.text)

    def offers(self) -> dict[str, str]:
        return {word: f"{line} " for word, line in command.offered(self.session, self.text).items()}

    def edit(self, key: str, character: str | None) -> None:
        if key in ("tab", "shift+tab", "up", "down"):
            self.change(command.moved(self.session, self.line, key))
        else:
            super().edit(key, character)

    def enter(self) -> None:
        command.submit(self.session, self.text)


PROMPTS: dict[str, Callable[[Session], Prompt]] = {"find": Find, "filter": Filter, "command": Command}
