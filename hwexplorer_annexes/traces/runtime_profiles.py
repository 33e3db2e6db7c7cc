"""Readers of profiles that inference runtimes write: ONNX Runtime, TensorRT's trtexec, OpenVINO's benchmark_app."""

import csv
import io
import re
from collections.abc import Sequence
from typing import Any

from hwexplorer_annexes.traces.chrome import SIZE_MAX, ChromeEvent, complete_events
from hwexplorer_annexes.traces.trace_record import (
    Shape,
    Trace,
    TracedRun,
    TraceError,
    TraceOp,
    assemble_trace,
    average_runs,
    clean_text,
    module_path,
    operator_kind,
    parse_number,
)

MS = 1e-3
_REGION = re.compile(r"\{ForeignNode\[.*?\.\.\.(.*)\]")  # region of TensorRT's compiler; the group is its last node


def read_onnxruntime(events: list[Any]) -> Trace:
    """Read a profile of ONNX Runtime: the nodes of each `model_run`. Raises TraceError."""
    rows = complete_events(events)
    nodes = [e for e in rows if e.category == "node" and e.name.endswith("_kernel_time")]
    kernels = [e for e in rows if e.category == "kernel"]
    if not nodes:
        raise TraceError("ONNX Runtime profile: it holds no node with a kernel time")
    spans = [(e.start_s, e.end_s) for e in rows if e.category == "session" and e.name == "model_run"]
    spans = [s for s in spans if any(s[0] <= n.start_s < s[1] for n in nodes)]
    spans = (spans[1:] if len(spans) > 1 else spans) or [(nodes[0].start_s, nodes[-1].end_s)]
    runs = [
        TracedRun(ops=tuple(_node_op(n, kernels) for n in nodes if start <= n.start_s < end), wall_s=end - start)
        for start, end in spans
    ]
    provider = clean_text(nodes[0].args.get("provider", "")).removesuffix("ExecutionProvider")
    return average_runs("onnxruntime", runs, producer="ONNX Runtime", device=provider, on_device=bool(kernels))


def _node_op(event: ChromeEvent, kernels: Sequence[ChromeEvent]) -> TraceOp:
    """Return a node with the time of the kernels that name it as their parent, or its own time without such kernels."""
    args = event.args
    name = event.name.removesuffix("_kernel_time")
    launched = [
        k for k in kernels if k.args.get("parent_name") == name and event.start_s <= k.start_s <= event.end_s + 1.0
    ]
    kind = clean_text(args.get("op_name", ""))
    outputs = _typed_shapes(args.get("output_type_shape"))
    return TraceOp(
        name=f"{kind} {name}".strip(),
        kind=operator_kind(kind) or operator_kind(name),
        seconds=sum(k.seconds for k in launched) if launched else event.seconds,
        shapes=_typed_shapes(args.get("input_type_shape")),
        result=outputs[0] if outputs else (),
        kernels=tuple(k.name for k in launched),
        module=module_path(name),
    )


def _typed_shapes(value: Any) -> tuple[Shape, ...]:
    """Return the shapes in `[{"float": [1, 3, 224, 224]}, ...]`."""
    if not isinstance(value, list):
        return ()
    rows = [next(iter(item.values()), None) for item in value[:64] if isinstance(item, dict)]
    shapes = [row for row in rows if isinstance(row, list) and all(isinstance(side, int) for side in row)]
    return tuple(tuple(shape[:16]) for shape in shapes if all(0 <= side < SIZE_MAX for side in shape))


def read_trtexec(rows: list[Any]) -> Trace:
    """Read a file of `trtexec --exportProfile`, which has the mean time of each layer."""
    count = next((int(r["count"]) for r in rows if isinstance(r, dict) and parse_number(r.get("count"))), 1)
    ops = []
    for row in rows:
        mean_ms = parse_number(row.get("averageMs")) if isinstance(row, dict) else None
        if not mean_ms:
            continue
        name = clean_text(row.get("name", ""))
        region = _REGION.match(name)
        kind, until = ("region", module_path(region[1])) if region else (layer_kind(name), "")
        ops.append(TraceOp(name=name, kind=kind, seconds=mean_ms * MS, module=module_path(name), until=until))
    notes = ["events between the layers are in their times: their sum is 10 to 30 % above the engine's"]
    return assemble_trace("tensorrt", ops, producer="trtexec", on_device=True, runs=max(count, 1), notes=notes)


def layer_kind(name: str) -> str:
    """Return the operator kind of a TensorRT layer. Reformats are copies. The path of an ONNX node ends in its kind."""
    if re.search(r"reformatter \d|^Reformatting| copy$", name):
        return "copy"
    name = re.sub(r"_myl\d+_\d+$", "", name)  # suffix that the compiler adds to a node's name
    ends = re.findall(r"/(\w+?)(?:_\d+)?(?=\s|\]|$)", name)
    return next((kind for end in ends if (kind := operator_kind(end))), "") or operator_kind(name)


def read_openvino(text: str) -> Trace:
    """Read benchmark_app's detailed counters (CSV): executed layers, averaged over requests. Raises TraceError."""
    blocks: list[list[TraceOp]] = [[]]
    for row in csv.reader(io.StringIO(text), delimiter=";"):
        if len(row) < 6:
            continue
        if row[0] == "layerName":
            blocks.append([])
            continue
        spent_ms = parse_number(row[4])
        if row[0] == "Total" or not row[1].endswith("EXECUTED") or not spent_ms:
            continue
        layer_type, name, kernel = map(clean_text, (row[2], row[0], row[3]))
        kind = operator_kind(layer_type) or operator_kind(name)
        blocks[-1].append(
            TraceOp(
                name=f"{layer_type} {name}", kind=kind, seconds=spent_ms * MS, kernels=(kernel,),
                module=module_path(row[0]),
            )
        )  # fmt: skip
    runs = [TracedRun(ops=tuple(block)) for block in blocks if block]
    if not runs:
        raise TraceError(
            "OpenVINO counters: it holds no executed layer with a time (use -report_type detailed_counters)"
        )
    return average_runs("openvino", runs, producer="OpenVINO benchmark_app", device="CPU")
