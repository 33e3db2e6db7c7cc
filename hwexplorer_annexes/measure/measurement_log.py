"""The log of `hwexplorer measure`: JSON lines, each written at once, so that a stopped run can be resumed."""

import base64
import csv
import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from hwexplorer.extend import RequestError, batch_limits, file_access, known_architectures, store
from hwexplorer_annexes.measure.device_parts import Workload, percent

SCHEMA = "hwexplorer-measured/1"
MOST_BYTES = 1 << 26
SHARED_COLUMNS = (
    "source", "device", "device_mode", "framework", "model", "batch", "image_size", "precision", "latency_ms",
    "throughput_per_s", "energy_mJ_per_inference", "power_W", "scenario", "note", "origin",
)  # fmt: skip
LEAST_S, MOST_S = 1e-9, 1e6  # no call is shorter than a clock cycle, none was timed for days
FEW = 3  # undisturbed samples; with fewer, the fastest third of all samples counts


class MeasuredMachine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and its software: `facts` in SI units with the names of device files, `flags` of the instruction set.
    `energy` says how energy is read, or why it is not."""

    schema: str = SCHEMA
    device: str  # name in torch: cpu, cuda:0
    name: str
    vendor: str
    architecture: str
    date: str
    threads: int
    facts: dict[str, float] = {}
    flags: tuple[str, ...] = ()
    versions: dict[str, str] = {}
    energy: str = ""

    @property
    def is_host(self) -> bool:
        """True if the processor of the machine was measured, not an accelerator in it."""
        return known_architectures.get(self.architecture).is_host

    @property
    def software(self) -> str:
        """Versions of the software and the number of threads, as text."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items()) + f", {self.threads} threads"


class BenchmarkCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case to time: a `model` by name, the `workload` of a probe (base64), or neither to move `moved` bytes.
    `footprint` is the number of bytes that are read repeatedly."""

    key: str
    op: str
    batch: int = 1
    threads: int = 1
    precision: str = "fp32"
    model: str = ""
    workload: str = ""
    moved: float = 0.0
    footprint: float = 0.0


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds of one call of the case with key `of` in one round, and joules if read. `taken` is True if another
    process took a core meanwhile."""

    of: str
    seconds: float
    joules: float | None = None
    taken: bool = False


class TimedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case with the summary of its samples. Undisturbed rounds count; with fewer than FEW of them, the fastest third
    of all rounds. `seconds` is the least of these, `spread` half the width of their middle two thirds over their
    median, `taken` the share of all rounds that were disturbed."""

    case: BenchmarkCase
    seconds: float
    spread: float
    rounds: int
    taken: float
    joules: float | None = None

    def workload(self) -> Workload | None:
        """Return its workload. Return None if it only moves bytes or is not captured at its batch."""
        packed, model = self.case.workload, self.case.model
        workload = store.decode(base64.b64decode(packed)) if packed else store.ready(model) if model else None
        return workload if workload is None or batch_limits.fixed_batch(workload) in (None, self.case.batch) else None


class MeasurementLog(msgspec.Struct, frozen=True, kw_only=True):
    """The machine and the timed cases of a log, and how many samples of a case are no times, by its key."""

    machine: MeasuredMachine
    timed: tuple[TimedCase, ...]
    invalid: dict[str, int] = {}

    @property
    def noise(self) -> float | None:
        """Median spread between repeats, a fraction; None if no case was repeated."""
        spreads = [each.spread for each in self.timed if each.rounds > 1]
        return float(np.median(spreads)) if spreads else None

    @property
    def disturbed_share(self) -> float:
        """The share of samples in which another process took a core."""
        rounds = sum(each.rounds for each in self.timed)
        return sum(each.taken * each.rounds for each in self.timed) / rounds if rounds else 0.0


LogLine = MeasuredMachine | BenchmarkCase | Sample
_KINDS: dict[str, type[LogLine]] = {"machine": MeasuredMachine, "case": BenchmarkCase, "sample": Sample}


class _RawLine(msgspec.Struct):
    kind: str
    fields: msgspec.Raw = msgspec.field(name="is")


class _SampleCase(msgspec.Struct):
    of: str


def encode_line(line: LogLine) -> bytes:
    """Return a line of the log as JSON bytes."""
    kinds = {struct: kind for kind, struct in _KINDS.items()}
    return msgspec.json.encode({"kind": kinds[type(line)], "is": line}) + b"\n"


def read_log(path: Path) -> MeasurementLog:
    """Read a log. A truncated line is skipped. Raises RequestError."""
    try:
        lines = list(_decode_lines(file_access.read(path, MOST_BYTES).split(b"\n")))
    except OSError as error:
        raise RequestError(f"{path.name}: cannot be read ({error.strerror})") from None
    except (msgspec.MsgspecError, KeyError, UnicodeError, RecursionError):
        raise RequestError(f"{path.name}: not what `hwexplorer measure` writes") from None
    machines = [line for line in lines if isinstance(line, MeasuredMachine)]
    if not machines or machines[-1].schema != SCHEMA:
        raise RequestError(f"{path.name}: not what `hwexplorer measure` writes (no machine in it)")
    samples: dict[str, list[Sample]] = {}
    invalid = Counter[str]()
    for line in (line for line in lines if isinstance(line, Sample)):
        if LEAST_S <= line.seconds < MOST_S:
            samples.setdefault(line.of, []).append(line)
        else:
            invalid[line.of] += 1
    cases = {line.key: line for line in lines if isinstance(line, BenchmarkCase)}
    timed = tuple(_summarise_samples(case, samples[key]) for key, case in cases.items() if key in samples)
    return MeasurementLog(machine=machines[-1], timed=timed, invalid=dict(invalid))


def _decode_lines(lines: Sequence[bytes]) -> Iterable[LogLine]:
    for place, line in enumerate(lines):
        try:
            raw = msgspec.json.decode(line, type=_RawLine) if line else None
        except msgspec.MsgspecError:
            if not place:
                raise
            raw = None
            if place < len(lines) - 2:  # a stop truncates the last line
                yield Sample(of="lines that are not JSON", seconds=0.0)
        if raw is not None:
            yield _decode_line(raw)


def _decode_line(raw: _RawLine) -> LogLine:
    try:
        return msgspec.json.decode(raw.fields, type=_KINDS[raw.kind])
    except msgspec.ValidationError:
        case = msgspec.json.decode(raw.fields, type=_SampleCase) if raw.kind == "sample" else None
        if case is None:
            raise
        return Sample(of=case.of, seconds=0.0)  # its time is missing


def _summarise_samples(case: BenchmarkCase, samples: Sequence[Sample]) -> TimedCase:
    chosen = [sample for sample in samples if not sample.taken]
    if len(chosen) < min(FEW, len(samples)):
        chosen = sorted(samples, key=lambda sample: sample.seconds)[: (len(samples) + 2) // 3]
    low, middle, high = np.quantile([sample.seconds for sample in chosen], (1 / 6, 1 / 2, 5 / 6)).tolist()
    joules = [sample.joules for sample in chosen if sample.joules is not None]
    return TimedCase(
        case=case,
        seconds=min(sample.seconds for sample in chosen),
        spread=(high - low) / 2.0 / middle,
        rounds=len(samples),
        taken=sum(sample.taken for sample in samples) / len(samples),
        joules=float(np.median(joules)) if joules else None,
    )


def shared_csv(log: MeasurementLog, name: str) -> str:
    """Return the timed models as CSV rows in the format of the shipped tables (analysis/validation/measured), for
    a device of this name."""
    machine, torch = log.machine, log.machine.versions.get("torch", "")
    versions = " ".join(f"{package} {version}" for package, version in machine.versions.items())
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(SHARED_COLUMNS)
    for timed in (timed for timed in log.timed if timed.case.model):
        case, seconds, joules = timed.case, timed.seconds, timed.joules
        energy_mj, power_w = (
            ("", "") if joules is None else (f"{joules / case.batch * 1e3:.6g}", f"{joules / seconds:.4g}")
        )
        note = (
            f"{machine.name}; {machine.threads} threads; {versions}; least of {timed.rounds} interleaved rounds after "
            f"warm-up; spread {percent(timed.spread, 1)}; {machine.energy}"
        )
        writer.writerow(
            (
                f"hwexplorer measure {machine.date}", name, "", f"pytorch {torch} eager NCHW",
                case.model, case.batch, "", case.precision, f"{seconds * 1e3:.6g}", f"{case.batch / seconds:.6g}",
                energy_mj, power_w, "infer", note, "measured by its sender",
            )
        )  # fmt: skip
    return text.getvalue()
