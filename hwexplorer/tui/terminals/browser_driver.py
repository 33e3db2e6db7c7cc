"""The driver of an explorer that `hwexplorer serve` opened: packets to and from the server on the standard streams.

Textual's own driver outlives its server, and takes keys faster than the screen can handle them.
"""

from __future__ import annotations

import asyncio
import os
import signal
from threading import Lock
from time import sleep
from typing import Any

from textual.drivers.web_driver import WebDriver
from textual.message import Message

from hwexplorer.process import signals

QUEUE_MAX = 200  # messages not handled yet; above it the sender waits


class Driver(WebDriver):
    """A packet is a letter (`D` for the screen, `M` for JSON), a length in four bytes, and that many bytes."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._one_writer = Lock()
        self._write = self._write_all  # type: ignore[assignment]

    def _write_all(self, data: bytes) -> None:
        """Write a whole packet: a signal may cut a single write short, and a full pipe mixes those of two threads.

        The screen writes from the event loop, a part of a download from the input thread.
        """
        left = memoryview(data)
        with self._one_writer:
            while left:
                left = left[os.write(self.fileno, left) :]

    def run_input_thread(self) -> None:
        """Read messages until the server ends the session. If the server is gone, end: nobody sees the screen."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            signals.end(signal.SIGHUP)

    def send_message(self, message: Message) -> None:
        """Post a message from the input thread. It waits while the screen is behind, and so does the server."""
        while self._app.message_queue_size > QUEUE_MAX and not self.exit_event.is_set():
            sleep(0.01)
        taken = asyncio.run_coroutine_threadsafe(self._app._post_message(message), loop=self._loop)
        while not taken.done() and not self.exit_event.is_set():
            sleep(0.001)
