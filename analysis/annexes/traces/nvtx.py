"""Ranges that a program marked on the host (NVTX): in which operator each kernel of an export was launched.

PyTorch marks its operators inside `torch.autograd.profiler.emit_nvtx()`, TensorRT its layers by itself."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import Any

import msgspec

from analysis.annexes.traces.chrome import shapes
from analysis.annexes.traces.record import Shape, clean, module_of
from analysis.annexes.traces.tables import layer_kind

MOST_RANGES = 1_000_000
DEEPEST = 64  # ranges inside each other; what is deeper is of the ones around it
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


class _Range(msgspec.Struct, frozen=True, dict=True):
    start: int
    end: int
    text: str

    @cached_property
    def named(self) -> tuple[str, str]:
        """What it is called without what PyTorch says of a call, and the kind of operator that this tells."""
        name = self.text.partition(", ")[0] if self.text.startswith("aten::") else self.text
        return name, layer_kind(name)


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
    )
    text = "COALESCE(n.text, s.value)" if {"text", "textId"} <= marks else "n.text" if "text" in marks else "s.value"
    joined = "LEFT JOIN StringIds s ON s.id = n.textId" if "textId" in marks else ""
    pushed = f"AND n.eventType = {_PUSHED}" if "eventType" in marks else ""
    ranges = connection.execute(
        f"SELECT n.globalTid, n.start, n.end, {text} FROM NVTX_EVENTS n {joined} "
        f"WHERE n.end > n.start AND n.globalTid IS NOT NULL {pushed} "
        f"ORDER BY n.globalTid, n.start, n.end DESC LIMIT {MOST_RANGES}"
    )
    marked: dict[int, list[_Range]] = {}
    for thread, start, end, words in ranges:
        marked.setdefault(thread, []).append(_Range(start, end, clean(words or "", 2000)))
    found: dict[tuple[int, int], Call] = {}
    for thread, mine in groupby(launches, key=itemgetter(0)):
        here = ((start, correlation) for _, start, correlation in mine)
        for correlation, open_ in _around(here, marked.get(thread, [])):
            if call := _call(open_):
                found[thread & _PROCESS, correlation] = call
    return found


def _around(launches: Iterator[tuple[int, int]], ranges: list[_Range]) -> Iterator[tuple[int, list[_Range]]]:
    """Each launch (start, correlation) of a thread with the ranges that were open then, the outermost first."""
    open_: list[_Range] = []
    place = 0
    for at, correlation in launches:
        while place < len(ranges) and ranges[place].start <= at:
            open_ = [each for each in open_ if each.end > ranges[place].start]
            if len(open_) < DEEPEST:
                open_.append(ranges[place])
            place += 1
        open_ = [each for each in open_ if each.end > at]
        yield correlation, open_


def _call(ranges: list[_Range]) -> Call | None:
    """The outermost of the ranges that is an operator; what stands around it may be the path of its module."""
    module = ""
    for each in ranges:
        name, kind = each.named
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
