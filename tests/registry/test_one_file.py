"""One file is a report: as a plug-in it is everywhere a report can be, and gone again when its package is."""

import csv
import io
import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from hwexplorer import registry
from hwexplorer.answer import Answer
from hwexplorer.cli import main
from hwexplorer.declare import Report
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import State
from hwexplorer.tui import commands
from lab.reference.verbs import markdown
from tests.plugged import plug_in

WORDS = ("words", "conv2d", "--on", "h100_sxm", "--least", "4")
Print = Callable[..., str]


@pytest.fixture(autouse=True)
def toy(tmp_path: Path) -> Iterator[None]:
    assert "words" not in registry.names()
    with plug_in(tmp_path, verbs={"words": "tests.packaging.stranger.words:VERB"}):
        yield


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Print:
    def run(*words: str) -> str:
        try:
            code = main(list(words))
        except SystemExit as ended:  # argparse ends --help this way
            code = int(ended.code or 0)
        said = capsys.readouterr()
        assert code == 0, said.err
        return said.out

    return run


def test_the_command_line_helps(printed: Print) -> None:
    assert "words        what the operators are called" in printed("--help")
    own = printed("words", "--help")
    assert "--least N" in own
    assert "--node PATH" in own
    assert main(["word", "conv2d"]) == 2  # a misspelt verb


def test_every_format_has_the_same_rows(printed: Print, tmp_path: Path) -> None:
    document = json.loads(printed(*WORDS, "--format", "json"))
    assert document["schema"] == "hwexplorer/1"
    names = [row["name"] for row in document["words"]]
    assert names
    assert all(len(name) >= 4 for name in names)
    table = list(csv.DictReader(io.StringIO(printed(*WORDS, "--format", "csv"))))
    assert [(row["name"], float(row["energy_j"])) for row in table] == [
        (row["name"], row["energy_j"]) for row in document["words"]
    ]
    for form in ("text", "md", "html"):
        told = printed(*WORDS, "--format", form)
        assert "Names in conv2d" in told
        assert f"the longest has {document['longest']} letters" in told
        assert all(name in told for name in names)
    printed(*WORDS, "-o", str(tmp_path / "words.csv"))
    assert (tmp_path / "words.csv").read_text() == printed(*WORDS, "--format", "csv")


def test_the_complete_report_has_a_section(printed: Print) -> None:
    told = printed("report", "conv2d", "--on", "h100_sxm", "--all")
    assert told.index("Architectural events") < told.index("What it is called") < told.index("What to change")
    whole = json.loads(printed("report", "conv2d", "--on", "h100_sxm", "--format", "json"))
    assert whole["words"] == json.loads(printed("words", "conv2d", "--on", "h100_sxm", "--format", "json"))


def test_the_screen_lists_and_shows_it() -> None:
    assert "words" in commands.names()
    sheet = ScreenQueries().sheet(State("conv2d"), "words", 100)
    assert sheet is not None
    assert "the longest has" in sheet.text
    assert "the longest has" in ScreenQueries().exported(State("conv2d"), "words", "text")


def test_the_index_lists_it() -> None:
    assert "| `words` | " in markdown()


def test_its_example_is_a_golden_case() -> None:
    verb = registry.load("words")
    assert isinstance(verb, Report)
    assert shlex.split(verb.examples["words"]) == list(WORDS[1:])


def test_from_python_the_answer_is_the_struct() -> None:
    answer = Answer("words", State("conv2d"), least=5)
    assert answer.document.longest == max(word.letters for word in answer.document.words)
    assert answer.to_dict() == {"schema": "hwexplorer/1", **msgspec.to_builtins(answer.document)}
