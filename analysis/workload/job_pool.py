"""Several captures at once: each in its own subprocess, none in the way of another."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from .job import Job

_POLL_S = 0.05


def cores() -> int:
    """Processors that this process may use: a capture keeps one of them busy."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(jobs: Sequence[Job], at_once: int, tick: Callable[[Sequence[Job]], None] = lambda running: None) -> None:
    """Run all jobs, `at_once` at a time, until each is done; how each ended, it says itself. `tick` is called with
    those that run. Whatever interrupts the waiting ends them all."""
    waiting, running = list(jobs), list[Job]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                running.append(waiting.pop(0))
                running[-1].start()
            tick(running)
            running[0].wait(_POLL_S)
            running = [job for job in running if not job.done]
    except BaseException:
        for job in running:
            job.cancel()
        for job in running:
            job.wait(5.0)
        raise
