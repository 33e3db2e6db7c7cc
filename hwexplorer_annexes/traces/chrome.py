"""Read Chrome trace events, as PyTorch's profiler (any version of Kineto), ONNX Runtime, trtexec and benchmark_app of
OpenVINO write them.
"""

from __future__ import annotations

import csv
import io
import math
import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from hwexplorer.extend import group_by, text
from hwexplorer_annexes.traces.trace_record import (
    Shape,
    Span,
    Trace,
    TracedRun,
    TraceError,
    TraceOp,
    assemble_trace,
    average_runs,
    check_names,
    clean_text,
    covered_s,
    find_repeats,
    find_runtime,
    hint_notes,
    merge_spans,
    module_path,
    operator_kind,
    parse_number,
)

US = 1e-6
MOST_S = 1e7  # of an event and between events; longer ones are damaged
LAUNCHES = ("cuda_runtime", "cuda_driver", "runtime", "hip_runtime", "xpu_runtime")
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
OPERATORS = ("cpu_op", "operator")
SIZE_MAX = 1 << 40  # of one dimension of a tensor
GRAPH = 8  # kernels of one launch; a launch with more is a replayed graph
_WAITS = ("synchronize", "memcpy", "item", "local_scalar")  # parts of the names of calls that wait or copy
Lane = tuple[str, str]  # process and thread


class ChromeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A complete event; times in seconds from the earliest event. `kind` and `module` of an operator are set by readers
    of formats that state them."""

    name: str
    category: str
    lane: Lane
    start_s: float
    end_s: float
    args: dict[str, Any]
    kind: str = ""
    module: str = ""

    @property
    def seconds(self) -> float:
        """The duration of the event."""
        return self.end_s - self.start_s

    @property
    def span(self) -> Span:
        """The start and end of the event, s."""
        return self.start_s, self.end_s


def _join_pairs(raw: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Yield the complete events (`ph` X), and each beginning (B) with its end (E) on the same thread as one."""
    begun: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for item in raw:
        phase = item.get("ph") if isinstance(item, dict) else None
        if phase == "X":
            yield item
        elif phase == "B":
            begun[f"{item.get('pid')} {item.get('tid')}"].append(item)
        elif phase == "E" and (open_here := begun[f"{item.get('pid')} {item.get('tid')}"]):
            first = open_here.pop()
            yield {**item, **first, "dur": _microseconds(item.get("ts")) - _microseconds(first.get("ts"))}


def complete_events(raw: Iterable[Any]) -> list[ChromeEvent]:
    """Return the events that have a beginning and a finite duration, by start."""
    timed = [(item, start) for item in _join_pairs(raw) if math.isfinite(start := _microseconds(item.get("ts")))]
    middle = sorted(start for _, start in timed)[len(timed) // 2] if timed else 0.0
    timed = [(item, start) for item, start in timed if abs(start - middle) * US < MOST_S]  # others are no times
    zero = min((start for _, start in timed), default=0.0)  # some profilers count from 1970
    events = []
    for item, start in timed:
        start_s, seconds = (start - zero) * US, _microseconds(item.get("dur", 0)) * US
        if not 0.0 <= seconds < MOST_S:
            continue
        args = item.get("args")
        events.append(
            ChromeEvent(
                name=clean_text(item.get("name", "")),
                category=str(item.get("cat") or "").lower(),
                lane=(clean_text(item.get("pid"), 60), clean_text(item.get("tid"), 60)),
                start_s=start_s,
                end_s=start_s + seconds,
                args=args if isinstance(args, dict) else {},
            )
        )
    # If events start at the same time, the longest is outermost.
    return sorted(events, key=lambda event: (event.start_s, -event.end_s))


def _microseconds(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def input_shapes(value: Any) -> tuple[Shape, ...]:
    """Return the shapes of the tensors among the recorded inputs. Lists of tensors are flattened."""
    if not isinstance(value, list):
        return ()
    if value and all(type(size) is int for size in value):
        if not all(0 <= size < SIZE_MAX for size in value):
            return ()
        return (tuple(value[:16]),)
    return tuple(shape for item in value[:64] for shape in input_shapes(item))


class _OpNode(msgspec.Struct, eq=False):
    """An operator in the tree of a trace: its event, the operators inside it, and the kernels that it launched."""

    event: ChromeEvent
    parts: list[_OpNode] = []
    launched: list[ChromeEvent] = []

    @property
    def start_s(self) -> float:
        """The start of its event."""
        return self.event.start_s

    def trace_op(self, on_device: bool) -> TraceOp:
        """Return the operator with the device time of its kernels, or its host time if not `on_device`."""
        parts = [part.trace_op(on_device) for part in self.parts]
        launched_s = sum(event.seconds for event in self.launched)
        args = self.event.args
        return TraceOp(
            name=self.event.name,
            kind=self.event.kind or operator_kind(self.event.name),
            module=self.event.module,
            seconds=launched_s + sum(part.seconds for part in parts) if on_device else self.event.seconds,
            shapes=input_shapes(args.get("Input Dims", args.get("Input dims"))),
            kernels=tuple(event.name for event in self.launched),
            parts=tuple(part for part in parts if part.seconds > 0),
        )

    def all_launched(self) -> list[ChromeEvent]:
        """Return the kernels that this operator and the operators inside it launched."""
        return self.launched + [event for part in self.parts for event in part.all_launched()]


def _nest_events(events: Sequence[ChromeEvent]) -> list[_OpNode]:
    """Return the outermost operators by start time. Operators inside another on the same thread become its parts."""
    stacks: dict[Lane, list[_OpNode]] = defaultdict(list)
    outermost = []
    for event in events:
        stack = stacks[event.lane]
        while stack and stack[-1].event.end_s <= event.start_s:
            stack.pop()
        node = _OpNode(event)
        if stack and event.end_s <= stack[-1].event.end_s + 1e-9:
            stack[-1].parts.append(node)
        elif not stack:
            outermost.append(node)
        stack.append(node)
    return outermost


def _find_innermost(lanes: dict[Lane, list[_OpNode]], lane: Lane, at_s: float) -> _OpNode | None:
    """Return the innermost operator that runs on a thread at a time; `lanes` are the outermost ones by thread."""
    rows = lanes.get(lane, [])
    place = bisect_right(rows, at_s, key=lambda node: node.start_s) - 1
    level, deepest = rows[max(place, 0) : place + 1], None
    while inside := [node for node in level if node.event.lane == lane and node.start_s <= at_s <= node.event.end_s]:
        deepest = inside[-1]
        level = deepest.parts
    return deepest


Timed = TypeVar("Timed", _OpNode, ChromeEvent)


def _in_window(rows: Sequence[Timed], window: Span) -> Sequence[Timed]:
    first, end = (bisect_left(rows, at, key=lambda row: row.start_s) for at in window)
    return rows[first:end]


def read_kineto(data: dict[str, Any]) -> Trace:
    """Read a trace of torch.profiler. Operators have the device time of the kernels that they launched, or their CPU
    time if nothing ran on an accelerator. Raises TraceError."""
    events = complete_events(data.get("traceEvents", ()))
    operators = [e for e in events if e.category in OPERATORS]
    kernels = [e for e in events if e.category in ON_DEVICE]
    if not operators and not kernels:
        raise TraceError("PyTorch trace: it holds neither operators nor kernels")
    recorded = RecordedEvents(events, operators, kernels)
    windows = _run_windows(events, operators or kernels)
    if len(windows) == 1:
        windows = recorded.repeats(windows[0]) or windows
    windows = windows[1:] if len(windows) > 2 else windows  # the first run warms up caches
    runs = [recorded.run(window) for window in windows]
    devices = data.get("deviceProperties")
    first = devices[0] if isinstance(devices, list) and devices and isinstance(devices[0], dict) else {}
    producer = "PyTorch profiler"
    if "roctracer_version" in data or "hip_runtime_version" in data:
        producer += " (ROCm)"
    elif devices:
        producer += " (CUDA)"
    return average_runs(
        "pytorch",
        runs,
        producer=producer,
        device=clean_text(first.get("name", "")),
        on_device=bool(kernels),
        runtime=find_runtime([op for run in runs for op in run.ops], producer),
        notes=(*recorded.notes(windows), *hint_notes(event.name for event in operators)),
    )


def _run_windows(events: Sequence[ChromeEvent], operators: Sequence[ChromeEvent]) -> list[Span]:
    """Return the start and end of each run: the profiler's steps, else annotations that repeat or have `measure` in
    their name, else the whole trace."""
    named: dict[str, list[ChromeEvent]] = defaultdict(list)
    for event in events:
        if event.category == "user_annotation":
            named["step" if event.name.startswith("ProfilerStep") else event.name].append(event)
    # Drop an annotation that contains another of the same name: its time would count twice.
    groups = {
        name: [e for e, later in zip(rows, [*rows[1:], None], strict=True) if later is None or later.start_s >= e.end_s]
        for name, rows in named.items()
    }
    marks = [rows for name, rows in groups.items() if name == "step" or len(rows) > 1 or "measure" in name.lower()]

    def operators_s(rows: Sequence[ChromeEvent]) -> float:
        """Return the seconds of operators within the windows of some marks."""
        return sum(o.seconds for e in rows for o in _in_window(operators, e.span))

    def rank(rows: Sequence[ChromeEvent]) -> tuple[bool, bool, float]:
        """Return a key that is largest for the profiler's steps, then for `measure`, then for the longest work."""
        name = rows[0].name.lower()
        return name.startswith("profilerstep"), "measure" in name, operators_s(rows)

    best = max((rows for rows in marks if operators_s(rows) > 0), key=rank, default=[])
    if spans := [e.span for e in best if operators_s([e]) > 0]:
        return spans
    return [(min(e.start_s for e in operators), max(e.end_s for e in events if e.category in (*OPERATORS, *ON_DEVICE)))]


class RecordedEvents:
    """The operators of a trace as a tree, each with the kernels that it launched. `orphans` are kernels without an
    operator. `causes` maps each cause of idle time to spans of the host; earlier causes take precedence."""

    def __init__(
        self, events: Sequence[ChromeEvent], operators: Sequence[ChromeEvent], kernels: Sequence[ChromeEvent]
    ) -> None:
        check_names({event.name for event in (*operators, *kernels)})
        self.nodes, self.kernels = _nest_events(operators), kernels
        self.orphans: list[ChromeEvent] = []
        self.causes = _gap_causes(events, bool(kernels)) if events else {}
        lanes = group_by(self.nodes, lambda node: node.event.lane)
        calls = [e for e in events if e.category in LAUNCHES and "correlation" in e.args] if kernels else []
        launches = {str(e.args["correlation"]): e for e in calls}  # as text: some files have lists
        numbers = [str(event.args.get("correlation", "")) for event in kernels]
        times = Counter(numbers)
        for event, number in zip(kernels, numbers, strict=True):
            launch = launches.get(number)
            node = _find_innermost(lanes, launch.lane, launch.start_s) if launch else None
            # A replayed graph launches all its kernels at once: their names say more than the surrounding call.
            if node is None or times[number] > GRAPH:
                self.orphans.append(event)
            else:
                node.launched.append(event)

    def run(self, window: Span) -> TracedRun:
        """Return the operators of one run in order, its wall time, its busy time, and its idle time by cause."""
        inside = _in_window(self.nodes, window)
        if not self.kernels:
            main = _main_thread(inside)
            nodes = [n for n in inside if n.event.lane == main]
            spans = [(n.start_s, min(n.event.end_s, window[1])) for n in nodes]
            return self._run([n.trace_op(False) for n in nodes], spans, window)
        orphans = _in_window(self.orphans, window)
        ran = [*(e for n in inside for e in n.all_launched()), *orphans]
        if not ran:
            return TracedRun(ops=())
        rows = [(n.start_s, n.trace_op(True)) for n in inside]
        rows += [
            (e.start_s, TraceOp(name=e.name, kind=operator_kind(e.name), seconds=e.seconds, kernels=(e.name,)))
            for e in orphans
        ]
        rows.sort(key=lambda row: row[0])
        # The last kernels end after the host's window, which is therefore extended to their end.
        window = window[0], max(window[1], *(e.end_s for e in ran))
        return self._run([op for _, op in rows if op.seconds > 0], [e.span for e in ran], window)

    def _run(self, ops: Sequence[TraceOp], busy: Sequence[Span], window: Span) -> TracedRun:
        """Return a run in a window, with its idle seconds by cause."""
        whole = {"the host between operators": [window]} if self.causes else {}
        gaps, known = {}, _clip_spans(busy, window)
        for cause, spans in (self.causes | whole).items():
            more = merge_spans([*known, *_clip_spans(spans, window)])
            gaps[cause], known = covered_s(more) - covered_s(known), more
        return TracedRun(ops=tuple(ops), wall_s=window[1] - window[0], busy_s=covered_s(busy), gaps=gaps)

    def repeats(self, window: Span) -> list[Span]:
        """Return the start and end of each run, found from repeating operators in a trace without marks of runs."""
        main = None if self.kernels else _main_thread(self.nodes)
        events = [n.event for n in self.nodes if self.kernels or n.event.lane == main] + self.orphans
        events = sorted((e for e in events if window[0] <= e.start_s < window[1]), key=lambda e: e.start_s)
        return find_repeats([e.name for e in events], [e.span for e in events]) if events else []

    def notes(self, windows: Sequence[Span]) -> list[str]:
        """Return notes on CPU threads that the runs leave out, and on several devices whose times are added."""
        if self.kernels:
            count = len({event.lane[0] for event in self.kernels})
            return [f"{count} devices worked: their times are added"] if count > 1 else []
        inside = [n for window in windows for n in _in_window(self.nodes, window)]
        main = _main_thread(inside)
        aside = [n for n in inside if n.event.lane != main]
        if not aside:
            return []
        share = sum(n.event.seconds for n in aside) / sum(n.event.seconds for n in inside)
        count = len({n.event.lane for n in aside})
        return [f"{count} other threads left out, with {text.percent(share)} of the operators' time"]


def _clip_spans(spans: Sequence[Span], window: Span) -> list[Span]:
    clipped = ((max(start, window[0]), min(end, window[1])) for start, end in spans)
    return [(start, end) for start, end in clipped if start < end]


def _main_thread(nodes: Sequence[_OpNode]) -> Lane | None:
    lanes: dict[Lane, float] = defaultdict(float)
    for node in nodes:
        lanes[node.event.lane] += node.event.seconds
    return max(lanes, key=lambda lane: lanes[lane], default=None)


def _gap_causes(events: Sequence[ChromeEvent], on_device: bool) -> dict[str, list[Span]]:
    host = [e for e in events if e.category in (*OPERATORS, *LAUNCHES, "user_annotation", "python_function")]
    causes = {
        "data loading": [e for e in host if "dataloader" in e.name.lower()],
        "copies and waiting for them": [
            e for e in host if e.category in LAUNCHES and any(word in e.name.lower() for word in _WAITS)
        ],
        "kernel launches": [e for e in host if e.category in (*OPERATORS, *LAUNCHES)] if on_device else [],
    }
    return {name: merge_spans(e.span for e in rows) for name, rows in causes.items()}


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
