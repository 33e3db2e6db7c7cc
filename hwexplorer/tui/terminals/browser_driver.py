"""The terminal of an explorer that `hwexplorer serve` opened: packets on the standard streams, to and from the server.

Textual's own driver, which outlives its server, takes keys faster than the screen can.
"""

from __future__ import annotations

import asyncio
import os
import signal
from time import sleep
from typing import Any

from textual.drivers.web_driver import WebDriver
from textual.message import Message

from hwexplorer.process import signals

QUEUE_MAX = 200  # messages not seen to yet: whoever sends more waits


class Driver(WebDriver):
    """One packet is a letter, four bytes of length, and so many bytes: `D` for the screen, `M` for JSON."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._write = self._write_all  # type: ignore[assignment]

    def _write_all(self, data: bytes) -> None:
        """A signal may cut a write short."""
        left = memoryview(data)
        while left:
            left = left[os.write(self.fileno, left) :]

    def run_input_thread(self) -> None:
        """Until the server says so, or is gone: then nobody sees this screen any more."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            signals.end(signal.SIGHUP)

    def send_message(self, message: Message) -> None:
        """In the thread of the input, which stops reading while the screen is behind; and so does the server."""
        while self._app.message_queue_size > QUEUE_MAX and not self.exit_event.is_set():
            sleep(0.01)
        taken = asyncio.run_coroutine_threadsafe(self._app._post_message(message), loop=self._loop)
        while not taken.done() and not self.exit_event.is_set():
            sleep(0.001)
