"""Peak memory of PyTorch on the CPU by its allocator's events, a JSON line [model, bytes, seconds] each.

Run as a process of its own: `python measured_peak.py BATCH THREADS MODEL ...`. Memory that is held before the
run (weights) is no event; the input is added, since the caller holds it until the model returns.
"""

import json
import sys
import time
from itertools import accumulate
from typing import Any

import torch
from recurrent_models import RECURRENT
from torch.profiler import ProfilerActivity, profile

from analysis.capture import torchvision_models
from analysis.capture.torch_settings import without_weights
from analysis.capture.torchvision_models import _torchvision
from analysis.model.names import zoo


def ready(name: str, batch: int) -> tuple[Any, list[Any]]:
    """A model as it is captured, and its inputs."""
    if name in RECURRENT:
        model, (x,) = RECURRENT[name]()
        return model.eval(), [x.expand(batch, *x.shape[1:]).clone()]
    info = zoo.table()[name]
    with without_weights():
        model = torchvision_models.adapt(_torchvision(info, info.image_size), info).eval()
        inputs, _ = torchvision_models.inputs(info, info.image_size)
    if info.family == "detection":  # its operator has shapes only
        torchvision_models.roi_align()
        pooled = lambda x, boxes, high, wide, _: x.new_empty(len(boxes), x.shape[1], high, wide)  # noqa: E731
        torch.library.impl("hwexplorer::roi_align", "CPU", pooled)
    return model.to_empty(device="cpu"), [torch.rand(batch, *value.shape[1:]) for value in inputs]


def peak(name: str, batch: int) -> float:
    model, inputs = ready(name, batch)
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as trace:
        result = model(*inputs)
    events = [event for event in trace.profiler.kineto_results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    del result
    return max(accumulate(event.nbytes() for event in events)) + sum(x.untyped_storage().nbytes() for x in inputs)


def main() -> None:
    batch, threads, *names = sys.argv[1:]
    torch.set_num_threads(int(threads))
    for name in names:
        start = time.perf_counter()
        print(json.dumps([name, peak(name, int(batch)), time.perf_counter() - start]), flush=True)


if __name__ == "__main__":
    main()
