"""Reader of Nsight Systems' CSV tables: kernels in order (`cuda_gpu_trace`) or sums by name (`cuda_gpu_kern_sum`)."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from analysis.annexes.traces.chrome import ChromeEvent, RecordedEvents
from analysis.annexes.traces.trace_record import (
    NAMES,
    Trace,
    TraceError,
    TraceOp,
    assemble_trace,
    average_runs,
    clean_text,
    find_runtime,
    operator_kind,
    parse_number,
)
from hardware.quantity import percent
from hardware.sentence import count_noun

NS = 1e-9
MOST_KERNELS = 1_000_000
HEADER_LINES, HEADER_MAX = 200, 1 << 16  # lines before the table starts; characters of a line
PRODUCER = "Nsight Systems"
_HOST_CALL = re.compile(r"^(cuda|cu[A-Z]|hip|hsa_|nvtx|osrt)")  # tables of host calls have the same columns


def trace_of_kernels(
    kernels: Sequence[ChromeEvent],
    host: Sequence[ChromeEvent] = (),
    operators: Sequence[ChromeEvent] = (),
    device: str = "",
    notes: Sequence[str] = (),
) -> Trace:
    """Return a trace of the device with the most kernel time, divided into runs if operators and kernels repeat. `host`
    are the events of the host, including `operators`. Raises TraceError without a kernel."""
    by_device: dict[str, list[ChromeEvent]] = {}
    for kernel in kernels:
        by_device.setdefault(kernel.lane[0], []).append(kernel)
    if not by_device:
        raise TraceError(f"{PRODUCER}: it holds no kernel with a time")
    spent_s = {name: sum(row.seconds for row in rows) for name, rows in by_device.items()}
    busiest = max(spent_s, key=lambda name: spent_s[name])
    notes = list(notes)
    if len(spent_s) > 1:
        others = 1.0 - spent_s[busiest] / sum(spent_s.values())
        notes.append(
            f"device {busiest} of {len(spent_s)}: the others, with {percent(others)} of the kernels' time, left out"
        )
    rows = sorted(by_device[busiest], key=lambda row: row.start_s)
    recorded = RecordedEvents(host, operators, rows)
    first_s = min(row.start_s for row in (*rows, *operators))
    whole = (first_s, max(row.end_s for row in rows))
    repeats = recorded.repeats((first_s, whole[1] + 1.0))
    runs = [recorded.run(window) for window in (repeats[1:] if len(repeats) > 2 else repeats) or [whole]]
    from_torch_s = sum(op.seconds for run in runs for op in run.ops if op.name.startswith("aten::"))
    is_torch = from_torch_s > 0.5 * sum(op.seconds for run in runs for op in run.ops)
    return average_runs(
        "nsys", runs, producer=PRODUCER, device=device, on_device=True, is_total=not repeats,
        runtime=find_runtime(runs[0].ops, PRODUCER) if is_torch else "", notes=notes,
    )  # fmt: skip


def read_nsight_table(text: str) -> Trace | None:
    """Return the trace in a CSV table of kernels. Return None for other text. Raises TraceError."""
    lines = text.splitlines()
    csv.field_size_limit(max(len(text), csv.field_size_limit()))  # of all readers of this process: it never falls
    for start, line in enumerate(lines[:HEADER_LINES]):
        if len(line) > HEADER_MAX:
            return None
        header = line.lower().replace(" ", "").replace("_", "")
        if "name" in header and any(word in header for word in ("totaltime", "duration")):
            if "numcalls" in header:
                raise TraceError(
                    f"{PRODUCER}: this is not a summary of GPU kernels (give the report cuda_gpu_kern_sum)"
                )
            return _read_rows(list(islice(_rows(lines[start:]), MOST_KERNELS)))
    return None


def _rows(lines: Sequence[str]) -> Iterator[dict[str, str]]:
    delimiter = max(",;\t", key=lines[0].count)
    for row in csv.DictReader(lines, delimiter=delimiter, restval=""):
        cells = {key or "": value for key, value in row.items() if isinstance(value, str)}
        # In tables with semicolons a comma is the decimal point.
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
        kernels = [kernel for row in rows if (kernel := _kernel(row, columns, zero))]
        return trace_of_kernels(kernels, notes=skipped_note(len(rows) - len(kernels)))
    return None


def skipped_note(count: int) -> list[str]:
    """Return the note that rows are damaged; [] if none is."""
    return [f"{count_noun(count, 'row')} without a time left out"] if count else []


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
        raise TraceError(f"{PRODUCER}: it holds calls of the host but no kernels")
    notes = skipped_note(len(rows) - len(ops))
    return assemble_trace("nsys", ops, producer=PRODUCER, on_device=True, is_total=True, notes=notes)


def _kernel(row: Mapping[str, str], columns: Mapping[str, tuple[str, float]], zero: int) -> ChromeEvent | None:
    """Return the kernel or copy of a row, with times from `zero`. Return None if the row has no times."""
    (start_key, start_scale), (duration_key, duration_scale) = columns["start"], columns["duration"]
    start, duration = _exact_number(row.get(start_key)), _exact_number(row.get(duration_key))
    if start is None or not duration:
        return None
    device = clean_text(row.get(columns["device"][0]), 60) if "device" in columns else ""
    name, start_s = clean_text(row.get(columns["name"][0], "")), (start - zero) * start_scale
    return kernel_event(name, device, start_s, start_s + duration * duration_scale)


def kernel_event(name: str, device: str, start_s: float, end_s: float, launch: object = None) -> ChromeEvent:
    """Return the event of a kernel or copy on a device. `launch` identifies the call that launched it, if known."""
    args = {} if launch is None else {"correlation": launch}
    return ChromeEvent(name=name, category="kernel", lane=(device, ""), start_s=start_s, end_s=end_s, args=args)


def _exact_number(value: Any) -> float | None:
    """Return a number >= 0, None for anything else. Nanosecond stamps stay integers: a float rounds them to 256 ns."""
    text = str(value).replace(",", "")
    return int(text) if text.isdecimal() and len(text) < 20 else parse_number(value)
