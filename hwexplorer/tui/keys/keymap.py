"""Which key does what: the default keys of the actions, or those of the user's settings."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from hwexplorer.state import replace
from hwexplorer.tui.keys.key_table import ACTIONS, BY_ID, Action, key_sign

Hint = tuple[str, str, str]  # the action, its key and the word that the footer has for it
# The action that goes up -> the one that goes down.
PAIRS = {"batch_up": "batch_down", "precision_up": "precision_down", "turn_up": "turn_down"}
_ORDER = (
    *("help", "palette", "turn_up", "turn_back", "to_tree", "lift", "choose", "filter", "remove", "baseline", "rank"),
    *("pane_models", "devices", "phase", "toggle", "batch_up", "quit", "find", "pin", "export", "sessions"),
    *("pane_knobs", "zoom", "precision_up", "advise", "undo", "heaviest", "why", "sort", "metric", "execution", "fold"),
)


class Keymap:
    """The actions with their keys."""

    def __init__(self, actions: tuple[Action, ...] = ACTIONS) -> None:
        self.actions = actions
        self.by_id = {action.id: action for action in actions}
        self._own: dict[tuple[str, str], Action] = {}
        self._everywhere: dict[str, Action] = {}
        for action in actions:
            for key in action.keys:
                for pane in action.panes:
                    self._own.setdefault((key, pane), action)
                if not action.panes:
                    self._everywhere.setdefault(key, action)

    def find(self, key: str, pane: str) -> Action | None:
        """Return the action of a key in a pane: the pane's own first."""
        return self._own.get((key, pane)) or self._everywhere.get(key)

    def action_of(self, key: str, character: str | None, pane: str) -> Action | None:
        """Return the action of a key as a terminal sends it: first by what it types."""
        return self.find(character or key, pane) or self.find(key, pane)

    def hints(self, pane: str, idle: Collection[str] = ()) -> list[Hint]:
        """Return what the footer says in a pane, the most useful first, without what would do nothing (`idle`)."""
        idle = {*idle, f"pane_{pane}"}
        shown = [a for a in self.actions if a.hint and a.keys and (not a.panes or pane in a.panes) and a.id not in idle]
        shown = [a for a in shown if self.find(a.keys[0], pane) is a and not (a.id == "why" and pane == "why")]
        rank = {name: place for place, name in enumerate(_ORDER)}
        shown.sort(key=lambda a: rank.get(a.id, 99))
        return [(a.id, self._sign(a), a.hint) for a in shown]

    def _sign(self, action: Action) -> str:
        other = self.by_id.get(PAIRS.get(action.id, ""))
        keys = (*(other.keys[:1] if other else ()), action.keys[0])
        return " ".join(key_sign(key).replace("ctrl+", "^") for key in keys)

    def groups(self, pane: str = "") -> list[tuple[str, list[Action]]]:
        """Return the actions by group; with a pane, first those that are its own."""
        grouped: dict[str, list[Action]] = {}
        if pane:
            grouped[f"In {pane}"] = [a for a in self.actions if pane in a.panes]
            grouped[pane.title()] = []  # the group of that name is next
        for action in self.actions:
            if pane and pane in action.panes:
                continue
            grouped.setdefault(action.group, []).append(action)
        return [(name, actions) for name, actions in grouped.items() if actions]


DEFAULT = Keymap()


def remap(keys: Mapping[str, Iterable[str]]) -> tuple[Keymap, list[str]]:
    """Return a keymap where actions have the keys asked for, taken from whoever had them, and what is wrong."""
    wrong = [f"no action {name!r}" for name in keys if name not in BY_ID]
    wanted = {name: tuple(those) for name, those in keys.items() if name in BY_ID}
    placed = []
    for action in ACTIONS:
        taken = {key for name, those in wanted.items() if _share_panes(BY_ID[name], action) for key in those}
        left = tuple(key for key in action.keys if key not in taken)
        placed.append(replace(action, keys=wanted.get(action.id, left)))
    keymap = Keymap(tuple(placed))
    for name in ("help", "quit"):  # one can always find out, and leave
        if not keymap.by_id[name].keys:
            return DEFAULT, [*wrong, f"{name} would have no key left"]
    return keymap, wrong


def _share_panes(one: Action, other: Action) -> bool:
    return one.panes == other.panes or bool(set(one.panes) & set(other.panes))
