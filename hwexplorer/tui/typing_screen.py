"""Keys that are typed faster than they are handled: the result of a burst is drawn at most ten times a second."""

from collections import deque
from contextlib import suppress
from time import monotonic

from textual import events

from hardware.base.errors import RequestError
from hwexplorer.tui.keys.key_table import Keymap
from hwexplorer.tui.layered_screen import LayeredScreen
from hwexplorer.tui.panes.view_panes import ViewPane
from hwexplorer.tui.session.session import Session

DRAWN_EVERY_S = 0.1
_YIELD_S = 0.03  # pause in which the panes are drawn
_LEAVES_AFTER_S = 0.3  # a key that quits waits no longer for the keys typed before it: about 200 of them
_READ_FIRST, _READ_FIRST_S = 50, 0.3  # more keys on their way are read before any is drawn, for so long at most
_OPENING = ("prompt", "find", "devices", "sheet", "report", "help", "palette", "sessions")  # they take the keys


class TypingScreen(LayeredScreen):
    """Queues the keys that come while there is no time for them."""

    def __init__(self, session: Session, keymap: Keymap, panes: dict[str, ViewPane]) -> None:
        super().__init__(session, keymap, panes)
        self.typed: deque[events.Key] = deque()  # keys that are not handled yet
        self.drawn_s = monotonic()

    def on_key(self, event: events.Key) -> None:
        """Pass a key to the uppermost layer. If the screen is behind, queue it until the keys before it are drawn."""
        if event.key == "ctrl+c":
            self.typed.clear()
        is_late = self.message_queue_size > 0 and monotonic() - self.drawn_s > DRAWN_EVERY_S
        if self.typed or is_late:
            if not self.typed:
                self.set_timer(_YIELD_S, self.work_off)
            self.typed.append(event)
        elif not self.press_key(event.key, event.character):
            return
        event.stop()
        event.prevent_default()

    def work_off(self) -> None:
        """Handle queued keys for DRAWN_EVERY_S, then show the result. If the last key quits, nothing more is drawn."""
        pending = self.message_queue_size + self.app.message_queue_size
        if pending > _READ_FIRST and monotonic() - self.drawn_s < _READ_FIRST_S:  # one of them may quit
            self.set_timer(_YIELD_S, self.work_off)
            return
        leaves = self._leaves_last()
        until_s = monotonic() + (_LEAVES_AFTER_S if leaves else DRAWN_EVERY_S)
        self.session.suspend_views()
        with suppress(RequestError):  # `catch_up` says why a state cannot be shown
            while len(self.typed) > leaves and monotonic() < until_s:
                event = self.typed.popleft()
                self.press_key(event.key, event.character)
        if leaves and self._leaves_last():  # the keys before it have opened nothing
            self.session.finish_without_views()
            event = self.typed.pop()
            self.typed.clear()
            self.press_key(event.key, event.character)
            return
        self.session.catch_up()
        self.show()
        self.panes[self.session.state.pane].redraw()
        if self.typed:
            self.set_timer(_YIELD_S, self.work_off)

    def _leaves_last(self) -> bool:
        """Return True if the last queued key quits, and nothing is or will be open that it could be typed into."""
        meant = [self.keymap.action_of(event.key, event.character, "") for event in self.typed]
        opens = any(action is not None and action.effect in _OPENING for action in meant)
        is_open = self._top is not self or self.prompt is not None
        return meant[-1:] == [self.keymap.by_id["quit"]] and not opens and not is_open
