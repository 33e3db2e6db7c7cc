"""Chrome trace events of JAX and of ONNX Runtime, which name operators of a program, not calls of a framework."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from analysis.annexes.traces.chrome import ChromeEvent, complete
from analysis.annexes.traces.record import (
    Run,
    Shape,
    Trace,
    TraceError,
    TraceOp,
    assembled,
    clean,
    covered_s,
    kind_of,
    module_of,
    of_runs,
)

OPS_THREAD = "XLA Ops"  # of a TPU or GPU: what its program ran; other threads have the same by kernel, module or step


def jax(data: dict[str, Any]) -> Trace:
    """A trace of jax.profiler: operators of XLA's programs, each once for its program and thread; of several devices
    the one that worked most."""
    raw = data.get("traceEvents", ())
    threads = _op_threads(raw)
    events = [e for e in complete(raw) if (e.lane in threads if threads else "hlo_op" in e.args)]
    if not events:
        raise TraceError("JAX trace: no operators of XLA in it")
    devices: dict[str, list[ChromeEvent]] = defaultdict(list)
    for event in events:
        devices[event.lane[0]].append(event)
    mine = max(devices.values(), key=lambda group: sum(e.seconds for e in group))
    modules: dict[str, list[ChromeEvent]] = defaultdict(list)
    for event in mine:
        modules[clean(event.args.get("hlo_module", ""))].append(event)
    rows = max(modules.values(), key=lambda group: sum(e.seconds for e in group))
    first = _op_name(rows[0])
    runs = sum(_op_name(e) == first for e in rows if e.lane == rows[0].lane) or 1
    seconds: dict[str, float] = defaultdict(float)
    kinds: dict[str, str] = {}
    for event in rows:
        seconds[_op_name(event)] += event.seconds / runs
        kinds.setdefault(_op_name(event), _op_kind(event))
    ops = [TraceOp(name=name, kind=kinds[name], seconds=spent) for name, spent in seconds.items()]
    busy = covered_s((e.start_s, e.end_s) for e in rows) / runs
    wall = (max(e.end_s for e in rows) - min(e.start_s for e in rows)) / runs
    left = {"devices": len(devices) - 1, "programs": len(modules) - 1}
    notes = [f"{count} other {what} left out" for what, count in left.items() if count]
    return assembled(
        "jax", ops, producer="JAX profiler", on_device=bool(threads), runs=runs, wall_s=wall, busy_s=busy, notes=notes
    )


def _op_threads(raw: Any) -> set[tuple[str, str]]:
    """The threads that hold operators of programs, where a device has such."""
    named = (e for e in raw if isinstance(e, dict) and e.get("ph") == "M" and e.get("name") == "thread_name")
    return {
        (clean(e.get("pid"), 60), clean(e.get("tid"), 60))
        for e in named
        if isinstance(e.get("args"), dict) and e["args"].get("name") == OPS_THREAD
    }


def _op_name(event: ChromeEvent) -> str:
    return clean(event.args.get("hlo_op") or event.name)


def _op_kind(event: ChromeEvent) -> str:
    """The kind of an operator of XLA: by the call that it was made of (`jit(f)/layer/dot_general:`), else its name."""
    made_of = str(event.args.get("tf_op") or "")[:400].rstrip(":").rpartition("/")[2]
    return kind_of(clean(made_of)) or kind_of(_op_name(event))


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
    runs = [
        Run(ops=tuple(_node(n, kernels) for n in nodes if start <= n.start_s < end), wall_s=end - start)
        for start, end in spans
    ]
    provider = clean(nodes[0].args.get("provider", "")).removesuffix("ExecutionProvider")
    return of_runs("onnxruntime", runs, producer="ONNX Runtime", device=provider, on_device=bool(kernels))


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
        module=module_of(name),
    )


def _typed(value: Any) -> tuple[Shape, ...]:
    """`[{"float": [1, 3, 224, 224]}, ...]`: the shapes."""
    if not isinstance(value, list):
        return ()
    rows = [next(iter(item.values()), None) for item in value[:64] if isinstance(item, dict)]
    return tuple(tuple(row[:16]) for row in rows if isinstance(row, list) and all(isinstance(n, int) for n in row))
