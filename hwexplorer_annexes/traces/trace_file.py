"""Read a trace file. Its format is found from the content, nothing in it is executed, and sizes are bounded.

Nsight Systems writes CSV tables, of kernels in order (`cuda_gpu_trace`) or of sums by name (`cuda_gpu_kern_sum`), and
an SQLite export of kernels and copies with the NVTX ranges that launched them. PyTorch marks operators only inside
`torch.autograd.profiler.emit_nvtx()`; TensorRT always marks its layers.
"""

import csv
import errno
import json
import re
import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec

from hwexplorer.extend import file_access, group_by, tables, text
from hwexplorer_annexes.traces import chrome
from hwexplorer_annexes.traces.chrome import ChromeEvent, RecordedEvents, layer_kind, read_kineto
from hwexplorer_annexes.traces.trace_record import (
    ANSWER_MAX,
    NAMES,
    Trace,
    TraceError,
    TraceOp,
    assemble_trace,
    average_runs,
    check_names,
    clean_text,
    find_runtime,
    module_path,
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
    present = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not {_KERNELS, "StringIds"} <= present:
        raise TraceError(f"{PRODUCER}: no kernels in this export (profile with --trace=cuda)")
    read_from = present & {_KERNELS, _COPIES, _SETS, _RUNTIME, "NVTX_EVENTS"}
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
    return trace_of_kernels(kernels, host, operators, _device_name(connection, present), notes)


def _whole(*columns: str) -> str:
    """Return the condition that these columns of a row hold whole numbers: a column of SQLite may hold anything."""
    return " AND ".join(f"typeof({column}) = 'integer'" for column in columns)


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def _device_name(connection: sqlite3.Connection, present: set[str]) -> str:
    if "TARGET_INFO_GPU" not in present or "name" not in _columns(connection, "TARGET_INFO_GPU"):
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
    """Yield the operators among the ranges (start, end, label) of a thread, without those inside another operator."""
    until, modules = 0, list[tuple[int, str]]()  # end and name of open modules
    for start, end, label in ranges:
        if start < until:
            continue
        modules = [each for each in modules if each[0] > start][-DEEPEST:]
        name = label.partition(", ")[0] if label.startswith("aten::") else label  # PyTorch appends sizes
        kind = layer_kind(name)
        if kind and kind != "view":
            until, sizes = end, re.search(r", sizes = (\[[\d\[\], ]*\])", label)
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


MOST_BYTES = 1 << 30  # of an unpacked file; Kineto traces of minutes reach hundreds of MB
MOST_RATIO, UNSUSPICIOUS = 100, 1 << 26  # unpacked over packed bytes, above this size; traces pack to a tenth
# Most characters of each kind, which bound the memory for objects, lists, items and lines.
MOST_MARKS = {"{": 10_000_000, "[": 10_000_000, ",": 100_000_000, "\n": 100_000_000}
FORMATS = (
    "PyTorch profiler JSON, ONNX Runtime profile, trtexec --exportProfile, Nsight Systems CSV or SQLite, OpenVINO "
    "detailed counters; each also .gz"
)


def encoded_trace(file: str, _progress: object) -> bytes:
    """Return the encoded trace in a file: the work of the subprocess that `TraceReading` starts. Raises TraceError."""
    data = msgspec.msgpack.encode(read_trace(Path(file)))
    if len(data) > ANSWER_MAX:
        raise TraceError(f"{Path(file).name}: it is too large to read; trace fewer runs")
    return data


def read_trace(path: Path) -> Trace:
    """Read the trace in a file. Raises TraceError, in one line, if the file is unreadable or not one of `FORMATS`."""
    data = _unpacked_bytes(path)
    if data.startswith(b"SQLite format 3\x00"):
        with tempfile.TemporaryDirectory(prefix="hwexplorer-trace-") as folder:
            plain = Path(folder) / path.name.removesuffix(".gz")
            plain.write_bytes(data)
            return read_nsight_sqlite(plain)
    text = file_access.text(data, "replace")
    del data
    try:
        trace = _read_text(text)
    except TraceError as error:
        raise TraceError(f"{path.name}: {tables.unread_text(text) or error}") from None
    except (RecursionError, MemoryError, ValueError, LookupError, TypeError, AttributeError, csv.Error) as error:
        what = "nested too deep" if isinstance(error, RecursionError) else "not in its tool's format"
        raise TraceError(f"{path.name}: damaged or {what}") from None
    if trace is None and path.suffix == ".zst":
        raise TraceError(f"{path.name}: zstd files are not read: unpack it with zstd -d")
    if trace is None:
        what = tables.unread_text(text) or f"not a known trace format (known: {FORMATS})"
        if rows := tables.tool_rows(text, path):
            verb = f"`hwexplorer validate {path.name} --on DEV`"
            what = f"a result of {rows[0]['source']}, not a trace: {verb} compares its figures with the prediction"
        raise TraceError(f"{path.name}: {what}")
    return trace


def _unpacked_bytes(path: Path) -> bytes:
    try:
        data = file_access.read(path, MOST_BYTES)
        if not data.startswith(b"\x1f\x8b"):
            return data
        return file_access.unzip(data, min(MOST_BYTES, max(UNSUSPICIOUS, MOST_RATIO * len(data))))
    except OSError as error:
        hint = "; trace fewer runs" if error.errno == errno.EFBIG else ""
        raise TraceError(f"{path.name}: cannot be read ({error.strerror}{hint})") from None


def _read_text(text: str) -> Trace | None:
    if any(text.count(mark) > most for mark, most in MOST_MARKS.items()):
        raise TraceError("it is too large to read; trace fewer runs")
    if text.lstrip()[:1] in ("{", "["):
        return _read_json(text.lstrip())
    if "layername;execstatus" in text[:200_000].lower():
        return chrome.read_openvino(text)
    return read_nsight_table(text)


def _read_json(text: str) -> Trace | None:
    decoder = json.JSONDecoder()
    try:
        document, end = decoder.raw_decode(text)
    except ValueError:
        raise TraceError("truncated or damaged: not valid JSON to its end") from None
    if isinstance(document, dict):
        return _read_object(document)
    # Each run of trtexec appends an array to the same file; the last array is the newest.
    rest, arrays = text[end:].strip(), 1
    while rest.startswith("["):
        try:
            document, end = decoder.raw_decode(rest)
        except ValueError:
            break
        rest, arrays = rest[end:].strip(), arrays + 1
    trace = _read_array(document)
    if trace is None or arrays == 1:
        return trace
    return msgspec.structs.replace(trace, notes=(*trace.notes, f"the last of {arrays} profiles in the file"))


def _read_object(document: dict[str, Any]) -> Trace | None:
    if isinstance(document.get("traceEvents"), list):
        arguments = [event.get("args") for event in document["traceEvents"] if isinstance(event, dict)]
        named = [one for one in arguments if isinstance(one, dict)]  # jax.profiler names XLA operations, not calls
        is_jax = any("hlo_op" in one or one.get("name") == "XLA Ops" for one in named)
        return None if is_jax else read_kineto(document)
    if "Layers" in document:
        raise TraceError("layers of TensorRT without times: give the file of --exportProfile")
    return None


def _read_array(items: list[Any]) -> Trace | None:
    rows = [row for row in items if isinstance(row, dict)]
    if any("averageMs" in row for row in rows):
        return chrome.read_trtexec(items)
    if any(str(row.get("name", "")).endswith("_kernel_time") for row in rows):
        return chrome.read_onnxruntime(items)
    if any("ts" in row for row in rows):
        return read_kineto({"traceEvents": items})
    if any("computeMs" in row or "latencyMs" in row for row in rows):
        raise TraceError("times of whole queries (--exportTimes), not of layers: give the file of --exportProfile")
    return None
