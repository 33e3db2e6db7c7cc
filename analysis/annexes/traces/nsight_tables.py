"""Kernels as Nsight Systems lists them in CSV: in order (`cuda_gpu_trace`) or summed by name (`cuda_gpu_kern_sum`)."""

from __future__ import annotations

import csv
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from analysis.annexes.traces.trace_record import (
    NAMES,
    Shape,
    Span,
    Trace,
    TracedRun,
    TraceError,
    TraceOp,
    assemble_trace,
    average_runs,
    clean_text,
    covered_s,
    find_repeats,
    find_runtime,
    operator_kind,
    parse_number,
)

NS = 1e-9
MOST_KERNELS = 1_000_000
HEADER_LINES, HEADER_MAX = 200, 1 << 16  # lines before the table starts; characters of one
PRODUCER = "Nsight Systems"
_HOST_CALL = re.compile(r"^(cuda|cu[A-Z]|hip|hsa_|nvtx|osrt)")  # tables of the same columns sum up these


class LaunchingCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an operator on the host; `id` tells calls of the same name apart."""

    id: int
    name: str
    kind: str
    module: str
    shapes: tuple[Shape, ...]


class KernelLaunch(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel or copy that ran from `start_s` to `end_s` on a device; `call` is None where its operator is unknown."""

    name: str
    start_s: float
    end_s: float
    device: str = ""
    call: LaunchingCall | None = None


def trace_of_launches(launches: Sequence[KernelLaunch], device: str = "", notes: Sequence[str] = ()) -> Trace:
    """Return a trace of the device that ran most, divided into runs where kernels repeat. Raises TraceError for no
    kernel."""
    by_device: dict[str, list[KernelLaunch]] = {}
    for launch in launches:
        by_device.setdefault(launch.device, []).append(launch)
    if not by_device:
        raise TraceError(f"{PRODUCER}: no kernel with a time in it")
    spent_s = {name: sum(row.end_s - row.start_s for row in rows) for name, rows in by_device.items()}
    busiest = max(spent_s, key=lambda name: spent_s[name])
    notes = list(notes)
    if len(spent_s) > 1:
        others = 1.0 - spent_s[busiest] / sum(spent_s.values())
        notes.append(
            f"device {busiest} of {len(spent_s)}: the others, with {others:.0%} of the kernels' time, are left out"
        )
    rows = sorted(by_device[busiest], key=lambda row: row.start_s)
    windows = find_repeats([row.name for row in rows], [(row.start_s, row.end_s) for row in rows])
    from_torch_s = sum(row.end_s - row.start_s for row in rows if row.call and row.call.name.startswith("aten::"))
    is_torch = from_torch_s > 0.5 * spent_s[busiest]
    repeats = windows[1:] if len(windows) > 2 else windows  # the first warms caches up
    runs = []
    for window in repeats or [(rows[0].start_s, max(row.end_s for row in rows))]:
        first, end = (bisect_left(rows, at, key=lambda row: row.start_s) for at in window)
        runs.append(_run(rows[first:end], window))
    return average_runs(
        "nsys", runs, producer=PRODUCER, device=device, on_device=True, is_total=not repeats,
        runtime=find_runtime(runs[0].ops, PRODUCER) if is_torch else "", notes=notes,
    )  # fmt: skip


def _run(rows: Sequence[KernelLaunch], window: Span) -> TracedRun:
    spans = [(row.start_s, row.end_s) for row in rows]
    wall_s = max(window[1], *(end for _, end in spans)) - window[0]
    calls: dict[object, list[KernelLaunch]] = {}
    for place, row in enumerate(rows):
        calls.setdefault((row.call.id, row.call.name) if row.call else place, []).append(row)
    return TracedRun(ops=tuple(map(_op, calls.values())), wall_s=wall_s, busy_s=covered_s(spans))


def _op(rows: Sequence[KernelLaunch]) -> TraceOp:
    seconds, names, call = sum(row.end_s - row.start_s for row in rows), tuple(row.name for row in rows), rows[0].call
    if call is None:
        return TraceOp(name=names[0], kind=operator_kind(names[0]), seconds=seconds, kernels=names)
    return TraceOp(
        name=call.name, kind=call.kind, seconds=seconds, kernels=names, module=call.module, shapes=call.shapes
    )


def read_nsight_table(text: str) -> Trace | None:
    """Return the trace in a CSV table of kernels; None for another text."""
    lines = text.splitlines()
    for start, line in enumerate(lines[:HEADER_LINES]):
        if len(line) > HEADER_MAX:
            return None
        header = line.lower().replace(" ", "").replace("_", "")
        if "name" in header and any(word in header for word in ("totaltime", "duration")):
            if "numcalls" in header:
                raise TraceError(f"{PRODUCER}: this is no sum of GPU kernels (give the report cuda_gpu_kern_sum)")
            return _read_rows(list(islice(_rows(lines[start:]), MOST_KERNELS)))
    return None


def _rows(lines: Sequence[str]) -> Iterator[dict[str, str]]:
    delimiter = max(",;\t", key=lines[0].count)
    for row in csv.DictReader(lines, delimiter=delimiter, restval=""):
        cells = {key or "": value for key, value in row.items() if isinstance(value, str)}
        # Where a semicolon separates cells, a comma is the decimal point.
        yield {key: value.replace(",", ".") for key, value in cells.items()} if delimiter == ";" else cells


def _read_rows(rows: Sequence[Mapping[str, str]]) -> Trace | None:
    columns: dict[str, tuple[str, float]] = {}  # concept -> name of the column, seconds of its unit
    for key in rows[0] if rows else ():
        unit = re.search(r"\((\w+)\)", key)
        plain = re.sub(r"\(.*?\)|[\s_-]", "", key).strip('"').lower()
        for concept, names in NAMES["columns"].items():
            if plain in names and concept not in columns:
                columns[concept] = (key, NAMES["units"].get(unit[1].lower() if unit else "", NS))
    if {"name", "total", "count"} <= set(columns):
        return _trace_of_sums(rows, columns)
    if {"name", "start", "duration"} <= set(columns):
        zero = int(min((_exact_number(row.get(columns["start"][0])) or 0 for row in rows), default=0))
        return trace_of_launches([launch for row in rows if (launch := _launch(row, columns, zero))])
    return None


def _trace_of_sums(rows: Sequence[Mapping[str, str]], columns: Mapping[str, tuple[str, float]]) -> Trace:
    (total, scale), (count, _), (name, _) = columns["total"], columns["count"], columns["name"]
    ops = []
    for row in rows:
        spent, times = parse_number(row.get(total)), parse_number(row.get(count))
        if spent and times:
            kernel = clean_text(row.get(name, ""))
            kind = operator_kind(kernel)
            ops.append(TraceOp(name=kernel, kind=kind, seconds=spent * scale, kernels=(kernel,), count=int(times)))
    if ops and sum(bool(_HOST_CALL.match(op.name)) for op in ops) > len(ops) / 2:
        raise TraceError(f"{PRODUCER}: calls of the host, no kernels")
    return assemble_trace("nsys", ops, producer=PRODUCER, on_device=True, is_total=True)


def _launch(row: Mapping[str, str], columns: Mapping[str, tuple[str, float]], zero: int) -> KernelLaunch | None:
    """Return a row that is a kernel or a copy, its times counted from `zero`; None for one without times."""
    (start_key, start_scale), (duration_key, duration_scale) = columns["start"], columns["duration"]
    start, duration = _exact_number(row.get(start_key)), _exact_number(row.get(duration_key))
    if start is None or not duration:
        return None
    start_s = (start - zero) * start_scale
    device = clean_text(row.get(columns["device"][0]), 60) if "device" in columns else ""
    name = clean_text(row.get(columns["name"][0], ""))
    return KernelLaunch(name=name, start_s=start_s, end_s=start_s + duration * duration_scale, device=device)


def _exact_number(value: Any) -> float | None:
    """Return a number >= 0. Long nanosecond stamps stay integers: a float would round them to 256 ns."""
    text = str(value).replace(",", "")
    return int(text) if text.isdecimal() and len(text) < 20 else parse_number(value)
