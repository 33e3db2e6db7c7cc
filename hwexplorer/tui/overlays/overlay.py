"""A screen over the explorer: one pane, and a line that says what is typed or said, else its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from hwexplorer.tui import lines
from hwexplorer.tui.actions import key_sign
from hwexplorer.tui.session import Session
from hwexplorer.tui.widgets.pane import Content, Line, Pane

if TYPE_CHECKING:
    from hwexplorer.tui.prompts import Prompt

CLOSE = Binding("escape,q,ctrl+c", "close", "closes")


def _sign(keys: str) -> str:
    first = keys.partition(",")[0]
    return key_sign({"slash": "/", "colon": ":"}.get(first, first))


class Overlay(ModalScreen[None]):
    """`BINDINGS` are its own keys, with the word that the foot has for each; what moves about is as in every pane. They
    are done at once, not when Textual comes to them: what is typed after a key must find what the key has opened."""

    DEFAULT_CSS = """
    Overlay { layout: vertical; background: $background; overflow: hidden; }
    Overlay Pane { height: 1fr; }
    Overlay Line { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [CLOSE]
    content: Any

    def __init__(self, session: Session, name: str, content: Content) -> None:
        super().__init__(name=name, classes="overlay")
        self.session = session
        self.pane = Pane(name, 0, content, session.stage.colours)
        self.pane.active = True
        self.prompt: Prompt | None = None
        self.foot = Line("foot", session.stage.colours)
        self._places: list[lines.Place] = []

    def compose(self) -> ComposeResult:
        yield self.pane
        yield self.foot

    def on_mount(self) -> None:
        self.tell()

    def on_resize(self) -> None:
        self.tell()

    @property
    def keys(self) -> list[Binding]:
        return [each for each in self.BINDINGS if isinstance(each, Binding)]

    def tell(self) -> None:
        """The line below."""
        hints = [(each.action, each.key_display or _sign(each.key), each.description) for each in self.keys]
        known = [hint for hint in hints if hint[2]]
        segments, self._places = lines.told(self.session, self.prompt, known, self.size.width, self.foot.palette, True)
        self.foot.show(segments)

    def close(self) -> None:
        """Not while the palette lies over it: that would be what closes."""
        if self.is_active:
            self.dismiss()
            self.session.stage.show()

    action_close = close

    # --- keys and mouse ---------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        if self.session.stage.press_key(event.key, event.character):  # which may have another screen by now
            event.stop()
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        self.session.stage.paste(event.text)

    def press(self, key: str, character: str | None) -> bool:
        """True when the key meant something: here, or for all that is moved about in, or by what it is called there."""
        action = self.session.keymap.of(key, character, "")
        id = (
            "close" if action is not None and action.id in ("back", "quit") else action.id if action is not None else ""
        )
        name = next((each.action for each in self.keys if key in each.key.split(",") or id == each.action), "")
        if name:
            getattr(self, f"action_{name}")()
        return bool(name) or self.pane.step(id)

    def on_pane_clicked(self, message: Pane.Clicked) -> None:
        message.stop()
        self.click(message)

    def click(self, at: Pane.Clicked) -> None:
        """What a click does where something can be chosen."""

    def on_pane_wheeled(self, message: Pane.Wheeled) -> None:
        self.pane.scroll_content(message.by)

    def on_line_clicked(self, message: Line.Clicked) -> None:
        """A word does what it says; elsewhere this is left."""
        name = lines.at(self._places, message.x)
        if self.prompt is not None:
            self.prompt.click(name)
        else:
            getattr(self, f"action_{name or 'close'}")()
