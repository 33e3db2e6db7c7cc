"""What is made of what verbs and keys declare is what they declare today."""

from pathlib import Path

import pytest

from lab.reference import FILES


@pytest.mark.parametrize("name", FILES)
def test_what_is_generated_is_of_today(name: str) -> None:
    assert Path(name).read_text(encoding="utf-8") == FILES[name](), "run: python -m lab.reference"
