"""Nsight Systems' SQLite export: kernels and copies with their times, and the names of the ranges around them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from analysis.annexes.traces import nvtx
from analysis.annexes.traces.kernels import MOST_KERNELS, NS, Kernel, in_order
from analysis.annexes.traces.record import Trace, TraceError, clean

MOST_STEPS, STEP = 3_000, 100_000  # of SQLite's machine for all that is asked; so many between two looks
LONGEST = 10_000_000  # bytes of a value
_KERNELS, _COPIES, _SETS = (f"CUPTI_ACTIVITY_KIND_{what}" for what in ("KERNEL", "MEMCPY", "MEMSET"))
_CALLED = {_COPIES: "memcpy", _SETS: "memset"}


def nsys_sqlite(path: Path) -> Trace:
    """Kernels in order of the device that ran most. The file is opened read-only; nothing of it is executed."""
    connection = None
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.execute("PRAGMA trusted_schema = OFF")  # views and triggers of a stranger call nothing
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
        looks = iter(range(MOST_STEPS))
        connection.set_progress_handler(lambda: next(looks, None) is None, STEP)  # a schema may hold anything
        return _read(connection)
    except (sqlite3.Error, OverflowError, TypeError, ValueError) as error:  # a column may hold any type
        if isinstance(error, TraceError):
            raise
        raise TraceError(f"{path.name}: not a readable SQLite export ({clean(error, 120)})") from None
    finally:
        if connection is not None:
            connection.close()


def _read(connection: sqlite3.Connection) -> Trace:
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {_KERNELS, "StringIds"} <= tables:
        raise TraceError("Nsight Systems: no kernels in this export (profile with --trace=cuda)")
    columns = {table: _columns(connection, table) for table in tables & {_KERNELS, _COPIES, _SETS, *nvtx.TABLES}}
    if not {"start", "end"} <= columns[_KERNELS] or not columns[_KERNELS] & {"demangledName", "shortName"}:
        raise TraceError("Nsight Systems: kernels of this export have no times or names")
    name = "demangledName" if "demangledName" in columns[_KERNELS] else "shortName"
    zero = connection.execute(f"SELECT MIN(start) FROM {_KERNELS}").fetchone()[0] or 0
    wanted = (
        f"SELECT id, value FROM StringIds WHERE id IN (SELECT DISTINCT {name} FROM {_KERNELS}) LIMIT {MOST_KERNELS}"
    )
    names = {key: clean(value) for key, value in connection.execute(wanted)}
    launched = {"globalPid", "correlationId"} <= columns[_KERNELS]
    calls = nvtx.calls(connection, columns) if launched else {}
    found, notes = [], []
    for table, text in ((_KERNELS, name), (_COPIES, ""), (_SETS, "")):
        has = columns.get(table, set())
        if not {"start", "end"} <= has:
            continue
        device = "k.deviceId" if "deviceId" in has else "0"
        named = f"k.{text}" if text else "NULL"
        call = "k.globalPid, k.correlationId" if text and launched else "NULL, NULL"
        rows = connection.execute(
            f"SELECT k.start, k.end, {device}, {named}, {call} FROM {table} k "
            f"WHERE k.end > k.start ORDER BY k.start LIMIT {MOST_KERNELS}"
        )
        called = _CALLED.get(table, "kernel without a name")
        found += [
            Kernel(
                name=names.get(what, called), start_s=(start - zero) * NS, end_s=(end - zero) * NS,
                device=clean(where, 60), call=calls.get((process, correlation)),
            )
            for start, end, where, what, process, correlation in rows
        ]  # fmt: skip
        if len(found) >= MOST_KERNELS:
            notes.append(f"the first {MOST_KERNELS} kernels only")
            break
    return in_order(found, "Nsight Systems", _device(connection, tables), notes)


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _device(connection: sqlite3.Connection, tables: set[str]) -> str:
    if "TARGET_INFO_GPU" not in tables:
        return ""
    if "name" not in _columns(connection, "TARGET_INFO_GPU"):
        return ""
    row = connection.execute("SELECT name FROM TARGET_INFO_GPU LIMIT 1").fetchone()
    return clean(row[0]) if row else ""
