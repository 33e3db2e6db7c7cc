"""Findings of `check` in the text format of Prometheus, for a textfile collector or a push gateway."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.explore.rule_check import FAIL, PASS, UNKNOWN, Findings

_GAUGES = {
    "value": "Figure that a rule constrains, in its SI unit.",
    "limit": "Limit of the rule, in the same unit.",
    "margin": "What is left to the limit, as a fraction of it; negative beyond it.",
    "odds": "Probability that a measurement would satisfy the rule.",
}


def as_prometheus(document: Findings) -> str:
    """Return a gauge for each figure of each rule, and the verdict as one of three states."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: Findings) -> Iterator[str]:
    head = {"model": document.model, "devices": ",".join(document.devices)}
    labels = [head | {"rule": finding.rule, "unit": finding.unit} for finding in document.findings]
    for name, help_text in _GAUGES.items():
        yield from (f"# HELP hwexplorer_rule_{name} {help_text}", f"# TYPE hwexplorer_rule_{name} gauge")
        for finding, names in zip(document.findings, labels, strict=True):
            if (value := getattr(finding, name)) is not None:
                yield f"hwexplorer_rule_{name}{_braces(names)} {value!r}"
    yield "# HELP hwexplorer_rule_verdict 1 for the verdict on a rule, 0 for the others."
    yield "# TYPE hwexplorer_rule_verdict gauge"
    for finding, names in zip(document.findings, labels, strict=True):
        for verdict in (PASS, FAIL, UNKNOWN):
            yield f"hwexplorer_rule_verdict{_braces(names | {'verdict': verdict})} {int(finding.verdict == verdict)}"


def _braces(labels: dict[str, str]) -> str:
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    return "{" + ",".join(f'{name}="{text.translate(escapes)}"' for name, text in labels.items()) + "}"
