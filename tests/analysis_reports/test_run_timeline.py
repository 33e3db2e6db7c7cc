"""The timeline of a predicted run: valid trace events that add up to the estimate."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from hwexplorer import api
from hwexplorer.cli import main

REQUIRED = {"ph", "pid", "tid", "name", "cat", "ts", "dur", "args"}  # by the trace event format


@pytest.mark.parametrize(
    "words", ["resnet18 --on h100_sxm", "llama3_8b:request,in=64,out=8 --on l4", "mobilenet_v2 --on hailo8"]
)
def test_timeline_is_valid_and_adds_up(words: str, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    assert main(["show", "kernels", *words.split(), "--format", "perfetto", "-o", str(file)]) == 0
    document = json.loads(file.read_text(encoding="utf-8"))
    slices = document["traceEvents"]
    assert all(event.keys() >= REQUIRED and event["dur"] >= 0.0 for event in slices)
    assert all(a["ts"] + a["dur"] == b["ts"] for a, b in pairwise(slices))  # in floats too, as viewers add them
    run = api.function("compare")(words.split()[0], on=words.split()[2]).rows[0]
    assert sum(event["dur"] for event in slices) == pytest.approx(run.latency_s * 1e6, abs=1e-3)
