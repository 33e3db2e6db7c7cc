"""The text of `memory` is one screen; a workspace that nothing is known of is called unknown."""

import pytest

from hwexplorer.answer import Answer
from hwexplorer.state import parse


@pytest.mark.parametrize("model", ["llama3_8b", "resnet50", "conv2d"])
def test_text_fits_a_screen_of_forty_lines(model: str) -> None:
    answer = Answer("memory", parse(f"{model}/h100_sxm"))
    assert len(answer.to_text("text", 100).splitlines()) <= 40
    assert len(answer.to_text("text", is_whole=True).splitlines()) > 40 or model == "conv2d"


def test_values_of_repeated_layers_are_one_row() -> None:
    lines = Answer("memory", parse("llama3_8b/h100_sxm")).to_text("text", 100).splitlines()
    assert any(line.startswith("layers.0-31.attention.cache_append ×32 ") for line in lines)


def test_workspace_without_a_rule_is_unknown_and_not_nothing() -> None:
    gpu = Answer("memory", parse("resnet50/h100_sxm")).to_text("text")
    assert "workspace unknown (none counted)" in gpu
    assert "workspace 0 B" not in gpu
    host = Answer("memory", parse("resnet50@pytorch_eager/xeon_8490h")).to_text("text")
    assert "workspace 3.21 MB" in host
