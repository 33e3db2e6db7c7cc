"""Hold one run of a model as a profiler measured it, a `Trace`: operators in order, and idle time.

A trace is read in a subprocess with limits: even a small file can keep its reader busy for minutes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np

from hwexplorer.extend import (
    RequestError,
    child_job,
    file_access,
    group_by,
    model_errors,
    reading_budget,
)

NAMES = file_access.table(Path(__file__).with_name("names.toml"))  # names that profilers use
Shape = tuple[int, ...]
Span = tuple[float, float]  # start and end, s
DISTURBED = 1.5  # times the median run; slower runs are left out as disturbed or warm-up
SHORTEST_RUN = 4  # operators; shorter repeats are layers of one run
MOST_NAMES = 16  # operator names that are tried to find the length of a run
MOST_KERNEL_NAMES = 20_000  # different ones of a trace: those of a model are a few hundred, and each is classified


class TraceError(RequestError):
    """The reason, in one line, why a trace file cannot be read."""


class TraceOp(msgspec.Struct, frozen=True, kw_only=True):
    """A measured operator. `seconds` is its device time per run (mean over runs), including all `parts`.

    `name` is the profiler's name; `kind` is an operator kind of hwexplorer, '' if unknown. `shapes` of its tensor
    inputs, `result` (shape of its first output) and the `module` path are empty if unknown. `kernels` are names of
    accelerator kernels, `parts` the operators that it called, `count` the calls merged in it. The kind `region` is a
    kernel that a compiler made of many operators; `until` is the module path of the last one."""

    name: str
    seconds: float
    kind: str = ""
    shapes: tuple[Shape, ...] = ()
    result: Shape = ()
    module: str = ""
    kernels: tuple[str, ...] = ()
    parts: tuple[TraceOp, ...] = ()
    count: int = 1
    until: str = ""


class Trace(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """`wall_s` of one run = seconds of all `ops` - `overlap_s` (operators at the same time) + `gap_s` (nothing ran).

    Figures are means over `runs`. `on_device` is True if times are those of an accelerator. `is_total` is True if the
    file has sums over an unknown number of inferences. `runtime` is an id of runtimes.toml, '' if unknown.
    `gaps` divides `gap_s` by the activity of the host, empty if unknown. `notes` say what was left out and why."""

    format: str
    producer: str = ""
    device: str = ""
    on_device: bool = False
    runs: int = 1
    wall_s: float
    gap_s: float
    overlap_s: float
    ops: tuple[TraceOp, ...]
    is_total: bool = False
    runtime: str = ""
    gaps: tuple[tuple[str, float], ...] = ()
    notes: tuple[str, ...] = ()


def assemble_trace(
    format_: str,
    ops: Sequence[TraceOp],
    *,
    wall_s: float | None = None,
    busy_s: float | None = None,
    runtime: str = "",
    gaps: Mapping[str, float] | None = None,
    notes: Sequence[str] = (),
    **about: Any,
) -> Trace:
    """Return a trace whose times add up; `about` are its other fields. Without `wall_s` gaps are taken as 0;
    without `busy_s` operators did not overlap. Raises TraceError if no operator has a time."""
    spent_s = sum(op.seconds for op in ops)
    if not ops or spent_s <= 0:
        raise TraceError(f"{format_}: it holds no operator with a time")
    busy_s = spent_s if busy_s is None else min(busy_s, spent_s)
    wall_s = busy_s if wall_s is None else max(wall_s, busy_s)
    texts = {name: clean_text(value) for name, value in about.items() if isinstance(value, str)}
    return Trace(
        **{**about, **texts},
        format=format_,
        wall_s=wall_s,
        gap_s=wall_s - busy_s,
        overlap_s=spent_s - busy_s,
        ops=tuple(ops),
        runtime=runtime or NAMES["runtimes"].get(format_, ""),
        gaps=tuple(sorted((gaps or {}).items(), key=lambda gap: -gap[1])),
        notes=tuple(dict.fromkeys((*notes, *hint_notes(name for op in ops for name in _all_names(op))))),
    )


class TracedRun(msgspec.Struct, frozen=True, kw_only=True):
    """One of several runs in a file. Without `wall_s` gaps are unknown; without `busy_s` operators did not overlap.
    `gaps` maps causes to seconds."""

    ops: tuple[TraceOp, ...]
    wall_s: float | None = None
    busy_s: float | None = None
    gaps: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        """The wall time, or the sum over operators if the wall time is unknown."""
        return self.wall_s or sum(op.seconds for op in self.ops)


def average_runs(format_: str, runs: Sequence[TracedRun], *, notes: Sequence[str] = (), **about: Any) -> Trace:
    """Return the mean over the undisturbed runs that ran the most common sequence of operators. Raises TraceError."""
    runs = [run for run in runs if run.ops]
    if not runs:
        raise TraceError(f"{format_}: it holds no operator with a time")
    by_names = group_by(runs, lambda run: tuple(op.name for op in run.ops))
    alike = max(by_names.values(), key=lambda group: (len(group), sum(run.seconds for run in group)))
    middle_s = median(run.seconds for run in alike)
    steady = [run for run in alike if run.seconds <= DISTURBED * middle_s]
    notes = list(notes)
    if len(alike) < len(runs):
        notes.append(f"{len(runs) - len(alike)} of {len(runs)} runs ran other operators and are left out")
    if len(steady) < len(alike):
        count = len(alike) - len(steady)
        notes.append(f"{count} of {len(runs)} runs took over {DISTURBED:g}x the median and are left out")

    def mean(values: Sequence[float | None]) -> float | None:
        """Return the mean of the values, None if one is not known."""
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if len(known) == len(values) else None

    return assemble_trace(
        format_,
        [_mean_op([run.ops[i] for run in steady]) for i in range(len(steady[0].ops))],
        runs=len(steady),
        wall_s=mean([run.wall_s for run in steady]),
        busy_s=mean([run.busy_s for run in steady]),
        gaps={cause: sum(run.gaps.get(cause, 0.0) for run in steady) / len(steady) for cause in steady[0].gaps},
        notes=notes,
        **about,
    )


def _mean_op(ops: Sequence[TraceOp]) -> TraceOp:
    """Return the operator with its mean time over runs. Parts are averaged too if all runs have the same number."""
    first = ops[0]
    agree = all(len(op.parts) == len(first.parts) for op in ops)
    parts = tuple(_mean_op([op.parts[i] for op in ops]) for i in range(len(first.parts))) if agree else ops[-1].parts
    seconds = sum(op.seconds for op in ops) / len(ops)
    return msgspec.structs.replace(first if agree else ops[-1], seconds=seconds, parts=parts)


# --- names ------------------------------------------------------------------------------------------------


def clean_text(text: object, most: int = 400) -> str:
    """Return text from an untrusted file as one printable line of at most `most` characters."""
    shown = str(text)[: 2 * most]
    printable = shown if shown.isprintable() else "".join(c if c.isprintable() else " " for c in shown)
    return printable.strip()[:most]


def parse_number(value: Any) -> float | None:
    """Return a finite number >= 0, parsed without thousands separators. Return None for anything else."""
    try:
        amount = float(value.replace(",", "") if isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError):
        return None
    return amount if math.isfinite(amount) and amount >= 0 else None


def module_path(name: str) -> str:
    """Return the module path in an ONNX node name of PyTorch's exporter: `layer1.0.conv1` for
    `/layer1/layer1.0/conv1/Conv`. For fused nodes it is the path of the first, '' if the name has none."""
    match = re.search(r"(?:^|[\s+])/([\w./-]+)/\w+", name[:400])
    path = ""
    for part in match[1].split("/") if match else ():
        path = part if part.startswith(f"{path}.") or not path else f"{path}.{part}"
    return path


def check_names(names: Collection[str]) -> None:
    """Raise TraceError if there are more names of kernels than a model has."""
    if len(names) > MOST_KERNEL_NAMES:
        raise TraceError(f"it names {len(names):,} kernels, more than any model has: too large to read")


_KIND_PATTERNS = [(re.compile("|".join(row["names"]), re.IGNORECASE), row["kind"]) for row in NAMES["kinds"]]
_HINTS = [(re.compile("|".join(row["names"]), re.IGNORECASE), row["note"]) for row in NAMES["hints"]]
_FOLLOWS = re.compile("|".join(NAMES["follows"]), re.IGNORECASE)


def hint_notes(names: Iterable[str]) -> list[str]:
    """Return notes on the whole run that follow from names of operators and kernels (`hints` of names.toml)."""
    shown = {name[:300] for name in names}
    return [note for pattern, note in _HINTS if any(pattern.search(name) for name in shown)]


def join_followers(ops: Iterable[TraceOp]) -> list[TraceOp]:
    """Join each kernel that only finishes the previous operator (`follows` of names.toml) to that operator."""
    joined: list[TraceOp] = []
    for op in ops:
        if joined and _FOLLOWS.search(op.name[:300]):
            seconds = joined[-1].seconds + op.seconds
            joined[-1] = msgspec.structs.replace(joined[-1], seconds=seconds, parts=(*joined[-1].parts, op))
        else:
            joined.append(op)
    return joined


@lru_cache(maxsize=4096)
def operator_kind(name: str) -> str:
    """Return the operator kind that a profiler's name belongs to, '' if unknown, 'view' if nothing is computed."""
    return next((kind for pattern, kind in _KIND_PATTERNS if pattern.search(name[:300])), "")


def find_runtime(ops: Sequence[TraceOp], producer: str) -> str:
    """Return the runtime (runtimes.toml) of a PyTorch trace, found from names. Kernels without a calling
    operator are taken as replayed CUDA graphs."""
    names = " ".join({name for op in ops for name in _all_names(op)})
    if "vllm::" in names:
        return "vllm_rocm" if "ROCm" in producer else "vllm"
    without_call_s = sum(op.seconds for op in ops if op.kernels == (op.name,))
    if without_call_s > 0.5 * sum(op.seconds for op in ops):
        return "cuda_graphs"
    compiled = any(word in names for word in ("CompiledFx", "Torch-Compiled", "triton_", "Inductor"))
    return "torch_compile" if compiled else "pytorch_eager"


def _all_names(op: TraceOp) -> Iterator[str]:
    yield from (op.name, *op.kernels)
    for part in op.parts:
        yield from _all_names(part)


# --- spans of time ----------------------------------------------------------------------------------------


def covered_s(spans: Iterable[Span]) -> float:
    """Return the seconds in which at least one of the spans ran."""
    return sum(end - start for start, end in merge_spans(spans))


def merge_spans(spans: Iterable[Span]) -> list[Span]:
    """Return the union of the spans as disjoint spans in order."""
    disjoint: list[Span] = []
    for start, end in sorted(spans):
        if disjoint and start <= disjoint[-1][1]:
            disjoint[-1] = (disjoint[-1][0], max(end, disjoint[-1][1]))
        elif end > start:
            disjoint.append((start, end))
    return disjoint


def find_repeats(names: Sequence[str], spans: Sequence[Span]) -> list[Span]:
    """Return the start and end of each run in a repeating sequence of operators, [] if it does not repeat. If operators
    outside of whole runs do not occur in a run, the repeats are layers of a single run: return []."""
    ids = np.unique(np.array(names), return_inverse=True)[1]
    counts = np.bincount(ids)
    best, place, length = 0, 0, 0
    for name in [i for i in np.argsort(counts, kind="stable").tolist() if counts[i] > 1][:MOST_NAMES]:
        steps, often = np.unique(np.diff(np.flatnonzero(ids == name)), return_counts=True)
        period = int(steps[often.argmax()])
        if period < SHORTEST_RUN or 2 * period > len(ids):
            continue
        breaks = np.flatnonzero(np.concatenate([[True], ids[:-period] != ids[period:], [True]]))
        longest = int(np.diff(breaks).argmax())
        reach = int(breaks[longest + 1] - breaks[longest]) - 1 + period
        if reach > best and reach >= 2 * period:
            best, place, length = reach, int(breaks[longest]), period
    if not best:
        return []
    rest = np.concatenate([ids[:place], ids[place + best :]])
    if not np.isin(rest, ids[place : place + length]).all():
        return []
    # Divide runs at the longest waits. The wait before a run belongs to it.
    starts = np.array([span[0] for span in spans])
    reached = np.maximum.accumulate(np.array([span[1] for span in spans]))
    waits = np.concatenate([[0.0], np.maximum(starts[1:] - reached[:-1], 0.0)])[place : place + best]
    by_place = np.bincount(np.arange(best) % length, waits, length)
    at = place + (int(by_place.argmax()) if by_place.max() > 0.5 * by_place.sum() else 0)
    firsts = list(range(at, place + best - length + 1, length))
    edges = [starts[firsts[0]], *(min(starts[i], reached[i - 1]) for i in firsts[1:])]
    return [(float(a), float(b)) for a, b in zip(edges, [*edges[1:], reached[firsts[-1] + length - 1]], strict=True)]


ANSWER_MAX = 1 << 26  # most bytes of an encoded trace that the subprocess returns; ten million kernels take more


class TraceReading(child_job.ChildJob[Trace]):
    """A job that reads a trace. Unless it is cancelled, it calls `on_end` with the file's stamp and the trace or a
    TraceError."""

    def __init__(self, file: str, on_end: Callable[[file_access.Stamp, Trace | TraceError], None]) -> None:
        self.stamp, self._on_end = file_access.stamp(file), on_end
        path = Path(self.stamp[0])
        self.name = path.name
        work = f"{__package__}.trace_file:encoded_trace"
        super().__init__(f"reading of {path.name}", work, (str(path.absolute()),), reading_budget.READ_LIMITS)
        self.progress = (f"reading {path.name}", 0.0)

    def _decode(self, answer: bytes) -> Trace:
        return msgspec.msgpack.decode(answer, type=Trace)

    def _finish(self, result: Trace | None = None, error: model_errors.ModelError | None = None) -> None:
        if not isinstance(error, model_errors.CaptureCancelledError):
            self._on_end(self.stamp, result if result is not None else TraceError(str(error)))
        super()._finish(result, error)
