"""Common claims against a model's numbers: each verdict follows from the estimates it quotes."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.decide.claims import STATIC_CLAIM, TOP, claims
from analysis.run.estimate import estimate
from analysis.run.scenario import Scenario
from analysis.run.tree import tree
from analysis.workload.store import load as load_model
from hardware.architectures import registry
from hardware.device import load


@pytest.mark.parametrize("device", registry.names())
def test_verdicts_follow_from_the_figures(device: str) -> None:
    result = estimate(load_model("resnet18"), load(device), Scenario())
    static, concentrated, against = claims(result, load)
    share = float(result.component_energy_j[2].sum()) / result.energy_j
    assert static.holds == (STATIC_CLAIM[0] <= share <= STATIC_CLAIM[1])
    assert f"{share:.0%}" in static.found
    top = float(np.sort(tree(result).subgraphs.share)[::-1][:TOP].sum())
    assert concentrated.holds == (top >= 0.5)
    assert f"{top:.0%}" in concentrated.found
    cpu, gpu = (estimate(result.workload, load(name), Scenario()) for name in ("cpu", "gpu"))
    assert against.holds == (gpu.energy_j > cpu.energy_j)
