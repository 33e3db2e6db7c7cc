"""The message after an action: what it changed, in a few words."""

from __future__ import annotations

from hardware.what_if import split_changes
from hwexplorer.settings import SCENARIO_FIELDS, labels
from hwexplorer.state import State, replace
from hwexplorer.tui.session.history import changed_fields
from hwexplorer.views.plain import Card

Cards = tuple[Card, ...]
# Fields whose new value the message says.
_SENTENCES = {
    "metric": "shares are of {}",
    "sort": "the tree is sorted by {}",
    "rank": "devices in order of {}",
    "baseline": "compared with {}",
    "model": "loaded {}",
    "limits": "limits: {}",
}
# Figures of a card, what more of one is, and what less.
_FIGURES = (("rate_per_s", "faster", "slower"), ("energy_j", "more energy", "less energy"))
LEAST = 0.005  # a smaller change is none


def summarize_change(before: State, after: State, was: Cards, now: Cards) -> str:
    """Return `compiled: 31 % faster`, or '' where the screen says it anyway. The cards are those of the devices."""
    changed = changed_fields(before, after)
    if (
        "devices" in changed
        and split_changes(before.on)[0] == split_changes(after.on)[0]
        and before.on not in after.devices
    ):
        now = tuple(replace(card, key=before.on) for card in now if card.key == after.on)
        change = split_changes(after.on)[1] or "as the device is"
        return f"{change}: {_effect(before.on, was, now) or 'no change'}"
    parts = [f"added {name}" for name in after.devices if name not in before.devices]
    parts += [f"removed {name}" for name in before.devices if name not in after.devices]
    if "model" not in changed and changed & SCENARIO_FIELDS:
        parts.append(f"{_settings(before, after)}: {_effect(after.on, was, now) or 'no change'}")
    if "pin" in changed:
        parts.append(f"pinned {after.pin}: deltas are against it" if after.pin else "nothing is pinned")
    if "limits" in changed and not after.limits:
        parts.append("no limits")
    parts += [form.format(getattr(after, name)) for name, form in _SENTENCES.items() if name in changed and not parts]
    return "; ".join(parts)


def _settings(before: State, after: State) -> str:
    old, new = ([text for text, _ in labels(state)] for state in (before, after))
    return ", ".join(text for text in new if text not in old) or " · ".join(new)


def _effect(device: str, was: Cards, now: Cards) -> str:
    old, new = (next((card for card in cards if card.key == device), None) for cards in (was, now))
    parts = []
    for name, more, less in _FIGURES:
        change = getattr(new, name) / getattr(old, name) if old is not None and new is not None else 1.0
        if abs(change - 1) >= LEAST:
            parts.append(f"{_ratio_text(change)} {more if change > 1 else less}")
    return ", ".join(parts)


def _ratio_text(ratio: float) -> str:
    factor = max(ratio, 1 / ratio)
    return f"{factor:.3g}x" if factor >= 2 else f"{abs(ratio - 1) * 100:.0f} %"
