"""The text of `tree` is one screen: repeats merged, the heaviest first, small rows folded; `--all` has every row."""

import pytest

from hwexplorer.answer import Answer
from hwexplorer.state import parse
from tests.headless.conftest import Call


@pytest.mark.parametrize("model", ["resnet50", "efficientnet_b0", "llama3_70b:decode", "swin_t", "conv2d"])
def test_text_fits_a_screen_of_forty_lines_and_a_hundred_columns(model: str) -> None:
    lines = Answer("tree", parse(f"{model}/h100_sxm")).to_text("text", 100).splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 100
    assert any("half of the EDP: " in line for line in lines)


def test_siblings_fall_and_all_of_them_are_shown_or_counted() -> None:
    answer = Answer("tree", parse("resnet50/h100_sxm"))
    table = answer.view(is_whole=False)
    siblings = [row for row in table.rows if row.depth == 1]  # type: ignore[union-attr]
    shares = [float(row.cells[1] or 0) for row in siblings]
    shown = shares[:-1] if str(siblings[-1].cells[0]).endswith(" more") else shares  # the last row counts the rest
    assert shown == sorted(shown, reverse=True)
    assert sum(shares) == pytest.approx(1.0, rel=1e-12)
    assert len(answer.to_text("text", is_whole=True).splitlines()) > 200


def test_bars_are_blocks_by_cause_and_ascii_where_it_is_asked_for(call: Call) -> None:
    answer = Answer("tree", parse("resnet50/h100_sxm"))
    assert all("█ compute" in answer.to_text("text", width) for width in (0, 100))
    text = call("tree", "resnet50", "--on", "h100_sxm", "--ascii").out
    assert text.isascii()
    assert "# compute" in text
