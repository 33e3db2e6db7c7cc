"""Nsight Systems' SQLite export: kernels and copies with their times, and the names of the ranges around them."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from .record import Trace, TraceError, TraceOp, assembled, clean, covered_s, kind_of

NS = 1e-9
MOST_KERNELS = 2_000_000
_KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


def nsys_sqlite(path: Path) -> Trace:
    """Kernels in order of the device that ran most. The file is opened read-only; nothing of it is executed."""
    connection = None
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
        connection.execute("PRAGMA trusted_schema = OFF")  # views and triggers of a stranger call nothing
        return _read(connection)
    except (sqlite3.Error, OverflowError, ValueError) as error:
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
    columns = {row[1] for row in connection.execute(f"PRAGMA table_info({_KERNELS})")}
    if not {"start", "end"} <= columns or not columns & {"demangledName", "shortName"}:
        raise TraceError("Nsight Systems: kernels of this export have no times or names")
    name = "demangledName" if "demangledName" in columns else "shortName"
    device = "deviceId" if "deviceId" in columns else "0"
    busiest = connection.execute(
        f"SELECT {device}, SUM(end - start) AS s FROM {_KERNELS} GROUP BY 1 ORDER BY s DESC LIMIT 1"
    ).fetchone()
    rows = connection.execute(
        f"SELECT k.start, k.end, s.value FROM {_KERNELS} k LEFT JOIN StringIds s ON s.id = k.{name} "
        f"WHERE {device} = ? AND k.end > k.start ORDER BY k.start LIMIT {MOST_KERNELS}",
        (busiest[0] if busiest else 0,),
    ).fetchall()
    ops = [_op(row[2], (row[1] - row[0]) * NS) for row in rows]
    spans = [(row[0] * NS, row[1] * NS) for row in rows]
    notes = [] if len(rows) < MOST_KERNELS else [f"the first {MOST_KERNELS} kernels only"]
    if "CUPTI_ACTIVITY_KIND_MEMCPY" in tables:
        copies = connection.execute(
            "SELECT start, end FROM CUPTI_ACTIVITY_KIND_MEMCPY WHERE end > start ORDER BY start LIMIT 1000000"
        ).fetchall()
        ops += [TraceOp(name="memcpy", kind="copy", seconds=(end - start) * NS) for start, end in copies]
        spans += [(start * NS, end * NS) for start, end in copies]
    if not spans:
        raise TraceError("Nsight Systems: no kernel with a time in it")
    wall = max(end for _, end in spans) - min(start for start, _ in spans)
    return assembled(
        "nsys",
        ops,
        producer="Nsight Systems",
        device=_device(connection, tables),
        on_device=True,
        wall_s=wall,
        busy_s=covered_s(spans),
        is_total=True,
        notes=notes,
    )


def _op(name: str | None, seconds: float) -> TraceOp:
    kernel = clean(name or "kernel without a name")
    return TraceOp(name=kernel, kind=kind_of(kernel), seconds=seconds, kernels=(kernel,))


def _device(connection: sqlite3.Connection, tables: set[str]) -> str:
    if "TARGET_INFO_GPU" not in tables:
        return ""
    columns = {row[1] for row in connection.execute("PRAGMA table_info(TARGET_INFO_GPU)")}
    if "name" not in columns:
        return ""
    row = connection.execute("SELECT name FROM TARGET_INFO_GPU LIMIT 1").fetchone()
    return clean(row[0]) if row else ""
