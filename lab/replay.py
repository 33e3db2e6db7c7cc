"""Replays thousands of requests of the command line and compares every figure with what was recorded, bit by bit.

    python -m lab.replay record FILE [--count 5000] [--seed 1] [--jobs 2]    on the code to be changed
    python -m lab.replay compare FILE [--jobs 2] [--count N] [--only WORD] [--strict]    on the changed code
    python -m lab.replay fixture    rewrites what tests/test_replay.py compares

It knows the command line alone, run in this process, so it survives whatever moves inside. FILE is a gzip of JSON
lines. The requests of one group (lab/replay_requests.py) share a process and an empty folder, in their order.
Requests that write a file print nothing: the next ones of the group read it.
"""

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
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import groupby, islice
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

FIXTURE = Path(__file__).parents[1] / "tests" / "replay_figures.jsonl.gz"
FIXTURE_FIGURES = 60  # of one request
CLOSE = 1e-9  # the last bits differ between machines' BLAS
NUMBER = re.compile(r"-?\d[\d,]*\.?\d*(?:e[-+]?\d+)?")
METHOD = "fork" if "fork" in multiprocessing.get_all_start_methods() else "spawn"
KINDS = ("codes", "figures", "numbers", "texts", "added")  # of differences
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
    if form == "json":
        with contextlib.suppress(ValueError):
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
            stack += [(f"{at}.{key}", child) for key, child in reversed(value.items())]
        elif isinstance(value, list) and value:
            stack += [(f"{at}[{index}]", value[index]) for index in reversed(range(len(value)))]
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
    """Runs a recorded request again and returns what differs: of `codes`, `figures`, `texts` (`numbers` where
    theirs differ) and `added` leaves how many, and some as [path, before, now, times], those alike counted together."""
    argv = entry["argv"]
    code, out, err = run(argv)
    found: dict[str, Counter[tuple[str, str, str]]] = {what: Counter() for what in KINDS}
    if code != entry["code"]:
        found["codes"]["exit code", str(entry["code"]), f"{code} {err.strip()[:200]}"] += 1
    if "picked" in entry:  # of the fixture, a few figures alone
        now = list_leaves(read_printed(argv, out))
        for path, value in entry["picked"].items():
            if not (is_figure(now.get(path)) and math.isclose(value, now[path], rel_tol=CLOSE, abs_tol=1e-300)):
                found["figures"][path, repr(value), repr(now.get(path, "missing"))] += 1
    else:
        _compare_leaves({"stderr": entry["err"]}, {"stderr": err}, found)
        if out != entry["printed"]:
            before, after = (list_leaves(read_printed(argv, text)) for text in (entry["printed"], out))
            _compare_leaves(before, after, found)
    kept = {what: [[*key, times] for key, times in islice(found[what].items(), 40)] for what in KINDS}
    return {"argv": argv, "compared": entry["figures"], "sums": {w: found[w].total() for w in KINDS}, **kept}


def _compare_leaves(before: Leaves, now: Leaves, found: dict[str, Counter[tuple[str, str, str]]]) -> None:
    """Compares leaves by path. A figure is equal where its digits are; one that is 1 and then 1.0 has another text."""
    for path, value in before.items():
        other = now.get(path, "missing")
        if value is other or repr(value) == repr(other):
            continue
        if is_figure(value) or is_figure(other):
            is_same = is_figure(value) and is_figure(other) and repr(float(value)) == repr(float(other))
            found["texts" if is_same else "figures"][path, repr(value), repr(other)] += 1
        else:
            texts = [str(text)[:300] for text in (value, other)]
            is_same = NUMBER.findall(str(value)) == NUMBER.findall(str(other))
            masked = [NUMBER.sub("#", text) for text in texts] if is_same else texts
            found["texts" if is_same else "numbers"][_alike(path), masked[0], masked[1]] += 1
    for path in now.keys() - before.keys():
        found["added"][_alike(path), "", ""] += 1


def _alike(path: str) -> str:
    return re.sub(r"\[\d+\]", "[]", path)


# --- many of them, in processes ---------------------------------------------------------------------------


def _work(does: Any, group: list[Any], target: str) -> None:
    """Does a group of requests in this process; the results are lines of a file."""
    from lab.replay_requests import write_files

    with isolated(), gzip.open(target, "wt", compresslevel=3, encoding="utf-8") as file:
        write_files()
        for each in group:
            file.write(json.dumps(does(each), ensure_ascii=False) + "\n")


def work_in_processes(does: Any, groups: Iterable[list[Any]], jobs: int, folder: Path) -> Iterator[tuple[Path, int]]:
    """Does each group in a new process, `jobs` at once. Yields the file of results and the size of each group, in
    the order in which they end."""
    context: Any = multiprocessing.get_context(METHOD)  # the types of a platform differ
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

    home = Path(hwexplorer.__file__).parent
    print(f"code: {home}, Python {sys.version.split()[0]}", flush=True)
    if Path("hwexplorer").is_dir() and home != Path("hwexplorer").resolve():
        raise SystemExit("the code is not that of the current folder")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="replay") as folder:
        os.environ["REPLAY_CACHE"] = f"{folder}/cache"
        with isolated():  # what every process would load by itself
            run(["compare", "conv2d", "--format", "json"])
        yield Path(folder)


class Progress:
    """Prints every ten seconds how far it is."""

    def __init__(self) -> None:
        self.began = self.told = time.monotonic()
        self.done = 0

    def add(self, count: int, total: int, more: str = "") -> None:
        self.done += count
        if time.monotonic() - self.told > 10 or self.done == total:
            self.told = time.monotonic()
            print(f"{self.done:,} of {total:,} in {self.told - self.began:.0f} s{more}", flush=True)


def record(target: Path, count: int, seed: int, jobs: int) -> None:
    """Records what the present code prints."""
    from lab.replay_requests import list_requests

    progress = Progress()
    with _workplace() as folder:
        with ProcessPoolExecutor(1, multiprocessing.get_context(METHOD)) as pool:  # it asks the program, as we must not
            groups = pool.submit(list_requests, count, seed).result()
        total = sum(map(len, groups))
        tasks = ([{**request, "total": total} for request in group] for group in groups)
        for _, size in work_in_processes(record_request, tasks, jobs, folder):
            progress.add(size, total)
        with target.open("wb") as whole:
            for path in sorted(folder.glob("*.gz")):
                with path.open("rb") as part:
                    shutil.copyfileobj(part, whole)
    entries = [{**entry, "printed": ""} for entry in read_entries(target)]
    print(f"{len(entries):,} requests, {sum(entry['figures'] for entry in entries):,} figures")
    for what, values in (("exit codes", [e["code"] for e in entries]), ("verbs", [e["argv"][0] for e in entries])):
        print(f"{what}: {', '.join(f'{value} {times:,}' for value, times in Counter(values).most_common())}")
    for entry in sorted(entries, key=lambda entry: -entry["seconds"])[:5]:
        print(f"{entry['seconds']:8.1f} s  {' '.join(entry['argv'])}")


def read_entries(source: Path) -> Iterator[Entry]:
    with gzip.open(source, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


def _groups(source: Path, count: int, only: str) -> Iterator[list[Entry]]:
    """Reads the entries to compare, in the groups that shared a process. What writes a file is kept for those that
    read it."""
    left = count
    for _, group in groupby(read_entries(source), key=lambda entry: entry["group"]):
        kept = [e for e in group if only in " ".join(e["argv"]) or {"-o"} & set(e["argv"])][:left]
        left -= len(kept)
        if kept:
            yield kept
        if not left:
            return


def compare(source: Path, jobs: int, count: int, only: str, strict: bool) -> int:
    """Compares what the present code prints with what was recorded. Returns the exit code."""
    progress, found = Progress(), list[Entry]()
    total = min(count, next(read_entries(source)).get("total", count))
    with _workplace() as folder:
        for path, size in work_in_processes(compare_entry, _groups(source, count, only), jobs, folder):
            found += read_entries(path)
            path.unlink()
            progress.add(size, total, f", {sum(entry['sums']['figures'] for entry in found):,} figures differ")
    return tell_found(found, strict)


def tell_found(found: list[Entry], strict: bool = False) -> int:
    """Prints what was found, the first differences one by one. Returns the exit code: 1 where figures differ."""
    sums = {what: sum(entry["sums"][what] for entry in found) for what in KINDS}
    print(f"{len(found):,} requests, {sum(entry['compared'] for entry in found):,} figures compared")
    print(f"{sums['figures']:,} figures differ or are missing, {sums['codes']:,} exit codes differ")
    print(f"{sums['texts'] + sums['numbers']:,} texts differ, {sums['numbers']:,} of them in their numbers; ", end="")
    print(f"{sums['added']:,} leaves are added")
    where = Counter(f"{e['argv'][0]} {_alike(path)}" for e in found for path, *_ in e["figures"])
    for place, times in where.most_common(20):
        print(f"figures, {times:,} times or more: {place}")
    for what in ("codes", "figures"):
        for entry in [entry for entry in found if entry[what]][:20]:
            print(f"{what}: hwexplorer {shlex.join(entry['argv'])}")
            for path, before, now, _ in entry[what][:5]:
                print(f"    {path}: {before} -> {now}")
    for what in ("numbers", "texts", "added"):
        alike: Counter[tuple[str, str, str]] = Counter()
        for entry in found:
            for *key, times in entry[what]:
                alike[tuple(key)] += times
        for (path, before, now), times in alike.most_common(40):
            print(f"{what}, {times:,} times: {path}" + (f"\n    {before}\n    {now}" if what != "added" else ""))
    return 1 if sums["figures"] or sums["codes"] or (strict and any(sums.values())) else 0


def write_fixture(target: Path, seed: int) -> None:
    """Writes what tests/test_replay.py compares: a few figures of some requests."""
    from lab.replay_requests import list_short

    with _workplace(), isolated():
        entries = [record_request(request) for request in list_short(seed)]
    for entry in entries:
        leaves = list_leaves(read_printed(entry["argv"], entry.pop("printed")))
        figures = [(path, value) for path, value in sorted(leaves.items()) if is_figure(value)]
        step = max(1, -(-len(figures) // FIXTURE_FIGURES))
        entry |= {"picked": dict(figures[::step]), "figures": len(figures[::step])}
        del entry["err"], entry["seconds"]
    lines = "".join(json.dumps(entry) + "\n" for entry in entries)
    target.write_bytes(gzip.compress(lines.encode(), mtime=0))
    print(f"{len(entries):,} requests, {sum(e['figures'] for e in entries):,} figures, {target.stat().st_size:,} bytes")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.replay", description=__doc__.partition("\n")[0])
    parser.add_argument("does", choices=("record", "compare", "fixture"))
    parser.add_argument("file", nargs="?", type=Path, default=FIXTURE)
    parser.add_argument("--count", type=int, default=0, help="requests (record: 5000; compare: the first N, all)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", metavar="WORD", help="requests with this in them")
    parser.add_argument("--strict", action="store_true", help="texts must be equal too")
    asked = parser.parse_args()
    if asked.does == "record":
        record(asked.file, asked.count or 5000, asked.seed, asked.jobs)
    elif asked.does == "fixture":
        write_fixture(asked.file, asked.seed)
    else:
        return compare(asked.file, asked.jobs, asked.count or sys.maxsize, asked.only, asked.strict)
    return 0


if __name__ == "__main__":
    here = Path(__file__).resolve()
    # The code of the folder one stands in, also where this file is that of another checkout.
    others = [path for path in sys.path if Path(path).resolve() != here.parent]
    sys.path[:] = [os.getcwd(), str(here.parents[1]), *others]
    sys.modules["lab.replay"] = sys.modules["__main__"]
    sys.exit(main())
