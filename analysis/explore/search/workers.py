"""Worker processes that evaluate pieces of work in parallel."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from hardware.errors import RequestError

Work = TypeVar("Work")
Result = TypeVar("Result")


def local(run: Callable[[Work], Result], work: Sequence[Work], workers: int = 0) -> Generator[Result, None, None]:
    """Apply `run`, a module's pure function, to pieces of work on `workers` processes (0: one per core), in order."""
    count = min(workers or cores(), len(work))
    if count <= 1:
        yield from map(run, work)
        return
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(count, get_context("spawn"), _work_for_parent)
    is_complete = False
    try:
        with ThreadPoolExecutor(1) as starter:  # signals go to the main thread, so none interrupts a start here
            futures = starter.submit(lambda: [pool.submit(run, piece) for piece in work]).result()
        for future in futures:
            yield future.result()
        is_complete = True
    except BrokenProcessPool:
        raise RequestError("a worker of the sweep was killed (out of memory? --workers takes fewer)") from None
    finally:
        # Kill instead of cancelling: the pool's thread fails on a cancelled future whose worker has gone.
        for process in [] if is_complete else list((pool._processes or {}).values()):
            process.kill()
        pool.shutdown()


def _work_for_parent() -> None:
    """Prepare a worker process: ignore Ctrl-C, which the parent handles, and exit when the parent is killed."""
    import multiprocessing
    import signal
    import threading

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()

    def exit_with_parent() -> None:
        """Wait for the end of the parent, then exit at once."""
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
