"""Chrome trace events: what PyTorch's profiler (Kineto, of any age), JAX and ONNX Runtime write."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from .record import Shape, Trace, TraceError, TraceOp, assembled, clean, covered_s, kind_of, mean_of_runs

US = 1e-6
LAUNCHES = ("cuda_runtime", "cuda_driver", "runtime", "hip_runtime", "xpu_runtime")
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
OPERATORS = ("cpu_op", "operator")


class ChromeEvent(msgspec.Struct, frozen=True, kw_only=True):
    """A complete event; times in seconds from the trace's own zero."""

    name: str
    category: str
    lane: tuple[str, str]
    start_s: float
    end_s: float
    args: dict[str, Any]

    @property
    def seconds(self) -> float:
        return self.end_s - self.start_s


def complete(raw: Iterable[Any]) -> list[ChromeEvent]:
    """The complete events (`ph` X), in order of their start; what has no finite time is left out."""
    found = []
    for item in raw:
        if not isinstance(item, dict) or item.get("ph") != "X":
            continue
        start, duration = item.get("ts"), item.get("dur", 0)
        try:
            start_s, seconds = float(start) * US, float(duration) * US  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        if not math.isfinite(start_s) or not 0.0 <= seconds < 1e7:
            continue
        args = item.get("args")
        lane = (clean(item.get("pid"), 60), clean(item.get("tid"), 60))
        category = str(item.get("cat") or "").lower()
        found.append(
            ChromeEvent(
                name=clean(item.get("name", "")),
                category=category,
                lane=lane,
                start_s=start_s,
                end_s=start_s + seconds,
                args=args if isinstance(args, dict) else {},
            )
        )
    # Among those that start at once the longest is outermost.
    return sorted(found, key=lambda event: (event.start_s, -event.end_s))


def shapes(value: Any) -> tuple[Shape, ...]:
    """Shapes of the tensors among recorded inputs; lists of tensors are laid out flat."""
    if not isinstance(value, list):
        return ()
    if value and all(isinstance(size, int) for size in value):
        return (tuple(value[:16]),)
    return tuple(shape for item in value[:64] for shape in shapes(item))


class _Node:
    """An operator of the trace while its tree is being made."""

    __slots__ = ("device", "event", "parts")

    def __init__(self, event: ChromeEvent) -> None:
        self.event = event
        self.parts: list[_Node] = []
        self.device: list[ChromeEvent] = []

    def op(self, on_device: bool, module: str = "") -> TraceOp:
        parts = [part.op(on_device, module) for part in self.parts]
        of_kernels = sum(event.seconds for event in self.device)
        seconds = of_kernels + sum(part.seconds for part in parts) if on_device else self.event.seconds
        args = self.event.args
        return TraceOp(
            name=self.event.name,
            kind=kind_of(self.event.name),
            seconds=seconds,
            shapes=shapes(args.get("Input Dims", args.get("Input dims"))),
            module=module,
            kernels=tuple(event.name for event in self.device),
            parts=tuple(part for part in parts if part.seconds > 0),
        )


def _nested(events: Sequence[ChromeEvent]) -> list[_Node]:
    """Operators in each other by time, on each thread for itself; the outermost, by start."""
    open_: dict[tuple[str, str], list[_Node]] = defaultdict(list)
    outermost = []
    for event in events:
        stack = open_[event.lane]
        while stack and stack[-1].event.end_s <= event.start_s:
            stack.pop()
        node = _Node(event)
        if stack and event.end_s <= stack[-1].event.end_s + 1e-9:
            stack[-1].parts.append(node)
        elif not stack:
            outermost.append(node)
        stack.append(node)
    return outermost


def _innermost(nodes: Sequence[_Node], lane: tuple[str, str], at_s: float) -> _Node | None:
    """The deepest operator that runs on a thread at a time."""
    found, level = None, nodes
    while level:
        inside = [n for n in level if n.event.lane == lane and n.event.start_s <= at_s <= n.event.end_s]
        if not inside:
            return found
        found = inside[-1]
        level = found.parts
    return found


class _Index:
    """Outermost operators by thread, to find the one that runs at a time without looking at all."""

    def __init__(self, nodes: Sequence[_Node]) -> None:
        self._lanes: dict[tuple[str, str], list[_Node]] = defaultdict(list)
        for node in nodes:
            self._lanes[node.event.lane].append(node)
        self._starts = {lane: [n.event.start_s for n in rows] for lane, rows in self._lanes.items()}

    def at(self, lane: tuple[str, str], at_s: float) -> _Node | None:
        rows = self._lanes.get(lane)
        if not rows:
            return None
        place = bisect_right(self._starts[lane], at_s) - 1
        return _innermost(rows[place : place + 1], lane, at_s) if place >= 0 else None


def _windows(events: Sequence[ChromeEvent], operators: Sequence[ChromeEvent]) -> list[tuple[float, float]]:
    """When each run was: the profiler's steps, else annotations that repeat or say that they measure, else the whole
    trace. Of several runs the first, which warms caches up, is left out."""
    named: dict[str, list[ChromeEvent]] = defaultdict(list)
    for event in events:
        if event.category == "user_annotation":
            named["step" if event.name.startswith("ProfilerStep") else event.name].append(event)
    groups = {name: _apart(rows) for name, rows in named.items()}
    known = [rows for name, rows in groups.items() if name == "step" or len(rows) > 1 or "measure" in name.lower()]

    def inside(rows: Sequence[ChromeEvent]) -> float:
        return sum(o.seconds for o in operators if any(e.start_s <= o.start_s < e.end_s for e in rows))

    def worth(rows: Sequence[ChromeEvent]) -> tuple[bool, bool, float]:
        name = rows[0].name.lower()
        return name.startswith("profilerstep"), "measure" in name, inside(rows)

    best = max((rows for rows in known if inside(rows) > 0), key=worth, default=[])
    spans = [(e.start_s, e.end_s) for e in best if inside([e]) > 0]
    if spans:
        return spans[1:] if len(spans) > 2 else spans
    return [(min(e.start_s for e in operators), max(e.end_s for e in events if e.category in (*OPERATORS, *ON_DEVICE)))]


def _apart(rows: Sequence[ChromeEvent]) -> list[ChromeEvent]:
    """Those that hold no other of the same name, which would count twice."""
    return [e for e, later in zip(rows, [*rows[1:], None], strict=True) if later is None or later.start_s >= e.end_s]


def kineto(data: dict[str, Any]) -> Trace:
    """A trace of torch.profiler: operators with the device time of the kernels they launched, or their time on the
    CPU where nothing ran on an accelerator."""
    events = complete(data.get("traceEvents", ()))
    operators = [e for e in events if e.category in OPERATORS]
    on_device = [e for e in events if e.category in ON_DEVICE]
    if not operators and not on_device:
        raise TraceError("PyTorch trace: neither operators nor kernels in it")
    windows = _windows(events, operators or on_device)
    launched, orphans = _launched(events, operators, on_device)
    wheres = [_run(launched, orphans, bool(on_device), window) for window in windows]
    runs = [run for run in wheres if run[0]]
    if not runs:
        raise TraceError("PyTorch trace: no operator with a time in it")
    if len(runs) == 1:
        runs = _repeats(runs[0])
    ops = mean_of_runs([run[0] for run in runs])
    notes = [] if all(len(run[0]) == len(ops) for run in runs) else ["runs differ in what they ran: the last is shown"]
    single = runs[-1:] if notes else runs
    devices = data.get("deviceProperties")
    device = (
        devices[0].get("name", "") if isinstance(devices, list) and devices and isinstance(devices[0], dict) else ""
    )
    return assembled(
        "pytorch",
        ops,
        producer=_producer(data),
        device=device,
        on_device=bool(on_device),
        runs=len(single),
        wall_s=sum(run[1] for run in single) / len(single),
        busy_s=sum(run[2] for run in single) / len(single),
        notes=notes,
    )


def _producer(data: dict[str, Any]) -> str:
    if "roctracer_version" in data or "hip_runtime_version" in data:
        return "PyTorch profiler (ROCm)"
    return "PyTorch profiler (CUDA)" if data.get("deviceProperties") else "PyTorch profiler"


def _launched(
    events: Sequence[ChromeEvent], operators: Sequence[ChromeEvent], on_device: Sequence[ChromeEvent]
) -> tuple[list[_Node], list[ChromeEvent]]:
    """The operators' tree with each kernel at the operator that launched it, and kernels that none launched."""
    nodes = _nested(operators)
    if not on_device:
        return nodes, []
    index = _Index(nodes)
    starts = {e.args.get("correlation"): e for e in events if e.category in LAUNCHES and "correlation" in e.args}
    times: dict[Any, int] = defaultdict(int)
    for event in on_device:
        times[event.args.get("correlation")] += 1
    orphans = []
    for event in on_device:
        launch = starts.get(event.args.get("correlation"))
        node = index.at(launch.lane, launch.start_s) if launch else None
        # A replayed graph has one launch for all its kernels: their names tell more than the call around it.
        if node is None or times[event.args.get("correlation")] > 8:
            orphans.append(event)
        else:
            node.device.append(event)
    return nodes, orphans


Run = tuple[list[TraceOp], float, float]


def _run(nodes: Sequence[_Node], orphans: Sequence[ChromeEvent], on_device: bool, window: tuple[float, float]) -> Run:
    """Operators of one run in order, its wall time and the time in which something ran."""
    inside = [n for n in nodes if window[0] <= n.event.start_s < window[1]]
    if not on_device:
        lanes: dict[tuple[str, str], float] = defaultdict(float)
        for node in inside:
            lanes[node.event.lane] += node.event.seconds
        main = max(lanes, key=lambda lane: lanes[lane], default=None)
        mine = [n for n in inside if n.event.lane == main]
        busy = covered_s((n.event.start_s, min(n.event.end_s, window[1])) for n in mine)
        return [n.op(False) for n in mine], window[1] - window[0], busy
    rows = [(n.event.start_s, n.op(True)) for n in inside]
    alone = [e for e in orphans if window[0] <= e.start_s < window[1]]
    rows += [(e.start_s, _kernel(e)) for e in alone]
    ran = [e for n in inside for e in _device_events(n)] + alone
    rows.sort(key=lambda row: row[0])
    if not ran:
        return [], 0.0, 0.0
    # Kernels run on after the host has launched the last; what follows the window belongs to it as well.
    end = max(window[1], *(e.end_s for e in ran))
    start = window[0]
    return [op for _, op in rows if op.seconds > 0], end - start, covered_s((e.start_s, e.end_s) for e in ran)


def _repeats(run: Run) -> list[Run]:
    """A trace without marks around its runs: where all operators come several times over, in the same order, each
    time is a run."""
    names = [op.name for op in run[0]]
    for times in range(len(names) // 4, 1, -1):
        length, rest = divmod(len(names), times)
        if not rest and all(names[i] == names[i + length] for i in range(len(names) - length)):
            ops = [run[0][i * length : (i + 1) * length] for i in range(times)]
            return [(part, run[1] / times, run[2] / times) for part in ops]
    return [run]


def _device_events(node: _Node) -> list[ChromeEvent]:
    return node.device + [event for part in node.parts for event in _device_events(part)]


def _kernel(event: ChromeEvent) -> TraceOp:
    return TraceOp(name=event.name, kind=kind_of(event.name), seconds=event.seconds, kernels=(event.name,))


def jax(data: dict[str, Any]) -> Trace:
    """A trace of jax.profiler: operators of XLA's programs, each once for its program and thread."""
    events = [e for e in complete(data.get("traceEvents", ())) if "hlo_op" in e.args]
    if not events:
        raise TraceError("JAX trace: no operators of XLA in it")
    modules: dict[str, list[ChromeEvent]] = defaultdict(list)
    for event in events:
        modules[clean(event.args.get("hlo_module", ""))].append(event)
    rows = max(modules.values(), key=lambda group: sum(e.seconds for e in group))
    first = rows[0].args["hlo_op"]
    runs = sum(e.args["hlo_op"] == first for e in rows if e.lane == rows[0].lane) or 1
    seconds: dict[str, float] = defaultdict(float)
    for event in rows:
        seconds[clean(event.args["hlo_op"])] += event.seconds / runs
    ops = [TraceOp(name=name, kind=kind_of(name), seconds=spent) for name, spent in seconds.items()]
    busy = covered_s((e.start_s, e.end_s) for e in rows) / runs
    wall = (max(e.end_s for e in rows) - min(e.start_s for e in rows)) / runs
    return assembled("jax", ops, producer="JAX profiler", runs=runs, wall_s=wall, busy_s=busy)


def onnxruntime(events: list[Any]) -> Trace:
    """A profile of ONNX Runtime: nodes of each run, told apart by `model_run`."""
    rows = complete(events)
    nodes = [e for e in rows if e.category == "node" and e.name.endswith("_kernel_time")]
    kernels = [e for e in rows if e.category == "kernel"]
    if not nodes:
        raise TraceError("ONNX Runtime profile: no node with a kernel time in it")
    spans = [(e.start_s, e.end_s) for e in rows if e.category == "session" and e.name == "model_run"]
    spans = [s for s in spans if any(s[0] <= n.start_s < s[1] for n in nodes)]
    spans = (spans[1:] if len(spans) > 1 else spans) or [(nodes[0].start_s, nodes[-1].end_s)]
    runs = [[_node(n, kernels) for n in nodes if s[0] <= n.start_s < s[1]] for s in spans]
    provider = clean(nodes[0].args.get("provider", "")).removesuffix("ExecutionProvider")
    return assembled(
        "onnxruntime",
        mean_of_runs(runs),
        producer="ONNX Runtime",
        device=provider,
        on_device=bool(kernels),
        runs=len(runs),
        wall_s=sum(end - start for start, end in spans) / len(spans),
    )


def _node(event: ChromeEvent, kernels: Sequence[ChromeEvent]) -> TraceOp:
    args = event.args
    name = event.name.removesuffix("_kernel_time")
    mine = [k for k in kernels if k.args.get("parent_name") == name and event.start_s <= k.start_s <= event.end_s + 1.0]
    kind = clean(args.get("op_name", ""))
    outputs = _typed(args.get("output_type_shape"))
    return TraceOp(
        name=f"{kind} {name}".strip(),
        kind=kind_of(kind) or kind_of(name),
        seconds=sum(k.seconds for k in mine) if mine else event.seconds,
        shapes=_typed(args.get("input_type_shape")),
        result=outputs[0] if outputs else (),
        kernels=tuple(k.name for k in mine),
    )


def _typed(value: Any) -> tuple[Shape, ...]:
    """`[{"float": [1, 3, 224, 224]}, ...]`: the shapes."""
    if not isinstance(value, list):
        return ()
    rows = [next(iter(item.values()), None) for item in value[:64] if isinstance(item, dict)]
    return tuple(tuple(row[:16]) for row in rows if isinstance(row, list) and all(isinstance(n, int) for n in row))
