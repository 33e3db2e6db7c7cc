"""Chrome trace events: what PyTorch's profiler (Kineto, of any age), JAX and ONNX Runtime write."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from analysis.annexes.traces.record import (
    Run,
    Shape,
    Span,
    Trace,
    TraceError,
    TraceOp,
    clean,
    covered_s,
    kind_of,
    merged,
    of_runs,
    ran_by,
    repeating,
    without,
)

US = 1e-6
LAUNCHES = ("cuda_runtime", "cuda_driver", "runtime", "hip_runtime", "xpu_runtime")
ON_DEVICE = ("kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset")
OPERATORS = ("cpu_op", "operator")
MODULE = "module: "  # begins the ranges in which a trace of ours (analysis/capture/traced.py) names modules


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
    timed = [(item, _microseconds(item.get("ts"))) for item in raw if isinstance(item, dict) and item.get("ph") == "X"]
    zero = min((start for _, start in timed if math.isfinite(start)), default=0.0)  # some count from 1970 on
    events = []
    for item, start in timed:
        start_s, seconds = (start - zero) * US, _microseconds(item.get("dur", 0)) * US
        if not math.isfinite(start_s) or not 0.0 <= seconds < 1e7:
            continue
        args = item.get("args")
        lane = (clean(item.get("pid"), 60), clean(item.get("tid"), 60))
        category = str(item.get("cat") or "").lower()
        events.append(
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
    return sorted(events, key=lambda event: (event.start_s, -event.end_s))


def _microseconds(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def shapes(value: Any) -> tuple[Shape, ...]:
    """Shapes of the tensors among recorded inputs; lists of tensors are laid out flat."""
    if not isinstance(value, list):
        return ()
    if value and all(isinstance(size, int) for size in value):
        return (tuple(value[:16]),)
    return tuple(shape for item in value[:64] for shape in shapes(item))


class _Node:
    """An operator of the trace while its tree is being made."""

    __slots__ = ("device", "event", "module", "parts")

    def __init__(self, event: ChromeEvent) -> None:
        self.event = event
        self.module = _hierarchy(event.args.get("Module Hierarchy"))
        self.parts: list[_Node] = []
        self.device: list[ChromeEvent] = []

    @property
    def start_s(self) -> float:
        return self.event.start_s

    def op(self, on_device: bool, module: str = "") -> TraceOp:
        module = self.module or module
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


def _hierarchy(text: Any) -> str:
    """`TOP(ResNet)::forward.layer1(Sequential).0(Block)` of TorchScript: the path, `layer1.0`."""
    if not isinstance(text, str):
        return ""
    words = re.findall(r"(?:^|\.)([^.(:]+)\(", text[:400])
    return clean(".".join(word for word in words if word not in ("TOP", "SELF")))


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
    deepest, level = None, nodes
    while level:
        inside = [node for node in level if node.event.lane == lane and node.event.start_s <= at_s <= node.event.end_s]
        if not inside:
            return deepest
        deepest = inside[-1]
        level = deepest.parts
    return deepest


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
    trace."""
    named: dict[str, list[ChromeEvent]] = defaultdict(list)
    for event in events:
        if event.category == "user_annotation" and not event.name.startswith(MODULE):
            named["step" if event.name.startswith("ProfilerStep") else event.name].append(event)
    groups = {name: _apart(rows) for name, rows in named.items()}
    known = [rows for name, rows in groups.items() if name == "step" or len(rows) > 1 or "measure" in name.lower()]

    def inside(rows: Sequence[ChromeEvent]) -> float:
        return sum(o.seconds for e in rows for o in _within(operators, (e.start_s, e.end_s)))

    def worth(rows: Sequence[ChromeEvent]) -> tuple[bool, bool, float]:
        name = rows[0].name.lower()
        return name.startswith("profilerstep"), "measure" in name, inside(rows)

    best = max((rows for rows in known if inside(rows) > 0), key=worth, default=[])
    spans = [(e.start_s, e.end_s) for e in best if inside([e]) > 0]
    if spans:
        return spans
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
    launched, orphans = _launched(events, operators, on_device)
    windows = _windows(events, operators or on_device)
    if len(windows) == 1:
        windows = _repeats(launched, orphans, bool(on_device), windows[0]) or windows
    _name_modules(launched, [e for e in events if e.name.startswith(MODULE)], windows)
    windows = windows[1:] if len(windows) > 2 else windows  # the first warms caches up
    causes = _causes(events, bool(on_device))
    runs = [_run(launched, orphans, bool(on_device), window, causes) for window in windows]
    devices = data.get("deviceProperties")
    named = devices[0] if isinstance(devices, list) and devices and isinstance(devices[0], dict) else {}
    return of_runs(
        "pytorch",
        runs,
        producer=_producer(data),
        device=named.get("name", ""),
        on_device=bool(on_device),
        runtime=ran_by([op for run in runs for op in run.ops], _producer(data)),
        notes=_left_out(launched, on_device, windows),
    )


Timed = TypeVar("Timed", _Node, ChromeEvent)


def _within(rows: Sequence[Timed], window: Span) -> Sequence[Timed]:
    """Of nodes or events in order of their start those that start in a window."""
    first, end = (bisect_left(rows, at, key=lambda row: row.start_s) for at in window)
    return rows[first:end]


def _main_thread(nodes: Sequence[_Node]) -> tuple[str, str] | None:
    """The thread on which most of the operators' time was spent."""
    lanes: dict[tuple[str, str], float] = defaultdict(float)
    for node in nodes:
        lanes[node.event.lane] += node.event.seconds
    return max(lanes, key=lambda lane: lanes[lane], default=None)


def _left_out(nodes: Sequence[_Node], on_device: Sequence[ChromeEvent], windows: Sequence[Span]) -> list[str]:
    """What is in the file and in no run: other threads of a CPU; and that several devices worked."""
    inside = [n for window in windows for n in _within(nodes, window)]
    if on_device:
        devices = {event.lane[0] for event in on_device}
        return [f"{len(devices)} devices worked: their times are added"] if len(devices) > 1 else []
    main = _main_thread(inside)
    aside = [n for n in inside if n.event.lane != main]
    if not aside:
        return []
    share = sum(n.event.seconds for n in aside) / sum(n.event.seconds for n in inside)
    return [f"{len({n.event.lane for n in aside})} other threads left out, with {share:.0%} of the operators' time"]


def _name_modules(nodes: Sequence[_Node], named: Sequence[ChromeEvent], windows: Sequence[tuple[float, float]]) -> None:
    """Each operator's module, where ranges tell it in one run: the others ran the same in the same order."""
    if not named:
        return
    ranges = _Index(_nested(named))
    runs = [_within(nodes, window) for window in windows]
    for node in nodes:
        within = ranges.at(node.event.lane, node.event.start_s)
        node.module = within.event.name.removeprefix(MODULE) if within else node.module
    told = max(runs, key=lambda run: sum(bool(node.module) for node in run), default=[])
    for run in runs:
        if [node.event.name for node in run] == [node.event.name for node in told]:
            for node, other in zip(run, told, strict=True):
                node.module = node.module or other.module


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


_WAITS = ("synchronize", "memcpy", "item", "local_scalar")  # in the names of calls in which the host waits or copies


def _causes(events: Sequence[ChromeEvent], on_device: bool) -> dict[str, list[Span]]:
    """When the host did what keeps a device waiting, the causes that come first first."""
    of_host = [e for e in events if e.category in (*OPERATORS, *LAUNCHES, "user_annotation", "python_function")]
    loading = [e for e in of_host if "dataloader" in e.name.lower()]
    waiting = [e for e in of_host if e.category in LAUNCHES and any(word in e.name.lower() for word in _WAITS)]
    calling = [e for e in of_host if e.category in (*OPERATORS, *LAUNCHES)] if on_device else []
    named = {"data loading": loading, "copies and waiting for them": waiting, "the host, launching": calling}
    return {name: merged((e.start_s, e.end_s) for e in those) for name, those in named.items()}


def _idle(window: Span, busy: Sequence[Span], causes: dict[str, list[Span]]) -> dict[str, float]:
    """Seconds of a window in which nothing ran, by cause."""
    left = without([window], merged(busy))
    found = {}
    for cause, spans in causes.items():
        rest = without(left, spans)
        found[cause] = covered_s(left) - covered_s(rest)
        left = rest
    found["the host, between operators"] = covered_s(left)
    return found


def _run(
    nodes: Sequence[_Node],
    orphans: Sequence[ChromeEvent],
    on_device: bool,
    window: Span,
    causes: dict[str, list[Span]],
) -> Run:
    """Operators of one run in order, its wall time, the time in which something ran, and the rest by cause."""
    inside = _within(nodes, window)
    if not on_device:
        main = _main_thread(inside)
        mine = [n for n in inside if n.event.lane == main]
        spans = [(n.event.start_s, min(n.event.end_s, window[1])) for n in mine]
        return Run(
            ops=tuple(n.op(False) for n in mine), wall_s=window[1] - window[0], busy_s=covered_s(spans),
            gaps=_idle(window, spans, causes),
        )  # fmt: skip
    rows = [(n.event.start_s, n.op(True)) for n in inside]
    alone = _within(orphans, window)
    rows += [(e.start_s, _kernel(e)) for e in alone]
    ran = [*(e for n in inside for e in _device_events(n)), *alone]
    rows.sort(key=lambda row: row[0])
    if not ran:
        return Run(ops=())
    # Kernels run on after the host has launched the last; what follows the window belongs to it as well.
    start, end = window[0], max(window[1], *(e.end_s for e in ran))
    spans = [(e.start_s, e.end_s) for e in ran]
    return Run(
        ops=tuple(op for _, op in rows if op.seconds > 0), wall_s=end - start, busy_s=covered_s(spans),
        gaps=_idle((start, end), spans, causes),
    )  # fmt: skip


def _repeats(nodes: Sequence[_Node], orphans: Sequence[ChromeEvent], on_device: bool, window: Span) -> list[Span]:
    """A trace without marks around its runs: when each was, where all its operators come several times over."""
    main = None if on_device else _main_thread(nodes)
    events = [n.event for n in nodes if on_device or n.event.lane == main] + list(orphans)
    events = sorted((e for e in events if window[0] <= e.start_s < window[1]), key=lambda e: e.start_s)
    return repeating([e.name for e in events], [(e.start_s, e.end_s) for e in events]) if events else []


def _device_events(node: _Node) -> list[ChromeEvent]:
    return node.device + [event for part in node.parts for event in _device_events(part)]


def _kernel(event: ChromeEvent) -> TraceOp:
    return TraceOp(name=event.name, kind=kind_of(event.name), seconds=event.seconds, kernels=(event.name,))
