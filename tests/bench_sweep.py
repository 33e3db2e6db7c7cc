"""Rows per second of `sweep --all` on the cores there are: `python tests/bench_sweep.py [WORKERS]`."""

import os
import sys
import time

from analysis.estimate.scenario import Scenario
from analysis.explore.search.catalogue_sweep import BATCHES, chunks, run_chunk
from analysis.explore.search.workers import local
from hardware.precision import SWEEP

TARGET = 25_000


def main() -> None:
    workers = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    work = chunks(BATCHES, SWEEP, (), Scenario(), (), "csv")
    total = sum(chunk.n_rows for chunk in work)
    start, busy = time.perf_counter(), os.times()
    found = sum(part.count("\n") for part in local(run_chunk, work, workers))
    wall, after = time.perf_counter() - start, os.times()
    cpu = sum(after[:4]) - sum(busy[:4])
    assert found == total
    print(f"{total:,} rows in {wall:.1f} s on {workers} processes: {total / wall:,.0f} rows/s (target {TARGET:,})")
    print(f"{total / cpu:,.0f} rows per second of processor time")


if __name__ == "__main__":
    main()
