"""Tables of measured times: TensorRT's profiles, OpenVINO's counters, TFLite's operator profile, llama-bench."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from analysis.annexes.traces.record import (
    Run,
    Trace,
    TraceError,
    TraceOp,
    assembled,
    clean,
    kind_of,
    module_of,
    number,
    of_runs,
)
from hardware import precision

NS, MS = 1e-9, 1e-3
_REGION = re.compile(r"\{ForeignNode\[.*?\.\.\.(.*)\]")  # of TensorRT's compiler, from a node or a weight to a node


def trtexec(rows: list[Any]) -> Trace:
    """`trtexec --exportProfile`: a mean per layer, of which reformats are copies that no operator asked for."""
    count = next((int(r["count"]) for r in rows if isinstance(r, dict) and number(r.get("count"))), 1)
    ops = []
    for row in rows:
        mean = number(row.get("averageMs")) if isinstance(row, dict) else None
        if mean is None:
            continue
        name = clean(row.get("name", ""))
        if mean > 0:
            region = _REGION.match(name)
            kind, until = ("region", module_of(region[1])) if region else (layer_kind(name), "")
            ops.append(TraceOp(name=name, kind=kind, seconds=mean * MS, module=module_of(name), until=until))
    notes = ["events between the layers are in their times: their sum is 10 to 30 % above the engine's"]
    return assembled("tensorrt", ops, producer="trtexec", on_device=True, runs=max(count, 1), notes=notes)


def _header_at(lines: Sequence[str], *words: str) -> int:
    return next((i for i, line in enumerate(lines[:200]) if all(word in line.lower() for word in words)), -1)


def layer_kind(name: str) -> str:
    """The kind of a layer of TensorRT: reformats are copies whatever they are for, paths of nodes end in the kind."""
    if re.search(r"reformatter \d|^Reformatting", name):
        return "copy"
    name = re.sub(r"_myl\d+_\d+$", "", name)  # what the compiler adds to a node's name
    ends = re.findall(r"/(\w+?)(?:_\d+)?(?=\s|\]|$)", name)
    return next((kind for end in ends if (kind := kind_of(end))), "") or kind_of(name)


def openvino(text: str) -> Trace:
    """benchmark_app's detailed counters: layers that were executed; with several requests their mean."""
    blocks: list[list[TraceOp]] = [[]]
    for row in csv.reader(io.StringIO(text), delimiter=";"):
        if len(row) < 6:
            continue
        if row[0] == "layerName":
            if blocks[-1]:
                blocks.append([])
            continue
        spent = number(row[4])
        if row[0] == "Total" or not row[1].endswith("EXECUTED") or not spent:
            continue
        kind = kind_of(row[2]) or kind_of(row[0])
        blocks[-1].append(
            TraceOp(
                name=f"{clean(row[2])} {clean(row[0])}",
                kind=kind,
                seconds=spent * MS,
                kernels=(clean(row[3]),),
                module=module_of(row[0]),
            )
        )
    blocks = [block for block in blocks if block]
    if not blocks:
        raise TraceError("OpenVINO counters: no executed layer with a time in it (use -report_type detailed_counters)")
    runs = [Run(ops=tuple(block)) for block in blocks]
    return of_runs("openvino", runs, producer="OpenVINO benchmark_app", device="CPU")


def openvino_json(data: dict[str, Any]) -> Trace:
    """benchmark_app's counters as JSON (`-json_stats`)."""
    rows = data.get("detailed_performance") or data.get("avg_performance") or data.get("report") or []
    nodes = rows[0].get("nodes", []) if isinstance(rows, list) and rows and isinstance(rows[0], dict) else []
    nodes = rows.get("nodes", []) if isinstance(rows, dict) else nodes
    ops = []
    for node in nodes if isinstance(nodes, list) else []:
        spent = number(node.get("real_time")) if isinstance(node, dict) else None
        if spent:
            kind, name = clean(node.get("node_type", "")), clean(node.get("name", ""))
            ops.append(TraceOp(name=f"{kind} {name}", kind=kind_of(kind) or kind_of(name), seconds=spent * MS))
    if not ops:
        raise TraceError("OpenVINO counters: no layer with a time in it (use -report_type detailed_counters)")
    return assembled("openvino", ops, producer="OpenVINO benchmark_app", device="CPU")


def tflite(text: str) -> Trace:
    """benchmark_model's operator profile: the run order of the regular runs."""
    _, _, after = text.partition("Operator-wise Profiling Info for Regular Benchmark Runs")
    _, heading, order = (after or text).rpartition("Run Order =") if not after else after.partition("Run Order =")
    if not heading:
        raise TraceError("TFLite log: no operator profile in it (run benchmark_model with --enable_op_profiling)")
    rows = order.partition("Top by Computation Time")[0].splitlines()
    header = next((line for line in rows if "avg ms" in line or "avg us" in line), "")
    columns = [column.strip().strip("[]").lower() for column in header.split("\t")]
    mean = next((i for i, column in enumerate(columns) if column.startswith("avg")), 3)
    scale = 1e-6 if "us" in "".join(columns[mean : mean + 1]) else MS
    ops = []
    for line in rows:
        cells = [cell.strip() for cell in line.split("\t")]
        spent = number(cells[mean]) if len(cells) > mean + 1 else None
        if spent:
            name = clean(cells[1])
            ops.append(TraceOp(name=f"{name} {clean(cells[-1])}", kind=kind_of(name), seconds=spent * scale))
    stated = re.search(r"Inference timings in us:.*?Inference(?: \(avg\))?: ([\d.e+]+)", text)
    wall = number(stated[1]) if stated else None
    spent_s = sum(op.seconds for op in ops)
    wall_s = wall * 1e-6 if wall and wall * 1e-6 >= spent_s else None
    return assembled("tflite", ops, producer="TFLite benchmark_model", device="CPU", wall_s=wall_s)


def llama_bench(records: Sequence[dict[str, Any]]) -> Trace:
    """llama-bench: each test as one operator: a prompt or tokens one by one, at a depth of the cache."""
    ops, first = [], records[0]
    for row in records:
        spent, prompt, output = (number(row.get(key)) for key in ("avg_ns", "n_prompt", "n_gen"))
        if not spent or prompt is None or output is None or not prompt + output:
            continue
        depth = number(row.get("n_depth")) or 0.0
        parts = [f"prompt of {prompt:.0f}" if prompt else "", f"{output:.0f} tokens" if output else ""]
        words = " and ".join(part for part in parts if part) + (f" after {depth:.0f}" if depth else "")
        kind = "prefill" if not output else "decode" if not prompt else "request"
        ops.append(TraceOp(name=words, kind=kind, seconds=spent * NS, count=int(prompt + output), result=(int(depth),)))
    model = clean(first.get("model_type", ""))
    device = clean(first.get("gpu_info") if number(first.get("n_gpu_layers")) else first.get("cpu_info", ""))
    producer = f"llama-bench {clean(first.get('build_number', ''))}".strip()
    return assembled("llama-bench", ops, producer=producer, device=device, notes=[_weights(model)] if model else [])


def _weights(model: str) -> str:
    """`llama 1B Q4_K - Medium`, with the name that its weights have here."""
    words = re.sub(r" - (S|M|L)\w+$", lambda match: f"_{match[1]}", model)
    known = precision.find(words.rpartition(" ")[2].lower())
    return f"model: {model}" + (f" (--precision {known.name})" if known else "")


def llama_records(text: str) -> list[dict[str, Any]]:
    """Records of llama-bench in any of its forms (JSON, a line each, CSV), with lines of its log in between."""
    stripped = text.lstrip()
    if stripped.startswith("["):
        items = json.loads(stripped)
        return [row for row in items if isinstance(row, dict) and "avg_ns" in row]
    lines = text.splitlines()
    start = _header_at(lines, "n_prompt", "avg_ns")
    if start >= 0 and not lines[start].lstrip().startswith("{"):
        return [dict(row) for row in csv.DictReader(lines[start:])]
    return list(_json_lines(lines))


def _json_lines(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        if not line.startswith("{"):
            continue
        try:
            row = json.loads(line)
        except ValueError:
            continue
        if isinstance(row, dict) and "avg_ns" in row:
            yield row
