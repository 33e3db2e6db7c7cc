"""Wavefronts: what is drawn adds up to the estimate, for drawn operators on drawn devices."""

import itertools
import random

import numpy as np
import pytest

from analysis.estimate.causes import divide_host_work
from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.estimate.tree_figures import HOST
from analysis.explore.wavefront_phases import machine_state, make_machine, make_wavefront
from hardware.base.errors import RequestError
from hardware.device_catalog import find_folders, load_device
from hardware.map_demand import architecture_of
from hardware.mapping.recurrence_schedules import KEPT, filling_cycles
from hwexplorer import cli
from hwexplorer.views.wavefront_drawing import draw_machines, fit_machines
from tests.models import load_once
from tests.sampling import for_each

MODELS = ("resnet18", "mobilenet_v2", "vit_b_16", "llama3_8b:decode", "llama3_8b:in=64,out=8", "gpt2")
KEYS = ("xeon_8490h", "h100_sxm", "tpu_v4", "kpu_t256", "kpu_t64", "hailo8", "jetson_agx_orin:30w")
DRAWN = random.Random(38)


def _cases(count: int) -> list[tuple[str, str, int, str]]:
    keys = [*KEYS * 20, *(key for key in find_folders(()) if load_device(key).architecture in ("cpu", "gpu", "tpu"))]
    return [
        (DRAWN.choice(MODELS), DRAWN.choice(keys), DRAWN.choice((1, 8, 64)), DRAWN.choice(("fp16", "int8")))
        for _ in range(count)
    ]


@for_each("case", _cases(40))
def test_phases_add_up_to_the_estimate(case: tuple[str, str, int, str]) -> None:
    model, key, batch, precision = case
    result = estimate(load_once(model), load_device(key), Scenario(batch, precision))
    rest, tiling = divide_host_work(result)[0].run, result.run.mapping.tiling
    for i in DRAWN.sample(range(result.demand.n), min(result.demand.n, 12)):
        machine = make_machine(result, result.partition.operator_id[i])
        phases = machine.phases
        assert machine.latency_s == rest.latency_s[i]
        assert machine.energy_j == rest.energy_j[i]
        assert sum(phase.seconds for phase in phases) == pytest.approx(rest.latency_s[i], rel=1e-9)
        assert sum(phase.cycles for phase in phases) == pytest.approx(machine.cycles, rel=1e-9)
        assert sum(phase.energy_j for phase in phases) == pytest.approx(rest.energy_j[i], rel=1e-9)
        assert all(min(phase.cycles, phase.energy_j, phase.schedule_cycles) >= 0.0 for phase in phases)
        if tiling.tile_m[i] and tiling.seconds[i]:  # the schedule is that of the estimate's tiles
            stages = machine.stages
            assert sum(stages.cycles.values()) == pytest.approx(tiling.seconds[i] * stages.clock_hz, rel=1e-9)
            assert np.prod(stages.blocks) == pytest.approx(tiling.blocks[i], rel=0.2, abs=1.0)
            assert stages.rounds == np.ceil(tiling.waves[i])
        states = [machine_state(machine, at) for at in np.linspace(0.0, 1.0, 23)]
        last = states[-1]
        assert (last.cycle, last.blocks_running) == (machine.cycles, 0)
        assert last.energy_j == pytest.approx(machine.energy_j, rel=1e-9)
        for before, after in itertools.pairwise(states):
            assert before.energy_j <= after.energy_j * (1 + 1e-12)
            assert (before.run, before.round, before.cycle) <= (after.run, after.round, after.cycle)
            assert (before.run, before.blocks_done) <= (after.run, after.blocks_done)


@for_each("model", ("resnet18", "mobilenet_v2", "vit_b_16"))
def test_tiles_of_a_kpu_fill_and_drain_for_the_cycles_whose_idle_cells_are_counted(model: str) -> None:
    result = estimate(load_once(model), load_device("kpu_t256"), Scenario(8, "int8"))
    tiling, filling = result.run.mapping.tiling, filling_cycles(result.demand.gemm, result.run.mapping.tiling)
    products = np.flatnonzero(result.run.mapping.on_matrix & (tiling.blocks > 0)).tolist()
    assert {KEPT[int(tiling.stationary[i])] for i in products} >= {"results"}
    for i in products:
        stages = architecture_of(result.device).find_stages(result.demand, result.setup, result.run.mapping, i)
        each = tiling.units[i] if stages.keeps == "results" else tiling.blocks[i] / tiling.waves[i]
        loading = stages.loading * (1 if stages.keeps == "results" else stages.rounds)
        assert stages.drain + loading == pytest.approx(filling[i] / each, rel=1e-9)
        if stages.keeps == "results" and stages.block[:2] == (32, 32) and stages.block[2] * stages.beat > 62:
            assert stages.fill == pytest.approx(62)
        assert min(stages.fill, stages.stream, stages.drain) >= 0.0
        assert stages.repeated == (("steady",) if stages.keeps == "results" else ("fill", "steady", "drain"))


def test_operator_of_a_node_is_the_heaviest() -> None:
    results = [estimate(load_once("resnet18"), load_device(key), Scenario(1, "int8")) for key in KEYS[:4]]
    document = make_wavefront(results, "layer1.0.conv1", 0.3)
    assert document.node == "layer1.0.conv1/conv1"
    assert [state.moment for state in document.states] == [0.3] * 4
    hidden = make_wavefront(results, "layer1.0.conv1/relu", 1.0).machines[3]
    assert (hidden.hidden_in, hidden.cycles) == ("layer1.0.conv1/conv1", 0.0)
    assert hidden.energy_j > 0.0
    with pytest.raises(RequestError, match="host's work has no schedule"):
        make_wavefront(results, HOST, 0.0)


@pytest.mark.parametrize(("width", "height", "shape"), [(76, 21, (2, 1)), (116, 37, (2, 2)), (156, 45, (2, 2))])
def test_machines_fit_their_room(width: int, height: int, shape: tuple[int, int]) -> None:
    results = [estimate(load_once("mobilenet_v2"), load_device(key), Scenario(8, "int8")) for key in KEYS[:4]]
    machines = make_wavefront(results, "features.2.conv.1", 0.5).machines
    assert fit_machines(4, width, height) == shape
    for moment in (0.0, 0.05, 0.5, 0.99, 1.0):
        pairs = [(each, machine_state(each, moment)) for each in machines[: shape[0] * shape[1]]]
        lines = ["".join(text for text, _ in line).rstrip() for line in draw_machines(pairs, width, height)]
        assert height - shape[1] < len(lines) <= height
        assert max(map(len, lines)) <= width
    for tiny in range(1, 30):  # a terminal that someone makes narrow
        assert draw_machines(pairs, tiny, tiny)


def test_moment_is_a_part_of_the_time(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("resnet18", "--precision", "fp32", "--on", "cpu,kpu", "--node", "layer1.0.conv1", "--at", "0.3")
    assert cli.main(["show", "wavefront", *words]) == 0
    assert "/2 · cycle 3,335 of 11,117" in capsys.readouterr().out
