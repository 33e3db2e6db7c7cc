"""Run a model here under torch.profiler: `python -m analysis.annexes.machine.profiled_run PLAN FILE` writes its trace.

The first recorded run names the module of each operator; it is slower for it, and readers of such traces leave it out.
It runs the code of the model: only in a subprocess under limits."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import torch
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from analysis.annexes.machine.benchmark import DTYPES
from analysis.annexes.machine.host_facts import EnergyMeter
from analysis.annexes.machine.runnable_model import prepare_model
from analysis.annexes.traces.chrome import MODULE
from analysis.model.names.model_ref import refer
from analysis.model.process.answering import answer
from analysis.model.reading_budget import Progress

RUNS, WARM = 5, 2
METERED_S = 2.0  # energy counters move every few milliseconds: one run can be shorter than that


class ProfilePlan(msgspec.Struct, frozen=True, kw_only=True):
    """A model and its scenario; `threads` 0 are torch's."""

    model: str
    image_size: int | None = None
    batch: int = 1
    precision: str = "fp32"
    threads: int = 0


def main() -> int:
    """Answer a plan as analysis/model/process/answering.py does."""
    plan = msgspec.json.decode(sys.argv[1], type=ProfilePlan)
    return answer(lambda progress: _trace(plan, Path(sys.argv[2]), progress))


def _trace(plan: ProfilePlan, file: Path, progress: Progress) -> bytes:
    progress("building the model", 0.1)
    if plan.threads:
        torch.set_num_threads(plan.threads)
    dtype = getattr(torch, DTYPES[plan.precision])
    module, arguments, keywords = prepare_model(refer(plan.model, plan.image_size), plan.batch, dtype=dtype)
    meter = EnergyMeter()

    def run() -> None:
        module(*arguments, **keywords)

    progress("warming up", 0.4)
    seconds = []
    with torch.no_grad():
        for _ in range(WARM + RUNS):
            begin = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - begin)
        joules = meter.joules_of_one(run, METERED_S)
        progress("recording", 0.7)
        runs = schedule(wait=0, warmup=1, active=RUNS, repeat=1)
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True, schedule=runs) as recorded:
            for place in range(1 + RUNS):
                with _modules_named(module) if place == 1 else nullcontext():
                    run()
                recorded.step()
    recorded.export_chrome_trace(str(file))
    meter.close()
    took = {"seconds": statistics.median(seconds[WARM:]), "threads": torch.get_num_threads()}
    return msgspec.json.encode({**took, "joules": joules, "energy": meter.source})


@contextmanager
def _modules_named(module: Any) -> Iterator[None]:
    open_: list[Any] = []

    def enter(path: str, part: Any, given: Any) -> None:
        open_.append(record_function(MODULE + path))
        open_[-1].__enter__()

    def leave(part: Any, given: Any, result: Any) -> None:
        open_.pop().__exit__(None, None, None)

    handles = [
        handle
        for path, part in module.named_modules()
        if path
        for handle in (part.register_forward_pre_hook(partial(enter, path)), part.register_forward_hook(leave))
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        while open_:
            open_.pop().__exit__(None, None, None)


if __name__ == "__main__":
    sys.exit(main())
