"""Loop nests over memories and arrays: what Timeloop publishes, what is conserved, and the closed forms of arrays."""

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hardware.demand import Floats
from hardware.hierarchy import LOOPS
from hardware.spatial.loop_nest import (
    CONCERNS,
    INPUT,
    OUTPUT,
    WEIGHT,
    Nest,
    NestRun,
    Network,
    Problem,
    Station,
    count_moves,
)
from tests.sampling import for_each

DESIGNS: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name("timeloop.toml").read_text())["design"]
TENSORS = {"i": INPUT, "w": WEIGHT, "o": OUTPUT}
BLOCK = re.compile(r"\[(\w+) ([wio-]+)\]([^\[]*)")


def timeloop(design: dict[str, Any]) -> tuple[NestRun, list[str]]:
    """A published mapping evaluated here, and the names of its levels."""
    size = np.ones((8, 1))
    for loop, value in design["sizes"].items():
        size[LOOPS.index(loop)] = value
    stations, names, spread, orders = [], [], [], []
    tiles = [size]
    for name, held, loops in BLOCK.findall(design["mapping"]):
        stations.append(Station(tuple(letter in held for letter in "iwo")))
        names.append(name)
        steps, elements, order = np.ones((8, 1)), np.ones((8, 1)), []
        for letter, bound, over in re.findall(r"([A-Z])(\d+)(s[XY])?", loops):
            loop = LOOPS.index(letter)
            (elements if over else steps)[loop] *= int(bound)
            order += [] if over else [loop]
        orders.append(np.array([*(loop for loop in range(8) if loop not in order), *order])[:, None])
        spread.append(elements)
        tiles.append(tiles[-1] / steps / elements)
    assert (tiles[-1] == 1).all()
    problem = Problem(size, np.array([float(design["stride"])]), np.ones(1))
    return count_moves(problem, Nest(tuple(tiles[1:-1]), tuple(spread), tuple(orders)), tuple(stations)), names


@for_each("design", DESIGNS)
def test_words_and_cycles_are_those_that_timeloop_publishes(design: dict[str, Any]) -> None:
    found, names = timeloop(design)
    assert found.cycles[0] == design["cycles"]
    for level, letter, *words in design["words"]:
        moved = found.moves[names.index(level), TENSORS[letter]]
        assert [moved.reads[0], moved.fills[0], moved.updates[0]] == pytest.approx(words, rel=1e-12), (level, letter)


def systolic(kept: int, hides_load: bool, sizes: dict[str, float], side: float) -> float:
    """Cycles of a product on a square array that keeps a tensor: channels along its sides, or rows and channels."""
    size = np.ones((8, 1))
    for loop, value in sizes.items():
        size[LOOPS.index(loop)] = value
    along = "CK" if kept == WEIGHT else "PK"
    elements = np.ones((8, 1))
    for loop in along:
        elements[LOOPS.index(loop)] = min(side, sizes[loop])
    order = np.array([LOOPS.index(x) for x in ("GKCRSNPQ" if kept == WEIGHT else "GKNPQCRS")])[:, None]
    holds = tuple(tensor == kept for tensor in range(3))
    stations = (Station((True, True, True), Network(kept=kept, hides_load=hides_load)), Station(holds))
    nest = Nest((np.ones((8, 1)),), (elements, np.ones((8, 1))), (order, order))
    return float(count_moves(Problem(size, np.ones(1), np.ones(1)), nest, stations).cycles[0])


# (array, rows, depth, results): SCALE-Sim counts 2R + C + T - 2 for each tile of weights, R + C + T - 2 for results.
@pytest.mark.parametrize(("m", "k", "n", "tiles"), [(256, 256, 128, 32), (3025, 384, 96, 36), (64, 32, 32, 1)])
def test_an_array_that_loads_between_passes_takes_what_scale_sim_counts(m: int, k: int, n: int, tiles: int) -> None:
    assert systolic(WEIGHT, False, {"P": m, "C": k, "K": n}, 32) == tiles * (2 * 32 + 32 + m - 2)


@pytest.mark.parametrize(("m", "k", "n"), [(256, 256, 128), (64, 363, 96)])
def test_an_array_that_keeps_results_takes_what_scale_sim_counts(m: int, k: int, n: int) -> None:
    assert systolic(OUTPUT, False, {"P": m, "C": k, "K": n}, 32) == m / 32 * n / 32 * (32 + 32 + k - 2)


def test_loading_behind_the_work_shows_only_where_the_work_is_shorter() -> None:
    sizes = {"P": 256.0, "C": 256.0, "K": 128.0}
    assert systolic(WEIGHT, True, sizes, 32) == 32 * 256 + 62
    assert systolic(WEIGHT, True, sizes | {"P": 8.0}, 32) == 32 * 32 + 62


EXTENT = st.integers(1, 12)


@st.composite
def nests(draw: st.DrawFn) -> tuple[Problem, Nest, tuple[Station, ...]]:
    """A problem with ragged tiles over three stations, any of which may hold any tensor."""
    size = np.array([[float(draw(EXTENT))] for _ in range(8)])
    tiles, spread, orders = [size], [], []
    for _ in range(2):
        tiles.append(np.minimum(np.array([[float(draw(EXTENT))] for _ in range(8)]), tiles[-1]))
    for outer, inner in zip(tiles, [*tiles[1:], np.ones((8, 1))], strict=True):
        wanted = np.array([[float(draw(st.integers(1, 3)))] for _ in range(8)])
        spread.append(np.minimum(wanted, np.ceil(outer / inner)))
        orders.append(np.array(draw(st.permutations(range(8))))[:, None])
    holds = [(True, True, True), *(tuple(draw(st.booleans()) for _ in range(3)) for _ in range(2))]
    networks = [Network((draw(st.booleans()), draw(st.booleans()), False), draw(st.booleans())) for _ in range(3)]
    stations = tuple(Station(held, network) for held, network in zip(holds, networks, strict=True))
    problem = Problem(size, np.array([float(draw(st.integers(1, 3)))]), np.ones(1))
    return problem, Nest(tuple(tiles[1:]), tuple(spread), tuple(orders)), stations


def distinct(problem: Problem, tensor: int) -> Floats:
    size = problem.sizes
    if tensor != INPUT:
        return np.prod(size[CONCERNS[tensor]], axis=0)
    sides = [(size[a] - 1) * problem.stride + size[b] for a, b in ((4, 6), (5, 7))]
    return size[0] * size[1] * size[3] * sides[0] * sides[1]


def ragged() -> tuple[Problem, Nest, tuple[Station, ...]]:
    """Three values in tiles of two over an array of two elements, and these over one of two below: one has one left."""
    values, tile, whole = np.ones((8, 1)), np.ones((8, 1)), np.ones((8, 1))
    values[3], tile[3], whole[3] = 3.0, 2.0, 2.0
    order = np.arange(8)[:, None]
    everything = Station((True, True, True), Network((True, True, False), True))
    nothing = Station((False, False, False), Network((True, True, False), True))
    nest = Nest((values, tile), (np.ones((8, 1)), whole, whole), (order, order, order))
    return Problem(values, np.ones(1), np.ones(1)), nest, (everything, nothing, nothing)


@given(nests())
@example(ragged())
@settings(max_examples=150, deadline=None)
def test_what_a_level_gives_is_what_the_next_takes(case: tuple[Problem, Nest, tuple[Station, ...]]) -> None:
    """Reads are the fills below over the elements that one read serves, updates the drains; operands that multiply are
    the multiply-accumulates; and no value comes less than once."""
    problem, _, stations = case
    found = count_moves(*case)
    macs = float(np.prod(problem.sizes))
    for tensor in range(3):
        held = [s for s, station in enumerate(stations) if station.holds[tensor]]
        for outer, inner in zip(held, [*held[1:], None], strict=True):
            moved = found.moves[outer, tensor]
            if tensor == OUTPUT:
                below = found.moves[inner, tensor].drains if inner is not None else macs
                assert moved.updates * moved.shared == pytest.approx(below)
                assert (moved.reads >= -1e-6).all()
                assert (moved.reads <= moved.updates).all()
            else:
                below = found.moves[inner, tensor].fills if inner is not None else macs
                assert moved.reads * moved.shared == pytest.approx(below)
            if inner is not None and (tensor != INPUT or problem.stride[0] == 1):
                assert below >= distinct(problem, tensor) * (1 - 1e-9)
            assert (moved.shared >= 1).all()
    assert found.cycles * found.instances[-1] >= macs * (1 - 1e-9)
