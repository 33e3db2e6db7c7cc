"""Workers: processes here or a Dask cluster that do pieces of work. `run` is a pure function of a module."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from hardware import policy
from hardware.errors import RequestError

Work = TypeVar("Work")
Result = TypeVar("Result")


def local(run: Callable[[Work], Result], work: Sequence[Work], workers: int = 0) -> Iterator[Result]:
    """Do pieces of work here on `workers` processes (0: one per core available), results in order."""
    count = 1 if policy.is_served() else min(workers or cores(), len(work))
    if count <= 1:
        yield from map(run, work)
        return
    from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
    from concurrent.futures.process import BrokenProcessPool
    from multiprocessing import get_context

    pool = ProcessPoolExecutor(count, get_context("spawn"), _work_for_parent)
    done = False
    try:
        with ThreadPoolExecutor(1) as starter:  # a signal is raised in the main thread: here none breaks off a start
            futures = starter.submit(lambda: [pool.submit(run, piece) for piece in work]).result()
        for future in futures:
            yield future.result()
        done = True
    except BrokenProcessPool:
        raise RequestError("a worker of the sweep was killed (out of memory? --workers takes fewer)") from None
    finally:
        # Killed first, and none is cancelled: the pool's thread fails on a cancelled one whose worker has gone.
        for process in [] if done else list((pool._processes or {}).values()):
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
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=exit_with_parent, daemon=True).start()


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def scheduled(
    run: Callable[[Work], Result], work: Sequence[Work], address: str, connect: Callable[[str], Any] | None = None
) -> Iterator[Result]:
    """Do pieces of work on an existing Dask cluster, which is left running; results in order. Raises RequestError where
    `distributed` is not installed or nothing answers at the address."""
    policy.require_unserved(f"connecting to {address}")  # what a scheduler answers with may be code
    return _gather_results(run, work, (connect or _client)(address))


def _gather_results(run: Callable[[Work], Result], work: Sequence[Work], client: Any) -> Iterator[Result]:
    try:
        futures = client.map(run, list(work), pure=False)
        try:
            for future in futures:
                yield future.result()
        except BaseException:
            client.cancel(futures)
            raise
    finally:
        client.close()


def _client(address: str) -> Any:
    try:
        from distributed import Client
    except ImportError:
        raise RequestError("--scheduler needs Dask: pip install distributed") from None
    try:
        return Client(address, timeout=10)
    except (OSError, ValueError, TimeoutError) as error:
        raise RequestError(f"no Dask scheduler answers at {address[:80]!r} ({type(error).__name__})") from None
