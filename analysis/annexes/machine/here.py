"""What was measured on a machine, as `hwexplorer measure` keeps it: lines of JSON, each whole or not there, so that
what was cancelled goes on where it stopped."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from analysis.model import store
from analysis.model.ir.validation import decode
from analysis.model.ir.workload import Workload
from analysis.model.names.targets import fixed_batch
from hardware import files
from hardware.architectures import registry
from hardware.errors import RequestError

SCHEMA = "hwexplorer-measured/1"
MOST_BYTES = 1 << 26
FEW = 3  # rounds below which nothing is said of noise


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and what ran: `facts` in SI units by the names of device files, `reads` how energy is read or why it
    is not, `flags` of the instruction set."""

    schema: str = SCHEMA
    device: str  # as torch calls it: cpu, cuda:0
    name: str
    vendor: str
    architecture: str
    date: str
    threads: int
    facts: dict[str, float] = {}
    flags: tuple[str, ...] = ()
    versions: dict[str, str] = {}
    energy: str = ""
    load: float = 0.0  # processes that wanted to run beside ours, before it began

    @property
    def is_host(self) -> bool:
        """Whether the machine's own processor was measured, not an accelerator in it."""
        return registry.get(self.architecture).is_host


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """What is timed. `model` by name, or the `workload` of a probe (base64); neither where only `moved` bytes count."""

    key: str
    op: str
    batch: int = 1
    threads: int = 1
    precision: str = "fp32"
    model: str = ""
    workload: str = ""
    moved: float = 0.0
    footprint: float = 0.0  # bytes that are gone over again and again


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one call in one round; joules, where they are read; `taken`: somebody else got a core meanwhile."""

    of: str
    seconds: float
    joules: float | None = None
    taken: bool = False


class Timed(msgspec.Struct, frozen=True, kw_only=True):
    """A case with its samples: the median and the middle two thirds of those in which nobody else took a core; of the
    fastest third where hardly any is left. `taken`: the share in which somebody did."""

    case: Case
    seconds: float
    low: float
    high: float
    rounds: int
    taken: float
    joules: float | None = None

    @property
    def spread(self) -> float:
        """Half of the middle two thirds, over the median."""
        return (self.high - self.low) / 2.0 / self.seconds

    def workload(self) -> Workload | None:
        """What it computes; None where it only moves bytes, or is not captured (at its batch: some models fix it)."""
        kept = self.case.workload
        found = decode(base64.b64decode(kept)) if kept else store.ready(self.case.model) if self.case.model else None
        return found if found is None or fixed_batch(found) in (None, self.case.batch) else None


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    machine: Machine
    timed: tuple[Timed, ...]

    @property
    def noise(self) -> float | None:
        """Median spread between repeats, a fraction; None where they are too few."""
        spreads = [each.spread for each in self.timed if each.rounds > 1]
        return float(np.median(spreads)) if spreads else None

    @property
    def taken(self) -> float:
        """Share of the samples in which somebody else took a core."""
        rounds = sum(each.rounds for each in self.timed)
        return sum(each.taken * each.rounds for each in self.timed) / rounds if rounds else 0.0


Line = Machine | Case | Sample


def written(line: Line) -> bytes:
    return msgspec.json.encode({"kind": type(line).__name__.lower(), "is": line}) + b"\n"


_KINDS: dict[str, type[Machine] | type[Case] | type[Sample]] = {"machine": Machine, "case": Case, "sample": Sample}


class _Raw(msgspec.Struct):
    kind: str
    fields: msgspec.Raw = msgspec.field(name="is")


def read(path: Path) -> Measured:
    """What a file of `hwexplorer measure` holds; a line that was cut off is left out. Raises RequestError."""
    try:
        lines = files.read(path, MOST_BYTES).split(b"\n")
        found = list(_lines(lines))
    except OSError as error:
        raise RequestError(f"{path.name}: cannot be read ({error.strerror})") from None
    except (msgspec.MsgspecError, KeyError, UnicodeError, RecursionError):
        raise RequestError(f"{path.name}: not what `hwexplorer measure` writes") from None
    machines = [line for line in found if isinstance(line, Machine)]
    if not machines or machines[-1].schema != SCHEMA:
        raise RequestError(f"{path.name}: not what `hwexplorer measure` writes (no machine in it)")
    samples: dict[str, list[Sample]] = {}
    for line in found:
        if isinstance(line, Sample) and 0.0 < line.seconds < 1e6:
            samples.setdefault(line.of, []).append(line)
    cases = {line.key: line for line in found if isinstance(line, Case)}
    timed = tuple(_timed(case, samples[key]) for key, case in cases.items() if key in samples)
    return Measured(machine=machines[-1], timed=timed)


def _lines(lines: Sequence[bytes]) -> Iterable[Line]:
    for place, line in enumerate(lines):
        try:
            raw = msgspec.json.decode(line, type=_Raw) if line else None
        except msgspec.MsgspecError:
            if not place:
                raise
            raw = None  # cut off while it was written
        if raw is not None:
            yield msgspec.json.decode(raw.fields, type=_KINDS[raw.kind])


def _timed(case: Case, samples: Sequence[Sample]) -> Timed:
    alone = [each for each in samples if not each.taken]
    if len(alone) < min(FEW, len(samples)):
        alone = sorted(samples, key=lambda each: each.seconds)[: (len(samples) + 2) // 3]
    low, middle, high = np.quantile([each.seconds for each in alone], (1 / 6, 1 / 2, 5 / 6)).tolist()
    joules = [each.joules for each in alone if each.joules is not None]
    return Timed(
        case=case,
        seconds=middle,
        low=low,
        high=high,
        rounds=len(samples),
        taken=sum(each.taken for each in samples) / len(samples),
        joules=float(np.median(joules)) if joules else None,
    )
