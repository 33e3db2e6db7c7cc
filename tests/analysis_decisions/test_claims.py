"""Common claims against a model's numbers: each verdict against figures that are added up here from operators."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.explore.claims import STATIC_CLAIM, TOP, TOP_CLAIM, claims
from analysis.model.store import load as load_model
from hardware.architectures import registry
from hardware.device import load


def run(model: str, device: str, batch: int = 1) -> Estimate:
    return estimate(load_model(model), load(device), Scenario(batch=batch))


def shares(result: Estimate) -> list[float]:
    """Of each subgraph the mean of its parts of energy and time, operator by operator, largest first."""
    found = dict.fromkeys(result.partition.id, 0.0)
    for subgraph, joule, second in zip(
        result.partition.subgraph.tolist(), result.run.energy_j.tolist(), result.run.latency_s.tolist(), strict=True
    ):
        found[result.partition.id[subgraph]] += (joule / result.energy_j + second / result.latency_s) / 2
    return sorted(found.values(), reverse=True)


def counted_energy_j(result: Estimate) -> float:
    """Events times prices."""
    return float(np.asarray(result.run.prices.value) @ result.run.counts.sum(axis=1))


@pytest.mark.parametrize("device", registry.names())
def test_verdicts_follow_from_the_figures(device: str) -> None:
    result = run("resnet18", device)
    static, concentrated, against = claims(result, load)
    priced = zip(result.run.prices.value.tolist(), result.events, strict=True)
    watts = sum(price for price, event in priced if event.component == "static")
    share = watts * result.latency_s / counted_energy_j(result)
    assert 0.0 < share < 1.0
    assert static.holds == (STATIC_CLAIM[0] <= share <= STATIC_CLAIM[1])
    assert f"{share:.0%}" in static.found
    top = sum(shares(result)[:TOP])
    assert concentrated.holds == (top >= TOP_CLAIM)
    assert f"{top:.0%}" in concentrated.found
    cpu, gpu = (run("resnet18", name) for name in ("cpu", "gpu"))
    assert against.holds == (counted_energy_j(gpu) > counted_energy_j(cpu))


@pytest.mark.parametrize(("model", "holds"), [("conv2d", True), ("densenet121", False)])
def test_three_subgraphs_are_half_of_a_block_and_not_of_a_deep_network(model: str, holds: bool) -> None:
    result = run(model, "gpu")
    assert claims(result, load)[1].holds == holds
    assert len(shares(result)) <= TOP or not holds


def test_static_power_takes_less_of_a_busy_device() -> None:
    """A single image mostly waits, a large batch mostly computes: one share for all cannot hold."""
    one, many = (run("resnet50", "h100_sxm", batch).static_fraction for batch in (1, 256))
    assert one > 1.5 * many
