"""Long work beside the screen: capturing a model, running a verb. What is shown stays, and can be used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwexplorer.history import History
from hwexplorer.state import State
from hwexplorer.tui import effects, results
from hwexplorer.tui.capture import Capture

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer
    from hwexplorer.tui.task import Task

EVERY = 0.1  # seconds between two looks at it


def start_capture(app: HwExplorer, state: State) -> None:
    """Capture a model in the background; what is on screen stays, dimmed, and can be used."""
    effects.cancel_capture(app)
    app.capture = Capture(state, app.provider.capture(state))
    app.capture.start()
    _watch(app)
    app.dress()


def start_errand(app: HwExplorer, errand: Task) -> None:
    """Run a verb; what it printed is shown once it is done."""
    if app.errand is not None:
        app.errand.cancel()
    app.errand = errand
    errand.start()
    _watch(app)
    app.show_lines(app.size.width)


def _watch(app: HwExplorer) -> None:
    if app.polling is None:
        app.polling = app.set_interval(EVERY, lambda: _poll(app))
    else:
        app.polling.resume()


def _poll(app: HwExplorer) -> None:
    _poll_errand(app)
    _poll_capture(app)
    if app.errand is None and app.capture is None and app.polling is not None:
        app.polling.pause()


def _poll_errand(app: HwExplorer) -> None:
    errand = app.errand
    if errand is None:
        return
    if errand.done():
        app.errand = None
        if error := errand.failed():
            app.say(error, "bad")
        else:
            results.show(app, errand.name, errand.sheet())
    app.show_lines(app.size.width)


def _poll_capture(app: HwExplorer) -> None:
    capture = app.capture
    if capture is None:
        return
    if not capture.done():
        app.show_lines(app.size.width)
        return
    app.capture = None
    if error := capture.error():
        app.say(error, "bad")
    else:
        wanted = capture.state
        if app.views is None:
            app.history = History(present=wanted)
            app.apply(wanted, app.history)
        else:
            state = effects.with_model(app.state, wanted.model, wanted.image_size)
            app.apply(state, app.history if state == app.state else None)  # the same model, captured anew
    app.dress()
