"""A device of one's own machine: the nearest of the catalogue with every fact replaced that was measured or is known
here, and the rates at which its software runs, fitted to what was timed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from analysis.annexes.machine import bands, calibrate
from analysis.annexes.machine.calibrate import Fit, FitRow, Knob, Progress
from analysis.annexes.machine.here import Machine, Measured, Timed
from analysis.annexes.machine.measurement import Measurement, Unpredictable, family_of
from analysis.annexes.machine.rows import interpret
from analysis.annexes.machine.validate import LARGE
from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.model.ir.workload import Floats
from hardware import files
from hardware.demand import OpClass
from hardware.device import Device, in_mode, load_all
from hardware.device_file import DeviceFile, Fact, Held
from hardware.errors import RequestError
from hardware.runtime import of_mode, runtimes

SETS = Path(__file__).parents[3] / "hardware" / "instruction_sets.toml"
RUNTIME = "pytorch_eager"
PULL = 3e-4  # towards the rates that ship, for classes that were hardly met
LOW, HIGH = 0.002, 1.0  # of rates: shares of the peak
HOST_START_S, START_S = (1e-7, 2e-6, 1e-3), (1e-8, 1e-7, 1e-4)  # of what kernels take to start: low, guess, high
CALLED = (
    OpClass.GEMM,
    OpClass.CONV,
    OpClass.DEPTHWISE,
    OpClass.ATTENTION,
)  # by a library, which takes its time to start
DISPATCHED = 32  # operators of the probe of dispatch
_CACHE_PART = 0.5  # of a cache: what certainly stays in it while it is gone over
_FAR = 4.0  # times the last level: what certainly does not


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A model or probe: measured, predicted by the nearest device of the catalogue, and by a fit without its family."""

    name: str
    batch: int
    family: str
    is_model: bool
    measured_s: float
    before_s: float
    after_s: float
    spread: float


class Own(msgspec.Struct, frozen=True, kw_only=True):
    """The device, the one of the catalogue it was made from, how it predicts what was left out; what was not fitted."""

    device: Device
    nearest: Device
    rows: tuple[Row, ...]
    noise: float
    taken: float
    skipped: tuple[str, ...]


def nearest(machine: Machine, facts: dict[str, float]) -> Device:
    """The device of the catalogue that is most like the machine: by name where it is there, else by its figures."""
    devices = [d for d in load_all()[0] if d.architecture == machine.architecture and d.silicon]
    name = machine.name.lower()
    named = [d for d in devices if any(each.lower() in name for each in (d.file.name, *d.file.aliases))]
    if named:
        return named[0]

    def far(device: Device) -> float:
        known = [each for each in ("units", "clock_hz", "memory_bandwidth", "l2_bytes") if facts.get(each)]
        return float(sum(abs(np.log(facts[each] / device.values[each])) for each in known if device.values.get(each)))

    same = [d for d in devices if d.vendor == machine.vendor] or devices
    return min(same, key=far)


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """What a fitted row is, beside what the fit needs of it."""

    name: str
    batch: int
    is_model: bool
    spread: float
    before_s: float


def own_device(measured: Measured, name: str, progress: Progress = lambda _: None) -> Own:
    """Fit a device of this name to what was measured. Raises RequestError where too little was."""
    facts, stated = _facts(measured)
    base = nearest(measured.machine, stated)
    plain = _described(measured, base, name, facts)
    rows, seen, skipped = _rows(measured, plain, base)
    if measured.noise is None:
        skipped.append("each was timed in one round: what repeats differ by is not known, and in no band")
    software = f"{_with(measured.machine)}, {measured.machine.date}"
    return _made(base, plain, rows, seen, RUNTIME, software, measured.noise or 0.0, measured.taken, skipped, progress)


def from_rows(table: Sequence[dict[str, str]], base: Device, name: str, progress: Progress = lambda _: None) -> Own:
    """Fit a device of this name, otherwise like `base`, to rows in the format of the tables that ship; a row of a
    device that the catalogue lacks is of it. Raises RequestError where too few can be predicted."""
    plain = in_mode(Path(f"{name}.toml"), msgspec.structs.replace(base.file, id=name, aliases=()), "")
    rows, seen, skipped = [], [], []
    for each in table:
        try:
            one = interpret({**each, "device": base.key})
            if one.latency_s is None:
                continue
            before = calibrate.fit_row(one, one.latency_s)
            row = calibrate.fit_row(msgspec.structs.replace(one, device=plain), one.latency_s)
        except Unpredictable as reason:
            skipped.append(f"{each.get('model', '')[:60]}: {reason}")
            continue
        seconds = calibrate.predicted([before], base.software.efficiency, (), np.zeros((1, 0)))[0, 0]
        seen.append(Seen(name=one.model, batch=one.scenario.batch, is_model=True, spread=0.0, before_s=float(seconds)))
        rows.append(row)
    runtime = max({row.setup.runtime.id for row in rows}, key=[row.setup.runtime.id for row in rows].count, default="")
    kept = [(row, each) for row, each in zip(rows, seen, strict=True) if row.setup.runtime.id == runtime]
    mine, known = [row for row, _ in kept], [each for _, each in kept]
    return _made(base, plain, mine, known, runtime, "rows of a CSV", 0.0, 0.0, list(dict.fromkeys(skipped)), progress)


def _made(
    base: Device,
    plain: Device,
    rows: Sequence[FitRow],
    seen: Sequence[Seen],
    runtime: str,
    software: str,
    noise: float,
    taken: float,
    skipped: Sequence[str],
    progress: Progress,
) -> Own:
    if len(rows) < LARGE:
        reason = f" ({skipped[0]})" if skipped else ""
        raise RequestError(f"{len(rows)} timings are too few to fit a device to (at least {LARGE}){reason}")
    full = _fit(rows, seen, plain, progress)
    fitted = _with_rates(plain, full, runtime, software, noise)
    out = _left_out(rows, seen, full, progress)
    found = tuple(
        Row(
            name=each.name, batch=each.batch, family=row.family, is_model=each.is_model, measured_s=row.measured_s,
            before_s=each.before_s, after_s=seconds, spread=each.spread,
        )
        for each, row, seconds in zip(seen, rows, out.tolist(), strict=True)
    )  # fmt: skip
    held = _held(found, runtime, noise)
    device = in_mode(Path(f"{plain.id}.toml"), msgspec.structs.replace(fitted.file, trust=(held,)), "")
    return Own(device=device, nearest=base, rows=found, noise=noise, taken=taken, skipped=tuple(skipped))


# --- facts ------------------------------------------------------------------------------------------------


def _facts(measured: Measured) -> tuple[dict[str, Fact], dict[str, float]]:
    """Facts of the machine by name, and their values: what the kernel says, and what was timed."""
    machine, date = measured.machine, measured.machine.date
    units = {"units": "count", "clock_hz": "Hz", "idle_w": "W", "tdp_w": "W", "power_limit_w": "W"}
    facts = {
        name: Fact(value, units.get(name, "bit" if name.endswith("bits") else "byte"), f"read here, {date}", "measured")
        for name, value in machine.facts.items()
    }
    rate = _peak(measured, "fp32", all_cores=True)
    cores = machine.facts.get("units", 1.0)
    lanes = _fma(machine, "vector").get("fp32", Fact(0.0, "FMA/clock", "", "measured")).value
    if rate and lanes and machine.is_host:
        needed = rate.value / (2.0 * cores * lanes)
        if needed > machine.facts.get("clock_hz", 0.0):
            why = f"measured here, {date}: the clock that its fastest product needs"
            facts["clock_hz"] = Fact(needed, "Hz", why, "measured", low=needed)
    for timed in measured.timed:
        if timed.case.op == "dispatch":
            each = msgspec.structs.replace(timed, seconds=timed.seconds / DISPATCHED)
            facts["dispatch_s"] = _stated(each.seconds, "s", each, machine, "an operator on next to nothing")
            if machine.is_host:
                why = "what operators take to start is stated by their class (rates.overhead)"
                facts["launch_s"] = Fact(HOST_START_S[0], "s", why, "measured")
    for name, sizes in _levels(machine).items():
        fact = _fastest(measured, sizes, name)
        if fact is not None:
            facts[name] = fact
    return facts, {name: fact.value for name, fact in facts.items()}


def _levels(machine: Machine) -> dict[str, tuple[float, float]]:
    """Bytes gone over that tell of the memory, and of the last level."""
    last = machine.facts.get("l3_bytes") or machine.facts.get("l2_bytes") or 0.0
    before = machine.facts.get("l2_bytes", 0.0) if machine.facts.get("l3_bytes") else 0.0
    return {"memory_bandwidth": (last * _FAR, float("inf")), "last_level_bandwidth": (before * 1.5, last * _CACHE_PART)}


def _fastest(measured: Measured, sizes: tuple[float, float], name: str) -> Fact | None:
    """The highest rate of copies and reads of such sizes, byte/s."""
    rates = [(t.case.moved / t.seconds, t) for t in measured.timed if sizes[0] <= t.case.footprint <= sizes[1]]
    if not rates:
        return None
    best, timed = max(rates, key=lambda pair: pair[0])
    return _stated(best, "byte/s", timed, measured.machine, f"{timed.case.op} of {timed.case.footprint / 1e6:.3g} MB")


def _stated(value: float, unit: str, timed: Timed, machine: Machine, what: str) -> Fact:
    why = f"measured here, {machine.date}: {what}, spread {timed.spread:.0%} over {timed.rounds} rounds"
    return Fact(value, unit, why, "measured", low=value * (1 - min(timed.spread, 0.9)), high=value * (1 + timed.spread))


def _peak(measured: Measured, precision: str, all_cores: bool = False) -> Fact | None:
    """The highest rate of matrix products in a precision, FLOP/s."""
    best: Fact | None = None
    for timed in measured.timed:
        sizes = re.search(r"width=(\d+) batch=(\d+)", timed.case.key)
        mine = timed.case.op == "linear" and timed.case.precision == precision and sizes is not None
        if not mine or (all_cores and timed.case.threads < measured.machine.threads):
            continue
        assert sizes is not None
        flops = 2.0 * 4.0 * int(sizes[1]) ** 2 * int(sizes[2]) / timed.seconds  # a chain of four
        if best is None or flops > best.value:
            best = _stated(flops, "FLOP/s", timed, measured.machine, f"product of {sizes[2]} x {sizes[1]} x {sizes[1]}")
    return best


def _fma(machine: Machine, unit: str) -> dict[str, Fact]:
    """FMA per core and clock by the flags of the processor."""
    for row in files.table(SETS)[unit]:
        if set(row["flags"]) <= set(machine.flags):
            rates = {name: value for name, value in row.items() if name not in ("flags", "source")}
            return {
                name: Fact(float(value), "FMA/clock", f"its instruction set: {row['source']}", "derived")
                for name, value in rates.items()
            }
    return {}


def _described(measured: Measured, base: Device, name: str, facts: dict[str, Fact]) -> Device:
    """The nearest device with the facts of the machine in place of its own; what rests on its size shrinks with it."""
    machine, file = measured.machine, base.file
    mine: dict[str, Fact] = {}
    scale = facts["units"].value / base.units if "units" in facts else 1.0
    for key, fact in file.facts.items():
        per_chip = key in ("tdp_w", "idle_w", "clocked_idle_w", "active_w", "power_limit_w", "sustained_w")
        by = scale if per_chip else 1.0
        ends = {end: None if value is None else value * by for end, value in (("low", fact.low), ("high", fact.high))}
        what = f"as {file.name}" + (", by number of cores" if by != 1.0 else "")
        if key not in ("memory_bus_bits", "memory_transfer_rate", "vector_clock_hz", "matrix_clock_hz"):
            mine[key] = msgspec.structs.replace(
                fact, value=fact.value * by, source=f"{what}: {fact.source}"[:400], quality="assumed", **ends
            )
    mine |= facts
    tables = file.fma_per_clock
    if machine.is_host:
        tables = {"vector": {**_fma(machine, "vector")}}
        if matrix := _fma(machine, "matrix"):
            tables["matrix"] = matrix
    title = machine.name if machine.name.lower() not in ("", "unknown") else name
    spec = DeviceFile(
        id=name,
        name=f"{title}, {facts['units'].value:.0f} {file.unit_name or base.arch.unit}s (here)"
        if "units" in facts
        else title,
        vendor=machine.vendor,
        architecture=machine.architecture,
        memory_technology=file.memory_technology,
        facts=mine,
        fma_per_clock=tables,
        year=int(machine.date[:4]),
        unit_name=file.unit_name,
        software=base.software_class,
        notes=(
            f"Measured by hwexplorer measure on {machine.date} with {_with(machine)}; what was not is as {file.name}",
            machine.energy,
        ),
        runs=file.runs if not machine.is_host else {},
    )
    return in_mode(Path(f"{name}.toml"), spec, "")


def _with(machine: Machine) -> str:
    return ", ".join(f"{name} {version}" for name, version in machine.versions.items()) + f", {machine.threads} threads"


# --- rates ------------------------------------------------------------------------------------------------


def _rows(measured: Measured, device: Device, base: Device) -> tuple[list[FitRow], list[Seen], list[str]]:
    """What was timed as requests of the estimate on the device: on all its cores, in the format of probes."""
    rows, seen, skipped = [], [], []
    for timed in measured.timed:
        case = timed.case
        if case.moved or case.threads != measured.machine.threads or case.precision != "fp32":
            continue
        workload = timed.workload()
        if workload is None:
            skipped.append(f"{case.key}: not captured at this batch (hwexplorer capture {case.model})")
            continue
        scenario = Scenario(case.batch, case.precision, RUNTIME, "nchw")
        result, before = estimate(workload, device, scenario), estimate(workload, base, scenario)
        family = family_of(case.model) if case.model else f"probe {case.op}"
        rows.append(
            FitRow(
                measured_s=timed.seconds,
                demand=result.demand,
                setup=result.setup,
                least_s=np.zeros(result.demand.n_kernels),
                adds_s=0.0,
                floor_s=0.0,
                group=(family,),
                family=family,
                request=Measurement((family,), case.model, None, device, scenario, timed.seconds, None),
            )
        )
        named, is_model = case.model or case.key, bool(case.model)
        seen.append(
            Seen(name=named, batch=case.batch, is_model=is_model, spread=timed.spread, before_s=before.latency_s)
        )
    return rows, seen, skipped


def _fit(rows: Sequence[FitRow], seen: Sequence[Seen], device: Device, progress: Progress) -> Fit:
    # A timing tells of as many rates as there are classes of work in it: a model of many, a probe of its own.
    weight = np.array([float(len(set(row.demand.op_class.tolist()))) for row in rows])
    rates = device.software.efficiency
    met = set(np.concatenate([row.demand.op_class for row in rows]).tolist())
    chosen = [
        Knob(table, OpClass(each).name, (each,), LOW, HIGH, float(np.clip(getattr(rates, table)[0, each], LOW, HIGH)))
        for table in ("compute", "bandwidth")
        for each in sorted(met)
    ]
    low, start, high = HOST_START_S if device.arch.is_host else START_S
    others = tuple(int(each) for each in OpClass if each not in CALLED)
    chosen += [Knob("overhead", OpClass(each).name, (each,), low, high, start) for each in CALLED if each in met]
    chosen.append(Knob("overhead", "other", others, low, high, start))
    return calibrate.fit_knobs(device.id, rows, tuple(chosen), rates, weight, progress, PULL)


def _left_out(rows: Sequence[FitRow], seen: Sequence[Seen], full: Fit, progress: Progress) -> Floats:
    """Seconds of each model by a fit without its family; of probes, which no other tells of, by the fit to all. Every
    fit begins where the full one did: rates that only the family tells of are those that ship, then."""
    seconds: Floats = np.exp(full.error) * np.array([row.measured_s for row in rows])
    for family in dict.fromkeys(row.family for row, each in zip(rows, seen, strict=True) if each.is_model):
        mine = [i for i, each in enumerate(seen) if each.is_model and rows[i].family == family]
        others = [i for i in range(len(rows)) if i not in mine]
        kept, weight = [rows[i] for i in others], full.weight[others]
        found = calibrate.fit_knobs(f"without {family}", kept, full.knobs, full.shipped, weight, progress, PULL)
        seconds[mine] = calibrate.predicted([rows[i] for i in mine], full.shipped, full.knobs, found.values[None])[0]
    return seconds


def _with_rates(device: Device, full: Fit, runtime: str, software: str, noise: float) -> Device:
    """The device with the rates that were found, as its file keeps them."""
    shipped = device.software
    tables: dict[str, dict[str, tuple[float, float, float]]] = {
        "compute": dict(shipped.compute),
        "bandwidth": dict(shipped.bandwidth),
        "overhead": {},
    }
    for knob, value in zip(full.knobs, full.values.tolist(), strict=True):
        tables[knob.table][knob.name] = (value, value * (1 - min(noise, 0.9)), min(value * (1 + noise), HIGH))
    general = runtimes().get(runtime) or of_mode(device, runtime)
    record = msgspec.structs.replace(general, name=f"{general.name} ({software})", id="")
    rates = msgspec.structs.replace(shipped, **tables)
    spec = msgspec.structs.replace(
        device.file, rates=rates, runtimes={runtime: record} if runtime in runtimes() else {}
    )
    return in_mode(Path(f"{device.id}.toml"), spec, "")


# --- how good it is ---------------------------------------------------------------------------------------


def _held(rows: Sequence[Row], runtime: str, noise: float) -> Held:
    """Factors that hold models that were left out, wider by what repeats differ by: of m errors the k-th from either
    end leaves out 2 k of m + 1 that are still to come."""
    models = [row for row in rows if row.is_model] or list(rows)
    errors = np.sort([np.log(row.measured_s / row.after_s) for row in models])
    k = max(int((len(errors) + 1) * (1.0 - bands.TARGET) / 2.0), 1)
    low, high = np.exp([min(errors[k - 1], -bands.LEAST), max(errors[-k], bands.LEAST)]).tolist()
    mode = runtimes()[runtime].mode if runtime in runtimes() else runtime
    error = median_error(models)
    ends = low / (1 + noise), high * (1 + noise)
    return Held(runtime=runtime, mode=mode, rows=len(models), median_error=error, low=ends[0], high=ends[1])


def median_error(rows: Sequence[Row], before: bool = False) -> float:
    """Of predictions over measurements; NaN for none."""
    errors = [abs((row.before_s if before else row.after_s) / row.measured_s - 1.0) for row in rows]
    return float(np.median(errors)) if errors else float("nan")
