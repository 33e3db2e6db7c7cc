"""Reading of trace files. The format is found from the content, nothing in it is executed, and sizes are bounded."""

import csv
import errno
import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from hwexplorer.extend import file_access, tables
from hwexplorer_annexes.traces import runtime_profiles
from hwexplorer_annexes.traces.chrome import read_kineto
from hwexplorer_annexes.traces.nsight_tables import read_nsight_table
from hwexplorer_annexes.traces.trace_record import Trace, TraceError

MOST_BYTES = 1 << 30  # of an unpacked file; Kineto traces of minutes reach hundreds of MB
MOST_RATIO, UNSUSPICIOUS = 100, 1 << 26  # unpacked over packed bytes, above this size; traces pack to a tenth
# Most characters of each kind, which bound the memory for objects, lists, items and lines.
MOST_MARKS = {"{": 10_000_000, "[": 10_000_000, ",": 100_000_000, "\n": 100_000_000}
FORMATS = (
    "PyTorch profiler JSON, ONNX Runtime profile, trtexec --exportProfile, Nsight Systems CSV or SQLite, OpenVINO "
    "detailed counters; each also .gz"
)


def read_trace(path: Path) -> Trace:
    """Read the trace in a file. Raises TraceError, in one line, if the file is unreadable or not one of `FORMATS`."""
    data = _unpacked_bytes(path)
    if data.startswith(b"SQLite format 3\x00"):
        return _read_sqlite(data, path)
    text = file_access.text(data, "replace")
    del data
    try:
        trace = _read_text(text)
    except TraceError as error:
        raise TraceError(f"{path.name}: {error}") from None
    except (RecursionError, MemoryError, ValueError, LookupError, TypeError, AttributeError, csv.Error) as error:
        what = "nested too deep" if isinstance(error, RecursionError) else "not in its tool's format"
        raise TraceError(f"{path.name}: damaged or {what}") from None
    if trace is None and path.suffix == ".zst":
        raise TraceError(f"{path.name}: zstd files are not read: unpack it with zstd -d")
    if trace is None:
        what = f"not a known trace format (known: {FORMATS})"
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


def _read_sqlite(data: bytes, path: Path) -> Trace:
    from hwexplorer_annexes.traces.nsight_sqlite import read_nsight_sqlite

    with tempfile.TemporaryDirectory(prefix="hwexplorer-trace-") as folder:
        plain = Path(folder) / path.name.removesuffix(".gz")
        plain.write_bytes(data)
        return read_nsight_sqlite(plain)


def _read_text(text: str) -> Trace | None:
    if any(text.count(mark) > most for mark, most in MOST_MARKS.items()):
        raise TraceError("it is too large to read; trace fewer runs")
    if text.lstrip()[:1] in ("{", "["):
        return _read_json(text.lstrip())
    if "layername;execstatus" in text[:200_000].lower():
        return runtime_profiles.read_openvino(text)
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
        return None if _is_jax(document["traceEvents"]) else read_kineto(document)
    if "Layers" in document:
        raise TraceError("layers of TensorRT without times: give the file of --exportProfile")
    return None


def _is_jax(events: list[Any]) -> bool:
    """Return True for events of jax.profiler, which name XLA operations instead of framework calls."""
    arguments = [event.get("args") for event in events if isinstance(event, dict)]
    return any("hlo_op" in args or args.get("name") == "XLA Ops" for args in arguments if isinstance(args, dict))


def _read_array(items: list[Any]) -> Trace | None:
    rows = [row for row in items if isinstance(row, dict)]
    if any("averageMs" in row for row in rows):
        return runtime_profiles.read_trtexec(items)
    if any(str(row.get("name", "")).endswith("_kernel_time") for row in rows):
        return runtime_profiles.read_onnxruntime(items)
    if any("ts" in row for row in rows):
        return read_kineto({"traceEvents": items})
    if any("computeMs" in row or "latencyMs" in row for row in rows):
        raise TraceError("times of whole queries (--exportTimes), not of layers: give the file of --exportProfile")
    return None
