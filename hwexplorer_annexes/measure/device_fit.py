"""A device for the user's machine: its software's rates, fitted to timings, and a band that holds its models."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

import msgspec
import numpy as np

from hwexplorer.extend import Device, RequestError, Scenario, device_file, efficiency_fit, measured_rows, row_validation
from hwexplorer_annexes.measure import few_rows
from hwexplorer_annexes.measure.described_device import HOST_LAUNCH_S, describe_device, measured_facts, nearest_device
from hwexplorer_annexes.measure.device_parts import (
    FitProgress,
    FitRow,
    FittedRate,
    Floats,
    MeasuredRow,
    OpClass,
    column,
    count_noun,
    device_in_mode,
    estimate,
    make_fit_row,
    percent,
    predict_latency,
    record,
    runtime_of_mode,
    runtimes,
    shipped_latency,
)
from hwexplorer_annexes.measure.measurement_log import MeasurementLog

trust_bands = efficiency_fit.trust_bands

RUNTIME = "pytorch_eager"
NOISY_SPREAD = 0.05  # of repeats; a timing with this spread has half the weight
TAKEN_MOST = 0.5  # share of disturbed samples above which timings are refused
PULL = 3e-4  # towards the shipped rates, for classes with few measurements
LOW, HIGH = 0.002, 1.0  # range of rates, shares of the peak
HOST_START_S, START_S = (HOST_LAUNCH_S, 2e-6, 1e-3), (1e-8, 1e-7, 1e-4)  # a kernel's start: low, first guess, high
LIBRARY_CALLS = (OpClass.GEMM, OpClass.CONV, OpClass.DEPTHWISE, OpClass.ATTENTION)  # a library takes time to start them


class TimingRow(msgspec.Struct, frozen=True, kw_only=True):
    """Times of a model or probe: measured, predicted by the nearest device, and by a fit without its family."""

    name: Annotated[str, column("Model or probe")]
    batch: Annotated[int, column("Batch", "count")]
    family: str
    is_model: bool
    measured_s: Annotated[float, column("Measured", "s", role="quantity")]
    before_s: Annotated[float, column("Nearest", "s", keep=1, role="quantity", help="by the device it is made from")]
    after_s: Annotated[
        float,
        column("Fitted", "s", role="quantity", help="by a fit without its family; of fewer than ten rows, to them"),
    ] = 0.0
    spread: Annotated[float, column("Spread", "%", keep=2, help="half of the middle two thirds of the repeats")]


class OwnDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted device, the catalogue device that it is based on, its timings, and why others were skipped. `noise` is
    the spread between repeats, `taken` the share of samples that other processes disturbed. `left_out` is False for
    fewer than ten rows, which only move rates."""

    device: Device
    nearest: Device
    rows: tuple[TimingRow, ...]
    left_out: bool = True
    noise: float = 0.0
    taken: float = 0.0
    skipped: tuple[str, ...] = ()


class _Timings(msgspec.Struct, kw_only=True):
    fit_rows: list[FitRow] = []
    rows: list[TimingRow] = []
    skipped: list[str] = []
    runtime: str = RUNTIME
    software: str
    noise: float = 0.0
    taken: float = 0.0


def fit_machine(log: MeasurementLog, name: str, progress: FitProgress = lambda _: None) -> OwnDevice:
    """Fit a device of this name to the log of a machine. Raises RequestError for too few or too disturbed timings."""
    if log.disturbed_share > TAKEN_MOST:
        taken = f"other processes used the cores in {percent(log.disturbed_share)} of the samples"
        raise RequestError(f"{taken}: these timings do not describe this machine; measure again while it is idle")
    machine, facts = log.machine, measured_facts(log)
    base = nearest_device(machine, facts)
    device = describe_device(machine, base, name, facts)
    software = f"{machine.software}, {machine.date}"
    timings = _Timings(software=software, noise=log.noise or 0.0, taken=log.disturbed_share)
    for timed in log.timed:
        case = timed.case
        if case.moved or case.threads != machine.threads or case.precision != "fp32":
            continue
        workload = timed.workload()
        if workload is None:
            timings.skipped.append(f"{case.key}: not captured at this batch (hwexplorer capture {case.model})")
            continue
        scenario = Scenario(case.batch, case.precision, RUNTIME, "nchw")
        result, before = estimate(workload, device, scenario), estimate(workload, base, scenario)
        family = measured_rows.family_of(case.model) if case.model else f"probe {case.op}"
        timings.fit_rows.append(
            record(
                FitRow, result, measured_s=timed.seconds, least_s=np.zeros(result.demand.n_kernels), group=(family,),
                family=family,
            )
        )  # fmt: skip
        timings.rows.append(
            TimingRow(
                name=case.model or case.key, batch=case.batch, family=family, is_model=bool(case.model),
                measured_s=timed.seconds, before_s=before.latency_s, spread=timed.spread,
            )
        )  # fmt: skip
    for key, count in log.invalid.items():
        timings.skipped.append(f"{key[:60]}: {count} samples are left out: their times are 0, infinite or missing")
    if log.noise is None:
        timings.skipped.append("each case was timed once: the spread of repeats is unknown, and in no band")
    return _fit_device(base, device, timings, progress)


def fit_rows(
    table: Sequence[dict[str, str]], base: Device, name: str, progress: FitProgress = lambda _: None
) -> OwnDevice:
    """Return a device of this name, based on `base`, from rows in the format of the shipped tables. The device of a row
    is ignored. Ten or more rows fit the rates, fewer move them. Raises RequestError if no row can be predicted."""
    spec = msgspec.structs.replace(base.file, id=name, aliases=(), mode=base.power_mode, changes=())
    device = device_in_mode(spec)
    timings = _Timings(software="rows of a CSV")
    measured: list[MeasuredRow] = []
    for cells in table:
        try:
            row = row_validation.interpret_row({"device_mode": "", "source": "", **cells, "device": base.key})
            if row.latency_s is None:
                continue
            before_s = float(shipped_latency([make_fit_row(row, row.latency_s)], base.software.efficiency)[0])
            measured.append(msgspec.structs.replace(row, device=device))
            fit_row = make_fit_row(measured[-1], row.latency_s)
        except measured_rows.Unpredictable as reason:
            timings.skipped.append(f"{cells.get('model', '')[:60]}: {reason}")
            continue
        timings.fit_rows.append(fit_row)
        timings.rows.append(
            TimingRow(
                name=row.model, batch=row.scenario.batch, family=fit_row.family, is_model=True,
                measured_s=row.latency_s, before_s=before_s, spread=0.0,
            )
        )  # fmt: skip
    names = [row.setup.runtime.id for row in timings.fit_rows]
    timings.runtime = max(set(names), key=names.count, default="")
    chosen = [i for i, runtime in enumerate(names) if runtime == timings.runtime]
    timings.fit_rows, timings.rows = [timings.fit_rows[i] for i in chosen], [timings.rows[i] for i in chosen]
    timings.skipped = [f"{why} ({n} rows)" if n > 1 else why for why, n in Counter(timings.skipped).items()]
    if 0 < len(chosen) < row_validation.LARGE:
        return _move_device(base, device, [measured[i] for i in chosen], timings)
    return _fit_device(base, device, timings, progress)


def _move_device(base: Device, device: Device, measured: Sequence[MeasuredRow], timings: _Timings) -> OwnDevice:
    """Return the device with rates and start times moved by these rows, and a band for their class of work."""
    results = [row_validation.estimate_row(row) for row in measured]
    variances = few_rows.spreads(few_rows.spread_group(results[0]))
    shares = [few_rows.time_shares(result) for result in results]
    errors = np.log([row.measured_s / row.before_s for row in timings.rows])
    posterior = few_rows.condition(shares, errors.tolist(), variances)
    work_class = results[0].work_class
    why = f"moved by {count_noun(len(measured), 'measurement')}: {', '.join(row.name for row in timings.rows)}"
    low, high = (end**posterior.narrower for end in results[0].trust.band)
    mode = results[0].runtime.mode
    band = device_file.OwnEvidence(
        runtime=timings.runtime, mode=mode, rows=len(measured), low=low, high=high, work_class=work_class,
        median_error=median_error(timings.rows, before=True),
    )  # fmt: skip
    formats = (row.setup.plan.operand for row in timings.fit_rows)
    spec = few_rows.moved_file(device, posterior.parts, timings.runtime, formats, why)
    sentences = few_rows.describe(posterior, shares, work_class, variances["row"] ** 0.5)
    sentences.append(
        f"products in {' and '.join(spec.rates_in)} moved: other formats keep the rates of similar devices"
    )
    spec = msgspec.structs.replace(spec, trust=(band,), notes=(*spec.notes, *sentences))
    moved = device_in_mode(spec)
    after_s = [row_validation.predict_row(msgspec.structs.replace(row, device=moved))[0].predicted for row in measured]
    rows = [msgspec.structs.replace(row, after_s=s) for row, s in zip(timings.rows, after_s, strict=True)]
    return OwnDevice(device=moved, nearest=base, rows=tuple(rows), left_out=False, skipped=tuple(timings.skipped))


def _fit_device(base: Device, device: Device, timings: _Timings, progress: FitProgress) -> OwnDevice:
    if len(timings.rows) < row_validation.LARGE:
        reason = f" ({timings.skipped[0]})" if timings.skipped else ""
        if not timings.rows:
            raise RequestError(f"no row can be used: each needs a model and latency_ms or throughput_per_s{reason}")
        raise RequestError(
            f"{len(timings.rows)} timings are too few to fit a device to (at least {row_validation.LARGE}){reason}"
        )
    full = _fit_device_rates(timings, device, progress)
    left_out_s = _left_out_latency(timings, full, progress).tolist()
    rows = [msgspec.structs.replace(row, after_s=s) for row, s in zip(timings.rows, left_out_s, strict=True)]
    spec = msgspec.structs.replace(
        _file_with_rates(device, full, timings), trust=(_band(rows, timings.runtime, timings.noise),)
    )
    fitted = device_in_mode(spec)
    return record(OwnDevice, timings, device=fitted, nearest=base, rows=tuple(rows), skipped=tuple(timings.skipped))


def _fit_device_rates(timings: _Timings, device: Device, progress: FitProgress) -> efficiency_fit.RateFit:
    rows = timings.fit_rows
    # A timing is weighted by its classes of operators, since it informs their rates: many in a model, few in a probe.
    weight = np.array([float(len(set(row.demand.op_class.tolist()))) for row in rows])
    weight /= 1.0 + np.square([row.spread / NOISY_SPREAD for row in timings.rows])
    shipped = device.software.efficiency
    met = set(np.concatenate([row.demand.op_class for row in rows]).tolist())
    rates = []
    for table in ("compute", "bandwidth"):
        for each in sorted(met):
            start = float(np.clip(getattr(shipped, table)[0, each], LOW, HIGH))
            rates.append(FittedRate(table, OpClass(each).name, (each,), LOW, HIGH, start))
    low, start, high = HOST_START_S if device.arch.is_host else START_S
    others = tuple(int(each) for each in OpClass if each not in LIBRARY_CALLS)
    rates += [
        FittedRate("overhead", OpClass(each).name, (each,), low, high, start) for each in LIBRARY_CALLS if each in met
    ]
    rates.append(FittedRate("overhead", "other", others, low, high, start))
    return efficiency_fit.fit_rates(device.id, rows, tuple(rates), shipped, weight, progress, PULL)


def _left_out_latency(timings: _Timings, full: efficiency_fit.RateFit, progress: FitProgress) -> Floats:
    """Return seconds (rows,): of models by a fit without their family, of probes by the fit to all, since no other row
    replaces a probe. Each fit begins where the full fit began: rates that only the family measures stay as shipped."""
    rows = timings.fit_rows
    seconds: Floats = np.exp(full.error) * np.array([row.measured_s for row in rows])
    for family in dict.fromkeys(row.family for row in timings.rows if row.is_model):
        members = [i for i, row in enumerate(timings.rows) if row.is_model and row.family == family]
        others = [i for i in range(len(rows)) if i not in members]
        name, left = f"without {family}", [rows[i] for i in others]
        part = efficiency_fit.fit_rates(name, left, full.rates, full.shipped, full.weight[others], progress, PULL)
        seconds[members] = predict_latency([rows[i] for i in members], full.shipped, full.rates, part.values[None])[0]
    return seconds


def _file_with_rates(device: Device, full: efficiency_fit.RateFit, timings: _Timings) -> device_file.DeviceFile:
    shipped, noise, runtime = device.software, timings.noise, timings.runtime
    tables: dict[str, dict[str, tuple[float, float, float]]] = {
        "compute": dict(shipped.compute),
        "bandwidth": dict(shipped.bandwidth),
        "overhead": {},
    }
    for rate, value in zip(full.rates, full.values.tolist(), strict=True):
        tables[rate.table][rate.name] = (value, value * (1 - min(noise, 0.9)), min(value * (1 + noise), HIGH))
    general = runtimes().get(runtime) or runtime_of_mode(device, runtime)
    fitted_runtime = msgspec.structs.replace(general, name=f"{general.name} ({timings.software})", id="")
    rates = msgspec.structs.replace(shipped, **tables)
    own_runtimes = {runtime: fitted_runtime} if runtime in runtimes() else {}
    return msgspec.structs.replace(device.file, rates=rates, runtimes=own_runtimes)


def _band(rows: Sequence[TimingRow], runtime: str, noise: float) -> device_file.OwnEvidence:
    """Return a band that holds left-out models (or probes, without models), widened by the noise. A band between the
    k-th smallest and k-th largest of m errors is expected to miss 2 k of the next m + 1."""
    models = [row for row in rows if row.is_model] or list(rows)
    errors = np.sort([np.log(row.measured_s / row.after_s) for row in models])
    k = max(int((len(errors) + 1) * (1.0 - trust_bands.TARGET) / 2.0), 1)
    low, high = np.exp([min(errors[k - 1], -trust_bands.LEAST), max(errors[-k], trust_bands.LEAST)]).tolist()
    return device_file.OwnEvidence(
        runtime=runtime,
        mode=runtimes()[runtime].mode if runtime in runtimes() else runtime,
        rows=len(models),
        median_error=median_error(models),
        low=low / (1 + noise),
        high=high * (1 + noise),
    )


def median_error(rows: Sequence[TimingRow], before: bool = False) -> float:
    """Return the median of abs(predicted / measured - 1), a fraction; NaN if there are no rows. With `before` the
    predictions are those of the nearest device of the catalogue."""
    errors = [abs((row.before_s if before else row.after_s) / row.measured_s - 1.0) for row in rows]
    return float(np.median(errors)) if errors else float("nan")
