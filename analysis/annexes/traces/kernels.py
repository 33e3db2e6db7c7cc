"""Kernels of an accelerator as profilers list them: in order (Nsight Systems' GPU trace, rocprof's and rocprofv3's
kernel trace) or summed by name (their statistics); in CSV, JSON or aligned text, in any unit that the header names."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from analysis.annexes.traces.nvtx import Call
from analysis.annexes.traces.record import (
    NAMES,
    Run,
    Span,
    Trace,
    TraceError,
    TraceOp,
    assembled,
    clean,
    covered_s,
    kind_of,
    number,
    of_runs,
    ran_by,
    repeating,
)  # fmt: skip

NS = 1e-9
MOST_KERNELS = 1_000_000
_OF_HOST = re.compile(r"^(cuda|cu[A-Z]|hip|hsa_|nvtx|osrt)")  # calls that tables of the same columns sum up


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel or copy that ran from `start_s` to `end_s` on a device, launched in a call where that is known."""

    name: str
    start_s: float
    end_s: float
    device: str = ""
    call: Call | None = None


def in_order(rows: Sequence[Kernel], producer: str, device: str = "", notes: Sequence[str] = ()) -> Trace:
    """A trace of the device that ran most, its runs told apart by their repeats. Raises TraceError for no kernel."""
    by_device: dict[str, list[Kernel]] = {}
    for row in rows:
        by_device.setdefault(row.device, []).append(row)
    if not by_device:
        raise TraceError(f"{producer}: no kernel with a time in it")
    spent = {name: sum(row.end_s - row.start_s for row in mine) for name, mine in by_device.items()}
    busiest = max(spent, key=lambda name: spent[name])
    notes = list(notes)
    if len(spent) > 1:
        others = 1.0 - spent[busiest] / sum(spent.values())
        notes.append(
            f"device {busiest} of {len(spent)}: the others, with {others:.0%} of the kernels' time, are left out"
        )
    mine = sorted(by_device[busiest], key=lambda row: row.start_s)
    windows = repeating([row.name for row in mine], [(row.start_s, row.end_s) for row in mine])
    told_s = sum(row.end_s - row.start_s for row in mine if row.call and row.call.name.startswith("aten::"))
    told = told_s > 0.5 * spent[busiest]
    if not windows:
        whole = _run(mine, (mine[0].start_s, max(row.end_s for row in mine)))
        return assembled(
            "nsys", whole.ops, producer=producer, device=device, on_device=True, wall_s=whole.wall_s,
            busy_s=whole.busy_s, is_total=True, runtime=ran_by(whole.ops, producer) if told else "", notes=notes,
        )  # fmt: skip
    windows = windows[1:] if len(windows) > 2 else windows  # the first warms caches up
    runs, place = [], 0
    for window in windows:
        while mine[place].start_s < window[0]:
            place += 1
        end = next((i for i in range(place, len(mine)) if mine[i].start_s >= window[1]), len(mine))
        runs.append(_run(mine[place:end], window))
        place = end
    runtime = ran_by(runs[0].ops, producer) if told else ""
    return of_runs("nsys", runs, producer=producer, device=device, on_device=True, runtime=runtime, notes=notes)


def _run(rows: Sequence[Kernel], window: Span) -> Run:
    spans = [(row.start_s, row.end_s) for row in rows]
    wall_s = max(window[1], *(end for _, end in spans)) - window[0]
    calls: dict[object, list[Kernel]] = {}
    for place, row in enumerate(rows):
        calls.setdefault((row.call.id, row.call.name) if row.call else place, []).append(row)
    return Run(ops=tuple(map(_op, calls.values())), wall_s=wall_s, busy_s=covered_s(spans))


def _op(rows: Sequence[Kernel]) -> TraceOp:
    """What one call launched, or a kernel by itself."""
    seconds, names, call = sum(row.end_s - row.start_s for row in rows), tuple(row.name for row in rows), rows[0].call
    if call is None:
        return TraceOp(name=names[0], kind=kind_of(names[0]), seconds=seconds, kernels=names)
    return TraceOp(
        name=call.name, kind=call.kind, seconds=seconds, kernels=names, module=call.module, shapes=call.shapes
    )


def of_text(text: str) -> Trace | None:
    """The trace in a table of kernels; None for another text."""
    lines = text.splitlines()
    for start, line in enumerate(lines[:200]):
        header = re.sub(r"[ _]", "", line.lower())
        if "name" in header and any(
            word in header for word in ("totaltime", "totalduration", "duration", "begin", "start")
        ):
            if "numcalls" in header:
                raise TraceError("Nsight Systems: this is no sum of GPU kernels (give the report cuda_gpu_kern_sum)")
            return of_rows(list(islice(_rows(lines[start:]), MOST_KERNELS)))
    return None


def _rows(lines: Sequence[str]) -> Iterator[dict[str, str]]:
    """Rows by the names in the header. Aligned text has a line of dashes below it, which says where columns are."""
    dashes = lines[1].strip() if len(lines) > 1 else ""
    if dashes and not dashes.strip("- "):
        places = [match.span() for match in re.finditer(r"-+", lines[1])]
        ends = [*(start for start, _ in places[1:]), None]
        for line in lines[2:]:
            yield {lines[0][a:b].strip(): line[a:b].strip() for (a, _), b in zip(places, ends, strict=True)}
        return
    delimiter = max(",;\t", key=lines[0].count)
    for row in csv.DictReader(lines, delimiter=delimiter, restval=""):
        if delimiter == ";":  # where a semicolon divides, a comma is the point of a fraction
            yield {key or "": (value or "").replace(",", ".") for key, value in row.items() if isinstance(value, str)}
        else:
            yield {key or "": value for key, value in row.items() if isinstance(value, str)}


def of_rows(rows: Sequence[Mapping[str, Any]]) -> Trace | None:
    """The trace in rows by the names of their columns; None where these are not of kernels."""
    columns: dict[str, tuple[str, float]] = {}
    for key in rows[0] if rows else ():
        plain, unit = _plain(key)
        for what, names in NAMES["columns"].items():
            if plain in names and what not in columns:
                columns[what] = (key, NAMES["units"].get(unit, NS))
    if "name" not in columns:
        return None
    ours = "Timestamp" in "".join(rows[0]) or "Ns" in "".join(rows[0])
    producer = "rocprof" if ours else "Nsight Systems"
    if {"total", "count"} <= set(columns):
        return _sums(rows, columns, producer)
    if "start" in columns and columns.keys() & {"duration", "end"}:
        zero = int(min((_exact(row.get(columns["start"][0])) or 0 for row in rows), default=0))
        return in_order([kernel for row in rows if (kernel := _kernel(row, columns, zero))], producer)
    return None


def _plain(header: str) -> tuple[str, str]:
    """`Total Time (ns)`, `TotalDurationNs`, `Start_Timestamp`: the name without its unit, and the unit."""
    unit = re.search(r"\((\w+)\)", header)
    name = re.sub(r"\(.*?\)|[\s_-]", "", header).strip('"')
    if unit is None and name.endswith("Ns"):
        return name[:-2].lower(), "ns"
    return name.lower(), unit[1].lower() if unit else ""


def _sums(rows: Sequence[Mapping[str, Any]], columns: Mapping[str, tuple[str, float]], producer: str) -> Trace:
    ops = []
    for row in rows:
        (total, scale), (count, _), (name, _) = columns["total"], columns["count"], columns["name"]
        spent, times = number(row.get(total)), number(row.get(count))
        if spent and times:
            kernel = clean(row.get(name, ""))
            ops.append(
                TraceOp(name=kernel, kind=kind_of(kernel), seconds=spent * scale, kernels=(kernel,), count=int(times))
            )
    if ops and sum(bool(_OF_HOST.match(op.name)) for op in ops) > len(ops) / 2:
        raise TraceError(f"{producer}: calls of the host, no kernels")
    return assembled("nsys", ops, producer=producer, on_device=True, is_total=True)


def _kernel(row: Mapping[str, Any], columns: Mapping[str, tuple[str, float]], zero: int) -> Kernel | None:
    """A row that is a kernel or a copy, its times from `zero` of their unit on; None for one without times."""

    def seconds(what: str, zero: int = 0) -> float | None:
        key, scale = columns[what]
        amount = _exact(row.get(key))
        return None if amount is None else (amount - zero) * scale

    start = seconds("start", zero)
    length = seconds("duration") if "duration" in columns else None
    end = start + length if start is not None and length is not None else None
    if end is None and "end" in columns:
        end = seconds("end", zero)
    if start is None or end is None or end <= start:
        return None
    device = clean(row.get(columns["device"][0]), 60) if "device" in columns else ""
    return Kernel(name=clean(row.get(columns["name"][0], "")), start_s=start, end_s=end, device=device)


def _exact(value: Any) -> float | None:
    """A number >= 0; nanoseconds since 1970, which a float would round to 256 of them, as they are."""
    text = str(value).replace(",", "")
    return int(text) if text.isdecimal() and len(text) < 20 else number(value)
