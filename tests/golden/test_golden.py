"""What every verb prints, as text, JSON and CSV, against files in `files/`.

The figures follow the fit: after a deliberate change `make golden` rewrites the files, and the change is read in the
diff. Numbers are compared to four digits, so that another machine's last bits do not matter.
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path

import pytest

from hwexplorer import registry
from hwexplorer.cli import main

FILES = Path(__file__).with_name("files")
FORMS = {"text": "txt", "json": "json", "csv": "csv"}
NUMBER = re.compile(r"-?\d+\.\d+(?:e[-+]?\d+)?|-?\d+e[-+]?\d+")
# Golden file -> words: the examples that the verbs declare.
CASES = {
    name: (verb, *shlex.split(words))
    for verb in registry.names()
    for name, words in registry.load(verb).examples.items()
}


@pytest.mark.usefixtures("found_once")
@pytest.mark.parametrize("name", CASES)
def test_prints_what_it_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for form, suffix in FORMS.items():
        code = main([*CASES[name], "--format", form])
        printed = capsys.readouterr()
        assert code == 0, printed.err
        kept = FILES / f"{name}.{suffix}"
        if os.environ.get("HWEXPLORER_GOLDEN"):
            FILES.mkdir(exist_ok=True)
            kept.write_text(printed.out, encoding="utf-8")
        assert _rounded(printed.out) == _rounded(kept.read_text(encoding="utf-8")), form


def _rounded(text: str) -> str:
    return NUMBER.sub(lambda match: f"{float(match[0]):.4g}", text)


def test_no_file_is_left_over() -> None:
    wanted = {f"{name}.{suffix}" for name in CASES for suffix in FORMS.values()}
    assert {path.name for path in FILES.iterdir()} == wanted
