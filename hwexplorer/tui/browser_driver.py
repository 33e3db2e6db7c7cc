"""A driver for pages of `textual serve`. Textual's own leaves the program running when its server is gone."""

import signal

from textual.drivers.web_driver import WebDriver

from hwexplorer.process import signals

LEAVES_S = 2.0  # a page that is closed asks the program to quit before its input ends


class Browser(WebDriver):
    """Textual's driver, which ends the program with its input."""

    def run_input_thread(self) -> None:
        """Read packets until the page or the server is gone."""
        super().run_input_thread()
        if not self.exit_event.wait(LEAVES_S):
            signals.end(signal.SIGTERM)
