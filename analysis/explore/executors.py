"""What runs a long walk: processes of this machine, or a Dask cluster, each as a `concurrent.futures.Executor`."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context, parent_process

from hardware.base.errors import RequestError


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def processes(count: int) -> Iterator[Executor]:
    """Yield an executor of so many processes, and kill them at the end, whatever they do."""
    others = set(active_children())
    executor = ProcessPoolExecutor(count, get_context("spawn"), initializer=_follow_parent)
    try:
        with ThreadPoolExecutor(1) as starter:  # signals go to the main thread, so none interrupts a start here
            starter.submit(lambda: [executor.submit(cores) for _ in range(count)]).result()
        yield executor
    finally:
        for process in set(active_children()) - others:
            process.kill()
        executor.shutdown(cancel_futures=True)


def _follow_parent() -> None:
    """Leave ctrl+c to the parent, and end when it has ended, also if it was killed."""

    def exit_with_parent() -> None:
        """Wait for the end of the parent, then exit at once."""
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=exit_with_parent, daemon=True).start()


@contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """Yield an executor on the workers of a Dask scheduler. Raises RequestError without Dask, or if none answers."""
    try:
        from distributed import Client
    except ImportError:
        raise RequestError("--cluster needs Dask: pip install 'hwexplorer[cluster]'") from None
    try:
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise RequestError(f"no Dask scheduler answers at {address[:80]}: {error}") from None
    with client:
        yield client.get_executor(pure=False)
