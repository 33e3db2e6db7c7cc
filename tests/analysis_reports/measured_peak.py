"""Peak memory of PyTorch on the CPU by its allocator's events, a JSON line [model, bytes, seconds] each.

Run as a process of its own: `python measured_peak.py BATCH THREADS MODEL ...`. Memory that is held before the
run (weights) is no event; the input is added, since the caller holds it until the model returns.
"""

from __future__ import annotations

import json
import sys
import time
from itertools import accumulate
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from analysis.capture.runtime import import_torchvision
from analysis.workload import zoo

# As the captures, which follow the published weights.
_PUBLISHED = {"init_weights": False, "transform_input": True}
OPTIONS: dict[str, dict[str, Any]] = {"inception_v3": _PUBLISHED, "googlenet": _PUBLISHED}


def peak(name: str, batch: int) -> float:
    model = import_torchvision().models.get_model(name, weights=None, **OPTIONS.get(name, {})).eval()
    x = torch.rand(batch, *zoo.table()[name].input)
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as trace:
        result = model(x)
    events = [event for event in trace.profiler.kineto_results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    del result
    return max(accumulate(event.nbytes() for event in events)) + x.untyped_storage().nbytes()


def main() -> None:
    batch, threads, *names = sys.argv[1:]
    torch.set_num_threads(int(threads))
    for name in names:
        start = time.perf_counter()
        print(json.dumps([name, peak(name, int(batch)), time.perf_counter() - start]), flush=True)


if __name__ == "__main__":
    main()
