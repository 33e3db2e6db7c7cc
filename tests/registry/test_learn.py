"""The lessons: what their texts claim is what the model of the hardware says today."""

import pytest

from hwexplorer import cli
from hwexplorer.registry import Answer
from hwexplorer.reports import learn
from hwexplorer.state import State

# By lesson and step: the choice that the text that follows takes for granted. A new fit may move a figure; where it
# moves a choice, the lesson has to be told anew.
FORESEEN = {
    "batch": (2, 1),
    "roofline": (0, 2),
    "waves": (2,),
    "fusing": (2, 1),
    "dataflow": (1, 1),
    "decode": (0, 2),
}


def test_every_lesson_says_what_is_true() -> None:
    document = Answer("learn", State()).document
    assert {one.name: tuple(step.choice for step in one.steps) for one in document.lessons} == FORESEEN
    for one in document.lessons:
        for step in one.steps:
            assert "{" not in step.reveals
            assert step.answer > 0


@pytest.mark.parametrize("words", [["learn", "batch"], ["learn"]])
def test_a_person_predicts_first(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["x", "9", "3", "q"])
    monkeypatch.setattr("builtins.input", lambda _prompt: next(typed))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert cli.main(words) == 0
    out = capsys.readouterr().out
    assert out.index("1) 2x") < out.index("right:")
    assert "10.0x" not in out.partition("right:")[0]  # no answer before the guess


def test_a_lesson_has_a_number_and_a_name() -> None:
    assert Answer("learn", State(), lesson="2").document == Answer("learn", State(), lesson="roofline").document
    assert len(learn.lessons()) == 6
