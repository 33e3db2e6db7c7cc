"""Jump labels: a key puts a letter on each card and pane, the letter goes there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hwexplorer.state import PANES, replace

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer

LETTERS = "asdfghjklqwertyuiopzxcvbnm"


def start(app: HwExplorer, _: Any) -> None:
    """Letters on what is in sight, cards first."""
    boxes = app.boxes(*app.screen_stack[0].size)
    cards = [("on", card.key) for card in app.strip.cards] if "cards" in boxes else []
    panes = [("pane", name) for name in PANES if name in boxes]
    _label(app, dict(zip(LETTERS, [*cards, *panes], strict=False)))
    app.say("a letter goes there", "dim")


def go(app: HwExplorer, character: str | None) -> None:
    """Where the letter stands; any other key leaves."""
    field, name = app.jumps.get(character or "", ("", ""))
    _label(app, {})
    app.hush()
    if field:
        app.apply(replace(app.state, **{field: name}))


def _label(app: HwExplorer, jumps: dict[str, tuple[str, str]]) -> None:
    app.jumps = jumps
    letters = {target: letter for letter, target in jumps.items()}
    app.strip.letters = {name: letter for (field, name), letter in letters.items() if field == "on"}
    app.strip.refresh()
    for name, pane in app.panes.items():
        pane.letter = letters.get(("pane", name), "")
        pane.redraw()
