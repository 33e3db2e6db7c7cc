"""Findings of `check` in the text format of Prometheus, for a textfile collector or a push gateway."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.explore.rule_check import Findings

_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
_FIGURES = ("value", "limit", "margin", "odds")  # in SI units, or fractions; a finding may lack some


def as_prometheus(document: Findings) -> str:
    """Return a gauge for each figure of each rule, and one that is 1 with the verdict as a label."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Findings) -> Iterator[str]:
    for name in (*_FIGURES, "verdict"):
        yield f"# TYPE hwexplorer_rule_{name} gauge"
        for finding in document.findings:
            labels = {"model": document.model, "devices": ",".join(document.devices), "rule": finding.rule}
            labels |= {"verdict": finding.verdict} if name == "verdict" else {"unit": finding.unit}
            value = 1 if name == "verdict" else getattr(finding, name)
            if value is not None:
                names = ",".join(f'{label}="{text.translate(_ESCAPES)}"' for label, text in labels.items())
                yield f"hwexplorer_rule_{name}{{{names}}} {value!r}"
