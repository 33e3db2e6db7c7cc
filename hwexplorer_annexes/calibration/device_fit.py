"""Rates of the user's own device: fitted to ten measurements or more, moved by fewer, and a band that holds them.

Few rows cannot fit rates. The time of a row is divided among its limits: arithmetic and memory traffic by family of
operators, and the start of kernels. Rates differ between devices, and rows on one device, by known spreads
(spreads.toml). Errors are attributed by conditioning Gaussian variables: a part moves more if it takes more time and
differs more between devices."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from hwexplorer.extend import (
    Device,
    RequestError,
    SourcedValue,
    demand,
    device_catalog,
    document,
    estimate,
    file_access,
    predictions,
    runtime,
    setup,
    tables,
    text,
    workload,
)
from hwexplorer.extend import device as device_module
from hwexplorer_annexes.calibration import rate_fit

OpClass = demand.OpClass

PULL = 3e-4  # towards the shipped rates, for classes with few measurements
LOW, HIGH = 0.002, 1.0  # range of rates, shares of the peak
HOST_START_S, START_S = (1e-7, 2e-6, 1e-3), (1e-8, 1e-7, 1e-4)  # a kernel's start: low, first guess, high
LIBRARY_CALLS = (OpClass.GEMM, OpClass.CONV, OpClass.DEPTHWISE, OpClass.ATTENTION)  # a library takes time to start them

SPREADS = Path(__file__).with_name("spreads.toml")
MOST_ERROR = 1.0  # of a logarithm; larger errors of a row are clipped to it
STARTS = ("launch_s", "launch_cycles", "dispatch_s", "thread_join_s")  # facts that state the time to start a kernel
FAMILIES = {OpClass.GEMM: "products", OpClass.CONV: "convolutions", OpClass.DEPTHWISE: "depthwise convolutions"}
FAMILIES |= {OpClass.ATTENTION: "attention"}
OTHER = "other operators"
WORDS = {"compute": "arithmetic", "memory": "memory traffic", "start": "the start"}
LEAST_MOVE = 0.01  # of a logarithm; smaller moves are not reported

Part = tuple[str, str]  # a limit (compute, memory, start) and a family of operators
Shares = dict[Part, float]
Rates = dict[str, tuple[float, float, float]]


class TimingRow(msgspec.Struct, frozen=True, kw_only=True):
    """Times of a model: measured, predicted by the nearest device, and by a fit without its family."""

    name: Annotated[str, document.column("Model")]
    batch: Annotated[int, document.column("Batch", "count")]
    family: str
    measured_s: Annotated[float, document.column("Measured", "s", role="quantity")]
    before_s: Annotated[
        float, document.column("Nearest", "s", keep=1, role="quantity", help="by the device it is made from")
    ]
    after_s: Annotated[
        float,
        document.column(
            "Fitted", "s", role="quantity", help="by a fit without its family; of fewer than ten rows, to them"
        ),
    ] = 0.0


class OwnDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A fitted device, the catalogue device that it is based on, its timings, and why others were skipped. `asked` are
    the model and the settings of the first timing, as options. `left_out` is False for fewer than ten rows, which only
    move rates."""

    device: Device
    nearest: Device
    asked: str
    rows: tuple[TimingRow, ...]
    left_out: bool = True
    skipped: tuple[str, ...] = ()


def interpret_rows(table: Sequence[dict[str, str]], base: Device) -> tuple[list[predictions.MeasuredRow], list[str]]:
    """Return the rows of a table with a latency, all as rows of `base`, and why others are left out."""
    read = partial(_interpret_row, base=base)
    rows, reasons = tables.interpret_each(table, read)
    skipped = [f"{why} ({n} rows)" if n > 1 else why for why, n in reasons.items()]
    return [row for row in rows if row.latency_s is not None], skipped


def _interpret_row(cells: dict[str, str], base: Device) -> predictions.MeasuredRow:
    try:
        return predictions.interpret_row({"device_mode": "", "source": "", **cells, "device": base.key})
    except tables.Unpredictable as reason:
        raise tables.Unpredictable(f"{cells.get('model', '')[:60]}: {reason}") from None


def fit_rows(
    measured: Sequence[predictions.MeasuredRow],
    base: Device,
    name: str,
    skipped: Sequence[str] = (),
    progress: rate_fit.Progress = lambda _: None,
) -> OwnDevice:
    """Return a device of this name, based on `base`, from its measured rows with the runtime that most of them
    have. Ten or more rows fit the rates, fewer move them. Raises RequestError if no row can be predicted."""
    spec = msgspec.structs.replace(base.file, id=name, name=name, aliases=(), mode=base.power_mode, changes=())
    device = device_catalog.device_in_mode(spec)
    own_rows = [msgspec.structs.replace(row, device=device) for row in measured]
    fitted, reasons = tables.interpret_each(own_rows, lambda row: (row, rate_fit.make_fit_row(row)))
    skipped = (*skipped, *reasons)
    if not fitted:
        why = f" ({skipped[0]})" if skipped else ""
        raise RequestError(f"no row can be used: each needs a model and latency_ms or throughput_per_s{why}")
    names = [fit_row.setup.runtime.id for _, fit_row in fitted]
    runtime_id = max(set(names), key=names.count)
    rows = [row for row, fit_row in fitted if fit_row.setup.runtime.id == runtime_id]
    fit_rows = [fit_row for _, fit_row in fitted if fit_row.setup.runtime.id == runtime_id]
    timings = [_time_row(row, fit_row, base) for row, fit_row in zip(rows, fit_rows, strict=True)]
    left_out = len(rows) >= predictions.LARGE
    if left_out:
        own, after_s = _fit_device(device, fit_rows, timings, runtime_id, progress)
    else:
        own, after_s = _move_device(device, rows, fit_rows, timings, runtime_id)
    timings = [msgspec.structs.replace(row, after_s=s) for row, s in zip(timings, after_s, strict=True)]
    asked = _asked(rows[0], runtime_id)
    return OwnDevice(
        device=own, nearest=base, asked=asked, rows=tuple(timings), left_out=left_out, skipped=tuple(skipped)
    )


def _time_row(row: predictions.MeasuredRow, fit_row: rate_fit.FitRow, base: Device) -> TimingRow:
    on_base = rate_fit.make_fit_row(msgspec.structs.replace(row, device=base))
    before_s = float(rate_fit.shipped_latency([on_base], base.software.efficiency)[0])
    return TimingRow(
        name=row.model,
        batch=row.scenario.batch,
        family=fit_row.family,
        measured_s=fit_row.measured_s,
        before_s=before_s,
    )


def _asked(row: predictions.MeasuredRow, runtime_id: str) -> str:
    """Return the model and the settings of a row as words of the command line."""
    lengths = "".join(f",{name}={value}" for name, value in row.lengths.items())
    model = f"{row.model}{'' if ':' in row.model else ':'}{lengths}" if lengths else row.model
    batch = f" --batch {row.scenario.batch}" if row.scenario.batch > 1 else ""
    return f"{model}{batch} --precision {row.scenario.precision} --runtime {runtime_id}"


def _move_device(
    device: Device,
    measured: Sequence[predictions.MeasuredRow],
    fit_rows: Sequence[rate_fit.FitRow],
    timings: Sequence[TimingRow],
    runtime_id: str,
) -> tuple[Device, list[float]]:
    """Return the device with rates and start times moved by these rows and a band for their class of work, and the
    latencies (s) that it predicts."""
    results = [predictions.estimate_row(row) for row in measured]
    variances = spreads(spread_group(results[0]))
    shares = [time_shares(result) for result in results]
    errors = np.log([row.measured_s / row.before_s for row in timings])
    posterior = condition(shares, errors.tolist(), variances)
    work_class = results[0].work_class
    count = text.count_noun(len(measured), "measurement")
    why = f"moved by {count}: {', '.join(row.name for row in timings)}"
    low, high = (end**posterior.narrower for end in results[0].trust.band)
    band = device_module.OwnEvidence(
        runtime=runtime_id, mode=results[0].runtime.mode, rows=len(measured), low=low, high=high,
        work_class=work_class, median_error=median_error(timings, before=True),
    )  # fmt: skip
    formats = (row.setup.plan.operand for row in fit_rows)
    spec = moved_file(device, posterior.parts, runtime_id, formats, why)
    sentences = describe(posterior, shares, work_class, variances["row"] ** 0.5)
    asked = tuple(dict.fromkeys(row.scenario.precision for row in measured))
    multiplied = f", as {' and '.join(asked)} multiplies," if asked != spec.rates_in else ""
    sentences.append(
        f"only products in {' and '.join(spec.rates_in)}{multiplied} changed: other formats keep the rates of similar "
        "devices"
    )
    spec = msgspec.structs.replace(spec, trust=(band,), notes=(*spec.notes, *sentences))
    moved = device_catalog.device_in_mode(spec)
    points = (predictions.predict_row(msgspec.structs.replace(row, device=moved))[0] for row in measured)
    return moved, [point.predicted for point in points]


def _fit_device(
    device: Device,
    fit_rows: Sequence[rate_fit.FitRow],
    timings: Sequence[TimingRow],
    runtime_id: str,
    progress: rate_fit.Progress,
) -> tuple[Device, list[float]]:
    """Return the device with rates fitted to these rows and a band, and the latencies (s) by fits without their
    family."""
    full = _fit_device_rates(fit_rows, device, progress)
    after_s = _left_out_latency(fit_rows, full, progress).tolist()
    timings = [msgspec.structs.replace(row, after_s=s) for row, s in zip(timings, after_s, strict=True)]
    spec = msgspec.structs.replace(_file_with_rates(device, full, runtime_id), trust=(_band(timings, runtime_id),))
    return device_catalog.device_in_mode(spec), after_s


def _fit_device_rates(rows: Sequence[rate_fit.FitRow], device: Device, progress: rate_fit.Progress) -> rate_fit.RateFit:
    # A row is weighted by its classes of operators, since it informs their rates.
    weight = np.array([float(len(set(row.demand.op_class.tolist()))) for row in rows])
    shipped = device.software.efficiency
    known = set(np.concatenate([row.demand.op_class for row in rows]).tolist())
    rates = []
    for table in ("compute", "bandwidth"):
        for op in sorted(known):
            start = float(np.clip(getattr(shipped, table)[0, op], LOW, HIGH))
            rates.append(rate_fit.FittedRate(table, OpClass(op).name, (op,), LOW, HIGH, start))
    limits = HOST_START_S if device.arch.is_host else START_S
    own_starts = [op for op in LIBRARY_CALLS if op in known]
    others = tuple(int(op) for op in OpClass if op not in LIBRARY_CALLS)
    for name, classes in (*((op.name, (int(op),)) for op in own_starts), ("other", others)):
        rates.append(rate_fit.FittedRate("overhead", name, classes, limits[0], limits[2], limits[1]))
    return rate_fit.fit_rates(device.id, rows, tuple(rates), shipped, weight, progress, PULL)


def _left_out_latency(
    rows: Sequence[rate_fit.FitRow], full: rate_fit.RateFit, progress: rate_fit.Progress
) -> workload.Floats:
    """Return seconds (rows,) by a fit without the family of each row. Each fit begins where the full fit began: rates
    that only the family measures stay as shipped."""
    seconds: workload.Floats = np.zeros(len(rows))
    for family in dict.fromkeys(row.family for row in rows):
        is_member = np.array([row.family == family for row in rows])
        members, others = (
            [row for row, chosen in zip(rows, which, strict=True) if chosen] for which in (is_member, ~is_member)
        )
        weight = full.weight[~is_member]
        part = rate_fit.fit_rates(f"without {family}", others, full.rates, full.shipped, weight, progress, PULL)
        seconds[is_member] = rate_fit.predict_latency(members, full.shipped, full.rates, part.values[None])[0]
    return seconds


def _file_with_rates(device: Device, full: rate_fit.RateFit, runtime_id: str) -> device_module.DeviceFile:
    shipped, known = device.software, runtime.runtimes()
    tables: dict[str, Rates] = {
        "compute": dict(shipped.compute),
        "bandwidth": dict(shipped.bandwidth),
        "overhead": {},
    }
    for rate, value in zip(full.rates, full.values.tolist(), strict=True):
        tables[rate.table][rate.name] = (value, value, min(value, HIGH))
    rates = msgspec.structs.replace(shipped, **tables)
    if runtime_id not in known:
        return msgspec.structs.replace(device.file, rates=rates, runtimes={})
    own = msgspec.structs.replace(known[runtime_id], name=f"{known[runtime_id].name} (rows of a CSV)", id="")
    return msgspec.structs.replace(device.file, rates=rates, runtimes={runtime_id: own})


def _band(rows: Sequence[TimingRow], runtime_id: str) -> device_module.OwnEvidence:
    """Return a band that holds left-out models. A band between the k-th smallest and k-th largest of m errors is
    expected to miss 2 k of the next m + 1."""
    errors = np.sort([np.log(row.measured_s / row.after_s) for row in rows])
    k = max(int((len(errors) + 1) * (1.0 - rate_fit.TARGET) / 2.0), 1)
    low, high = np.exp([min(errors[k - 1], -rate_fit.LEAST), max(errors[-k], rate_fit.LEAST)]).tolist()
    known = runtime.runtimes()
    return device_module.OwnEvidence(
        runtime=runtime_id,
        mode=known[runtime_id].mode if runtime_id in known else runtime_id,
        rows=len(rows),
        median_error=median_error(rows),
        low=low,
        high=high,
    )


def median_error(rows: Sequence[TimingRow], before: bool = False) -> float:
    """Return the median of abs(predicted / measured - 1), a fraction; NaN if there are no rows. With `before` the
    predictions are those of the nearest device of the catalogue."""
    errors = [abs((row.before_s if before else row.after_s) / row.measured_s - 1.0) for row in rows]
    return float(np.median(errors)) if errors else float("nan")


class Posterior(msgspec.Struct, frozen=True):
    """The logarithm of time of each part over its time on other devices, and the factor (at most 1) on the logarithm of
    the band of such rows."""

    parts: dict[Part, float]
    narrower: float


def family_of_operator(op: int) -> str:
    """Return the family of a class of operators: the rates of one family move together."""
    return FAMILIES.get(OpClass(op), OTHER)


def time_shares(result: estimate.Estimate) -> Shares:
    """Return the shares of an estimate's time by the limit of each kernel and the family of its largest operator."""
    run, demand = result.run, result.demand
    largest = np.full(demand.n_kernels, int(OpClass.ELEMENTWISE))
    order = np.argsort(demand.macs, kind="stable")
    largest[demand.kernel[order]] = demand.op_class[order]
    start_s = np.minimum(run.overhead_s, run.kernel_s)
    limits = np.where(run.kernel_memory_s > run.kernel_compute_s, "memory", "compute")
    seconds: Shares = {("start", "all kernels"): float(start_s.sum())}
    for limit, op, busy in zip(limits.tolist(), largest.tolist(), (run.kernel_s - start_s).tolist(), strict=True):
        part = limit, family_of_operator(op)
        seconds[part] = seconds.get(part, 0.0) + busy
    total = sum(seconds.values()) or 1.0
    return {part: value / total for part, value in seconds.items() if value}


def spread_group(result: estimate.Estimate) -> str:
    """Return the section of spreads.toml that applies: by architecture and runtime, by architecture and work, by
    architecture, else `other`."""
    known, architecture = file_access.shipped(SPREADS), result.device.architecture
    names = (f"{architecture} {result.runtime.id}", f"{architecture} {result.workload.work}", architecture)
    return next((name for name in names if name in known), "other")


def spreads(group: str) -> dict[str, float]:
    """Return variances of logarithms of time: of each limit between devices, and of a `row` on one device."""
    return {name: float(value["value"]) ** 2 for name, value in file_access.shipped(SPREADS)[group].items()}


def condition(rows: Sequence[Shares], errors: Sequence[float], variances: Mapping[str, float]) -> Posterior:
    """Return the posterior mean of each part's logarithm, given the time shares and errors (logarithm of measured over
    predicted) of rows. The prior: parts and rows are independent Gaussians with the given `variances`; a row beyond
    one standard deviation has a wider distribution, as Student's has, so it moves the parts less."""
    parts = sorted({part for row in rows for part in row})
    shares = np.array([[row.get(part, 0.0) for part in parts] for row in rows])
    prior = np.array([variances[limit] for limit, _ in parts])
    seen = (shares * prior) @ shares.T
    e: workload.Floats = np.clip(np.array(errors), -MOST_ERROR, MOST_ERROR)
    far = np.maximum(np.square(e) / (seen.diagonal() + variances["row"]), 1.0)  # an outlier has a cause of its own
    joint = seen + np.diag(variances["row"] * far)
    moved = prior * (shares.T @ np.linalg.solve(joint, e))
    typical = shares.mean(axis=0)
    before = typical @ (prior * typical)
    common = shares @ (prior * typical)
    after = before - common @ np.linalg.solve(joint, common)
    narrower = float(np.sqrt((after + variances["row"]) / (before + variances["row"])))
    return Posterior(dict(zip(parts, moved.tolist(), strict=True)), narrower)


def moved_file(
    device: Device, moved: Mapping[Part, float], runtime_id: str, formats: Iterable[str], why: str
) -> device_module.DeviceFile:
    """Return the file of a device with start times moved, and rates for these formats of products: how fast a chip is
    in one format says nothing of another. If the runtime states a rate of streaming weights, the file gets its own
    record of the runtime with that rate moved."""
    shipped = device.software
    rates = msgspec.structs.replace(
        shipped,
        compute=_moved_rates(shipped.compute, moved, "compute"),
        bandwidth=_moved_rates(shipped.bandwidth, moved, "memory"),
        streaming=shipped.streaming and _slower(shipped.streaming, moved),
    )
    facts = dict(device.file.facts)
    slower = float(np.exp(moved.get(("start", "all kernels"), 0.0)))
    for name in (name for name in STARTS if device.values.get(name)):
        value, low, high = (each * slower for each in device.ends(name))
        facts[name] = device_module.Fact(value, device.arch.data.facts[name].unit, why, "fitted", low, high)
    return msgspec.structs.replace(
        device.file,
        rates=rates,
        facts=facts,
        rates_in=tuple(sorted(set(formats))),
        runtimes=_own_runtime(device, runtime_id, moved),
    )


def _own_runtime(device: Device, runtime_id: str, moved: Mapping[Part, float]) -> dict[str, runtime.Runtime]:
    general = setup.find_runtime(device, runtime_id)
    streaming = general.streaming.get(device.software_class) if general else None
    if general is None or streaming is None or ("memory", FAMILIES[OpClass.GEMM]) not in moved:
        return device.file.runtimes
    own = {**general.streaming, device.software_class: _slower(streaming, moved)}
    return {**device.file.runtimes, runtime_id: msgspec.structs.replace(general, streaming=own, id="")}


def _slower(rate: SourcedValue, moved: Mapping[Part, float]) -> SourcedValue:
    by = float(np.exp(-moved.get(("memory", FAMILIES[OpClass.GEMM]), 0.0)))
    value, low, high = (min(each * by, 1.0) for each in rate.all)
    return msgspec.structs.replace(rate, value=value, low=low, high=high)


def _moved_rates(table: Rates, moved: Mapping[Part, float], limit: str) -> Rates:
    rates = dict(table)
    for op in OpClass:
        by = float(np.exp(-moved.get((limit, family_of_operator(op)), 0.0)))
        ends = table.get(op.name, table["other"])
        rates[op.name] = (min(ends[0] * by, 1.0), min(ends[1] * by, 1.0), min(ends[2] * by, 1.0))
    return rates


def describe(posterior: Posterior, shares: Sequence[Shares], work_class: str, row_spread: float) -> list[str]:
    """Return sentences on the parts that moved, the largest move first, on why they did not move further, and on the
    width of the band."""
    lines = []
    for (limit, family), by in sorted(posterior.parts.items(), key=lambda item: -abs(item[1])):
        share = float(np.mean([row.get((limit, family), 0.0) for row in shares]))
        if abs(by) >= LEAST_MOVE:
            pace = f"{text.percent(abs(np.expm1(by)))} {'longer' if by > 0 else 'less'}"
            lines.append(f"{WORDS[limit]} of {family} takes {pace} ({text.percent(share)} of the measured time)")
    lines = lines or ["no rate moved by 1 %: the figures are those of similar devices"]
    lines.append(
        f"rates move by a part of the difference: rows of one device differ by {text.percent(row_spread)} on their own"
    )
    narrow = f"the band of {work_class} is {text.percent(1 - posterior.narrower)} narrower; other classes keep theirs"
    return [*lines, narrow if work_class else "no class of work covers it, so no band is narrower"]
