"""The design study says what the engine says: `HWEXPLORER_GOLDEN=1` or `python -m hwexplorer.study` writes it anew."""

from __future__ import annotations

import os

from hwexplorer import study


def test_the_study_is_what_the_engine_says() -> None:
    now = study.text()
    if os.environ.get("HWEXPLORER_GOLDEN"):
        study.FILE.write_text(now, encoding="utf-8")
    assert study.FILE.read_text(encoding="utf-8") == now
