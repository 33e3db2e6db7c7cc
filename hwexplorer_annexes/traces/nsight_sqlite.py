"""Reader of Nsight Systems' SQLite export: kernels and copies with times, and the NVTX ranges that launched them.

PyTorch marks operators only inside `torch.autograd.profiler.emit_nvtx()`; TensorRT always marks its layers."""

import re
import sqlite3
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from hwexplorer_annexes.traces.chrome import ChromeEvent
from hwexplorer_annexes.traces.nsight_tables import (
    MOST_KERNELS,
    NS,
    PRODUCER,
    kernel_event,
    skipped_note,
    trace_of_kernels,
)
from hwexplorer_annexes.traces.runtime_profiles import layer_kind
from hwexplorer_annexes.traces.trace_record import Trace, TraceError, clean_text, module_path

MOST_STEPS, STEP = 3_000, 100_000  # checks in all queries; virtual instructions of SQLite between two checks
LONGEST = 10_000_000  # bytes of one value
MOST_RANGES = 1_000_000
DEEPEST = 64  # open module ranges that are remembered; outer ones beyond are forgotten
_PUSHED = 59  # eventType of a range that its thread opened and closed
_PROCESS = ~0xFFFFFF  # mask of the process id in Nsight's `globalTid`
_KERNELS, _COPIES, _SETS, _RUNTIME = (
    f"CUPTI_ACTIVITY_KIND_{what}" for what in ("KERNEL", "MEMCPY", "MEMSET", "RUNTIME")
)
_UNNAMED = {_KERNELS: "kernel without a name", _COPIES: "memcpy", _SETS: "memset"}


def read_nsight_sqlite(path: Path) -> Trace:
    """Read the kernels of the busiest device. The file is opened read-only; nothing in it is executed."""
    connection = None
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.execute("PRAGMA trusted_schema = OFF")  # views and triggers of the file may not call functions
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        checks = iter(range(MOST_STEPS))
        connection.set_progress_handler(lambda: next(checks, None) is None, STEP)  # stops endless queries
        return _read_tables(connection)
    except (sqlite3.Error, OverflowError, TypeError, ValueError) as error:  # a column may have any type
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"{path.name}: not a readable SQLite export ({clean_text(error, 120)})") from None
    finally:
        if connection is not None:
            connection.close()


def _read_tables(connection: sqlite3.Connection) -> Trace:
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {_KERNELS, "StringIds"} <= tables:
        raise TraceError(f"{PRODUCER}: no kernels in this export (profile with --trace=cuda)")
    read_from = tables & {_KERNELS, _COPIES, _SETS, _RUNTIME, "NVTX_EVENTS"}
    columns = {table: _columns(connection, table) for table in read_from}
    if not {"start", "end"} <= columns[_KERNELS] or not columns[_KERNELS] & {"demangledName", "shortName"}:
        raise TraceError(f"{PRODUCER}: kernels of this export have no times or names")
    name = "demangledName" if "demangledName" in columns[_KERNELS] else "shortName"
    zero = connection.execute(f"SELECT MIN(start) FROM {_KERNELS} WHERE {_whole('start')}").fetchone()[0] or 0
    query = f"SELECT id, value FROM StringIds WHERE id IN (SELECT DISTINCT {name} FROM {_KERNELS}) LIMIT {MOST_KERNELS}"
    names = {key: clean_text(value) for key, value in connection.execute(query)}
    has_launches = {"globalPid", "correlationId"} <= columns[_KERNELS]
    host = _host_events(connection, columns, zero) if has_launches else []
    kernels: list[ChromeEvent] = []
    notes = []
    for table, unnamed in _UNNAMED.items():
        has = columns.get(table, set())
        if not {"start", "end"} <= has:
            continue
        is_kernel = table == _KERNELS
        device = "k.deviceId" if "deviceId" in has else "0"
        call = "k.globalPid, k.correlationId" if is_kernel and has_launches else "NULL, NULL"
        rows = connection.execute(
            f"SELECT k.start, k.end, {device}, {f'k.{name}' if is_kernel else 'NULL'}, {call} FROM {table} k "
            f"WHERE {_whole('k.start', 'k.end')} AND k.end > k.start ORDER BY k.start LIMIT {MOST_KERNELS}"
        )
        query = f"SELECT COUNT(*) FROM {table} WHERE start NOT NULL AND end NOT NULL AND NOT ({_whole('start', 'end')})"
        notes += skipped_note(connection.execute(query).fetchone()[0])
        kernels += [
            kernel_event(
                names.get(name_id, unnamed), clean_text(device_id, 60), (start - zero) * NS, (end - zero) * NS,
                None if correlation is None else (process, correlation),
            )
            for start, end, device_id, name_id, process, correlation in rows
        ]  # fmt: skip
        if len(kernels) >= MOST_KERNELS:
            notes.append(f"the first {MOST_KERNELS} kernels only")
            break
    operators = [event for event in host if event.category == "cpu_op"]
    return trace_of_kernels(kernels, host, operators, _device_name(connection, tables), notes)


def _whole(*columns: str) -> str:
    """Return the condition that these columns of a row hold whole numbers: a column of SQLite may hold anything."""
    return " AND ".join(f"typeof({column}) = 'integer'" for column in columns)


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _device_name(connection: sqlite3.Connection, tables: set[str]) -> str:
    if "TARGET_INFO_GPU" not in tables or "name" not in _columns(connection, "TARGET_INFO_GPU"):
        return ""
    row = connection.execute("SELECT name FROM TARGET_INFO_GPU LIMIT 1").fetchone()
    return clean_text(row[0]) if row else ""


# --- NVTX ranges ------------------------------------------------------------------------------------------


def _host_events(connection: sqlite3.Connection, columns: dict[str, set[str]], zero: int) -> list[ChromeEvent]:
    """Return the launches of kernels and the operators around them. Return [] if the export has no ranges."""
    marks, runtime = columns.get("NVTX_EVENTS", set()), columns.get(_RUNTIME, set())
    if not {"start", "end", "globalTid"} <= marks or not {"start", "globalTid", "correlationId"} <= runtime:
        return []
    launches = connection.execute(
        f"SELECT globalTid, start, correlationId FROM {_RUNTIME} "
        f"WHERE correlationId IN (SELECT correlationId FROM {_KERNELS}) "
        f"AND {_whole('globalTid', 'start')} ORDER BY globalTid, start LIMIT {MOST_RANGES}"
    )
    text = "COALESCE(n.text, s.value)" if {"text", "textId"} <= marks else "n.text" if "text" in marks else "s.value"
    joined = "LEFT JOIN StringIds s ON s.id = n.textId" if "textId" in marks else ""
    pushed = f"AND n.eventType = {_PUSHED}" if "eventType" in marks else ""
    rows = connection.execute(
        f"SELECT n.globalTid, n.start, n.end, {text} FROM NVTX_EVENTS n {joined} "
        f"WHERE n.end > n.start AND {_whole('n.globalTid', 'n.start', 'n.end')} {pushed} "
        f"ORDER BY n.globalTid, n.start, n.end DESC LIMIT {MOST_RANGES}"
    )
    events = [
        ChromeEvent(
            name="launch", category="cuda_runtime", lane=(str(thread), ""), start_s=(start - zero) * NS,
            end_s=(start - zero) * NS, args={"correlation": (thread & _PROCESS, correlation)},
        )
        for thread, start, correlation in launches
    ]  # fmt: skip
    for thread, ranges in groupby(rows, key=itemgetter(0)):
        told = ((start, end, clean_text(words or "", 2000)) for _, start, end, words in ranges)
        events += _outermost_operators(str(thread), told, zero)
    return sorted(events, key=lambda event: event.start_s)


def _outermost_operators(thread: str, ranges: Iterable[tuple[int, int, str]], zero: int) -> Iterator[ChromeEvent]:
    """Yield the operators among the ranges (start, end, text) of a thread, without those inside another operator."""
    until, modules = 0, list[tuple[int, str]]()  # end and name of open modules
    for start, end, text in ranges:
        if start < until:
            continue
        modules = [each for each in modules if each[0] > start][-DEEPEST:]
        name = text.partition(", ")[0] if text.startswith("aten::") else text  # PyTorch appends sizes
        kind = layer_kind(name)
        if kind and kind != "view":
            until, sizes = end, re.search(r", sizes = (\[[\d\[\], ]*\])", text)
            yield ChromeEvent(
                name=name[:400], category="cpu_op", lane=(thread, ""), start_s=(start - zero) * NS,
                end_s=(end - zero) * NS, args={"Input Dims": _decode_lists(sizes[1]) if sizes else ()},
                kind=kind, module=module_path(name) or (modules[-1][1] if modules else ""),
            )  # fmt: skip
        elif re.fullmatch(r"[\w-]+(\.[\w-]+)*", name):
            modules.append((end, name))


def _decode_lists(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return ()
