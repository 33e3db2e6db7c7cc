"""A model on four architectures in turn: families add up to the energy, steps are those of each pair."""

import pytest

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.explore.attribution import explain
from analysis.explore.difference import compare_in_turn
from hardware.device_catalog import load_device
from hwexplorer.reports.show.events import event_report
from tests.command import document
from tests.models import load_once

KEYS = ("xeon_8490h", "h100_sxm", "tpu_v4", "kpu_t256")


def run(model: str, batch: int = 1) -> list[Estimate]:
    return [estimate(load_once(model), load_device(key), Scenario(batch, "int8")) for key in KEYS]


@pytest.mark.parametrize(("model", "batch"), [("resnet18", 1), ("vit_b_16", 8)])
def test_families_add_up_and_steps_are_of_pairs(model: str, batch: int) -> None:
    results = run(model, batch)
    document = compare_in_turn(results)
    for side, result in zip(document.sides, results, strict=True):
        assert sum(side.energy_by_family_j.values()) == pytest.approx(result.energy_j / batch)
        assert side.latency_s == pytest.approx(result.latency_s)
    first = document.steps[0]
    assert first.energy_reasons == explain(results[0], results[1], "energy").reasons[1:]
    assert first.edp_ratio == pytest.approx(first.energy_ratio * first.latency_ratio)
    assert first.latency_ratio == pytest.approx(results[1].latency_s / results[0].latency_s)


@pytest.mark.parametrize("path", ["layer1", "layer2.0.conv1"])
def test_a_node_is_that_of_its_events(path: str) -> None:
    results = run("resnet18")
    for side, result in zip(compare_in_turn(results, path).sides, results, strict=True):
        assert side.energy_j_per_inference == pytest.approx(event_report(result, path).total_j / result.scenario.batch)


def test_a_node_rules_table_answer_and_steps() -> None:
    """On a node, another device may win than on the model."""
    results = run("resnet18")
    part = compare_in_turn(results, "layer3.0-1.conv2")
    energies = [side.energy_j_per_inference for side in part.sides]
    assert part.steps[-1].energy_ratio == pytest.approx(energies[-1] / energies[-2])
    assert part.steps[0].latency_ratio == pytest.approx(part.sides[1].latency_s / part.sides[0].latency_s)
    best = min(part.sides[:-1], key=lambda side: side.energy_j_per_inference * side.latency_s)
    assert best.architecture.casefold() == part.answers[0].split()[0].casefold()  # a chip on paper is not ranked
    assert part.answers != compare_in_turn(results).answers


@pytest.mark.parametrize(
    "words",
    ["why resnet18 cpu gpu tpu kpu", "why resnet18 --on cpu,gpu,tpu,kpu", "why --model resnet18 cpu gpu tpu"],
)
def test_words_of_the_command_line(words: str) -> None:
    found = document(*words.split())
    assert [side["architecture"] for side in found["sides"]] == ["cpu", "gpu", "tpu", "kpu"][: len(found["sides"])]
    assert len(found["steps"]) == len(found["sides"]) - 1
