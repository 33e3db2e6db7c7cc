"""What a session asks of the screen it is shown on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from hwexplorer.state import State
from hwexplorer.views.plain import Text

if TYPE_CHECKING:
    from hwexplorer.export.sheet import Sheet
    from hwexplorer.tui.prompts import Prompt


class Stage(Protocol):
    @property
    def is_web(self) -> bool: ...

    def follow(self) -> None:
        """It has another state."""

    def show(self) -> None:
        """Cursors, colours or what covers the panes are others."""

    def show_lines(self) -> None:
        """What is told around them is other."""

    def tell(self) -> None:
        """Something was said."""

    def attend(self) -> None:
        """Work has begun: look at it now and then (`Session.poll`)."""

    def dress(self, look: str | None = None) -> None:
        """In another theme; or what is old is dimmed, or no longer."""

    def try_on(self, look: str) -> None: ...

    def do_theme(self, name: str = "") -> None: ...

    def perform(self, id: str) -> None:
        """An action of the registry."""

    def ask(self, prompt: Prompt | None) -> None:
        """A line to type, or none."""

    def cover(self, overlay: str) -> None: ...

    def show_text(self, name: str, heading: str, text: Text) -> None: ...

    def present(self, name: str, sheet: Sheet, go: Callable[[str], State] | None = None) -> None:
        """Rows to choose from, or the text of a report whose rows lead nowhere; `go` makes the state of a row."""

    def export(self, name: str) -> None: ...

    def picture(self) -> str: ...

    def deliver(self, name: str, data: bytes) -> None: ...
