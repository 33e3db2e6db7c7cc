"""The reference of the verbs is what they declare."""

from __future__ import annotations

from pathlib import Path

from hwexplorer.reference import markdown


def test_the_reference_is_of_today() -> None:
    assert Path("VERBS.md").read_text() == markdown(), "run: python -m hwexplorer.reference > VERBS.md"
