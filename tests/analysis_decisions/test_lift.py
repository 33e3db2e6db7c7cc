"""What would lift a limit is what, run, does lift it; and Why tells a node as a waterfall that adds up."""

from __future__ import annotations

import pytest

from analysis.estimate.tree import operators_of
from analysis.explore.alternatives import WORTH, lift
from hwexplorer import engine
from hwexplorer.format import delta
from hwexplorer.registry import Answer
from hwexplorer.state import parse, with_setting


@pytest.mark.parametrize(
    ("text", "node"),
    [("resnet50@b8,fp16", "layer3"), ("resnet18", ""), ("llama3_8b:decode@fp16", "layers.0-31.mlp"),
     ("vit_b_16@b4/xeon_8490h", "encoder.layers"), ("resnet18@eager/h100_sxm", "layer1.0.conv1")],
)  # fmt: skip
def test_the_setting_does_what_is_said(text: str, node: str) -> None:
    state = parse(text)
    result = engine.result(state)
    members = operators_of(result, node)
    told = lift(result, members)
    assert told is not None
    tried = with_setting(state, told.setting)
    other = engine.result(tried)
    before, after = (
        float(each.run.latency_s[operators_of(each, node)].sum()) / each.scenario.batch for each in (result, other)
    )
    assert before / after == pytest.approx(told.speedup, rel=1e-9)
    assert told.speedup >= WORTH
    assert other.fits


def test_nothing_is_offered_where_nothing_helps() -> None:
    result = engine.result(parse("resnet50@b4096,w4a16"))
    told = lift(result, operators_of(result, ""))
    assert told is None or told.speedup >= WORTH


@pytest.mark.parametrize("node", ["", "layer3", "layer3.0-5.conv2", "layer3.0.conv2", "layer3.0.conv2/conv2"])
def test_the_steps_of_a_node_are_its_latency(node: str) -> None:
    state = parse(f"resnet50@b8,fp16?at={node}")
    result = engine.result(state)
    document = Answer("why", state).to_dict()
    latency_s = float(result.run.latency_s[operators_of(result, node)].sum())
    assert sum(step["latency_s"] for step in document["steps"]) == pytest.approx(latency_s, rel=1e-9)
    for step in document["steps"]:
        assert sum(step["latency_by_cause_s"].values()) == pytest.approx(step["latency_s"], abs=1e-15)
    shown = Answer("why", state).view().steps
    assert sum(step.seconds for step in shown) == pytest.approx(latency_s, rel=1e-6)
    assert [step.start for step in shown] == sorted(step.start for step in shown)


def test_a_hidden_operator_says_where_it_is() -> None:
    text = Answer("why", parse("resnet50@b8,fp16?at=layer3.0.conv2/relu~2")).told("text")
    assert "inside the kernel of layer3.0.conv2" in text
    assert "Where the time goes" not in text  # none of it is its own


def test_against_a_pin_the_difference_is_of_the_node() -> None:
    told = Answer("why", parse("resnet50@b8,fp16?at=layer3&pin=h100_sxm@b1,fp16")).told("text")
    section = told.partition("Against the pin, layer3")[2].partition("In a word")[0]
    state = parse("resnet50@b8,fp16?at=layer3&pin=h100_sxm@b1,fp16")
    here, there = engine.result(state), engine.result(parse("resnet50@fp16"))
    now, before = (
        float(0.5 * (each.run.energy_j[m].sum() / each.energy_j + each.run.latency_s[m].sum() / each.latency_s))
        * each.edp_js
        for each, m in ((here, operators_of(here, "layer3")), (there, operators_of(there, "layer3")))
    )
    assert f"EDP {delta(now / before - 1)}" in section
