"""The energy roofline: roofs no kernel beats, prices that are those of the events, the cursor on its point."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.reports.roofline_report import EnergyRoof, energy_roof
from hwexplorer import engine
from hwexplorer.provider import EngineProvider
from hwexplorer.state import State, parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.views.captions import MARKED
from hwexplorer.views.plain import Plot
from tests.tui.test_app import screen_text

STATES = [
    f"{model}@b8,{precision},{execution}?on={device}&plot=energy_roofs"
    for model, precision, execution in (("resnet50", "fp16", "auto"), ("vit_b_16", "bf16", "fused"))
    for device in ("xeon_8490h", "h100_sxm", "tpu_v4", "kpu_t256")
]


def shown(state: State) -> Plot:
    return EngineProvider().plot(state)


@pytest.mark.parametrize("text", STATES)
def test_contractions_that_use_memory_stay_below_the_roof(text: str) -> None:
    state = parse(text)
    result = engine.result(state)
    roof = energy_roof(result)
    flow = result.run.mapping.traffic
    dram = result.demand.per_kernel(flow.dram_read + flow.dram_write)
    macs = result.demand.per_kernel(result.demand.macs)
    flops = 2 * macs + result.demand.per_kernel(result.demand.vector_flops)
    mostly = (2 * macs > 0.9 * flops) & (dram > 0) & ~_winograd(state)
    reached = flops[mostly] / result.demand.per_kernel(result.run.energy_j)[mostly]
    # Their few element-wise FLOPs may be cheaper than their MACs: a tenth of them at most.
    assert (reached <= roof.flop_per_joule(flops[mostly] / dram[mostly]) * 1.1).all()


def _winograd(state: State) -> np.ndarray:  # type: ignore[type-arg]
    """Kernels with a convolution that runs with fewer multiplications than it has."""
    result = engine.result(state)
    return result.demand.per_kernel(result.run.mapping.is_reduced.astype(float)) > 0


def test_the_roof_is_its_formula() -> None:
    roof = EnergyRoof(flop_j=1e-12, byte_j=50e-12, static_w=100.0, peak=1e14, bandwidth=1e12)
    assert roof.balance == pytest.approx(50)
    many, few = roof.flop_per_joule(np.array([1e9, 1.0]))
    assert many == pytest.approx(1 / (1e-12 + 100 / 1e14), rel=1e-6)  # at the peak: the arithmetic and the idle power
    assert few == pytest.approx(1 / (1e-12 + 50e-12 + 100 / 1e12))  # memory takes the time
    assert roof.flop_per_joule(np.array([50.0]), static=False)[0] == pytest.approx(
        1 / 2e-12
    )  # half of it at the balance


def test_every_device_has_a_roof_and_the_figures_are_those_of_the_events() -> None:
    state = parse(STATES[1])
    found = shown(state)
    assert [series.name for series in found.series if series.line and not series.guide] == [
        MARKED[name] for name in state.devices
    ]
    points = found.series[0]
    result = engine.result(state)
    index = result.partition.operator_id.index(points.keys[5])
    kernel = result.demand.kernel[index]
    energy = result.event_energy_j[:, result.demand.kernel == kernel].sum()
    flops = 2 * result.demand.macs + result.demand.vector_flops
    assert points.y[5] == pytest.approx(flops[result.demand.kernel == kernel].sum() / energy)


async def test_the_cursor_of_the_tree_is_on_its_point() -> None:
    app = HwExplorer(parse("resnet18@b8,fp16?pane=plot&zoom=1&plot=energy_roofs&at=layer3.0.conv2"), EngineProvider())
    async with app.run_test(size=(120, 40)):
        text = screen_text(app)
        assert "FLOP per joule" in text
        assert "◉" in text
        assert "layer3.0.conv2" in text
    assert app.session.failures == []
