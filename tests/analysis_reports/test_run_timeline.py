"""The timeline of a predicted run: valid trace events that add up to the estimate."""

import json
from itertools import pairwise
from pathlib import Path

import pytest

from hwexplorer.cli import main

# What the trace event format requires of the phases written, beside `ph`, `pid` and `name`.
REQUIRED = {"X": {"ts", "dur", "tid", "cat", "args"}, "C": {"ts", "args"}, "M": {"args"}}


@pytest.mark.parametrize(
    "words", ["resnet18 --on h100_sxm --batch 4", "llama3_8b:request,in=64,out=8 --on l4", "mobilenet_v2 --on hailo8"]
)
def test_timeline_is_valid_and_adds_up(words: str, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    assert main(["show", "kernels", *words.split(), "--format", "perfetto", "-o", str(file)]) == 0
    document = json.loads(file.read_text(encoding="utf-8"))
    assert document["displayTimeUnit"] in ("ms", "ns")
    events, figures = document["traceEvents"], document["otherData"]
    assert all(REQUIRED[event["ph"]] | {"pid", "name"} <= event.keys() for event in events)
    assert all(event.get("ts", 0.0) >= 0.0 and event.get("dur", 0.0) >= 0.0 for event in events)
    for tid in (1, 2):  # kernels, operators: one after another
        slices = [event for event in events if event.get("tid") == tid and event["ph"] == "X"]
        assert all(a["ts"] + a["dur"] == b["ts"] for a, b in pairwise(slices))  # in floats too, as viewers add them
        assert sum(event["dur"] for event in slices) == pytest.approx(figures["latency_s"] * 1e6, abs=1e-3)
        assert sum(event["args"]["energy_j"] for event in slices) == pytest.approx(figures["energy_j"])
    power, energy = ([e for e in events if (e["ph"], e["name"]) == ("C", name)] for name in ("power", "energy"))
    joules = sum(a["args"]["W"] * (b["ts"] - a["ts"]) for a, b in pairwise(power)) * 1e-6
    assert joules == pytest.approx(figures["energy_j"], rel=1e-3)
    assert energy[-1]["args"]["J"] == pytest.approx(figures["energy_j"])
