"""Damaged trace files of every format: each ends in a trace whose times add up, laid over a model too, or in a line."""

import sys
import tempfile
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from random import Random

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from hardware.device_catalog import load_device
from hwexplorer_annexes.traces.trace_file import read_trace
from hwexplorer_annexes.traces.trace_record import TraceError
from hwexplorer_annexes.traces.trace_report import make_trace_report
from tests.fuzz import mutate

sys.path.insert(0, str(Path(__file__).parents[1] / "traces"))
import trace_files

CASE_SECONDS = 5.0


@lru_cache(maxsize=1)
def _model() -> Estimate:
    workload = store.ready("resnet18")
    assert workload is not None
    return estimate(workload, load_device("xeon_8490h"), Scenario(1, "fp32", "eager"))


def mutations(random: Random) -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        seeds = [write(Path(folder) / name).read_bytes() for name, write in trace_files.WRITERS.items()]
    text = mutate.files(random, [seed for seed in seeds if not seed.startswith((b"SQLite", b"\x1f\x8b"))])
    while True:
        yield next(text) if random.random() < 0.8 else mutate.flipped(random, random.choice(seeds))


def survive(data: bytes) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace"
        path.write_bytes(data)
        try:
            trace = read_trace(path)
            report = make_trace_report(trace, _model())
        except TraceError as error:
            if "\n" in str(error):
                raise
            return False
    parts = report.matched_s + report.unmatched_s + report.gap_s - report.overlap_s
    assert abs(parts - report.wall_s) <= 1e-6 * report.wall_s
    assert (
        abs(sum(op.seconds for op in trace.ops) + trace.gap_s - trace.overlap_s - trace.wall_s) <= 1e-6 * trace.wall_s
    )
    return True
