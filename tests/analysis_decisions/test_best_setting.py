"""Compare, Why and Advise name one setting, which does what they say; the waterfall of a node adds up."""

import math

import pytest

from analysis.estimate.alternatives import WORTH, best_batch, best_setting, gain_per_inference, larger_batches
from analysis.estimate.tree_figures import operators_of
from hardware.base.text import quantity
from hwexplorer import engine
from hwexplorer.answer import Answer
from hwexplorer.state import parse, with_setting


@pytest.mark.parametrize(
    ("text", "node"),
    [("resnet50@b8,fp16", "layer3"), ("resnet18", ""), ("llama3_8b:decode@fp16", "layers.0-31.mlp"),
     ("vit_b_16@b1/xeon_8490h", "encoder.layers"), ("resnet18@eager/h100_sxm", "layer1.0.conv1")],
)  # fmt: skip
def test_the_setting_does_what_is_said(text: str, node: str) -> None:
    state = parse(text)
    result = engine.result(state)
    members = operators_of(result, node)
    best = best_setting(result, members)
    assert best is not None
    gain = gain_per_inference(result, best.result, members)
    tried = with_setting(state, best.setting)
    other = engine.result(tried)
    before, after = (
        float(each.run.latency_s[operators_of(each, node)].sum()) / each.scenario.batch for each in (result, other)
    )
    assert before / after == pytest.approx(gain.speedup, rel=1e-9)
    assert gain.mean >= WORTH
    assert other.fits


def test_nothing_is_offered_where_nothing_helps() -> None:
    result = engine.result(parse("resnet50@b4096,w4a16"))
    best = best_setting(result)
    assert best is None or gain_per_inference(result, best.result).mean >= WORTH


@pytest.mark.parametrize("text", ["resnet50/h100_sxm", "vit_b_16/h100_sxm", "bert_base/l4", "resnet18/epyc_9654"])
def test_compare_why_and_advise_name_the_same_setting(text: str) -> None:
    state = parse(text)
    best = best_setting(engine.result(state))
    assert best is not None
    named = best.setting if best.kind == "precision" else best.change
    assert any(f" {named}" in line for line in Answer("compare", state).to_dict()["insights"])
    assert Answer("why", state).to_dict()["next"]["setting"] == best.setting
    advice = Answer("advise", state).to_dict()
    assert advice["next"] == best.change
    assert best.change in [suggestion["change"] for suggestion in advice["suggestions"]]


def test_the_best_batch_is_the_smallest_with_nearly_the_gain_of_the_best() -> None:
    result = engine.result(parse("resnet18/h100_sxm"))
    gains = {other.result.batch: gain_per_inference(result, other.result).mean for other in larger_batches(result)}
    best = best_batch(result)
    assert best is not None
    batch = best.result.batch
    assert math.log(gains[batch]) >= 0.7 * math.log(max(gains.values()))
    assert all(math.log(gains[other]) < 0.7 * math.log(max(gains.values())) for other in gains if other < batch)


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
    text = Answer("why", parse("resnet50@b8,fp16?at=layer3.0.conv2/relu~2")).to_text("text")
    assert "inside the kernel of layer3.0.conv2" in text
    assert "Where the time goes" not in text  # none of it is its own


def test_against_a_pin_the_difference_is_of_the_node() -> None:
    told = Answer("why", parse("resnet50@b8,fp16?at=layer3&pin=h100_sxm@b1,fp16")).to_text("text")
    section = told.partition("Against the pin, layer3")[2].partition("\nTime\n")[0]
    state = parse("resnet50@b8,fp16?at=layer3&pin=h100_sxm@b1,fp16")
    here, there = engine.result(state), engine.result(parse("resnet50@fp16"))
    before, now = (run.energy_j[m].sum() / b * run.latency_s[m].sum() for run, b, m in (
        (there.run, 1, operators_of(there, "layer3")), (here.run, 8, operators_of(here, "layer3"))
    ))  # fmt: skip
    assert f"takes {quantity(before / now, 'x')} less EDP" in section
