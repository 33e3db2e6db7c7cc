"""Schedules of recurrences: equal to the cycle to a simulation of tokens, and to the simulator of the KPU's maker."""

from __future__ import annotations

import math
from pathlib import Path

import grid
import numpy as np
import pytest

from hardware.mapping.recurrence import RESULTS, Fabric, fastest_schedule, keep_operand, keep_results, kept, schedules
from tests.sampling import for_each

GEMM = np.random.default_rng(7)


def _fabric(rows: int, columns: int, **facts: float) -> Fabric:
    """A fabric that multiplies in all cells and whose movers are never waited for, with other `facts`."""
    plain = {"units": 1, "macs_per_clock": rows * columns, "clock_hz": 1.0, "bus_bytes": 1e12, "buffer_bytes": 1e12}
    return Fabric(rows=rows, columns=columns, operand_bytes=1.0, result_bytes=1.0, **(plain | facts))


def _column(*sizes: int) -> np.ndarray:
    return np.array([[float(size)] for size in sizes])


def _simulate_results(rows: int, columns: int, m: int, n: int, k: int) -> int:
    """Move tokens through a grid of cells that keep their sums: one step a cycle, the smallest blocks first. Return the
    cycles, and check the product."""
    left, right = GEMM.integers(-9, 9, (m, k)), GEMM.integers(-9, 9, (k, n))
    ranges = [
        (range(i, min(i + rows, m)), range(j, min(j + columns, n)))
        for i in range(0, m, rows)
        for j in range(0, n, columns)
    ]
    blocks = sorted(ranges, key=lambda block: len(block[0]) + len(block[1]))
    result, done, cycle = np.zeros((m, n), dtype=int), 0, 0
    across: dict[tuple[int, int], tuple[int, int, int]] = {}  # cell: row of the product, index in K, block
    down: dict[tuple[int, int], tuple[int, int, int]] = {}
    while done < m * n * k:
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
            done += 1
        across = {(row, column + 1): token for (row, column), token in across.items() if column + 1 < columns}
        down = {(row + 1, column): token for (row, column), token in down.items() if row + 1 < rows}
        cycle += 1
    assert (result == left @ right).all()
    return cycle


def _simulate_weights(rows: int, columns: int, m: int, n: int, k: int) -> int:
    """Keep blocks of weights in the cells, stream inputs across and sums down, one block after the other."""
    left, right = GEMM.integers(-9, 9, (m, k)), GEMM.integers(-9, 9, (k, n))
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


# stillwater-sc/kpu-sim, docs/analysis/efficiency-bug-analysis.md: products of N cubed in fp32 on one tile of 16 x 16.
BARRIERS = {64: 2048, 128: 13824, 256: 97280, 512: 718848, 1024: 5500928, 2048: 42983424}


@pytest.mark.parametrize("has_barriers", [True, False])
def test_one_tile_takes_the_cycles_of_its_makers_simulator(has_barriers: bool, tmp_path: Path) -> None:
    """With barriers exactly; pipelined 57 % of the peak at 64 cubed, 96 % at 1,024. By the estimate of a device."""

    def one_tile(data: dict) -> None:
        facts = {"units": 1, "array_rows": 16, "array_columns": 16, "tile_memory_bytes": 65536}
        facts |= {"barriers": 1} if has_barriers else {}
        for name, value in facts.items():
            data["facts"].setdefault(name, {"unit": "count", "source": "kpu-sim", "quality": "design target"})
            data["facts"][name]["value"] = float(value)
        data["fma_per_clock"]["matrix"]["fp32"]["value"] = 256.0
        data["peak_flops"] = {}

    device = grid.altered(tmp_path, "kpu_t256", one_tile, "one_tile")
    for size, cycles in BARRIERS.items():
        result = grid.run(grid.toy_gemm(size, size, size), device, 1, "fp32", "fused")
        ours = float(result.run.mapping.matrix_s.sum()) * device.clock_hz
        if has_barriers:
            assert ours == pytest.approx(cycles, abs=1e-3)
        elif size in (64, 1024):
            assert round(size**3 / 256 / ours, 2) == {64: 0.57, 1024: 0.96}[size]


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
    for sizes, stays in (((12544, 64, 27), "weights"), ((64, 12544, 27), "inputs"), ((512, 512, 4096), RESULTS)):
        tiling = fastest_schedule(schedules(_column(1, *sizes), fabric, (1.0, 2.0), (1, 2, 4)))
        assert kept(tiling, _column(sizes[2])[0], fabric.cells)[0] == stays
        assert tiling.seconds[0] * fabric.units * fabric.macs_per_clock >= math.prod(sizes)


def test_results_fill_a_fabric_once_and_operands_for_each_block() -> None:
    fabric = _fabric(16, 16)
    for size in (64, 256):
        blocks = (size / 16) ** 2
        once = keep_results(_column(1, size, size, size), fabric, 16, 16, 1).seconds[0] - blocks * size
        each = keep_operand(_column(1, size, size, size), fabric, 16, 16, 1).seconds[0] - blocks * size
        assert once == pytest.approx(30)
        assert each == pytest.approx(blocks * 46)
