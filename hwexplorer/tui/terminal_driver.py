"""A driver for terminals as they are: bytes that are not text, answers that make no sense, impossible sizes, and a
terminal that is gone.

Textual's own driver ends with a traceback and exit code 0 on a byte that is not UTF-8, and loops for ever on a terminal
that has disappeared.
"""

import os
import re
import select
import signal
import sys
import termios
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any

from textual import events
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from hwexplorer.process import signals
from hwexplorer.tui.terminal_cells import TerminalCells
from hwexplorer.views import layout

READ_BYTES = 4096
PASTED = 1000  # printable characters in one read: no hand types as many, so they are pasted
TICK_S = 0.1
SIZE_CHANGED = ""  # in place of a text: what the terminal shows is not known, and is written whole next
SIZE_MAX = (2000, 1000)  # columns and lines; a larger size is an error, and would take gigabytes
# Resets each mode, in the order of `stop_application_mode`: paste, wrapping, sizes in the input, mouse,
# the keyboard protocol, the other screen, the cursor, focus.
RESET = (
    b"\x1b[?2004l\x1b[?7h\x1b[?2048l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l"
    b"\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
)
# What a parser knows of the terminal, which its successor takes over.
_KNOWN = ("last_x", "last_y", "mouse_pixels", "terminal_size", "terminal_pixel_size")


# Escape and a key right after it, in one read, are two keys; Textual makes one of them. Whether a letter came with
# alt or after escape is decided by the screen, which has the keymap.
_ESCAPED = re.compile(r"(\x1b)(?=[^\x1b\[\]O-Z\\^_a-zA-N0-9])")


class Keys:
    """Turns bytes from a terminal into events, whatever the bytes are."""

    def __init__(self) -> None:
        self._decode = getincrementaldecoder("utf-8")(errors="replace").decode
        self._parser = XTermParser()
        self._is_in_brackets = False  # what is pasted between marks, the parser joins

    def events(self, data: bytes) -> Iterator[Message]:
        """Yield the events of these bytes. Called without any after a pause: then an escape alone is a key."""
        read = self._decode(data)
        if len(read) >= PASTED and not self._is_in_brackets and read.isprintable():
            yield events.Paste(read)
            return
        if "\x1b[20" in read:
            self._is_in_brackets = read.rfind("\x1b[200~") > read.rfind("\x1b[201~")
        elif not self._is_in_brackets:
            read = read.replace("\n", "\r")  # enter, typed before the terminal sent keys as they are
        try:
            messages: list[Message] = []
            for place, text in enumerate(_ESCAPED.split(read)):
                if text:  # every second text is an escape at which the bytes were split
                    messages += [events.Key("escape", text)] if place % 2 else self._parser.feed(text)
            messages += self._parser.tick()
        except Exception:  # an answer that makes no sense; the events that came with it are lost
            before, self._parser = self._parser, XTermParser()
            for name in _KNOWN:
                setattr(self._parser, name, getattr(before, name))
            return
        yield from filter(_possible, messages)


def _possible(event: Message) -> bool:
    if not isinstance(event, events.Resize):
        return True
    return all(0 < size <= most for size, most in zip(event.size, SIZE_MAX, strict=True))


class _Output:
    """The terminal's file, for the thread that writes. A write that fails ends the program."""

    def __init__(self, file: IO[str], ascii: bool) -> None:
        self._file, self._ascii = file, ascii
        self.fileno = file.fileno
        self._cells = TerminalCells(self._columns())

    def _columns(self) -> int:
        try:
            return os.get_terminal_size(self.fileno()).columns
        except (OSError, ValueError):  # gone, or no terminal
            return SIZE_MAX[0]

    def write(self, text: str) -> None:
        """Write what changes on the terminal, SIZE_CHANGED for all of it; end the program if the terminal is gone."""
        if text == SIZE_CHANGED:
            self._cells.forget()
            self._cells.columns = self._columns()
        if self._ascii:  # Textual draws lists and input boxes itself
            text = layout.ascii_cells(text)
        try:
            self._file.write(self._cells.changes(text))
        except (OSError, ValueError):
            signals.end(signal.SIGHUP)

    def flush(self) -> None:
        """Flush the file; end the program if the terminal is gone."""
        try:
            self._file.flush()
        except (OSError, ValueError):
            signals.end(signal.SIGHUP)


def takes_unicode() -> bool:
    """Return True if the terminal's encoding has the characters that are drawn."""
    try:
        "│▏".encode(getattr(sys.__stderr__, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


class Terminal(LinuxDriver):
    """Textual's driver with the input read by `Keys`."""

    def __init__(self, app: App[Any], *arguments: Any, **keywords: Any) -> None:
        super().__init__(app, *arguments, **keywords)
        self._file: Any = _Output(self._file, getattr(app, "ascii", False))

    def send_message(self, message: Message) -> None:
        """Send an event to the app, without the task and the future of each that Textual would leave behind."""
        self._loop.call_soon_threadsafe(self._app.post_message, message)

    # A handler of a signal runs inside any call, and would wait for the queue of output that it interrupts.

    def _sigtstp_application(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(super()._sigtstp_application)

    def _sigcont_application(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(super()._sigcont_application)

    def run_input_thread(self) -> None:
        """Read keys until the screen ends or the terminal is gone."""
        keys = Keys()
        while not self.exit_event.is_set():
            try:
                ready = select.select([self.fileno], [], [], TICK_S)[0]
                data = os.read(self.fileno, READ_BYTES) if ready else b""
            except OSError:
                ready, data = [self.fileno], b""
            if ready and not data:
                signals.end(signal.SIGHUP)
                return
            for event in keys.events(data):
                with suppress(RuntimeError):  # the event loop has ended meanwhile
                    self.process_message(event)

    def _disable_mouse_support(self) -> None:
        super()._disable_mouse_support()
        if self._mouse_pixels:
            self.write("\x1b[?1016l")
            self.flush()

    def stop_application_mode(self) -> None:
        """Restore the terminal, input first: an answer that is read meanwhile would turn a mode on again."""
        self.disable_input()
        self._disable_mouse_support()
        super().stop_application_mode()

    def restore(self) -> None:
        """Restore the terminal at once, without waiting for pending output."""
        with suppress(OSError, termios.error):
            termios.tcflush(self.fileno, termios.TCOFLUSH)
        with suppress(OSError, ValueError):
            if select.select([], [self._file], [], TICK_S)[1]:
                os.write(self._file.fileno(), RESET)
        with suppress(OSError, termios.error):
            if self.attrs_before is not None:
                termios.tcsetattr(self.fileno, termios.TCSANOW, self.attrs_before)
