"""Many models in one pass cost what each costs alone."""

import grid
import msgspec
import numpy as np
import pytest

from analysis.estimate.estimate import _join, estimate, evaluate, make_bundle
from analysis.estimate.scenario import Scenario
from hardware.precision import uniform
from tests.models import load_once

MODELS = ("resnet18", "resnet34", "mobilenet_v2", "vit_b_16", "swin_t")


@pytest.mark.parametrize("runtime", ["eager", "fused"])
@pytest.mark.parametrize("on", ["h100_sxm", "tpu_v4", "cloud_ai_100_pro"])
def test_models_cost_the_same_in_bulk(on: str, runtime: str) -> None:
    device, work = grid.device(on), [load_once(name) for name in MODELS]
    asked = Scenario(3, "fp16", runtime)
    setup = asked.setup_on(device, work[0])
    whole = evaluate(make_bundle(work, (3,), setup.plan.widths, setup.joins), setup).totals
    alone = [estimate(one, device, asked) for one in work]
    assert whole.latency_s.tolist() == [one.latency_s for one in alone]
    assert whole.energy_j.tolist() == [one.energy_j for one in alone]
    assert whole.utilization.tolist() == [one.utilization for one in alone]


def test_a_column_that_some_models_lack_is_neutral_in_them() -> None:
    parts = [make_bundle([load_once(name)], (1,), uniform(2.0), "eager").demand for name in MODELS[:2]]
    n = [one.n for one in parts]
    known = msgspec.structs.replace(parts[0], unpack_ops=np.full(n[0], 3.0), mean_work=np.full(n[0], 0.5))
    joined = _join([known, parts[1]])
    assert joined.unpack_ops is not None
    assert joined.mean_work is not None
    assert joined.unpack_ops.tolist() == [3.0] * n[0] + [0.0] * n[1]
    assert joined.mean_work.tolist() == [0.5] * n[0] + [1.0] * n[1]
