"""Operators that an accelerator's compiler does not place on it, where they run instead, and what that costs.

Operators of the rest run one by one, without fusion. An operator of which no source is known counts as one of the
unit."""

from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.explore.divided_run import DividedRun, count_pieces, divide_run, find_crossings
from analysis.model.ir.operator_graph import base_name
from analysis.model.ir.workload import Bools
from hardware.base.errors import RequestError
from hardware.base.file_access import read_records
from hardware.device import Device

SUPPORT = Path(__file__).with_name("operator_support.toml")
RUNS, REFUSES, UNKNOWN = "runs", "refuses", "unknown"
_SHOWN = {RUNS: "runs", REFUSES: "falls back", UNKNOWN: "unknown"}


class Compiler(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The operators that a compiler places on its accelerator: those that it `runs`, those that it `refuses` and why,
    and what is true of all `others`. At most `pieces` of a model run on the unit (0: any number); `rest` says what runs
    the others, a unit of `rest_architecture` in its module. A row of operator_support.toml."""

    base: str = ""
    name: str
    unit: str
    source: str
    rest: str
    rest_architecture: str = ""
    others: str
    runs: str
    pieces: int = 0
    refuses: dict[str, str] = {}
    also_refuses: dict[str, str] = {}

    def place(self, kind: str, target: str) -> tuple[str, str]:
        """Return whether an operator runs, is refused or is unknown, and why. The name of its call comes first."""
        refuses = self.refuses | self.also_refuses
        for name in (base_name(target)[0], kind):
            if name in refuses:
                return REFUSES, refuses[name]
            if name in self.runs.split():
                return RUNS, ""
        return self.others, "it is not in the list of the source" if self.others == REFUSES else "no source is known"


class OperatorGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Operators of one kind with one fate. `time_share` is of the time on the unit if it ran all of them, `example`
    is the path of the first one."""

    operator: Annotated[str, column("Operator")]
    status: Annotated[str, column("On the unit", shown=_SHOWN)]
    count: Annotated[int, column("Count", "count")]
    mac_share: Annotated[float, column("of MACs", "%", keep=2)]
    time_share: Annotated[float, column("of time", "%", keep=1)]
    why: Annotated[str, column("Why", keep=1)]
    example: Annotated[str, column("First", keep=3)]


class FallbackReport(Head, frozen=True, kw_only=True):
    """The operators of a model that fall back to the `rest`: `pieces` stay on the unit, and `crossings` of tensors of
    `crossing_bytes` in all join the sides. `whole_s` is the time if the unit ran all operators, `alone_s` if
    `rest_device` does, `divided` the model as the compiler divides it; None without a device, or, of `alone_s`, if the
    model does not fit into its memory. `rest_fits` is True if what is left to it does. `follow` operators come after
    the last piece that the unit may run."""

    compiler: str
    source: str
    rest: str
    rest_device: str | None
    operators: int
    refused: int
    unknown: int
    follow: int
    pieces: int
    crossings: int
    crossing_bytes: float
    whole_s: float
    alone_s: float | None
    divided: DividedRun | None
    rest_fits: bool | None
    groups: tuple[OperatorGroup, ...]


def find_compiler(device: Device) -> Compiler:
    """Return the compiler of a device. Raises RequestError if none is known."""
    compilers = read_records(SUPPORT, "compiler", Compiler)
    if device.file.compiler not in compilers:
        units = ", ".join(sorted(compiler.unit for compiler in compilers.values()))
        raise RequestError(f"which operators run on {device.name} is not known; name a unit like {units}")
    return compilers[device.file.compiler]


def find_fallback(result: Estimate, rest: Estimate | None) -> FallbackReport:
    """Return what of a model does not run on the unit of `result`; it runs on the device of `rest`, if one is known.
    Raises RequestError for a unit whose compiler is not known."""
    compiler, ops = find_compiler(result.device), result.workload.operators
    places = [compiler.place(kind, target) for kind, target in zip(ops.kind, ops.target, strict=True)]
    refused = np.array([status == REFUSES for status, _ in places], dtype=np.bool_)
    away = _leave_in_pieces(refused, compiler.pieces)
    crossings, crossing_bytes = find_crossings(result, away)
    run = divide_run(result, rest.in_mode("eager"), away) if rest else None
    return FallbackReport(
        **head_fields(result, on_device=True),
        compiler=compiler.name,
        source=compiler.source,
        rest=compiler.rest,
        rest_device=rest.device.key if rest else None,
        operators=len(places),
        refused=int(refused.sum()),
        unknown=sum(status == UNKNOWN for status, _ in places),
        follow=int((away & ~refused).sum()),
        pieces=count_pieces(~away),
        crossings=crossings,
        crossing_bytes=crossing_bytes,
        whole_s=result.latency_s,
        alone_s=rest.latency_s if rest and rest.fits else None,
        divided=run,
        rest_fits=run.rest_bytes <= rest.device.memory_bytes if run and rest else None,
        groups=_groups(result, places),
    )


def _leave_in_pieces(refused: Bools, most: int) -> Bools:
    """Return which operators run elsewhere, (n,): the refused ones, and all that follow the last piece allowed."""
    ends = np.flatnonzero(refused & ~np.append(False, refused[:-1]))
    ends = ends[ends > 0]
    if not most or len(ends) < most:
        return refused
    away = refused.copy()
    away[ends[most - 1] :] = True
    return away


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
