"""One run of a model as some tool measured it: its operators in order, how long each took, and when nothing ran."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import msgspec

from hardware import files
from hardware.errors import RequestError

Shape = tuple[int, ...]
Span = tuple[float, float]  # start and end, s


class TraceError(RequestError):
    """What is wrong with a trace file, in one line."""


class TraceOp(msgspec.Struct, frozen=True, kw_only=True):
    """What ran. `seconds` of one run (the mean over runs) on the device, all of `parts` included.

    `name` as the tool calls it; `kind` ours, '' where the name tells none; `shapes` of its tensor inputs and `result`
    of its first output, where recorded; `module` path, where known; `kernels` names of what ran on an accelerator;
    `parts` the operators that it called; `count` calls that are merged in it."""

    name: str
    seconds: float
    kind: str = ""
    shapes: tuple[Shape, ...] = ()
    result: Shape = ()
    module: str = ""
    kernels: tuple[str, ...] = ()
    parts: tuple[TraceOp, ...] = ()
    count: int = 1


class Trace(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """`wall_s` of one run = seconds of all `ops` - `overlap_s` (operators that ran at once) + `gap_s` (nothing ran).

    `runs` that the figures are means over; `on_device` where times are an accelerator's. `is_total` where the file
    holds sums over inferences that it does not count. `runtime`, of hardware/runtimes.toml, ran it; '' where that is
    not told. `gaps` are seconds of `gap_s` by what the host did meanwhile, the first cause that fits; none where it is
    not told. `notes` say what was left out and why."""

    format: str
    producer: str
    device: str
    on_device: bool
    runs: int
    wall_s: float
    gap_s: float
    overlap_s: float
    ops: tuple[TraceOp, ...]
    is_total: bool = False
    runtime: str = ""
    gaps: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = ()


# What runs a model by itself in whose format its times are.
_RUNTIMES = {
    "tensorrt": "tensorrt", "onnxruntime": "onnxruntime", "openvino": "openvino", "tflite": "tflite", "jax": "xla",
    "llama-bench": "llama_cpp",
}  # fmt: skip


def assembled(
    format_: str,
    ops: Sequence[TraceOp],
    *,
    producer: str = "",
    device: str = "",
    on_device: bool = False,
    runs: int = 1,
    wall_s: float | None = None,
    busy_s: float | None = None,
    is_total: bool = False,
    runtime: str = "",
    gaps: Mapping[str, float] | None = None,
    notes: Sequence[str] = (),
) -> Trace:
    """A trace whose times add up. Without `wall_s` nothing is known of gaps; without `busy_s` nothing ran at once."""
    spent_s = sum(op.seconds for op in ops)
    if not ops or spent_s <= 0:
        raise TraceError(f"{format_}: no operator with a time in it")
    busy_s = spent_s if busy_s is None else min(busy_s, spent_s)
    wall_s = busy_s if wall_s is None else max(wall_s, busy_s)
    return Trace(
        format=format_,
        producer=clean(producer),
        device=clean(device),
        on_device=on_device,
        runs=runs,
        wall_s=wall_s,
        gap_s=wall_s - busy_s,
        overlap_s=spent_s - busy_s,
        ops=tuple(ops),
        is_total=is_total,
        runtime=runtime or _RUNTIMES.get(format_, ""),
        gaps=tuple(sorted((gaps or {}).items(), key=lambda gap: -gap[1])),
        notes=tuple(notes),
    )


def clean(text: object, most: int = 400) -> str:
    """Text from a stranger's file: one line, printable, bounded."""
    shown = str(text)[: 2 * most]
    return "".join(c if c.isprintable() else " " for c in shown).strip()[:most]


@lru_cache(maxsize=1)
def _patterns() -> list[tuple[re.Pattern[str], str]]:
    rows = files.table(Path(__file__).with_name("names.toml"))["kinds"]
    return [(re.compile("|".join(row["names"]), re.IGNORECASE), row["kind"]) for row in rows]


@lru_cache(maxsize=4096)
def kind_of(name: str) -> str:
    """The kind of operator that a tool's name stands for: '' where it tells none, 'view' where nothing is computed."""
    return next((kind for pattern, kind in _patterns() if pattern.search(name[:300])), "")


def covered_s(spans: Iterable[tuple[float, float]]) -> float:
    """Seconds in which at least one of the (start, end) spans ran."""
    total, until = 0.0, float("-inf")
    for start, end in sorted(spans):
        if end > until:
            total += end - max(start, until)
            until = end
    return total


def merged(spans: Iterable[Span]) -> list[Span]:
    """The time that spans cover, each part once, in order."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif end > start:
            found.append((start, end))
    return found


def without(spans: Sequence[Span], others: Sequence[Span]) -> list[Span]:
    """What of merged spans lies in none of the others, which are merged too."""
    left, place = [], 0
    for start, end in spans:
        while place and others[place - 1][1] > start:
            place -= 1
        while place < len(others) and others[place][1] <= start:
            place += 1
        at = place
        while at < len(others) and others[at][0] < end:
            if others[at][0] > start:
                left.append((start, others[at][0]))
            start = max(start, others[at][1])
            at += 1
        if start < end:
            left.append((start, end))
    return left


def mean_of_runs(runs: Sequence[Sequence[TraceOp]]) -> list[TraceOp]:
    """The operators of one run: means over runs that agree in what they ran; the last run alone where they differ."""
    last = runs[-1]
    same = [run for run in runs if [op.name for op in run] == [op.name for op in last]]
    return [_mean([run[i] for run in same]) for i in range(len(last))]


def _mean(ops: Sequence[TraceOp]) -> TraceOp:
    first = ops[0]
    agree = all(len(op.parts) == len(first.parts) for op in ops)
    parts = tuple(_mean([op.parts[i] for op in ops]) for i in range(len(first.parts))) if agree else ops[-1].parts
    seconds = sum(op.seconds for op in ops) / len(ops)
    return msgspec.structs.replace(first if agree else ops[-1], seconds=seconds, parts=parts)
