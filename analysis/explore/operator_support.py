"""Operators that an accelerator's compiler does not place on it, where they run instead, and what crossings cost.

A model is cut, in its order of execution, into pieces that run on the unit and pieces that run on the rest of the
module. A tensor that crosses is written by one side and read by the other, both at their bandwidth of memory (of the
link, for an accelerator without memory); each further piece on the unit is another call of it. Operators of the rest
run one by one, without fusion. An operator of which no source is known counts as one of the unit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from analysis.document import column
from analysis.estimate.dependencies import operator_graph
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.host_work import divide_host_work
from analysis.estimate.roles import select_values
from analysis.model.ir.operator_graph import base_name
from hardware import file_access
from hardware.device import Device
from hardware.errors import RequestError
from hardware.records import convert_record

SUPPORT = Path(__file__).with_name("operator_support.toml")
Marks = NDArray[np.bool_]
RUNS, REFUSES, UNKNOWN = "runs", "refuses", "unknown"


class Compiler(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The operators that a compiler places on its accelerator: those that it `runs`, those that it `refuses` and why,
    and what is true of all `others`. At most `pieces` of a model run on the unit (0: any number); `rest` says what runs
    the others, a unit of `rest_architecture` in its module."""

    name: str
    source: str
    rest: str
    rest_architecture: str = ""
    others: str
    runs: str
    pieces: int = 0
    refuses: dict[str, str] = {}

    def place(self, kind: str, target: str) -> tuple[str, str]:
        """Return whether an operator runs, is refused or is unknown, and why. The name of its call comes first."""
        for name in (base_name(target)[0], kind):
            if name in self.refuses:
                return REFUSES, self.refuses[name]
            if name in self.runs.split():
                return RUNS, ""
        return self.others, "it is not in the list of the source" if self.others == REFUSES else "no source is known"


class OperatorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Operators of one kind with one fate. `time_share` is of the time on the unit if it ran all of them, `example`
    is the path of the first one."""

    operator: Annotated[str, column("Operator")]
    status: Annotated[str, column("On the unit")]
    count: Annotated[int, column("Count", "count")]
    mac_share: Annotated[float, column("of MACs", "%", keep=2)]
    time_share: Annotated[float, column("of time", "%", keep=1)]
    why: Annotated[str, column("Why", keep=1)]
    example: Annotated[str, column("First", keep=3)]


class RestCosts(msgspec.Struct, frozen=True, kw_only=True):
    """The seconds of a divided model: `divided_s` in all, of which `part_s` on the rest's `device` and `crossing_s`
    between the sides; `alone_s` if that device runs the whole model."""

    device: str
    divided_s: float
    part_s: float
    crossing_s: float
    alone_s: float


class FallbackReport(Head, frozen=True, kw_only=True):
    """The operators of a model that fall back to the `rest`. `costs` is None if no device for it is known. `whole_s` is
    the time if the unit ran all operators, `unit_s` that of those which it runs. `crossings` tensors of
    `crossing_bytes` go from one side to the other; `follow` operators come after the last piece that the unit may
    run."""

    compiler: str
    source: str
    rest: str
    operators: int
    refused: int
    unknown: int
    follow: int
    pieces: int
    crossings: int
    crossing_bytes: float
    whole_s: float
    unit_s: float
    costs: RestCosts | None
    groups: tuple[OperatorGroup, ...]


def find_compiler(device: Device) -> Compiler:
    """Return the compiler of a device. Raises RequestError if none is known."""
    tables = file_access.shipped(SUPPORT)
    name = device.file.compiler
    if name not in tables:
        names = ", ".join(sorted(table["name"] for table in tables.values()))
        raise RequestError(f"which operators run on {device.name} is not known; known are: {names}")
    return convert_record(SUPPORT, name, _complete(tables, name), Compiler)


def find_fallback(result: Estimate, rest: Estimate | None) -> FallbackReport:
    """Return what of a model does not run on the unit of `result`; it runs on the device of `rest`, if one is known.
    Raises RequestError for a unit whose compiler is not known."""
    compiler, ops = find_compiler(result.device), result.workload.operators
    places = [compiler.place(kind, target) for kind, target in zip(ops.kind, ops.target, strict=True)]
    refused = np.array([status == REFUSES for status, _ in places], dtype=np.bool_)
    away = _leave_in_pieces(refused, compiler.pieces)
    pieces = int((np.diff(~away, prepend=False) & ~away).sum())
    crossings, crossing_bytes = _crossings(result, away)
    unit_s = _seconds(result, ~away) + max(pieces - 1, 0) * _call_s(result)
    return FallbackReport(
        **head_fields(result, on_device=True),
        compiler=compiler.name,
        source=compiler.source,
        rest=compiler.rest,
        operators=len(places),
        refused=int(refused.sum()),
        unknown=sum(status == UNKNOWN for status, _ in places),
        follow=int((away & ~refused).sum()),
        pieces=pieces,
        crossings=crossings,
        crossing_bytes=crossing_bytes,
        whole_s=result.latency_s,
        unit_s=unit_s,
        costs=_rest_costs(result, rest, away, unit_s, crossing_bytes) if rest else None,
        groups=_groups(result, places),
    )


def _rest_costs(result: Estimate, rest: Estimate, away: Marks, unit_s: float, crossing_bytes: float) -> RestCosts:
    part_s = _seconds(rest.in_mode("eager"), away)
    crossing_s = crossing_bytes * (1.0 / result.device.memory_bandwidth + 1.0 / rest.device.memory_bandwidth)
    divided_s = unit_s + part_s + crossing_s if away.any() else result.latency_s
    return RestCosts(
        device=rest.device.key, divided_s=divided_s, part_s=part_s, crossing_s=crossing_s, alone_s=rest.latency_s
    )


def _complete(tables: Mapping[str, dict[str, object]], name: str) -> dict[str, object]:
    """Return a record with the fields of the one that it is `like`; its refusals come first."""
    record = dict(tables[name])
    if "like" in record:
        base = _complete(tables, str(record.pop("like")))
        record = {**base, **record, "refuses": {**dict(base["refuses"]), **dict(record["refuses"])}}  # type: ignore[call-overload]
    return record


def _leave_in_pieces(refused: Marks, most: int) -> Marks:
    """Return which operators run elsewhere, (n,): the refused ones, and all that follow the last piece allowed."""
    ends = np.flatnonzero(refused & ~np.append(False, refused[:-1]))
    ends = ends[ends > 0]
    if not most or len(ends) < most:
        return refused
    away = refused.copy()
    away[ends[most - 1] :] = True
    return away


def _crossings(result: Estimate, away: Marks) -> tuple[int, float]:
    """Return how many tensors cross between the sides, and their bytes. A tensor crosses once in each direction."""
    graph, workload = operator_graph(result.workload), result.workload
    crossed = sorted(
        {
            tensor
            for a, b, tensors in zip(graph.source.tolist(), graph.target.tolist(), graph.tensors, strict=True)
            if away[a] != away[b]
            for tensor in tensors
        }
    )
    sizes = select_values(workload, np.array(crossed, dtype=np.int32)).size_bytes(
        workload.value_at(batch=result.scenario.batch), result.plan.widths
    )
    return len(crossed), float(sizes.sum())


def _seconds(result: Estimate, which: Marks) -> float:
    """Return the seconds of some operators in one run of the whole batch."""
    return float(result.run.latency_s[which].sum()) * result.waves


def _call_s(result: Estimate) -> float:
    """Return the seconds in which the host starts one run of the unit."""
    host = divide_host_work(result)[1]
    return float(host.run.latency_s.sum()) if host else 0.0


def _groups(result: Estimate, places: list[tuple[str, str]]) -> tuple[OperatorGroup, ...]:
    """Return the operators by name and fate: refused ones first, those of most time first."""
    workload = result.workload
    macs = workload.operators.macs @ workload.value_at(batch=result.scenario.batch)
    seconds = result.run.latency_s
    members: dict[tuple[str, str, str], list[int]] = {}
    for i, (kind, place) in enumerate(zip(workload.operators.kind, places, strict=True)):
        members.setdefault((kind, *place), []).append(i)
    rows = [
        OperatorGroup(
            operator=kind,
            status=status,
            count=len(which),
            mac_share=float(macs[which].sum() / (macs.sum() or 1.0)),
            time_share=float(seconds[which].sum() / (seconds.sum() or 1.0)),
            why=why,
            example=workload.operators.path[which[0]],
        )
        for (kind, status, why), which in members.items()
    ]
    order = (REFUSES, UNKNOWN, RUNS)
    return tuple(sorted(rows, key=lambda row: (order.index(row.status), -row.time_share)))
