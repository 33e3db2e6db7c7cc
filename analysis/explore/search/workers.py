"""Worker processes that evaluate pieces of work in parallel."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from hardware.base.errors import RequestError

if TYPE_CHECKING:  # imported late: takes several milliseconds
    from multiprocessing.connection import Connection

Work = TypeVar("Work")
Result = TypeVar("Result")


def local(run: Callable[[Work], Result], work: Sequence[Work], workers: int = 0) -> Generator[Result, None, None]:
    """Apply `run`, a module's pure function, to pieces of work on `workers` processes (0: one per core), in order."""
    count = min(workers or cores(), len(work))
    if count <= 1:
        yield from map(run, work)
        return
    from concurrent.futures import ThreadPoolExecutor
    from multiprocessing import connection, get_context

    # Each process has a pipe of its own: it shares no lock or queue with others, so it may be killed at any time.
    context, processes, idle = get_context("spawn"), [], []
    results, busy, pieces = dict[int, Result](), dict["Connection", int](), enumerate(work)

    def start() -> None:
        """Start the processes."""
        for _ in range(count):
            pipe, end = context.Pipe()
            process = context.Process(target=_answer, args=(run, end))
            process.start()
            end.close()
            processes.append(process)
            idle.append(pipe)

    try:
        with ThreadPoolExecutor(1) as starter:  # signals go to the main thread, so none interrupts a start here
            starter.submit(start).result()
        for place in range(len(work)):
            while place not in results:
                for pipe, (number, piece) in zip(tuple(idle), pieces, strict=False):
                    pipe.send(piece)
                    idle.remove(pipe)
                    busy[pipe] = number
                ready = connection.wait(busy)
                for pipe in [pipe for pipe in busy if pipe in ready]:
                    answer = pipe.recv()
                    if isinstance(answer, Exception):
                        raise answer
                    results[busy.pop(pipe)] = answer
                    idle.append(pipe)
            yield results.pop(place)
    except (EOFError, ConnectionError):
        raise RequestError("a worker of the sweep was killed (out of memory? --workers takes fewer)") from None
    finally:
        for process in processes:
            process.kill()
            process.join()


def _answer(run: Callable[[Work], Result], pipe: Connection) -> None:
    """Apply `run` to what comes through the pipe, until the parent is gone. Ctrl+c is left to the parent."""
    import signal
    import threading
    from multiprocessing import parent_process

    def exit_with_parent() -> None:
        """Wait for the end of the parent, then exit at once."""
        if (parent := parent_process()) is not None:
            parent.join()
            os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=exit_with_parent, daemon=True).start()
    with suppress(EOFError, ConnectionError):  # the parent has gone
        while True:
            piece = pipe.recv()
            try:
                answer: Result | Exception = run(piece)
            except Exception as error:
                answer = error
            pipe.send(answer)


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
