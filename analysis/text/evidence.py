"""The evidence behind a figure, in words."""

from analysis.estimate.estimate import Estimate
from analysis.estimate.trust import Trust
from hardware.base.text import count_noun, percent

# The words for each level of evidence: here for a table, below for a sentence.
EVIDENCE = {"measured": "measured", "siblings": "similar chip", "engineering": "data sheet", "design_target": "paper"}
_SENTENCES = {
    "measured": "measured on it",
    "siblings": "similar chips",
    "engineering": "data sheets only, nothing measured",
    "design_target": "on paper",
}


def is_backed(trust: Trust) -> bool:
    """Return True if the device or similar chips were measured."""
    return trust.level in ("measured", "siblings")


def evidence_word(result: Estimate) -> str:
    """Return the word for the evidence of an estimate; `none` for a device whose facts were changed."""
    return "none" if result.device.changes else EVIDENCE[result.trust.level]


def describe_evidence(trust: Trust) -> str:
    """Write `similar chips: 412 measurements, typically 21 % off there`."""
    words = _SENTENCES[trust.level]
    if trust.median_error is None or not is_backed(trust):
        return words
    return f"{words}: {count_noun(trust.rows, 'measurement')}, typically {percent(trust.median_error)} off" + (
        " there" * (trust.level == "siblings")
    )
