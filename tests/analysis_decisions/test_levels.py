"""Comparison node by node, the cure of low utilisation, next steps, and the progression of architectures."""

from __future__ import annotations

import math
import shlex

import pytest
from decisions import DEFAULTS, hwexplorer, run

from analysis.decide.compare import LOW_UTILIZATION, cure, insights, next_steps
from analysis.decide.levels import LEVELS, METRICS, compare_levels
from analysis.decide.progression import progression
from analysis.run.families import FAMILIES
from hardware.errors import RequestError


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("batch", [1, 8])
def test_winners_tally_and_sums(level: str, batch: int) -> None:
    results = [run("resnet18", on, batch) for on in DEFAULTS]
    found = compare_levels(results, results[1], level)
    for result in results:
        key = result.device.key
        mine = [row.devices[key] for row in found.rows]
        assert math.isclose(sum(f.energy_j for f in mine) * batch, result.energy_j, rel_tol=1e-9)
        assert math.isclose(sum(f.latency_s for f in mine), result.latency_s, rel_tol=1e-9)
        assert math.isclose(sum(f.share for f in mine), 1.0, rel_tol=1e-9)
    field = {"edp": "edp_js", "energy": "energy_j", "latency": "latency_s"}
    for metric in METRICS:
        assert sum(found.tally[metric].values()) == len(found.rows)
        for row in found.rows:
            values = {key: getattr(figures, field[metric]) for key, figures in row.devices.items()}
            assert values[row.winner[metric]] == min(values.values())
            assert row.margin[metric] >= 1.0
    assert all(row.devices["h100_sxm"].ratio_to_baseline["edp"] == 1.0 for row in found.rows)


def test_an_unknown_level() -> None:
    results = [run("resnet18", "h100_sxm")]
    with pytest.raises(RequestError, match="unknown level"):
        compare_levels(results, results[0], "kernel")


@pytest.mark.parametrize("on", DEFAULTS)
@pytest.mark.parametrize("batch", [1, 256])
def test_the_cure_is_a_run_that_uses_more_of_the_device(on: str, batch: int) -> None:
    result = run("resnet18", on, batch)
    found = cure(result)
    if result.utilization >= LOW_UTILIZATION:
        assert found is None
    if found is not None:
        assert found.utilization >= 1.25 * result.utilization
        again = run("resnet18", on, found.scenario.batch)
        assert (again.utilization, again.energy_j) == (found.utilization, found.energy_j)
        assert any(f"batch {found.scenario.batch} " in line for line in insights([result], result))


def test_next_steps_are_commands_that_run() -> None:
    results = [run("resnet18", on, 1, "fp16") for on in DEFAULTS]
    steps = next_steps(results, results[0].scenario)
    assert len(steps) >= 4
    for step in steps:
        words = shlex.split(step)
        assert words[0] == "hwexplorer"
        assert "fp16" in words
        found = hwexplorer(*words[1:])
        assert found.code == 0, (step, found.err)


def test_progression_divides_all_energy() -> None:
    found = progression([run("resnet18", on) for on in reversed(DEFAULTS)])
    assert [step.architecture for step in found.steps] == ["cpu", "gpu", "tpu", "kpu"]
    for step in found.steps:
        assert tuple(step.families_j) == FAMILIES
        assert math.isclose(sum(step.families_j.values()), step.energy_j_per_inference, rel_tol=1e-9)
        assert math.isclose(sum(step.families_fraction.values()), 1.0, rel_tol=1e-9)
    macs_each = [step.macs_per_instruction for step in found.steps]
    assert macs_each[0] < macs_each[1] < macs_each[2]  # an instruction does more on each architecture
    assert found.steps[3].instructions_per_inference == 0


@pytest.mark.parametrize("level", ["summary", "detailed", "subgraph", "operator", "progression"])
def test_levels_in_every_format(level: str) -> None:
    words = ("compare", "resnet18", "--level", level)
    assert hwexplorer(*words, "--format", "json").json()["schema"] == "hwexplorer/1"
    for form in ("text", "csv", "md", "html"):
        found = hwexplorer(*words, "--format", form)
        assert found.code == 0, found.err
    assert "next: hwexplorer" in hwexplorer("compare", "resnet18", "--level", "detailed").out
