"""`hwexplorer why BEFORE AFTER`: what changed adds up, is found where it was made, and CI hears of it."""

import json
from pathlib import Path

import pytest
from decisions import hwexplorer, run

import hwexplorer as hx
from analysis.estimate.metrics import select_metrics
from analysis.explore.difference import Difference, ResultChanges, read_result, summarize_estimate
from analysis.explore.outcome import parse_rule
from hardware.base.errors import RequestError
from hwexplorer import engine

CHANGING = select_metrics(lambda metric: metric.is_compared)

NET = """
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        narrow = nn.Conv2d(8, 8, 3, padding=1)
        wide = nn.Sequential(nn.Conv2d(8, WIDTH, 3, padding=1), nn.ReLU(), nn.Conv2d(WIDTH, 8, 3, padding=1))
        self.stages = nn.Sequential(narrow, wide)
    def forward(self, x):
        return self.stages(self.stem(x))
"""


@pytest.mark.usefixtures("quick_captures")
def test_two_commits_of_a_model(tmp_path: Path) -> None:
    """As in CI: the result of the commit before is a file, the model of this one is captured."""
    net, base = tmp_path / "net.py", tmp_path / "base.json"
    words = ("--input", "1x3x32x32", "--on", "t4", "--precision", "fp16")
    net.write_text(NET.replace("WIDTH", "8"))
    assert hwexplorer("report", f"{net}:Net", *words, "-o", str(base)).code == 0
    same = hwexplorer("why", str(base), f"{net}:Net", *words, "--rule", "change(energy) <= 0%")
    assert (same.code, same.err) == (0, "")
    assert "nothing differs" in same.out
    net.write_text(NET.replace("WIDTH", "64"))
    engine.reset()  # another process
    changed = hwexplorer("why", str(base), f"{net}:Net", *words, "--rule", "change(macs) < 1%", "--format", "md")
    assert changed.code == 1
    assert "change of macs is" in changed.err
    assert "stages.1" in changed.out.partition("Operators that changed")[2]
    assert "| Figure | Before | After | Change | SI unit |" in changed.out
    assert "\\| " not in changed.out


def test_differences_are_those_of_the_estimates() -> None:
    before, after = run("vgg11", "t4"), run("vgg13", "t4")
    diff: Difference = hx.why("vgg11", "vgg13", on="t4", precision="fp32").document
    assert [changed.figure for changed in diff.figures] == list(CHANGING)
    by_name = {changed.figure: changed for changed in diff.figures}
    assert by_name["energy"].difference == after.energy_j_per_inference - before.energy_j_per_inference
    assert by_name["latency"].change == pytest.approx(after.latency_s / before.latency_s - 1, rel=1e-12)
    assert by_name["memory"].b == after.peak_memory_bytes
    assert by_name["operators"].difference == after.workload.n_operators - before.workload.n_operators
    assert sum(kind.b - kind.a for kind in diff.operators) == by_name["operators"].difference
    for figure, field in (("energy", "energy_j"), ("latency", "latency_s"), ("macs", "macs")):
        parts = sum(getattr(each, field) for each in diff.places)
        assert parts == pytest.approx(by_name[figure].difference, rel=1e-9)


def test_a_file_says_what_the_state_says(tmp_path: Path) -> None:
    state = summarize_estimate(run("resnet18", "t4"))
    for verb, known in (("report", CHANGING), ("tree", set(CHANGING) - {"memory"}),
                        ("compare", set(CHANGING) - {"operators"})):  # fmt: skip
        path = tmp_path / f"{verb}.json"
        words = ("resnet18", "--on", "t4", "--precision", "fp32")
        assert hwexplorer(verb, *words, "-o", str(path)).code == 0
        side = read_result(path, "t4")
        assert side.figures.keys() == set(known)
        assert side.figures == pytest.approx({name: state.figures[name] for name in known}, rel=1e-9)
        assert (side.model, side.device, side.batch) == ("resnet18", "t4", 1)
        assert {part.id for part in side.parts} == ({part.id for part in state.parts} if verb != "compare" else set())
        changed = hwexplorer("why", str(path), *words)
        assert (changed.code, "nothing differs" in changed.out) == (0, True)


def test_sides_that_are_no_pair_are_told() -> None:
    diff = hx.why("resnet18@b8/t4", "resnet18/tpu_v4")
    assert diff.settings[:2] == ("device t4 -> tpu_v4", "batch 8 -> 1")


def test_rules_of_changes() -> None:
    assert parse_rule("change(energy, layer4.*) < 5%").amount == 0.05
    changes = ResultChanges(summarize_estimate(run("resnet18", "t4")), summarize_estimate(run("resnet34", "t4")))
    assert changes.relative_change("macs", "conv1") == 0.0
    assert changes.relative_change("macs", "layer3.*") > changes.relative_change("macs", "") > 0
    assert changes.relative_change("macs", "layer3.5.*") == float("inf")
    with pytest.raises(RequestError, match="no operator"):
        changes.relative_change("macs", "layer9.*")
    with pytest.raises(RequestError, match="allowed: energy, latency, macs"):
        changes.relative_change("memory", "layer3.*")
    for text in ("change(speed) < 5%", "change() < 5%", "change(energy) < 5mJ"):
        with pytest.raises(RequestError, match="rule "):
            parse_rule(text)
    assert "hwexplorer why BEFORE AFTER" in hwexplorer("check", "mlp", "--rule", "change(energy) < 5%").err


def test_rules_of_check_are_about_what_came_after(tmp_path: Path) -> None:
    words = ("why", "resnet18", "resnet34", "--on", "t4", "--rule")
    assert hwexplorer(*words, "energy < 1kJ").code == 0
    assert hwexplorer(*words, "energy(tpu_v4) < 1nJ").code == 1
    path = tmp_path / "after.json"
    assert hwexplorer("report", "resnet18", "-o", str(path)).code == 0
    refused = hwexplorer("why", "resnet34", str(path), "--rule", "energy < 1J")
    assert (refused.code, "is a file: rules about it begin with change" in refused.err) == (2, True)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "nul", '{"schema": 1}', '{"schema":"hwexplorer/1","model":"a","batch":0,"precision":"fp32"}',
     '{"schema":"x","model":"a","batch":1,"precision":"fp32","children":[{}]}', "[" * 100_000, "\xff",
     f'{{"schema":"hwexplorer/1","model":"a","batch":{"9" * 400},"precision":"fp32"}}'],
)  # fmt: skip
def test_what_is_no_result_is_refused_in_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.json"
    path.write_bytes(text.encode("latin-1"))
    refused = hwexplorer("why", str(path), "mlp")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "is not JSON written by compare, tree or report" in refused.err


def test_a_file_that_is_not_there() -> None:
    assert "cannot read out/gone.json" in hwexplorer("why", "out/gone.json", "mlp").err
    assert json.loads(hwexplorer("why", "mlp", "mlp", "--format", "json").out)["places"] == []
