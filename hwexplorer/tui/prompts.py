"""Typing in the foot: find, filter, command, export, the device picker; every key shows what it does so far."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hardware.errors import RequestError
from hwexplorer.state import replace
from hwexplorer.tui import exports, limits, navigate, overlays, query
from hwexplorer.tui.prompt import Prompt, edit

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer


def prompt_note(app: HwExplorer) -> str:
    """What the text does so far, on the right of the line."""
    typing = app.prompt
    if typing is None:
        return ""
    if typing.kind == "export":
        return ".txt .json .csv .md .html .svg or a folder/ · enter writes, esc leaves"
    if typing.kind == "overwrite":
        return "y overwrites, n leaves it"
    if typing.kind == "search":
        return f"{sum(len(said) for _, said in app.help.text.sections)} lines · enter keeps them, esc shows all"
    if typing.kind == "filter":
        return f"{len(app.models.visible)} models · enter loads"
    if typing.kind == "devices":
        enter = "enter adds it" if overlays.enter_adds(app) else "enter done"
        if len(query.words(overlays.asked(app))) < len(overlays.asked(app).split()):
            passing = sum(not row.dim for row in app.picker.table.rows)
            return f"{passing} of {len(app.picker.visible)} pass · space adds or takes away, enter keeps the limits"
        return f"{len(app.picker.visible)} devices · space adds or takes away, {enter}"
    if typing.kind == "command":
        from hwexplorer.tui import command

        return command.note(app, typing.text)
    if not typing.text:
        return query.HINT
    try:
        count = len(query.matches(app.unfolded.table, typing.text))
    except RequestError as error:
        return str(error)
    return f"{count} row{'s' * (count != 1)}"


def prompt_key(app: HwExplorer, key: str, character: str | None) -> None:
    typing = app.prompt
    assert typing is not None
    if typing.kind == "overwrite":
        app.prompt = None
        if character in ("y", "Y"):
            exports.export(app, typing.text, overwrite=True)
        else:
            app.say("left as it was", "dim")
    elif key in ("escape", "ctrl+c"):
        app.prompt = None
        _live(app, typing.kind, typing.before)
        _close_picker(app, typing)
        app.show()
    elif key == "enter":
        if typing.kind == "devices":
            _enter_device(app)
            _keep_limits(app, overlays.asked(app))
        app.prompt = None
        app.show_lines(app.size.width)  # a picture of the screen shows no line that is being typed
        _submit(app, typing)
        app.show()
    elif typing.kind == "command" and key in ("tab", "shift+tab", "up", "down"):
        from hwexplorer.tui import command

        prompt_changed(app, command.moved(app, typing, key))
    elif typing.kind == "devices" and key == "space" and query.ends_in_condition(typing.text):
        prompt_changed(app, edit(typing, key, " "))  # more limits may follow; the next one picks
    elif typing.kind == "devices" and key in ("up", "down", "pageup", "pagedown", "space"):
        _pick(app, key)
    elif key in ("up", "down") and typing.kind == "filter":
        app.models.move(1 if key == "down" else -1)
        app.panes["models"].redraw()
    else:
        prompt_changed(app, edit(typing, key, character))


def _pick(app: HwExplorer, key: str) -> None:
    if key == "space":
        overlays.pick(app)
    else:
        step = app.picker.page() if key.startswith("page") else 1
        app.picker.move(step if key.endswith("down") else -step)
    app.panes["picker"].redraw()


def _enter_device(app: HwExplorer) -> None:
    if overlays.enter_adds(app):
        overlays.pick(app)


def _close_picker(app: HwExplorer, typing: Prompt) -> None:
    if typing.kind == "devices":
        app.overlay = ""


def _keep_limits(app: HwExplorer, text: str) -> None:
    """What was typed to narrow the devices is what they are held against from now on."""
    try:
        app.apply(replace(app.state, limits=limits.typed(text)))
    except RequestError as error:
        app.say(str(error), "bad")


def prompt_changed(app: HwExplorer, typing: Prompt) -> None:
    before, app.prompt = app.prompt, typing
    if before is not None and before.text != typing.text:
        _live(app, typing.kind, typing.text)
    app.show_lines(app.size.width)


def _live(app: HwExplorer, kind: str, text: str) -> None:
    """Find, filter, devices and themes follow every key."""
    if kind == "filter":
        app.apply(replace(app.state, filter=text))
    elif kind == "search":
        overlays.search(app, text)
        app.panes["help"].redraw()
    elif kind == "devices":
        overlays.fill_picker(app)
        app.panes["picker"].redraw()
    elif kind == "command":
        from hwexplorer.tui import command

        command.preview(app, text)
    elif kind == "find":
        app.apply(replace(app.state, find=text))
        try:
            target = navigate.find(app.unfolded.table, text, app.state.at, 0)
        except RequestError:
            return  # half typed; the note says what is missing
        if target is not None:
            app.move_to(target)


def _submit(app: HwExplorer, typing: Prompt) -> None:
    if typing.kind == "export":
        exports.export(app, typing.text.strip(), overwrite=False)
    elif typing.kind == "filter":
        app.perform("choose")
    elif typing.kind == "command":
        from hwexplorer.tui import command

        command.submit(app, typing.text)
    else:
        _close_picker(app, typing)
