"""Arrays that compute blocks of results: cycles by hand, and beside those of Arm's compiler."""

import numpy as np
import pytest

from hwexplorer import compare, show
from lab import vela


def test_cycles_of_a_layer_by_hand() -> None:
    """A block of 2 x 2 pixels and 8 channels takes 9 windows of 2 steps of 32 channels, 4 clocks each."""
    rows = show("kernels", "resnet18", on="ethos_u55_256", precision="int8").rows
    layer = next(row for row in rows if row["kernel"] == "layer1.0.conv1" and row["depth"] == 0)
    blocks = 28 * 28 * (64 / 8)
    assert layer["compute_s"] * 5e8 == pytest.approx(blocks * 9 * 2 * 4, rel=0.01)


def test_cycles_are_near_those_of_vela() -> None:
    """Nothing was chosen with these two networks."""
    cycles, errors = vela.measured(), []
    for model in ("mnasnet0_5", "squeezenet1_0"):
        ours = vela.predicted(model, vela.DEVICES)
        errors += [abs(ours[name] / cycles[model, name] - 1.0) for name in vela.DEVICES]
    assert np.median(errors) < 0.06
    assert max(errors) < 0.25


def test_a_licensed_core_is_no_chip_that_wins() -> None:
    """Its node, memory and joules are assumed, so it counts as on paper."""
    (row,) = compare("mobilenet_v2", on="ethos_u85_512", precision="int8").rows
    assert row.trust.level == "design_target"
    assert row.average_power_w < row.power_limit_w
