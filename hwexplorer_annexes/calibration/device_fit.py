"""Rates of the user's own device: fitted to ten measurements or more, moved by fewer, and a band that holds them.

Few rows cannot fit rates. They say how much slower the chip is than its prediction: chips and rows differ by known
spreads (spreads.toml), which divide the error of the rows. All times with the runtime move by the part of the chip,
those of the same family of models further, those with other runtimes by as much as such work has in common."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from hwexplorer.extend import (
    Device,
    RequestError,
    demand,
    device_catalog,
    document,
    file_access,
    predictions,
    runtime,
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

FURTHEST, MOST, PLACES = 4.0, 13.0, 1601  # logarithms of a chip's time over its prediction: weighed, allowed; steps
KEEPS = 0.995  # factor on the logarithm of a band from which it is as wide as before
ROUNDS = 5  # in which runs come to take as long as they were timed
CONTRADICTS = 1.0  # logarithm of measured over predicted from which the rows may be of something else

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
    rows, fit_rows = zip(*(pair for pair in fitted if pair[1].setup.runtime.id == runtime_id), strict=True)
    timings = [_time_row(row, fit_row, base) for row, fit_row in zip(rows, fit_rows, strict=True)]
    left_out = len(rows) >= predictions.LARGE
    if left_out:
        own, after_s = _fit_device(device, fit_rows, timings, runtime_id, progress)
    else:
        own, after_s = _move_device(device, rows, timings, runtime_id)
    timings = [msgspec.structs.replace(row, after_s=s) for row, s in zip(timings, after_s, strict=True)]
    asked = _asked(rows[0], runtime_id)
    return OwnDevice(
        device=own, nearest=base, asked=asked, rows=tuple(timings), left_out=left_out, skipped=tuple(skipped)
    )


def _time_row(row: predictions.MeasuredRow, fit_row: rate_fit.FitRow, base: Device) -> TimingRow:
    on_base = rate_fit.make_fit_row(msgspec.structs.replace(row, device=base))
    before_s = float(rate_fit.predict_latency([on_base], base.software.efficiency, (), np.zeros((1, 0)))[0, 0])
    return document.record(TimingRow, row, fit_row, name=row.model, batch=row.scenario.batch, before_s=before_s)


def _asked(row: predictions.MeasuredRow, runtime_id: str) -> str:
    """Return the model and the settings of a row as words of the command line."""
    lengths = "".join(f",{name}={value}" for name, value in row.lengths.items())
    model = f"{row.model}{'' if ':' in row.model else ':'}{lengths}" if lengths else row.model
    batch = f" --batch {row.scenario.batch}" if row.scenario.batch > 1 else ""
    return f"{model}{batch} --precision {row.scenario.precision} --runtime {runtime_id}"


def _move_device(
    device: Device,
    measured: Sequence[predictions.MeasuredRow],
    timings: Sequence[TimingRow],
    runtime_id: str,
) -> tuple[Device, list[float]]:
    """Return the device with all times moved by these rows and narrower bands, and the latencies (s) it predicts."""
    results = [predictions.estimate_row(row) for row in measured]
    families = [each.scenario.name_run(each.workload, runtime_id)[1] for each in results]
    errors = np.log([row.measured_s / row.before_s for row in timings])

    def say(rows: Sequence[int], move: Move) -> device_module.OwnEvidence:
        """Return what rows say of the work that they move."""
        first = results[rows[0]]
        low, high = (end**move.same for end in first.trust.band)
        error = median_error([timings[i] for i in rows], before=True)
        return _evidence(first.runtime, len(rows), error, (low, high), move.log_time + np.log(first.setup.slower))

    result = results[0]
    move = find_move(errors.tolist(), result.trust.level)
    by, others_by = np.exp([move.log_time, move.others_time]).tolist()
    count, every = text.count_noun(len(measured), "measurement"), range(len(measured))
    moved_before = next((each.others_slower for each in device.file.trust), 1.0)
    band = msgspec.structs.replace(
        say(every, move), narrower=move.others, work_class=result.work_class, others_slower=others_by * moved_before
    )
    timed = dict[str, device_module.OwnEvidence]()
    for name in dict.fromkeys(families):
        rows = [i for i in every if families[i] == name]
        timed[name] = say(rows, find_move(errors[rows].tolist(), result.trust.level, of_family=True))
    moved = msgspec.structs.replace(device.file, trust=(band,), timed=timed)
    own, after_s = _repeat_runs(moved, measured, result.runtime)
    off = max(abs(after / row.measured_s - 1.0) for after, row in zip(after_s, timings, strict=True))
    held = " (power or another limit holds its time)" * (off > rate_fit.LEAST)
    sentences = [
        f"{count}, predicted within {text.percent(max(off, rate_fit.LEAST))} from now on{held}; other times with "
        f"{result.runtime.name} follow by {text.percent(move.share)} of the difference, to {by:.3g}x, its "
        f"family further; with other runtimes to {others_by:.3g}x",
        f"bands of {result.work_class or 'such work'} are {text.percent(1 - move.same)} narrower, others "
        f"{text.percent(1 - move.others)}",
    ]
    if move.same >= KEEPS:
        sentences[1] = "bands keep their width: the rows contradict what is known, and may be of something else"
    if abs(mean := float(np.mean(errors))) > CONTRADICTS:
        sentences.insert(0, f"the rows take {np.exp(mean):.2g}x of what is predicted: check batch, format and runtime")
    file = msgspec.structs.replace(own.file, notes=(*own.file.notes, *sentences))
    return msgspec.structs.replace(own, file=file), after_s


def _repeat_runs(
    spec: device_module.DeviceFile, measured: Sequence[predictions.MeasuredRow], engine: runtime.Runtime
) -> tuple[Device, list[float]]:
    """Return the device on which each run takes as long again as it was timed, but for noise, and its predictions (s).
    Under a power limit, time does not grow as the time of kernels does, so it takes rounds; bands hold what is left."""
    moved, noise, within = dict[str, tuple[float, float]](), rate_fit.LEAST, float(np.exp(rate_fit.LEAST))
    for _ in range(ROUNDS):
        ends = {run: (min(1.0 / within, left), max(within, left)) for run, (_, left) in moved.items()}
        runs = {run: _evidence(engine, 1, noise, ends[run], log) for run, (log, _) in moved.items()}
        device = device_catalog.device_in_mode(msgspec.structs.replace(spec, timed=spec.timed | runs))
        results = [predictions.estimate_row(msgspec.structs.replace(row, device=device)) for row in measured]
        points = [predictions.predict_row(msgspec.structs.replace(row, device=device))[0] for row in measured]
        for result, point in zip(results, points, strict=True):
            run, _ = result.scenario.name_run(result.workload, engine.id)
            left = point.measured / point.predicted
            moved[run] = float(np.clip(np.log(result.setup.slower * left), -MOST, MOST)), left
    return device, [point.predicted for point in points]


def _fit_device(
    device: Device,
    fit_rows: Sequence[rate_fit.FitRow],
    timings: Sequence[TimingRow],
    runtime_id: str,
    progress: rate_fit.Progress,
) -> tuple[Device, list[float]]:
    """Return the device with rates fitted to these rows and a band, and latencies (s) by fits without their family."""
    full = _fit_device_rates(fit_rows, device, progress)
    after_s = _left_out_latency(fit_rows, full, progress).tolist()
    timings = [msgspec.structs.replace(row, after_s=s) for row, s in zip(timings, after_s, strict=True)]
    spec = msgspec.structs.replace(
        _file_with_rates(device, full, runtime_id), trust=(_band(timings, fit_rows[0].setup.runtime),)
    )
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


def _band(rows: Sequence[TimingRow], engine: runtime.Runtime) -> device_module.OwnEvidence:
    """Return a band that holds left-out models. A band between the k-th smallest and k-th largest of m errors is
    expected to miss 2 k of the next m + 1."""
    errors = np.sort([np.log(row.measured_s / row.after_s) for row in rows])
    k = max(int((len(errors) + 1) * (1.0 - rate_fit.TARGET) / 2.0), 1)
    low, high = np.exp([min(errors[k - 1], -rate_fit.LEAST), max(errors[-k], rate_fit.LEAST)]).tolist()
    return _evidence(engine, len(rows), median_error(rows), (low, high))


def _evidence(
    engine: runtime.Runtime, rows: int, error: float, band: tuple[float, float], log_slower: float = 0.0
) -> device_module.OwnEvidence:
    """Return what so many rows with an engine say of the work that takes this longer."""
    return device_module.OwnEvidence(
        runtime=engine.id, mode=engine.mode, rows=rows, median_error=error, low=band[0], high=band[1],
        slower=float(np.exp(log_slower)),
    )  # fmt: skip


def median_error(rows: Sequence[TimingRow], before: bool = False) -> float:
    """Return the median of abs(predicted / measured - 1), a fraction; NaN if there are no rows. With `before` the
    predictions are those of the nearest device of the catalogue."""
    errors = [abs((row.before_s if before else row.after_s) / row.measured_s - 1.0) for row in rows]
    return float(np.median(errors)) if errors else float("nan")


class Move(msgspec.Struct, frozen=True):
    """Moves a chip as its rows say: by the logarithm of its time over the prediction, which is a `share` of the rows'
    mean error, and that of other work. Factors on the logarithms of bands are those of the `same` work and of
    `others`."""

    log_time: float
    others_time: float
    share: float
    same: float
    others: float


def find_move(errors: Sequence[float], level: str, *, of_family: bool = False) -> Move:
    """Return what errors of rows (logarithms of measured over predicted) say of their chip, whose evidence is of a
    `level`, or of their family of models on it. Errors of chips and of rows are Gaussian; a few of both are far wider,
    so that a small error is mostly the row's, and a contradiction mostly the chip's."""
    known = {name: float(record["value"]) for name, record in file_access.shipped(SPREADS).items()}
    chip = known["chip" if level in ("measured", "siblings") else "unknown_chip"]
    chip = float(np.hypot(chip, known["family"] * of_family))
    places = np.linspace(-FURTHEST, FURTHEST, PLACES)
    weights = _density(places, chip, known["far_chip"], known["far_chips"])
    for error in errors:
        weights = weights * _density(error - places, known["row"], known["far_row"], known["far_rows"])
    weights /= weights.sum()
    log_time = float(weights @ places)
    spread = float(np.sqrt(weights @ np.square(places - log_time)))
    same = float(min(np.hypot(spread, known["row"]) / np.hypot(chip, known["row"]), 1.0))
    share = log_time / float(np.mean(errors)) if np.mean(errors) else 1.0
    others = float(np.sqrt(1.0 - known["alike"] ** 2 * (1.0 - same**2)))
    return Move(log_time, log_time * known["alike"], share, same, others)


def _density(errors: workload.Floats, near: float, far: float, share: float) -> workload.Floats:
    """Return the density of a Gaussian variable of which a `share` is as wide as `far`."""
    density: workload.Floats = (1.0 - share) / near * np.exp(-np.square(errors / near) / 2.0)
    density += share / far * np.exp(-np.square(errors / far) / 2.0)
    return density
