"""EDP, energy and bounds of kernels: parts add up to the whole, bounds follow from figures."""

import msgspec
import numpy as np
import pytest
import reports_grid as grid

from analysis.estimate.causes import STATIC
from analysis.estimate.estimate import Estimate
from analysis.estimate.kernel_rows import kernels
from analysis.estimate.tree_figures import HOST, count_making, tree
from analysis.wording import bound_change
from hardware.base.text import quantity
from hardware.execute import LAUNCH, MEMORY, POWER, RESOURCES
from hardware.mapping.common import units_in_all
from hwexplorer import engine
from hwexplorer.reports.show import events
from hwexplorer.reports.tree.edp import _summary, edp_report
from hwexplorer.state import State
from hwexplorer.views.device_rows import cards
from tests.sampling import for_each


def test_what_flips_a_kernel_is_the_ratio_of_its_times() -> None:
    """A kernel bound by memory says how much more bandwidth makes compute its bound."""
    result = grid.run("resnet50", "xeon_8490h", 64, "fused")
    run = result.run
    found = np.flatnonzero((run.bound == 1) & (run.kernel_compute_s > 0))
    assert len(found)
    for k in found.tolist():
        stated = float(bound_change(result, k).partition("x the bandwidth")[0])
        assert stated == pytest.approx(run.kernel_memory_s[k] / run.kernel_compute_s[k], abs=0.051)


@for_each(("model", "device", "batch", "execution"), grid.CASES)
def test_parts_of_edp_add_up(model: str, device: str, batch: int, execution: str) -> None:
    result = grid.run(model, device, batch, execution)
    found = edp_report(result)
    assert found.energy_j == pytest.approx(result.energy_j) == pytest.approx(found.energy_j_per_inference * batch)
    assert sum(c.edp_js for c in found.causes) == pytest.approx(result.edp_js) == pytest.approx(found.edp_js)
    assert sum(c.energy_j_per_inference for c in found.causes) == pytest.approx(result.energy_j / batch)
    assert sum(c.time_s for c in found.causes) == pytest.approx(result.latency_s)
    for name in ("share", "energy_fraction", "time_fraction"):
        assert sum(getattr(c, name) for c in found.causes) == pytest.approx(1.0)

    static = found.causes[STATIC]
    assert (static.cause, static.time_s) == ("static", 0.0)
    assert static.energy_j_per_inference * batch == pytest.approx(result.component_j["static"])
    assert found.efficiency == pytest.approx(1 - static.energy_fraction)
    assert found.utilization == pytest.approx(result.utilization)
    assert found.idle_loss_fraction == pytest.approx(static.energy_fraction * (1 - result.utilization))
    assert found.average_power_w == pytest.approx(result.average_power_w)
    assert found.average_power_w <= found.peak_power_w * (1 + 1e-9)

    largest = np.sort(tree(result).subgraphs.share)[::-1]
    assert largest[: found.half_of_edp].sum() >= 0.5 - 1e-9 > largest[: found.half_of_edp - 1].sum() - 1e-9


def test_edp_of_nodes_adds_up() -> None:
    result = grid.run("resnet18", "tpu", 8)
    whole, nodes = edp_report(result), [edp_report(result, name) for name in (*result.partition.id, HOST)]
    for name in ("energy_j", "latency_s", "edp_js", "fusion_benefit_js"):
        assert sum(getattr(node, name) for node in nodes) == pytest.approx(getattr(whole, name))


def test_static_means_the_same_on_the_screen() -> None:
    state = State("resnet50", devices=("h100_sxm",))
    found = edp_report(engine.result(state))
    (card,) = cards(state)
    assert [c.share for c in found.causes] == pytest.approx(card.bar.parts)


@for_each("model", grid.MODELS)
@for_each("device", grid.DEVICES)
def test_fusion_saves_the_same_whichever_was_asked_for(model: str, device: str) -> None:
    eager, fused = (grid.run(model, device, 16).in_mode(mode) for mode in ("eager", "fused"))
    for side in (eager, fused):
        assert edp_report(side).fusion_benefit_js == pytest.approx(eager.edp_js - fused.edp_js, abs=1e-9 * eager.edp_js)
    assert quantity(fused.edp_js, "Js") in _summary(edp_report(eager), State(model, devices=(device,)))[-1]


def test_how_many() -> None:
    share = np.array([0.1, 0.5, 0.2, 0.2])
    assert [count_making(share, f) for f in (0.5, 0.7, 0.71, 1.0)] == [1, 2, 3, 4]
    assert count_making(np.zeros(0), 0.5) == 0


def check_units(result: Estimate) -> None:
    """A kernel cannot use more of the peak than the part of the units it runs on."""
    run, demand = result.run, result.demand
    active = run.mapping.units / units_in_all(result.setup, run.mapping.on_matrix)
    most = np.zeros(demand.n_kernels)
    np.maximum.at(most, demand.kernel, np.minimum(active, 1.0))
    assert (run.utilization <= most * (1.0 + 1e-6)).all(), "more of the peak than its units could give"


def check_bounds(result: Estimate) -> None:
    """Kernels bound by memory lie left of where their own efficiencies put the ridge, those bound by compute right."""
    rows, run, bandwidth = kernels(result), result.run, result.device.memory_bandwidth
    plain = ~np.isin(run.bound, (LAUNCH, POWER)) & (rows.dram_bytes > 0) & (rows.ideal_s > 0)
    by_dram = plain & (run.bound == MEMORY) & (run.resource == RESOURCES.index("DRAM"))
    by_compute = plain & (run.bound != MEMORY)
    intensity = rows.flops / np.maximum(rows.dram_bytes, 1.0)
    # Ridge at the rates that are reached: compute seconds over the ideal moves it left, DRAM seconds right.
    ridge = rows.flops / np.maximum(rows.ideal_s, 1e-300) / bandwidth
    reached = ridge * (rows.ideal_s / np.maximum(run.kernel_compute_s, 1e-300))
    reached *= np.maximum(run.kernel_memory_s, 1e-300) * bandwidth / np.maximum(rows.dram_bytes, 1.0)
    assert (intensity <= reached * (1 + 1e-9))[by_dram].all(), "bound by memory right of its ridge"
    assert (intensity * (1 + 1e-9) >= reached)[by_compute].all(), "bound by compute left of its ridge"


@for_each(("model", "device", "batch", "execution"), grid.CASES)
def test_bounds_agree_with_intensity_and_utilisation_with_units(
    model: str, device: str, batch: int, execution: str
) -> None:
    result = grid.run(model, device, batch, execution)
    check_units(result)
    check_bounds(result)


def test_a_contradiction_of_bound_or_units_is_found_out() -> None:
    good = grid.run("resnet18", "gpu", 64, "fused")

    def altered(**changes: object) -> Estimate:
        return msgspec.structs.replace(good, run=msgspec.structs.replace(good.run, **changes))

    with pytest.raises(AssertionError, match="than its units"):
        check_units(altered(utilization=good.run.utilization * 100))
    swapped = np.where(good.run.kernel_compute_s > good.run.kernel_memory_s, 1, 0)
    with pytest.raises(AssertionError, match="of its ridge"):
        check_bounds(altered(bound=swapped, resource=np.where(swapped == 1, 2, 0)))


@pytest.mark.parametrize("name", ["xeon_8490h", "h100_sxm", "tpu_v4", "hailo8", "kpu_t256"])
def test_events_by_time_are_not_dynamic(name: str) -> None:
    """All events but those by time, loops that wait and static power are dynamic; no category is a clock."""
    result = engine.result(State(model="resnet18", devices=(name,)))
    whole = events.document(State(model="resnet18", devices=(name,)))
    assert sum(row.energy_j for row in whole.events) == pytest.approx(whole.total_j, rel=1e-12)
    assert whole.total_j == pytest.approx(result.energy_j, rel=1e-9)
    parts = [row for row in whole.events if row.event.endswith("_by_time") or row.event == "wait_loop"]
    assert parts
    assert sum(row.fraction for row in whole.events) == pytest.approx(1.0)
    static = [row for row in whole.events if row.category == "static"]
    assert [row for row in whole.events if not row.is_dynamic] == [*parts, *static]
    assert "clock" not in {row.category for row in whole.events}
