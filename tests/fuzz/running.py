"""Every reader's fuzzer, found by its name and run in a process of its own.

A reader is a module `tests/fuzz/fuzz_NAME.py` with

    def mutations(random: Random) -> Iterator[Case]    endless; what comes follows from `random` alone
    def survive(case: Case) -> bool                    True: it was read; False: refused, in one clear line

`survive` raises whatever a user would call a bug: an uncaught exception, an answer that cannot be. The process has
limits of memory and of time for each case, so a case that hangs or fills the machine is a failure like any other.
`CASE_SECONDS` and `MEMORY_BYTES` in a module replace the defaults; `WEIGHT` is how many mutations one case counts as.
The current folder, the caches and the settings are those of an empty folder. A failed case comes again with the
reader's name, the seed and its number: `python -m tests.fuzz NAME --seed S --case N`.
"""

import contextlib
import io
import json
import multiprocessing
import os
import resource
import signal
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path
from random import Random
from time import monotonic
from typing import Any

from hwexplorer.cli import main

CASE_SECONDS = 5.0  # of the processor, what a reader may take for one case
WAITING = 10  # times as long may pass by the clock: the machine has other things to do
MEMORY_BYTES = 4 << 30  # of address space, for the process
FAILURES_MAX = 10  # different ones, after which a reader is given up


class TooSlow(BaseException):
    """No `except Exception` of the program takes it for an error of its own."""


@dataclass
class Outcome:
    """What became of a reader's cases; failures by what they have in common, with the number of the first case."""

    reader: str
    seed: int
    weight: int = 1
    cases: int = 0
    read: int = 0
    refused: int = 0
    failed: int = 0
    seconds: float = 0.0
    slowest: float = 0.0
    failures: dict[str, int] = field(default_factory=dict)

    def line(self) -> str:
        return (
            f"{self.reader:12} {self.cases * self.weight:>7,} mutations in {self.cases:,} cases: {self.read:,} read, "
            f"{self.refused:,} refused, {self.failed:,} failed ({len(self.failures)} ways); "
            f"{self.seconds:.0f} s, slowest {self.slowest * 1e3:.0f} ms (seed {self.seed})"
        )


def readers() -> list[str]:
    return sorted(path.stem.removeprefix("fuzz_") for path in Path(__file__).parent.glob("fuzz_*.py"))


def module(reader: str) -> Any:
    return import_module(reader if "." in reader else f"tests.fuzz.fuzz_{reader}")


def case(reader: str, seed: int, number: int) -> Any:
    return next(islice(cases(reader, seed), number, None))


def refused(error: Exception) -> bool:
    """False, for `survive` to return, where the message is one that a person can be shown."""
    message = str(error)
    assert message.strip(), "refused without a word"
    assert len(message) < 2_000, f"refused at length: {message[:200]}"
    return False


def is_answered(words: list[str], *keys: str) -> bool:
    """Run a command line that prints JSON: True if it does and has the keys, False if it is refused in one line."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([*words, "--format", "json"])
    if code:
        assert code == 2, err.getvalue()
        return refused(ValueError(err.getvalue()))
    assert err.getvalue() == ""
    document = json.loads(out.getvalue(), parse_constant=_no_number)
    assert all(document[key] for key in keys)
    return True


def _no_number(name: str) -> None:
    raise AssertionError(f"{name} in JSON")


def cases(reader: str, seed: int) -> Iterator[Any]:
    return module(reader).mutations(Random(f"{reader} {seed}"))  # type: ignore[no-any-return]


def run(reader: str, mutations: int, seconds: float, seed: int) -> Outcome:
    """All of it in a child process, in an empty folder. A child that ends or stands still has failed in that case."""
    context = multiprocessing.get_context("forkserver")  # it imports once what every reader needs
    context.set_forkserver_preload(["tests.fuzz.running"])
    at = context.Value("q", 0)
    ours, theirs = context.Pipe(duplex=False)
    patience = 2 * WAITING * getattr(module(reader), "CASE_SECONDS", CASE_SECONDS) + 60.0  # the imports, a busy machine
    with tempfile.TemporaryDirectory(prefix="hwexplorer-fuzz-") as folder:
        child = context.Process(target=_child, args=(reader, mutations, seconds, seed, folder, at, theirs))
        child.start()
        theirs.close()
        try:
            number = -1
            while not ours.poll(patience) and at.value != number:
                number = at.value
            outcome: Outcome = ours.recv() if ours.poll() else _stood_still(reader, seed, at.value, "stands still")
        except EOFError:
            child.join()
            outcome = _stood_still(reader, seed, at.value, f"the process ended with {child.exitcode}")
        finally:
            child.join(1)
            child.kill()
            child.join()
    return outcome


def _stood_still(reader: str, seed: int, number: int, why: str) -> Outcome:
    return Outcome(reader, seed, cases=number + 1, failed=1, failures={why: number})


def _child(reader: str, mutations: int, seconds: float, seed: int, folder: str, at: Any, answer: Any) -> None:
    os.chdir(folder)
    os.environ |= {"HOME": folder, "HWEXPLORER_CACHE_DIR": folder, "XDG_CONFIG_HOME": folder, "XDG_STATE_HOME": folder}
    limits = module(reader)
    case_seconds = getattr(limits, "CASE_SECONDS", CASE_SECONDS)
    memory_bytes = getattr(limits, "MEMORY_BYTES", MEMORY_BYTES)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    for timer in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(timer, _too_slow)
    outcome = Outcome(reader, seed, getattr(limits, "WEIGHT", 1))
    start = monotonic()
    for number, one in enumerate(islice(cases(reader, seed), -(-mutations // outcome.weight))):
        at.value = number
        before = monotonic()
        if before - start > seconds or len(outcome.failures) >= FAILURES_MAX:
            break
        signal.setitimer(signal.ITIMER_PROF, case_seconds)
        signal.setitimer(signal.ITIMER_REAL, WAITING * case_seconds)
        try:
            if limits.survive(one):
                outcome.read += 1
            else:
                outcome.refused += 1
        except (Exception, TooSlow, SystemExit, KeyboardInterrupt) as error:
            outcome.failed += 1
            outcome.failures.setdefault(_signature(error), number)
        finally:
            for each in (signal.ITIMER_PROF, signal.ITIMER_REAL):
                signal.setitimer(each, 0)
        outcome.cases += 1
        outcome.slowest = max(outcome.slowest, monotonic() - before)
    outcome.seconds = monotonic() - start
    answer.send(outcome)


def _too_slow(_signal: int, _frame: Any) -> None:
    raise TooSlow("took too long")


def _signature(error: BaseException) -> str:
    """What failures of one cause have in common: the exception and the innermost line of ours."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
    ours = [f for f in frames if any(f"/{part}/" in f.filename for part in ("analysis", "hardware", "hwexplorer"))]
    where = (ours or frames)[-1]
    said = f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno} {where.name}"
    return said if ours else f"{said}: {str(error)[:200]}"
