"""Explain: parts add up, B against A is the inverse of A against B, and the words follow the numbers."""

import math
from itertools import permutations, product

import pytest
from decisions import DEFAULTS, MODELS, device, hwexplorer, run, workload

from analysis.estimate.causes import FAMILIES, family_energy, family_of
from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.explore.attribution import EXPLAINED, explain, time_parts
from hardware import known_architectures
from hardware.base.errors import RequestError
from tests.sampling import for_each

PAIRS = tuple(permutations(DEFAULTS, 2))


def _close(x: float, y: float, scale: float) -> bool:
    return math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-9 * scale)


@for_each("model", MODELS)
@for_each("metric", EXPLAINED)
def test_parts_add_up_for_all_pairs(model: str, metric: str) -> None:
    for a, b in PAIRS:
        found = explain(run(model, a), run(model, b), metric)
        scale = found.a + found.b
        assert _close(found.difference, found.b - found.a, scale)
        for name, group in found.groups.items():
            for side in ("a", "b", "difference"):
                assert _close(sum(getattr(p, side) for p in group), getattr(found, side), scale), (a, b, name)
            assert _close(sum(p.fraction for p in group), 1.0, 1.0) or found.difference == 0


@for_each("model", MODELS)
@for_each("metric", EXPLAINED)
def test_b_against_a_is_the_inverse(model: str, metric: str) -> None:
    for a, b in PAIRS:
        there = explain(run(model, a), run(model, b), metric)
        back = explain(run(model, b), run(model, a), metric)
        assert there.difference == -back.difference
        assert math.isclose(there.ratio * back.ratio, 1.0, rel_tol=1e-12)
        assert len(there.reasons) == len(back.reasons)
        for name, group in there.groups.items():
            mirrored = {part.name: part for part in back.groups[name]}
            for part in group:
                other = mirrored[part.name]
                assert (part.a, part.b, part.difference) == (other.b, other.a, -other.difference)
                assert math.isclose(part.fraction, other.fraction, rel_tol=1e-9, abs_tol=1e-12)


@pytest.mark.parametrize("metric", EXPLAINED)
def test_a_run_does_not_differ_from_itself(metric: str) -> None:
    found = explain(run("resnet18", "h100_sxm"), run("resnet18", "h100_sxm"), metric)
    assert (found.difference, found.ratio) == (0.0, 1.0)
    assert found.reasons == ("both sides are the same",)
    assert all(part.difference == 0 and part.fraction == 0 for group in found.groups.values() for part in group)


@for_each("batch", [1, 16])
@for_each("on", DEFAULTS)
def test_families_and_times_cover_everything(on: str, batch: int) -> None:
    result = run("swin_t", on, batch)
    assert math.isclose(family_energy(result).sum(), result.energy_j, rel_tol=1e-9)
    assert math.isclose(time_parts(result).sum(), result.latency_s, rel_tol=1e-9)
    assert (time_parts(result) >= -1e-15).all()


def test_every_event_of_every_architecture_has_a_family() -> None:
    assert all(family_of(event) in FAMILIES for one in known_architectures.ALL.values() for event in one.events)
    cpu, gpu = (
        {event.name: family_of(event) for event in known_architectures.get(name).events} for name in ("cpu", "gpu")
    )
    assert cpu["decode"] == "instructions"
    assert gpu["kernel_launch"] == "launch"
    assert gpu["integer_address"] == "instructions"


def test_other_batches_compare_per_inference() -> None:
    one = run("resnet18", "h100_sxm")
    many = estimate(workload("resnet18"), device("h100_sxm"), Scenario(32))
    found = explain(one, many, "energy")
    assert math.isclose(found.b, many.energy_j / 32, rel_tol=1e-12)
    for model, word in (("resnet18:train", "sample"), ("llama3_8b:decode,layers=1", "token")):
        words = " ".join(explain(run(model, "h100_sxm", 8), run(model, "l4", 8), "energy").reasons)
        assert f"energy per {word} " in words
        assert "inference" not in words


@pytest.mark.parametrize(("model", "metric"), product(MODELS[:2], ("edp", "energy", "latency")))
def test_the_words_name_the_cause_that_the_numbers_name(model: str, metric: str) -> None:
    for a, b in PAIRS:
        found = explain(run(model, a), run(model, b), metric)
        assert found.difference == 0 or found.reasons[0].partition(" takes ")[0].partition(" (")[0] in device(b).name
        assert (" less " in found.reasons[0]) is (found.ratio < 0.999)
        if metric in ("energy", "edp") and abs(math.log(found.ratio)) > 0.01:
            assert len(found.reasons) > 1
        sizes = [abs(part.difference) for part in found.groups["subgraph"]]
        assert sizes == sorted(sizes, reverse=True)


def test_sides_may_have_settings_of_their_own() -> None:
    found = hwexplorer("why", "resnet18", "gpu@b8,fp16", "gpu", "--format", "json").json()
    assert (found["a"]["batch"], found["a"]["precision"]) == (8, "fp16")
    assert (found["b"]["batch"], found["b"]["precision"]) == (1, "bf16")


def test_two_models_are_not_explained() -> None:
    with pytest.raises(RequestError, match="one model"):
        explain(run("resnet18", "h100_sxm"), run("resnet50", "h100_sxm"))
