"""Ranges that a program marked on the host (NVTX): in which operator each kernel of an export was launched.

PyTorch marks its operators inside `torch.autograd.profiler.emit_nvtx()`, TensorRT its layers by itself."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec

from .chrome import shapes
from .record import Shape, clean, module_of
from .tables import layer_kind

MOST_RANGES = 1_000_000
_PUSHED = 59  # eventType of a range that its thread opened and closed
_PROCESS = ~0xFFFFFF  # of a serialised thread: its process
_RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
TABLES = ("NVTX_EVENTS", _RUNTIME)


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an operator on the host; `id` tells calls of the same name apart."""

    id: int
    name: str
    kind: str
    module: str
    shapes: tuple[Shape, ...]


class _Range(msgspec.Struct, frozen=True):
    start: int
    end: int
    text: str


def calls(connection: sqlite3.Connection, columns: dict[str, set[str]]) -> dict[tuple[int, int], Call]:
    """The outermost operator around each launch, by its process and correlation; none where nothing is marked.
    `columns` of the tables of the export."""
    marks, launch = columns.get("NVTX_EVENTS", set()), columns.get(_RUNTIME, set())
    if not {"start", "end", "globalTid"} <= marks or not {"start", "globalTid", "correlationId"} <= launch:
        return {}
    kernels = "SELECT correlationId FROM CUPTI_ACTIVITY_KIND_KERNEL"
    launches = connection.execute(
        f"SELECT globalTid, start, correlationId FROM {_RUNTIME} WHERE correlationId IN ({kernels}) "
        f"AND globalTid IS NOT NULL ORDER BY globalTid, start LIMIT {MOST_RANGES}"
    ).fetchall()
    text = "COALESCE(n.text, s.value)" if {"text", "textId"} <= marks else "n.text" if "text" in marks else "s.value"
    joined = "LEFT JOIN StringIds s ON s.id = n.textId" if "textId" in marks else ""
    pushed = f"AND n.eventType = {_PUSHED}" if "eventType" in marks else ""
    ranges = connection.execute(
        f"SELECT n.globalTid, n.start, n.end, {text} FROM NVTX_EVENTS n {joined} "
        f"WHERE n.end > n.start AND n.globalTid IS NOT NULL {pushed} "
        f"ORDER BY n.globalTid, n.start, n.end DESC LIMIT {MOST_RANGES}"
    )
    found: dict[tuple[int, int], Call] = {}
    for thread, mine in _by_thread(ranges):
        here = ((start, correlation) for of, start, correlation in launches if of == thread)
        for correlation, open_ in _around(here, mine):
            if call := _call(open_):
                found[thread & _PROCESS, correlation] = call
    return found


def _by_thread(rows: sqlite3.Cursor) -> Iterator[tuple[int, list[_Range]]]:
    threads: dict[int, list[_Range]] = {}
    for thread, start, end, text in rows:
        threads.setdefault(thread, []).append(_Range(start, end, clean(text or "", 2000)))
    yield from threads.items()


def _around(launches: Iterator[tuple[int, int]], ranges: list[_Range]) -> Iterator[tuple[int, list[_Range]]]:
    """Each launch (start, correlation) of a thread with the ranges that were open then, the outermost first."""
    open_: list[_Range] = []
    place = 0
    for at, correlation in launches:
        while place < len(ranges) and ranges[place].start <= at:
            open_ = [each for each in open_ if each.end > ranges[place].start]
            open_.append(ranges[place])
            place += 1
        open_ = [each for each in open_ if each.end > at]
        yield correlation, open_


def _call(ranges: list[_Range]) -> Call | None:
    """The outermost of the ranges that is an operator; what stands around it may be the path of its module."""
    module = ""
    for each in ranges:
        name = each.text.partition(", ")[0] if each.text.startswith("aten::") else each.text
        kind = layer_kind(name)
        if kind and kind != "view":
            sizes = re.search(r", sizes = (\[[\d\[\], ]*\])", each.text)
            return Call(
                id=each.start, name=name[:400], kind=kind, module=module_of(name) or module,
                shapes=shapes(_lists(sizes[1])) if sizes else (),
            )  # fmt: skip
        module = name if re.fullmatch(r"[\w-]+(\.[\w-]+)*", name) else module
    return None


def _lists(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return ()
