"""Jump labels: a key puts a letter on each card and pane, the letter goes there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwexplorer.state import PANES, replace

if TYPE_CHECKING:
    from hwexplorer.tui.screen import Explorer

LETTERS = "asdfghjklqwertyuiopzxcvbnm"


class Jumps:
    """`places`: letter -> field of the state and its value, while they are shown."""

    def __init__(self, explorer: Explorer) -> None:
        self._explorer = explorer
        self.places: dict[str, tuple[str, str]] = {}

    def do_jump(self) -> None:
        """Letters on what is in sight, cards first."""
        explorer = self._explorer
        boxes = explorer.boxes(*explorer.size)
        cards = [("on", card.key) for card in explorer.strip.cards] if "cards" in boxes else []
        panes = [("pane", name) for name in PANES if name in boxes]
        self._label(dict(zip(LETTERS, [*cards, *panes], strict=False)))
        explorer.session.say("a letter goes there", "dim")

    def go(self, character: str | None) -> None:
        """Where the letter stands; any other key leaves."""
        session = self._explorer.session
        field, name = self.places.get(character or "", ("", ""))
        self._label({})
        session.hush()
        if field:
            session.apply(replace(session.state, **{field: name}))

    def _label(self, places: dict[str, tuple[str, str]]) -> None:
        self.places = places
        letters = {target: letter for letter, target in places.items()}
        strip = self._explorer.strip
        strip.letters = {name: letter for (field, name), letter in letters.items() if field == "on"}
        strip.refresh()
        for name, pane in self._explorer.panes.items():
            pane.letter = letters.get(("pane", name), "")
            pane.redraw()
