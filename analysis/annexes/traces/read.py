"""Which tool wrote a file, told by what is in it, and the trace it holds."""

from __future__ import annotations

import csv
import errno
import json
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from analysis.annexes.traces import chrome, kernels, sessions, tables
from analysis.annexes.traces.record import Trace, TraceError
from hardware import files, policy

MOST_BYTES = 1 << 30  # of a file once unpacked; Kineto traces of minutes reach hundreds of MB
# Of what takes memory once it is read: objects, lists, their items, lines.
MOST_MARKS = {"{": 10_000_000, "[": 10_000_000, ",": 100_000_000, "\n": 100_000_000}
FORMATS = (
    "PyTorch profiler JSON, JAX trace JSON, ONNX Runtime profile, trtexec --exportProfile, Nsight Systems CSV or "
    "SQLite, rocprof CSV, OpenVINO detailed counters, TFLite operator profile, llama-bench JSON, JSONL or CSV; each "
    "also .gz"
)


def read(path: Path) -> Trace:
    """The trace in a file. Raises TraceError, in one line, for what is none that is known."""
    policy.require_unserved(f"reading {path}", str(path))
    data = _bytes(path)
    if data.startswith(b"SQLite format 3\x00"):
        return _sqlite(data, path)
    text = data.decode("utf-8-sig", "replace")
    del data
    try:
        return _text(text)
    except TraceError as error:
        raise TraceError(f"{path.name}: {error}") from None
    except (RecursionError, MemoryError, ValueError, LookupError, TypeError, AttributeError, csv.Error) as error:
        what = "nested too deep" if isinstance(error, RecursionError) else "not what its tool writes"
        raise TraceError(f"{path.name}: damaged or {what}") from None


def _bytes(path: Path) -> bytes:
    try:
        data = files.read(path, MOST_BYTES)
        return files.unzip(data, MOST_BYTES) if data.startswith(b"\x1f\x8b") else data
    except OSError as error:
        hint = "; trace fewer runs" if error.errno == errno.EFBIG else ""
        raise TraceError(f"{path.name}: cannot be read ({error.strerror}{hint})") from None


def _sqlite(data: bytes, path: Path) -> Trace:
    from analysis.annexes.traces.sqlite import nsys_sqlite

    with tempfile.TemporaryDirectory(prefix="hwexplorer-trace-") as folder:
        plain = Path(folder) / path.name.removesuffix(".gz")
        plain.write_bytes(data)
        return nsys_sqlite(plain)


def _text(text: str) -> Trace:
    if any(text.count(mark) > most for mark, most in MOST_MARKS.items()):
        raise TraceError("holds more than can be looked at; trace fewer runs")
    start = text.lstrip()[:1]
    if start in ("{", "["):
        trace = _json(text)
        if trace is not None:
            return trace
    head = text[:200_000].lower()
    if "avg_ns" in head and "n_prompt" in head:
        records = tables.llama_records(text)
        if records:
            return tables.llama_bench(records)
    if "layername;execstatus" in head:
        return tables.openvino(text)
    if "run order" in head:
        return tables.tflite(text)
    trace = kernels.of_text(text)
    if trace is not None:
        return trace
    raise TraceError(f"not a trace that is known (known: {FORMATS})")


def _json(text: str) -> Trace | None:
    """A trace in JSON; None where lines are records of their own."""
    try:
        document, end = json.JSONDecoder().raw_decode(text.lstrip())
    except ValueError:
        if '"avg_ns"' in text[:100_000]:
            return None
        raise TraceError("cut off or damaged: not JSON to its end") from None
    if isinstance(document, dict):
        return _object(document)
    # trtexec appends an array for each run to the same file: the last is the one that was measured last.
    rest, arrays = text.lstrip()[end:].strip(), 1
    while rest.startswith("["):
        try:
            document, end = json.JSONDecoder().raw_decode(rest)
        except ValueError:
            break
        rest, arrays = rest[end:].strip(), arrays + 1
    trace = _array(document)
    if trace is None or arrays == 1:
        return trace
    return msgspec.structs.replace(trace, notes=(*trace.notes, f"the last of {arrays} profiles in the file"))


def _object(document: dict[str, Any]) -> Trace | None:
    if "avg_ns" in document:
        return None
    if isinstance(document.get("traceEvents"), list):
        events = document["traceEvents"]
        arguments = [
            event["args"] for event in events if isinstance(event, dict) and isinstance(event.get("args"), dict)
        ]
        if any("hlo_op" in each or each.get("name") == sessions.OPS_THREAD for each in arguments):
            return sessions.jax(document)
        return chrome.kineto(document)
    if "Layers" in document:
        raise TraceError("layers of TensorRT without times: give the file of --exportProfile")
    if any(key in document for key in ("avg_performance", "detailed_performance", "report")):
        return tables.openvino_json(document)
    raise TraceError(f"not a trace that is known (known: {FORMATS})")


def _array(items: list[Any]) -> Trace | None:
    rows = [row for row in items if isinstance(row, dict)]
    if any("avg_ns" in row for row in rows):
        return tables.llama_bench([row for row in rows if "avg_ns" in row])
    if any("averageMs" in row for row in rows):
        return tables.trtexec(items)
    if any(str(row.get("name", "")).endswith("_kernel_time") for row in rows):
        return sessions.onnxruntime(items)
    trace = kernels.of_rows(rows)
    if trace is not None:
        return trace
    if any("ts" in row for row in rows):
        return chrome.kineto({"traceEvents": items})
    if any("computeMs" in row or "latencyMs" in row for row in rows):
        raise TraceError("times of whole queries (--exportTimes), not of layers: give the file of --exportProfile")
    raise TraceError(f"not a trace that is known (known: {FORMATS})")
