"""Reader of Nsight Systems' CSV tables: kernels in order (`cuda_gpu_trace`) or sums by name (`cuda_gpu_kern_sum`)."""

import csv
import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

from hwexplorer.extend import group_by, text
from hwexplorer_annexes.traces.chrome import ChromeEvent, RecordedEvents
from hwexplorer_annexes.traces.trace_record import (
    NAMES,
    Trace,
    TraceError,
    TraceOp,
    assemble_trace,
    average_runs,
    check_names,
    clean_text,
    find_runtime,
    operator_kind,
    parse_number,
)

count_noun, percent = text.count_noun, text.percent

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
    by_device = group_by(kernels, lambda kernel: kernel.lane[0])
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
            return _read_table(lines[start:])
    return None


def _read_table(lines: Sequence[str]) -> Trace | None:
    delimiter = max(",;\t", key=lines[0].count)
    table = csv.reader(lines, delimiter=delimiter)
    columns: dict[str, tuple[int, float]] = {}  # concept -> place of the column, seconds of its unit
    for key, place in {key: place for place, key in enumerate(next(table))}.items():
        unit = re.search(r"\((\w+)\)", key)
        plain = re.sub(r"\(.*?\)|[\s_-]", "", key).strip('"').lower()
        for concept, names in NAMES["columns"].items():
            if plain in names:
                columns.setdefault(concept, (place, NAMES["units"].get(unit[1].lower() if unit else "", NS)))
    for concepts, read in (
        (("name", "total", "count"), _trace_of_sums),
        (("name", "start", "duration"), _trace_of_times),
    ):
        if columns.keys() >= set(concepts):
            places = [columns[each][0] for each in (*concepts, "device") if each in columns]
            rows = [
                tuple(row[place] if place < len(row) else "" for place in places)
                for row in islice(filter(None, table), MOST_KERNELS)
            ]
            if delimiter == ";":  # then a comma is the decimal point
                rows = [tuple(cell.replace(",", ".") for cell in row) for row in rows]
            check_names({row[0] for row in rows})
            return read(rows, *(columns[each][1] for each in concepts[1:])) if rows else None
    return None


def skipped_note(count: int) -> list[str]:
    """Return the note that rows are damaged; [] if none is."""
    return [f"{count_noun(count, 'row')} without a time left out"] if count else []


def _trace_of_sums(rows: Sequence[Sequence[str]], scale: float, _: float) -> Trace:
    ops = []
    for name, total, count, *_device in rows:
        spent, times = parse_number(total), parse_number(count)
        if spent and times:
            kernel = clean_text(name)
            kind = operator_kind(kernel)
            ops.append(TraceOp(name=kernel, kind=kind, seconds=spent * scale, kernels=(kernel,), count=int(times)))
    if ops and sum(bool(_HOST_CALL.match(op.name)) for op in ops) > len(ops) / 2:
        raise TraceError(f"{PRODUCER}: it holds calls of the host but no kernels")
    notes = skipped_note(len(rows) - len(ops))
    return assemble_trace("nsys", ops, producer=PRODUCER, on_device=True, is_total=True, notes=notes)


def _trace_of_times(rows: Sequence[Sequence[str]], start_scale: float, duration_scale: float) -> Trace:
    starts = [_exact_number(row[1]) for row in rows]
    zero = int(min(start or 0 for start in starts))
    kernels = []
    for start, (name, _, lasted, *device) in zip(starts, rows, strict=True):
        if start is not None and (duration := _exact_number(lasted)):
            start_s = (start - zero) * start_scale
            end_s = start_s + duration * duration_scale
            kernels.append(kernel_event(clean_text(name), clean_text(device[0], 60) if device else "", start_s, end_s))
    return trace_of_kernels(kernels, notes=skipped_note(len(rows) - len(kernels)))


def kernel_event(name: str, device: str, start_s: float, end_s: float, launch: object = None) -> ChromeEvent:
    """Return the event of a kernel or copy on a device. `launch` identifies the call that launched it, if known."""
    args = {} if launch is None else {"correlation": launch}
    return ChromeEvent(name=name, category="kernel", lane=(device, ""), start_s=start_s, end_s=end_s, args=args)


def _exact_number(value: Any) -> float | None:
    """Return a number >= 0, None for anything else. Nanosecond stamps stay integers: a float rounds them to 256 ns."""
    text = str(value).replace(",", "")
    return int(text) if text.isdecimal() and len(text) < 20 else parse_number(value)
