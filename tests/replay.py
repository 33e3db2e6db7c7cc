"""Replays thousands of requests of the command line and compares every figure with what was recorded, bit by bit.

    python -m tests.replay record FILE [--count 5000] [--seed 1] [--jobs 2]    on the code to be changed
    python -m tests.replay compare FILE [--jobs 2] [--count N] [--only WORD] [--strict]    on the changed code
    python -m tests.replay fixture    rewrites what tests/test_replay.py compares

It knows the command line alone, run in this process, so it survives whatever moves inside. FILE is a gzip of JSON
lines. The requests of one group (tests/replay_requests.py) share a process and an empty folder, in their order.
Requests that write a file print nothing: the next ones of the group read it.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import gzip
import io
import json
import math
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

sys.path.insert(0, os.getcwd())  # the code of the checkout one stands in, also where this file is run by its path

FIXTURE = Path(__file__).with_name("replay_figures.jsonl.gz")
FIXTURE_FIGURES = 60  # of one request
CLOSE = 1e-9  # the last bits differ between machines' BLAS
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
METHOD = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
# Found in documents but no figures of the program; none is known.
EXCLUDED: tuple[str, ...] = ()
Entry = dict[str, Any]
Leaves = dict[str, Any]


# --- one request ------------------------------------------------------------------------------------------


@contextlib.contextmanager
def isolated() -> Iterator[None]:
    """Stands in an empty folder, with empty folders of the user, and nothing in the environment that steers."""
    before, folder = dict(os.environ), os.getcwd()
    with tempfile.TemporaryDirectory(prefix="replay") as home:
        for name in [name for name in os.environ if name.startswith("HWEXPLORER_")]:
            del os.environ[name]
        kinds = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME")
        os.environ.update(dict.fromkeys(kinds, home))
        os.environ["HWEXPLORER_CACHE_DIR"] = os.environ.get("REPLAY_CACHE", f"{home}/cache")
        os.environ["HWEXPLORER_DEVICES_DIR"] = f"{home}/data"
        try:
            os.chdir(home)
            yield
        finally:
            os.chdir(folder)
            os.environ.clear()
            os.environ.update(before)


def run(argv: list[str]) -> tuple[int, str, str]:
    """Returns the exit code and what was printed on both streams."""
    from hwexplorer.cli import main

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(argv)
        except SystemExit as ended:
            code = int(ended.code or 0)
    return code, out.getvalue(), err.getvalue().replace(os.getcwd(), "{folder}")


def read_printed(argv: list[str], text: str) -> Any:
    """Reads what was printed as a document: JSON, the rows of CSV with their numbers, the lines of another text."""
    form = argv[argv.index("--format") + 1] if "--format" in argv else "text"
    if form == "json" and text:
        return json.loads(text)
    if form == "csv":
        return [{key: _number(cell) for key, cell in row.items()} for row in csv.DictReader(io.StringIO(text))]
    return text.splitlines()


def _number(cell: Any) -> Any:
    try:
        return float(cell)
    except (TypeError, ValueError):
        return cell


def list_leaves(value: Any, path: str = "") -> Leaves:
    """Lists the leaves of a document by their paths, as `rows[3].latency_s`."""
    leaves: Leaves = {}
    stack = [(path, value)]
    while stack:
        at, value = stack.pop()
        if isinstance(value, dict) and value:
            stack.extend((f"{at}.{key}", child) for key, child in value.items() if key not in EXCLUDED)
        elif isinstance(value, list) and value:
            stack.extend((f"{at}[{index}]", child) for index, child in enumerate(value))
        else:
            leaves[at] = value if value not in ({}, []) else ""
    return leaves


def is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def record_request(request: Entry) -> Entry:
    """Runs a request and returns what is kept of it."""
    argv, began = request["argv"], time.perf_counter()
    code, out, err = run(argv)
    seconds = round(time.perf_counter() - began, 3)
    figures = sum(map(is_figure, list_leaves(read_printed(argv, out)).values()))
    return {**request, "code": code, "err": err, "figures": figures, "seconds": seconds, "printed": out}


# --- comparison -------------------------------------------------------------------------------------------


def compare_entry(entry: Entry) -> Entry:
    """Runs a recorded request again and returns how many figures were compared, and what differs: lists of
    (path, before, now) for `figures`, `texts`, `added` and `codes`."""
    argv = entry["argv"]
    code, out, err = run(argv)
    found: Entry = {"argv": argv, "compared": entry["figures"], "figures": [], "texts": [], "added": [], "codes": []}
    if code != entry["code"]:
        found["codes"].append(("exit code", entry["code"], f"{code}: {err.strip()[:200]}"))
    if err != entry["err"]:
        found["texts"].append(("stderr", entry["err"], err))
    if "picked" in entry:  # of the fixture, a few figures alone
        now = list_leaves(read_printed(argv, out))
        pairs = [(path, value, now.get(path)) for path, value in entry["picked"].items()]
        found["figures"] = [pair for pair in pairs if not _is_close(pair[1], pair[2])]
    elif out != entry["printed"]:
        _compare_leaves(list_leaves(read_printed(argv, entry["printed"])), list_leaves(read_printed(argv, out)), found)
    return found


def _compare_leaves(before: Leaves, now: Leaves, found: Entry) -> None:
    for path, value in before.items():
        if path not in now:
            found["figures" if is_figure(value) else "texts"].append((path, value, "missing"))
        elif is_figure(value) or is_figure(now[path]):
            if type(value) is not type(now[path]) or repr(value) != repr(now[path]):
                found["figures"].append((path, value, now[path]))
        elif value != now[path]:
            found["texts"].append((path, value, now[path]))
    found["added"] += [(path, None, value) for path, value in now.items() if path not in before]


def _is_close(before: Any, now: Any) -> bool:
    return is_figure(now) and math.isclose(before, now, rel_tol=CLOSE, abs_tol=1e-300)


# --- many of them, in processes ---------------------------------------------------------------------------


def _work(does: Any, group: list[Any], target: str) -> None:
    """Does a group of requests in this process; the results are lines of a file."""
    from tests.replay_requests import write_files

    with isolated(), gzip.open(target, "wt", compresslevel=3, encoding="utf-8") as file:
        write_files()
        for each in group:
            file.write(json.dumps(does(each), ensure_ascii=False) + "\n")


def work_in_processes(does: Any, groups: Iterable[list[Any]], jobs: int, folder: Path) -> Iterator[tuple[Path, int]]:
    """Does each group in a new process, `jobs` at once. Yields the file of results and the size of each group, in
    the order in which they end."""
    context = multiprocessing.get_context(METHOD)
    running: dict[Any, tuple[Any, Path, int]] = {}

    def ended() -> Iterator[tuple[Path, int]]:
        for sentinel in wait(list(running)):
            process, path, size = running.pop(sentinel)
            process.join()
            if process.exitcode != 0:
                raise SystemExit(f"a worker ended with {process.exitcode} ({path.name})")
            yield path, size

    for index, group in enumerate(groups):
        if len(running) >= jobs:
            yield from ended()
        path = folder / f"{index:06}.gz"
        process = context.Process(target=_work, args=(does, group, str(path)))
        process.start()
        running[process.sentinel] = process, path, len(group)
    while running:
        yield from ended()


@contextlib.contextmanager
def _workplace() -> Iterator[Path]:
    """A folder for results and for what the program keeps, shared by the processes of one replay."""
    import hwexplorer
    from hwexplorer import cli  # noqa: F401  loaded once, before the processes part

    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    print(f"code: {Path(hwexplorer.__file__).parent}, Python {sys.version.split()[0]}", flush=True)
    with tempfile.TemporaryDirectory(prefix="replay") as folder:
        os.environ["REPLAY_CACHE"] = f"{folder}/cache"
        with isolated():  # what every process would load by itself
            run(["compare", "conv2d", "--format", "json"])
        yield Path(folder)


def _tell(done: int, total: int, began: float, last: list[float], more: str = "") -> None:
    if time.monotonic() - last[0] > 10 or done == total:
        last[0] = time.monotonic()
        print(f"{done:,} of {total:,} in {last[0] - began:.0f} s {more}", flush=True)


def record(target: Path, count: int, seed: int, jobs: int) -> None:
    """Records what the present code prints."""
    from tests.replay_requests import list_requests

    began, last, done = time.monotonic(), [time.monotonic()], 0
    with _workplace() as folder:
        with ProcessPoolExecutor(1, multiprocessing.get_context(METHOD)) as pool:  # runs some requests by itself
            groups = pool.submit(list_requests, count, seed).result()
        total = sum(map(len, groups))
        for _, size in work_in_processes(record_request, groups, jobs, folder):
            _tell(done := done + size, total, began, last)
        with target.open("wb") as whole:
            for path in sorted(folder.glob("*.gz")):
                with path.open("rb") as part:
                    shutil.copyfileobj(part, whole)
    entries = [{**entry, "printed": ""} for entry in read_entries(target)]
    verbs = Counter(entry["argv"][0] for entry in entries)
    print(f"{len(entries):,} requests, {sum(entry['figures'] for entry in entries):,} figures,")
    print(f"exit codes {dict(Counter(entry['code'] for entry in entries))}; {dict(verbs)}")
    for entry in sorted(entries, key=lambda entry: -entry["seconds"])[:8]:
        print(f"{entry['seconds']:8.1f} s  {' '.join(entry['argv'])}")


def read_entries(source: Path) -> Iterator[Entry]:
    with gzip.open(source, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def _groups(source: Path, count: int, only: str) -> Iterator[list[Entry]]:
    """Reads the entries to compare in groups: those of one model share a process, as when they were recorded. What
    writes a file is kept for those that read it."""
    taken = 0
    for _, group in groupby(read_entries(source), key=lambda entry: entry["group"]):
        kept = [e for e in group if only in " ".join(e["argv"]) or {"-o", "--save"} & set(e["argv"])]
        if kept := kept[: count - taken if count else None]:
            taken += len(kept)
            yield kept
        if count and taken >= count:
            return


def compare(source: Path, jobs: int, count: int, only: str, strict: bool) -> int:
    """Compares what the present code prints with what was recorded. Returns the exit code."""
    began, last, done, total = time.monotonic(), [time.monotonic()], 0, 0
    found: list[Entry] = []
    with _workplace() as folder:
        for path, size in work_in_processes(compare_entry, _groups(source, count, only), jobs, folder):
            found += read_entries(path)
            path.unlink()
            _tell(done := done + size, total or count, began, last, f"{sum(len(e['figures']) for e in found)} differ")
    return tell_found(found, strict)


def tell_found(found: list[Entry], strict: bool = False) -> int:
    """Prints what was found, the first differences one by one. Returns the exit code: 1 where figures differ."""
    sums = {what: sum(len(entry[what]) for entry in found) for what in ("figures", "codes", "texts", "added")}
    compared = sum(entry["compared"] for entry in found)
    print(f"{len(found):,} requests, {compared:,} figures compared: {sums['figures']:,} figures differ or are missing,")
    print(f"{sums['codes']:,} exit codes differ, {sums['texts']:,} texts differ, {sums['added']:,} leaves are added")
    for what in ("codes", "figures"):
        for entry in [entry for entry in found if entry[what]][:20]:
            print(f"{what}: hwexplorer {' '.join(entry['argv'])}")
            for path, before, now in entry[what][:5]:
                print(f"    {path}: {before!r} -> {now!r}")
    for what in ("texts", "added"):
        kinds: Counter[tuple[str, str, str]] = Counter()
        for entry in found:
            for path, before, now in entry[what]:
                kinds[re.sub(r"\[\d+\]", "[]", path), str(before)[:300], "" if what == "added" else str(now)[:300]] += 1
        for (path, before, now), times in kinds.most_common(40):
            print(f"{what} ({times:,}x) {path}" + ("" if what == "added" else f"\n    {before}\n    {now}"))
    is_wrong = sums["figures"] or sums["codes"] or (strict and (sums["texts"] or sums["added"]))
    return 1 if is_wrong else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.replay", description=__doc__.partition("\n")[0])
    parser.add_argument("does", choices=("record", "compare", "fixture"))
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--count", type=int, help="requests (record: default 5000; compare: the first N)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", metavar="WORD", help="requests with this in them")
    parser.add_argument("--strict", action="store_true", help="texts must be equal too")
    asked = parser.parse_args()
    if asked.does == "record":
        record(asked.file, asked.count or 5000, asked.seed, asked.jobs)
        return 0
    return compare(asked.file, asked.jobs, asked.count or 0, asked.only, asked.strict)


if __name__ == "__main__":
    sys.modules["tests.replay"] = sys.modules["__main__"]
    sys.exit(main())
