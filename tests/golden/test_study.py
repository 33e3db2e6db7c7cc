"""The design study says what the engine says: `HWEXPLORER_GOLDEN=1` or `python -m hwexplorer.study` writes it anew."""

from __future__ import annotations

import os
import re

from hwexplorer import study


def test_the_study_is_what_the_engine_says() -> None:
    """Every line about each model at one of its batches: it takes a chip's least changes seconds to be found."""
    cases = study.cases()
    if os.environ.get("HWEXPLORER_GOLDEN"):
        study.FILE.write_text(study.text(cases), encoding="utf-8")
    kept = study.FILE.read_text(encoding="utf-8")
    titles = list(cases)
    some = {title: cases[title] for title in (titles[0], titles[3], titles[4])}
    now = study.text(some)
    assert [line for line in now.splitlines() if line not in kept.splitlines()] == []
    for title in some:
        assert len(re.findall(rf"{title}\b", now)) == len(re.findall(rf"{title}\b", kept))
