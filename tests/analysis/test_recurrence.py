"""Schedules of recurrences: equal to the cycle to a simulation of tokens, and to the simulator of the KPU's maker."""

import math
from pathlib import Path
from typing import Any

import grid
import numpy as np
import pytest

from analysis.model.model_errors import ModelSpecError
from hardware.area import area
from hardware.base.errors import RequestError
from hardware.device_catalog import load_device
from hardware.event_prices import coefficients
from hardware.mapping.recurrence_schedules import (
    INPUTS,
    RESULTS,
    WEIGHTS,
    Fabric,
    chain_products,
    factorisations,
    fastest_schedule,
    keep_operand,
    keep_results,
    schedules,
)
from hardware.plan import make_plan
from hardware.what_if import Change, apply_changes
from tests.sampling import for_each

RANDOM = np.random.default_rng(7)


def _fabric(rows: int, columns: int, **facts: float) -> Fabric:
    """A fabric that multiplies in all cells and whose movers are never waited for, with other `facts`."""
    plain = {"units": 1, "macs_per_clock": rows * columns, "clock_hz": 1.0, "bus_bytes": 1e12, "buffer_bytes": 1e12}
    return Fabric(rows=rows, columns=columns, operand_bytes=1.0, result_bytes=1.0, **(plain | facts))


def _column(*sizes: int) -> np.ndarray:
    return np.array([[float(size)] for size in sizes])


def _simulate_results(rows: int, columns: int, m: int, n: int, k: int, units: int = 1) -> int:
    """Deal blocks, the smallest first, to tiles that keep their sums. Return the cycles of the last tile, and check the
    product."""
    left, right = RANDOM.integers(-9, 9, (m, k)), RANDOM.integers(-9, 9, (k, n))
    ranges = [
        (range(i, min(i + rows, m)), range(j, min(j + columns, n)))
        for i in range(0, m, rows)
        for j in range(0, n, columns)
    ]
    blocks = sorted(ranges, key=lambda block: len(block[0]) + len(block[1]))
    result = np.zeros((m, n), dtype=int)
    cycles = [_simulate_tile(rows, columns, blocks[unit::units], left, right, result) for unit in range(units)]
    assert (result == left @ right).all()
    return max(cycles)


def _simulate_tile(
    rows: int, columns: int, blocks: list[tuple[range, range]], left: np.ndarray, right: np.ndarray, result: np.ndarray
) -> int:
    """Move tokens through a grid of cells that keep their sums: one step a cycle. Return the cycles."""
    k, cycle, left_over = len(right), 0, sum(len(high) * len(wide) for high, wide in blocks) * len(right)
    across: dict[tuple[int, int], tuple[int, int, int]] = {}  # cell: row of the product, index in K, block
    down: dict[tuple[int, int], tuple[int, int, int]] = {}
    while left_over:
        for row in range(rows):
            block, step = divmod(cycle - row, k)
            if 0 <= block < len(blocks) and row < len(blocks[block][0]):
                across[row, 0] = (blocks[block][0][row], step, block)
        for column in range(columns):
            block, step = divmod(cycle - column, k)
            if 0 <= block < len(blocks) and column < len(blocks[block][1]):
                down[0, column] = (blocks[block][1][column], step, block)
        for cell in across.keys() & down.keys():
            (i, step, block), (j, other_step, other_block) = across[cell], down[cell]
            assert (step, block) == (other_step, other_block), "tokens that meet belong together"
            result[i, j] += left[i, step] * right[step, j]
            left_over -= 1
        across = {(row, column + 1): token for (row, column), token in across.items() if column + 1 < columns}
        down = {(row + 1, column): token for (row, column), token in down.items() if row + 1 < rows}
        cycle += 1
    return cycle


def _simulate_weights(rows: int, columns: int, m: int, n: int, k: int) -> int:
    """Keep blocks of weights in the cells, stream inputs across and sums down, one block after the other."""
    left, right = RANDOM.integers(-9, 9, (m, k)), RANDOM.integers(-9, 9, (k, n))
    result, cycle = np.zeros((m, n), dtype=int), 0
    for first in range(0, k, rows):
        for start in range(0, n, columns):
            high, wide = min(rows, k - first), min(columns, n - start)
            cycle += min(rows, k)  # weights move down, a row a cycle
            inputs: dict[tuple[int, int], int] = {}
            sums: dict[tuple[int, int], int] = {}
            left_over = m * wide
            step = 0
            while left_over:
                for row in range(high):
                    if 0 <= step - row < m:
                        inputs[row, 0] = step - row
                sums = {
                    (row + 1, column): (sums[row, column] if row else 0)
                    + left[i, first + row] * right[first + row, start + column]
                    for (row, column), i in inputs.items()
                }
                for column in range(wide):
                    if (high - 1, column) in inputs:
                        result[inputs[high - 1, column], start + column] += sums[high, column]
                        left_over -= 1
                inputs = {(row, column + 1): i for (row, column), i in inputs.items() if column + 1 < wide}
                step += 1
            cycle += step + (min(rows, k) - high) + (min(columns, n) - wide)  # blocks at the edge wait for full ones
    assert (result == left @ right).all()
    return cycle


@for_each(
    ("rows", "columns", "sizes"),
    [(r, c, s) for r, c in ((2, 2), (3, 4), (4, 2)) for s in ((1, 1, 1), (2, 3, 4), (5, 7, 3), (8, 8, 8), (1, 9, 6))],
)
def test_cycles_equal_a_simulation_of_tokens(rows: int, columns: int, sizes: tuple[int, int, int]) -> None:
    fabric, gemm = _fabric(rows, columns), _column(1, *sizes)
    for schedule, simulate in ((keep_results, _simulate_results), (keep_operand, _simulate_weights)):
        cycles = simulate(rows, columns, *sizes)
        assert schedule(gemm, fabric, rows, columns, 1).seconds[0] == pytest.approx(cycles, abs=1e-6)


@for_each(("units", "sizes"), [(units, tuple(RANDOM.integers(1, 14, 3).tolist())) for units in (1, 2, 3, 4, 9) * 10])
def test_cycles_of_a_grid_equal_a_simulation_of_tokens(units: int, sizes: tuple[int, int, int]) -> None:
    fabric = _fabric(3, 3, units=units)
    cycles = keep_results(_column(1, *sizes), fabric, 3, 3, 1).seconds[0]
    assert cycles == pytest.approx(_simulate_results(3, 3, *sizes, units), abs=1e-6)


# M, N, K and cycles of stillwater-sc/kpu-sim, compiled at commit 4cb7709: fp32 on one tile of 16 x 16.
SIMULATED = """64 64 64 1792, 128 128 128 11008, 256 256 256 75520, 512 512 512 560896, 1024 1024 1024 4333312,
3136 64 576 489216, 784 128 1152 467904, 196 256 2304 488016, 512 768 768 1233664,
192 64 320 17664, 128 512 256 76032"""


def test_one_tile_takes_the_cycles_of_its_makers_simulator(tmp_path: Path) -> None:
    """An estimate takes at most 3.1 % more cycles, on 11 shapes."""

    def one_tile(data: dict[str, Any]) -> None:
        for name, value in {"units": 1, "array_rows": 16, "array_columns": 16, "tile_memory_bytes": 65536}.items():
            data["facts"][name]["value"] = float(value)
        data["fma_per_clock"]["matrix"]["fp32"]["value"] = 256.0
        data["peak_flops"] = data["format_units"] = {}

    device = grid.altered(tmp_path, "kpu_t256", one_tile, "one_tile")
    for row in SIMULATED.split(","):
        *sizes, cycles = map(int, row.split())
        result = grid.run(grid.toy_gemm(*sizes), device, 1, "fp32", "fused")
        ours = float(result.run.mapping.matrix_s.sum()) * device.clock_hz
        assert 1.0 - 1e-9 <= ours / cycles <= 1.031, row


def test_a_single_row_takes_a_wide_fabric() -> None:
    """A product of one row streams one row of inputs, not those of a square block, and more weights in a cycle."""
    fabric = _fabric(32, 32, units=256, buffer_bytes=32768, bus_bytes=64)
    one = fastest_schedule(schedules(_column(1, 1, 4096, 4096), fabric, (1.0, 2.0, 4.0, 8.0), (1, 2, 4, 8)))
    assert one.tile_m[0] < 32
    square = keep_results(_column(1, 1, 4096, 4096), fabric, 32, 32, 1)
    assert one.seconds[0] < square.seconds[0]


def test_what_stays_follows_the_shape_of_the_product() -> None:
    """Shallow products of many rows keep weights, deep ones keep results; no schedule exceeds the multipliers."""
    fabric = _fabric(32, 32, units=4, buffer_bytes=32768, bus_bytes=64)
    for sizes, stays in (((12544, 64, 27), WEIGHTS), ((64, 12544, 27), INPUTS), ((512, 512, 4096), RESULTS)):
        tiling = fastest_schedule(schedules(_column(1, *sizes), fabric, (1.0, 2.0), (1, 2, 4)))
        assert tiling.stationary[0] == stays
        assert tiling.seconds[0] * fabric.units * fabric.macs_per_clock >= math.prod(sizes)


def test_results_fill_a_fabric_once_and_operands_for_each_block() -> None:
    fabric = _fabric(16, 16)
    for size in (64, 256):
        blocks = (size / 16) ** 2
        once = keep_results(_column(1, size, size, size), fabric, 16, 16, 1).seconds[0] - blocks * size
        each = keep_operand(_column(1, size, size, size), fabric, 16, 16, 1).seconds[0] - blocks * size
        assert once == pytest.approx(30)
        assert each == pytest.approx(blocks * 46)


def _counts(device: str, workload: object, precision: str = "int8") -> tuple[dict[str, float], Any]:
    result = grid.run(workload, load_device(device), 1, precision, "fused")
    return dict(zip(result.device.arch.row, result.run.counts.sum(axis=1), strict=True)), result


def test_hops_of_a_byte_grow_with_the_mesh() -> None:
    """The distance from a memory tile follows the number of tiles: a larger fabric pays more for each byte."""
    per_byte = []
    for tiles in (64, 256, 1024):
        counts, _ = _counts(f"kpu_t256{{units={tiles}}}", "resnet18")
        per_byte.append(counts["network_on_chip.hop"] / counts["network_on_chip.token_injection"])
    assert per_byte == sorted(per_byte)
    assert per_byte[-1] > 2 * per_byte[0]


@pytest.mark.parametrize(
    "change", ["units=1024", "units=64", "process_nm=5", "tile_memory_bytes=262144", "array=16x16"]
)
def test_a_stated_power_limit_stays(change: str) -> None:
    """Designs are compared within the envelope that is stated, whatever their silicon; a derived limit follows it."""
    for mode in ("", ":15w", ":50w"):
        assert load_device(f"kpu_t256{mode}{{{change}}}").power_limit_w == load_device(f"kpu_t256{mode}").power_limit_w


def test_memory_of_a_tile_bounds_what_it_fetches_ahead() -> None:
    """Less memory shares less and waits more: the smallest is never the fastest, nor the one of least energy."""
    sizes = (256, 1024, 4096, 32768)
    runs = [grid.run("resnet18", load_device(f"kpu_t256{{tile_memory_bytes={n}}}"), 1, "int8", "fused") for n in sizes]
    assert runs[0].latency_s > runs[1].latency_s
    assert runs[0].energy_j > runs[1].energy_j
    assert all(run.run.utilization.max() <= 1.0 for run in runs)


def test_events_of_a_product_and_a_convolution_by_hand() -> None:
    """Every operand arrives at a cell once a multiply-add; each input enters once for each block of columns."""
    counts, result = _counts("kpu_t256", grid.toy_gemm(256, 512, 128))
    tiling = result.run.mapping.tiling
    at = int(np.flatnonzero(result.demand.macs)[0])
    macs = 256 * 512 * 128
    inputs = 256 * 128 * math.ceil(512 / tiling.tile_n[at])
    weights = 512 * 128 * math.ceil(256 / tiling.tile_m[at])
    assert counts["tile.mac"] == macs
    assert counts["domain_flow.token_match"] == 2 * macs
    assert counts["tile.operand_stream"] == 2 * macs
    assert counts["tile.partial_sum"] == 4 * (macs + 256 * 512 * max(tiling.split[at], 1.0))
    assert counts["domain_flow.program_load"] == counts["synchronisation.kernel_barrier"] == 1
    edge = max((inputs + weights) / 16, 256 * 128 + 512 * 128)
    assert counts["tile_memory.read"] == counts["stream_buffer.read"] == pytest.approx(edge)
    assert counts["dram.dram_read"] <= 256 * 128 + 512 * 128
    counts, result = _counts("kpu_t256", "resnet18")
    stem = int(np.flatnonzero(result.demand.macs)[0])
    assert result.run.counts[result.device.arch.row["tile.mac"], stem] == 112 * 112 * 64 * 7 * 7 * 3
    assert counts["domain_flow.token_match"] == 2 * result.demand.macs.sum()


@for_each(("rows", "columns", "divide"), [(4, 4, 0), (6, 6, 5), (4, 3, 0), (9, 5, 5), (1, 7, 0)])
def test_factorisations_of_one_tile_end_with_the_free_schedule(rows: int, columns: int, divide: int) -> None:
    """Every index of LU (square) or a solve of some rows fires a cycle after the last it depends on, in one tile; LU
    inverts each value of the diagonal."""
    is_lu = rows == columns
    at: dict[tuple[int, int, int], int] = {}
    for k in range(columns):
        for j in range(k, columns):
            for i in range(k if is_lu else 0, rows):
                before = [(i, j, k - 1), (i, k, k) if j > k else None, (k, j, k) if is_lu and i > k else None]
                beside = [(i - 1, j, k), (i, j - 1, k)]
                at[i, j, k] = 1 + max((at[index] for index in (*before, *beside) if index in at), default=0)
                at[i, j, k] += divide * (is_lu and i == j == k)
    depth = (columns - 1) / 2 * ((2 * columns - 1) / (3 * columns) if is_lu else 1)
    cycles = factorisations(_column(1, rows, columns, depth), _fabric(16, 16, divide_cycles=divide), (1.0,)).seconds[0]
    assert cycles == max(at.values()) == rows + 2 * columns - 2 + divide * columns * is_lu


def _simulate_factorisation(n: int, side: int, units: int, macs: int, divide: int, is_half: bool) -> int:
    """Deal blocks of results to tiles, the last columns evenly. Each cycle a tile takes at most `macs` operations whose
    operands are there, the earliest column first. Return the cycles of LU, or of Cholesky if `is_half`."""
    blocks = [(i, j) for i in range(0, n, side) for j in range(0, n, side) if i >= j or not is_half]
    owner = {block: place % units for place, block in enumerate(sorted(blocks, key=min, reverse=True))}
    waiting: dict[int, list[tuple[int, int]]] = {unit: [] for unit in range(units)}
    for i, j in ((i, j) for i in range(n) for j in range(n) if i >= j or not is_half):
        waiting[owner[i - i % side, j - j % side]].append((i, j))
    steps = {cell: 0 for cells in waiting.values() for cell in cells}
    ended_at: dict[tuple[int, int], float] = {}
    inverse: dict[int, float] = {}
    cycle = 0
    while any(waiting.values()):
        ended = {}
        for cells in waiting.values():
            ready = []
            for i, j in cells:
                k, depth = steps[i, j], min(i, j)
                right = (j, k) if is_half else (k, j)
                needs = (ended_at.get((i, k), math.inf), ended_at.get(right, math.inf)) if k < depth else (0.0,)
                needs = (inverse.get(j, math.inf),) if k == depth and i > j else needs
                if max(needs) <= cycle:
                    ready.append((depth - (i == j and k == depth), i, j))
            for _, i, j in sorted(ready)[:macs]:
                steps[i, j] += 1
                if steps[i, j] > min(i, j):
                    ended[i, j] = cycle + 1.0
                    inverse |= {i: cycle + 1.0 + divide} if i == j else {}
        ended_at |= ended
        waiting = {unit: [cell for cell in cells if cell not in ended] for unit, cells in waiting.items()}
        cycle += 1
    return round(max(*ended_at.values(), *inverse.values()))


@for_each(
    ("n", "side", "units", "macs", "divide"),
    [(16, 4, 4, 4, 5), (24, 4, 9, 16, 3), (24, 8, 4, 16, 3), (32, 4, 16, 4, 6)],
)
@pytest.mark.parametrize("is_half", [False, True])
def test_factorisations_on_a_grid_follow_a_simulation(
    n: int, side: int, units: int, macs: int, divide: int, is_half: bool
) -> None:
    """No schedule that waits for whole blocks ends before one that takes each operation as soon as it can."""
    fabric = _fabric(side, side, units=units, macs_per_clock=macs, divide_cycles=divide)
    cycles = factorisations(_column(1, n, n, n / (6 if is_half else 3)), fabric, (1.0,)).seconds[0]
    assert 1.0 <= cycles / _simulate_factorisation(n, side, units, macs, divide, is_half) < 1.4


@pytest.mark.parametrize(("model", "flops"), [
    ("lu:96", 2 / 3 * 96**3 - 96**2 / 2 - 96 / 6), ("cholesky:96", 96**3 / 3 + 96**2 / 2 + 96 / 6),
    ("fir:4x32x1000", 2 * 4 * 32 * 1000), ("stencil:64x3x5", 2 * 9 * 64 * 64 * 5),
    ("kalman:4x2x1", 2 * (16 + 128 + 32 + 16 + 1 + 8 + 8 + 32 + 8) + 16 + 4 + 3 + 16 + 2 + 4 + 16),
])  # fmt: skip
def test_recurrences_beyond_networks_count_as_lapack_does(model: str, flops: float) -> None:
    for device in grid.DEFAULTS:
        result = grid.run(model, device, 2, "fp32", "auto")
        assert result.demand.flops.sum() == pytest.approx(2 * flops)
        assert result.run.utilization.max() <= 1.0


def test_a_factorisation_waits_for_its_columns_but_on_a_fabric() -> None:
    """Matrices side by side wait together; a fabric runs one of them at half the rate of its cells, by its movers."""
    one, many = (grid.run("lu", "h100_sxm", batch, "fp32", "auto").latency_s for batch in (1, 8))
    assert 0.6e-3 < one < many < 4 * one
    mapping = grid.run("lu:4096", "kpu_t256", 1, "fp32", "auto").run.mapping
    assert mapping.matrix_ideal_s.sum() > 0.45 * mapping.matrix_s.sum()


def test_widths_and_banks_of_memory_are_facts() -> None:
    """Widths bound the time and lower prices; banks lower prices and take area."""

    def run(changes: str) -> tuple[Any, float]:
        device = load_device(f"kpu_t256{{{changes}}}" if changes else "kpu_t256")
        return grid.run("vit_b_16", device, 8, "int8", "fused"), area(device).memory_mm2

    def price(result: Any, event: str) -> float:
        return float(result.run.prices.value[result.device.arch.row[event]])

    plain, plain_mm2 = run("")
    for name in ("shared_memory", "tile_memory", "stream_buffer"):
        narrow, wide = (run(f"{name}_width={width}")[0] for width in (4, 128))
        assert narrow.latency_s > 1.1 * plain.latency_s
        assert price(wide, f"{name}.read") < price(plain, f"{name}.read") == price(narrow, f"{name}.read")
    banked, banked_mm2 = run("tile_memory_banks=8")
    assert price(banked, "tile_memory.read") < price(plain, "tile_memory.read")
    assert plain_mm2 < banked_mm2


def test_a_file_may_state_a_checkerboard_gating_banks_and_prices_by_node(tmp_path: Path) -> None:
    """Each changes what it is about: blocks go to tiles of the format, zeros cost no product, special functions leave
    the lanes, a price follows its own table from node to node."""

    def stated(data: dict[str, Any]) -> None:
        plain = {"source": "a designer", "quality": "assumed"}
        data["format_units"] = {"int8": {"value": 179.0, "unit": "count", **plain}}
        data["facts"]["zero_inputs"] = {"value": 0.25, "unit": "share", **plain}
        data["facts"]["egress_functions"] = {"value": 32.0, "unit": "evaluation/clock", **plain}
        by_node = {"28": 1.6e-13, "16": 1e-13, "7": 5e-14}
        data["coefficients"]["tile.mac:int8"] = {"value": 1e-13, "unit": "J/MAC", "by_node": by_node, **plain}

    mine, plain = grid.altered(tmp_path, "kpu_t256", stated, "mine"), load_device("kpu_t256")
    a, b = (grid.run("vit_b_16", device, 8, "int8", "fused") for device in (mine, plain))
    assert 1 < a.run.mapping.tiling.units.max() <= 179
    place = mine.arch.row["tile.mac"]
    assert a.run.counts[place].sum() == pytest.approx(0.75 * b.run.counts[place].sum())
    assert a.run.mapping.vector_s.sum() < b.run.mapping.vector_s.sum()
    prices = {nm: grid.run("vit_b_16", apply_changes(mine, (Change("process_nm", "=", nm),)), 1, "int8", "fused")
              .run.prices.value[place] for nm in ("28", "7")}  # fmt: skip
    assert a.run.prices.value[place] == pytest.approx(1e-13)
    assert prices == pytest.approx({"28": 1.6e-13, "7": 5e-14})


def test_a_block_has_a_bounded_number_of_operators() -> None:
    for name in ("stencil:64x3x1001", "kalman:4x2x1001"):
        with pytest.raises(ModelSpecError, match="is not a whole number from 1 to 1000"):
            grid.run(name, "kpu_t256")


def test_a_table_of_prices_is_chosen_by_its_file(tmp_path: Path) -> None:
    """It prices the events that a device has, at its node, and is named; a malformed one is refused in one line."""
    table = Path(__file__).parents[2] / "examples/prices/by_node.toml"
    events = {"kpu_t256": "tile.mac", "xeon_8490h": "alu.vector_mac", "h100_sxm": "compute.cuda_core_mac"}
    for name, event in events.items():
        device = load_device(f"{name}{{prices={table},process_nm=7}}")
        row = coefficients(device, make_plan(device, "fp32_strict")).rows[device.arch.row[event]]
        assert row.source.startswith("by_node: stillwater-sc")
        assert row.value_j == pytest.approx(0.3e-12) or name != "kpu_t256"
        assert table.name in device.label
    bad = tmp_path / "bad.toml"
    unknown = '"tile.mcc" = { value = 1e-12, unit = "J/MAC", source = "a", quality = "assumed" }'
    for text, message in (("x = ", "Invalid"), (f"[coefficients]\n{unknown}", "mean tile.mac"), ("", "has no price")):
        bad.write_text(text)
        with pytest.raises(RequestError, match=message):
            load_device(f"kpu_t256{{prices={bad}}}")


@pytest.mark.parametrize(("blocks", "rounds"), [(256, 1.0), (384, 1.5), (257, 1.125), (512, 2.0), (500, 2.0)])
def test_blocks_that_do_not_fill_a_round_are_folded_over_idle_tiles(blocks: int, rounds: float) -> None:
    """K of the last blocks is divided among tiles that would idle, in up to eight parts, at the cost of one more
    crossing for their sums; never slower than a whole round."""
    fabric, gemm = _fabric(32, 32, units=256), _column(blocks, 32, 32, 4096)
    cycles = keep_results(gemm, fabric, 32, 32, 1, most_folds=8).seconds[0]
    crossings = 62 * (2 if rounds % 1 else 1)
    assert cycles == pytest.approx(rounds * 4096 + crossings, abs=1.0)
    assert cycles <= keep_results(gemm, fabric, 32, 32, 1).seconds[0] + 62


def _simulate_chain(m: int, k: int, n: int, last: int, beat: int) -> tuple[int, int]:
    """Move tokens through two grids of weights: inputs to the right, sums down; a sum that leaves the foot of a column
    enters the row of its index in the next cycle. Check the products. Return all cycles, and those of the first."""
    inputs, weights = (
        RANDOM.integers(-9, 9, (m, k)),
        (
            RANDOM.integers(-9, 9, (k, n)),
            RANDOM.integers(-9, 9, (n, last)),
        ),
    )
    result, done, cycle, first_done, firsts = np.zeros((m, last), dtype=int), 0, 0, 0, 0
    across = [dict[tuple[int, int], tuple[int, int]](), dict[tuple[int, int], tuple[int, int]]()]
    sums = [dict[tuple[int, int], int](), dict[tuple[int, int], int]()]
    while done < m * last:
        for row in range(k):
            if (cycle - row) % beat == 0 and 0 <= (cycle - row) // beat < m:
                across[0][row, 0] = ((cycle - row) // beat, int(inputs[(cycle - row) // beat, row]))
        entering = []
        for stage, (grid_across, grid_sums) in enumerate(zip(across, sums, strict=True)):
            high, wide = weights[stage].shape
            moved = {}
            for (row, column), (index, value) in grid_across.items():
                total = (grid_sums[row, column] if row else 0) + value * int(weights[stage][row, column])
                if row + 1 < high:
                    moved[row + 1, column] = total
                elif stage:
                    result[index, column], done = total, done + 1
                else:
                    entering.append((column, index, total))
                    firsts += 1
                    first_done = cycle + 1 if firsts == m * n else first_done
            across[stage] = {(r, c + 1): token for (r, c), token in grid_across.items() if c + 1 < wide}
            sums[stage] = moved
        for column, index, total in entering:
            across[1][column, 0] = (index, total)
        cycle += 1
    assert (result == inputs @ weights[0] @ weights[1]).all()
    return cycle, first_done


@for_each("case", [(*RANDOM.integers(1, 8, 4).tolist(), beat) for beat in (1, 2, 3, 5) for _ in range(10)])
def test_two_chained_products_take_the_cycles_of_a_simulation_of_tokens(case: tuple[int, int, int, int, int]) -> None:
    m, k, n, last, beat = case
    fabric = _fabric(4, 4, macs_per_clock=16 / beat, units=64)
    chain = chain_products((m, n, k), (m, last, n), fabric)
    streamed, first = _simulate_chain(*case)
    assert chain.beat == beat
    assert chain.streamed_cycles == streamed
    assert chain.in_turn_cycles == first + (m - 1) * beat + n + last - 1
    assert chain.tiles == math.ceil(k / 4) * math.ceil(n / 4) + math.ceil(n / 4) * math.ceil(last / 4)
