"""The message after an action: what it changed, in a few words."""

from analysis.estimate.metrics import METRICS
from analysis.wording import describe_change
from hardware.what_if import split_changes
from hwexplorer.settings import SCENARIO_FIELDS, labels
from hwexplorer.state import State
from hwexplorer.text.number_format import delta
from hwexplorer.tui.session.state_changes import changed_fields
from hwexplorer.views import plain

Cards = tuple[plain.Card, ...]
# Fields whose new value the message says.
_SENTENCES = {
    "metric": "shares are of {}",
    "baseline": "compared with {}",
    "model": "loaded {}",
    "limits": "limits: {}",
}
# Figures of a card, per inference and of the batch, and the words for a decrease and an increase.
_FIGURES = (
    ("energy_j", "less energy", "more energy"),
    ("rate_per_s", "lower rate", "higher rate"),
    ("latency_s", "shorter latency", "longer latency"),
)
TIMES = 2  # a larger change is a factor, a smaller one a percentage


def summarize_change(before: State, after: State, was: Cards, now: Cards, pin: plain.Card | None = None) -> str:
    """Return a sentence like `compiled: 31 % higher rate`, or '' if the screen shows the change anyway. `was` and `now`
    are the cards of all devices. Settings are compared with the card of the `pin`, if there is one. A what-if device is
    compared with the unchanged device, as in the knobs."""
    changed = changed_fields(before, after)
    base, change = split_changes(after.on)
    if "devices" in changed and split_changes(before.on)[0] == base and before.on not in after.devices:
        cards = {card.key: card for card in now}
        if not change or base not in cards:
            return f"{base} is unchanged"
        metric, change = METRICS[after.metric].noun, delta(cards[after.on].value / cards[base].value - 1)
        return f"{cards[after.on].name}: {metric} {change} against {base}"
    parts = [f"added {name}" for name in after.devices if name not in before.devices]
    parts += [f"removed {name}" for name in before.devices if name not in after.devices]
    if "model" not in changed and changed & SCENARIO_FIELDS:
        against = _settings(after, before) if pin is None else f"the pin {after.pin}"
        settings = f"{_settings(before, after)} vs {against}"
        old, new = (next((card for card in cards if card.key == after.on), None) for cards in (was, now))
        old = pin or old
        count = len(_FIGURES) if "batch" in changed else 2  # at one batch the rate says the latency
        effect = ", ".join(_changes(old, new, count)) if old is not None and new is not None else ""
        parts.append(f"{settings}: {effect or 'no change'}")
    if "pin" in changed:
        parts.append(f"pinned {after.pin}: deltas are against it" if after.pin else "nothing is pinned")
    if "limits" in changed and not after.limits:
        parts.append("no limits")
    if "model" in changed and after.pin and "/" not in after.pin:
        parts.append(f"pin recomputed for {after.model}")
    if changed & {"sort", "descending"} and not parts:
        parts.append(f"the tree is sorted by {after.order}")
    if changed & {"rank", "rank_reverse"} and not parts:
        parts.append(f"devices in order of {after.rank}{' reversed' * after.rank_reverse}")
    parts += [form.format(getattr(after, name)) for name, form in _SENTENCES.items() if name in changed and not parts]
    return "; ".join(parts)


def summarize_undo(before: State, after: State, was: Cards, now: Cards, _: plain.Card | None = None) -> str:
    """Return `undid "add kpu_t100"` for a step back from `before` to `after`."""
    summary = summarize_change(after, before, now, was).partition(": ")[0].partition(" vs ")[0]
    for participle, verb in (("added ", "add "), ("removed ", "remove "), ("pinned ", "pin ")):
        summary = summary.replace(participle, verb)
    return f'undid "{summary}"' if summary else ""


def _settings(before: State, after: State) -> str:
    old, new = ([text for text, _ in labels(state)] for state in (before, after))
    return ", ".join(text for text in new if text not in old) or " · ".join(new)


def summarize_pin(verdict: str, here: plain.Card, there: plain.Card) -> str:
    """Return the verdict against the pin with the change of each figure, since they may differ in direction:
    `batch 2 vs batch 1: energy -39 %, rate +92 %, latency +4.1 %, EDP -37 %.`"""
    names, _, change = verdict.partition(": ")
    values = ((words.partition(" ")[2], name) for name, words, _ in _FIGURES)
    figures = [f"{word} {delta(getattr(here, name) / getattr(there, name) - 1)}" for word, name in values]
    return f"{names}: {', '.join(dict.fromkeys((*figures, change)))}."


def _changes(old: plain.Card, new: plain.Card, count: int = len(_FIGURES)) -> list[str]:
    changes = (
        describe_change(getattr(new, name) / getattr(old, name), less, more, factor_min=TIMES)
        for name, less, more in _FIGURES[:count]
    )
    return [change for change in changes if change]
