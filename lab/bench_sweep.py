"""Rows per second of `sweep --all` on the cores there are: `python -m lab.bench_sweep [WORKERS]`."""

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from analysis.estimate.scenario import Scenario
from analysis.explore.catalogue_sweep import chunks, run_chunk
from analysis.explore.grid import BATCHES
from hardware.precision import SWEEP

TARGET = 25_000


def main() -> None:
    """Print rows per second by the clock and by the processor."""
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    work = chunks(BATCHES, SWEEP, (), Scenario(), (), "csv")
    total = sum(chunk.n_rows for chunk in work)
    start, busy = time.perf_counter(), os.times()
    with ProcessPoolExecutor(workers) as pool:
        found = sum(part.count("\n") for part in pool.map(run_chunk, work))
    wall, after = time.perf_counter() - start, os.times()
    cpu = sum(after[:4]) - sum(busy[:4])
    assert found == total
    print(f"{total:,} rows in {wall:.1f} s on {workers} processes: {total / wall:,.0f} rows/s (target {TARGET:,})")
    print(f"{total / cpu:,.0f} rows per second of processor time")


if __name__ == "__main__":
    main()
