"""What an action did, in a few words: each is answered."""

from __future__ import annotations

from hardware.what_if import split_changes
from hwexplorer.history import changed_fields
from hwexplorer.settings import SCENARIO_FIELDS
from hwexplorer.state import State, replace
from hwexplorer.tui.lines import settings
from hwexplorer.views.plain import Card

Cards = tuple[Card, ...]
# Fields that are answered by a sentence about their new value.
_SAID = {
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


def answer(before: State, after: State, was: Cards, now: Cards) -> str:
    """`compiled: 31 % faster`; '' where the screen says it anyway. The cards are those of the devices."""
    changed = changed_fields(before, after)
    if (
        "devices" in changed
        and split_changes(before.on)[0] == split_changes(after.on)[0]
        and before.on not in after.devices
    ):
        now = tuple(replace(card, key=before.on) for card in now if card.key == after.on)
        said = split_changes(after.on)[1] or "as the device is"
        return f"{said}: {_effect(before.on, was, now) or 'no change'}"
    told = [f"added {name}" for name in after.devices if name not in before.devices]
    told += [f"removed {name}" for name in before.devices if name not in after.devices]
    if "model" not in changed and changed & SCENARIO_FIELDS:
        told.append(f"{_settings(before, after)}: {_effect(after.on, was, now) or 'no change'}")
    if "pin" in changed:
        told.append(f"pinned {after.pin}: deltas are against it" if after.pin else "nothing is pinned")
    if "limits" in changed and not after.limits:
        told.append("no limits")
    told += [form.format(getattr(after, name)) for name, form in _SAID.items() if name in changed and not told]
    return "; ".join(told)


def _settings(before: State, after: State) -> str:
    """The settings that are not as they were."""
    old = settings(before).split(" · ")
    return ", ".join(word for word in settings(after).split(" · ") if word not in old) or settings(after)


def _effect(device: str, was: Cards, now: Cards) -> str:
    """What became of the rate and of the energy of an inference on a device."""
    old, new = (next((card for card in cards if card.key == device), None) for cards in (was, now))
    parts = []
    for name, more, less in _FIGURES:
        change = getattr(new, name) / getattr(old, name) if old is not None and new is not None else 1.0
        if abs(change - 1) >= LEAST:
            parts.append(f"{_by(change)} {more if change > 1 else less}")
    return ", ".join(parts)


def _by(ratio: float) -> str:
    """A change in per cent, one of twice or more as a factor."""
    factor = max(ratio, 1 / ratio)
    return f"{factor:.3g}x" if factor >= 2 else f"{abs(ratio - 1) * 100:.0f} %"
