"""`hwexplorer capture` of one model."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.headless.conftest import Call

OWN = Path(__file__).parents[1] / "capture" / "own_models.py"


@pytest.mark.usefixtures("quick_captures")
def test_what_is_suggested_for_an_own_model_runs_as_it_stands(call: Call) -> None:
    done = call("advise", f"{OWN}:Net", "--input", "1x3x16x16", "--on", "h100_sxm", "--instead", "a100_sxm")
    suggested = re.findall(r"hwexplorer (compare .*)", done.out)
    assert suggested
    assert all(line.startswith(f"compare {OWN}:Net --input 1x3x16x16 --on ") for line in suggested)
    assert call(*shlex.split(suggested[0])).code == 0


def test_what_is_stored_is_not_captured(call: Call, document: Callable[..., Any]) -> None:
    assert document("capture", "resnet18")["seconds"] == 0
    done = call("capture", "resnt18")
    assert done.code == 2
    assert "did you mean resnet18" in done.err


@pytest.mark.usefixtures("quick_captures")
def test_what_a_gap_computes_is_bounded(call: Call, document: Callable[..., Any]) -> None:
    words = ("capture", f"{OWN}:Unknown", "--input", "1x3x16x16")
    found = document(*words)
    assert found["coverage"] == found["coverage_bytes"] == pytest.approx(0.872)
    assert (found["coverage_flops"], found["uncovered"]) == (1, {"own_models.shaped.default": 1})
    assert "of the work, at least" in call(*words).out
    assert found["incomplete"].startswith("INCOMPLETE: about 87 % of the work has a cost rule")
    assert call(*words).out.startswith("INCOMPLETE")
    assert document("capture", "resnet18")["coverage_flops"] == 1
