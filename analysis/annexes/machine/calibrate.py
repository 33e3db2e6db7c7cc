"""The efficiencies of hardware/efficiency.toml fitted to measured latencies, and the same fit with a device or a
family of models left out, which is how well it can be expected to carry over.

One efficiency per kind of operator and class of software; none per model or device. The error is the logarithm of
predicted over measured, each group of measurements weighs the same, and outliers weigh less (least absolute errors).
`python -m analysis.annexes.machine.calibrate` prints the fitted values beside the shipped ones and writes
analysis/estimate/trust.json.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np

from analysis.annexes.machine import bands, validate
from analysis.annexes.machine.measurement import FITTED_ON, Measurement, Unpredictable, shipped
from analysis.annexes.machine.rows import interpret
from analysis.annexes.machine.validate_kernels import kernel_points
from analysis.estimate.trust import PATH
from analysis.model.ir.workload import Floats
from hardware import files
from hardware.architectures import registry
from hardware.architectures.data import Software
from hardware.demand import Demand, OpClass
from hardware.efficiency import Efficiency, table
from hardware.execute import kernel_seconds
from hardware.setup import Setup

STEP = 0.05  # of the logarithm, for derivatives
ROUNDS = 8
PULL = 1e-6  # of the weight of all rows: what keeps knobs that no row depends on where they are
SMALL_ERROR = 0.05  # about the noise between repeated measurements: below it, errors count as squares

Progress = Callable[[str], None]


class Knob(msgspec.Struct, frozen=True):
    """One fitted efficiency: a table of Efficiency and the operator classes it stands for. `start` is where the fit
    begins, the middle of the range where it is None."""

    table: str
    name: str
    classes: tuple[int, ...]
    low: float
    high: float
    start: float | None = None


class FitRow(msgspec.Struct, frozen=True, kw_only=True):
    """One measured latency and the request that predicts it. `least_s` (k,) is what the power limit allows each
    kernel; `adds_s` and `floor_s` are what the measured input takes."""

    measured_s: float
    demand: Demand
    setup: Setup
    least_s: Floats
    adds_s: float
    floor_s: float
    group: tuple[str, ...]
    family: str
    request: Measurement


class HeldOut(msgspec.Struct, frozen=True):
    """Median over groups of ten rows or more of the median absolute error: fitted on everything, and with each
    device, each family of models, each runtime left out of the fit that predicts it."""

    software: str
    rows: int
    groups: int
    fitted: float
    shipped: float
    device_out: float
    family_out: float
    runtime_out: float


def fitted() -> dict[str, Software]:
    """The classes of software whose efficiencies are fitted, by name."""
    every = {name: one for arch in registry.every() for name, one in arch.data.software.items()}
    return {name: one for name, one in every.items() if one.not_fitted is not None}


def knobs(software: str) -> tuple[Knob, ...]:
    """The fitted efficiencies of a class of software, as efficiency.toml names them."""
    shipped = fitted()[software]
    of_software = [
        Knob(part, name, tuple(_classes(rates, name)), *ends[1:])
        for part, rates in (("compute", shipped.compute), ("bandwidth", shipped.bandwidth))
        for name, ends in rates.items()
        if name not in (shipped.not_fitted or ())
    ]
    if shipped.fits_nchw:
        of_software.append(Knob("nchw", "nchw", (), *shipped.nchw[1:]))
    return tuple(of_software)


def _classes(section: Mapping[str, object], name: str) -> Iterable[int]:
    return [i for i, op in enumerate(OpClass.__members__) if op == name or (name == "other" and op not in section)]


def settings(shipped: Efficiency, chosen: Sequence[Knob], values: Floats) -> Efficiency:
    """Efficiencies with the knobs at `values` (s, knobs); everything else as shipped."""
    count = len(values)
    tables = {name: np.repeat(getattr(shipped, name)[:1], count, axis=0) for name in Efficiency.__struct_fields__}
    for j, knob in enumerate(chosen):
        if knob.table == "nchw":
            tables["nchw"] = values[:, j]
        else:
            tables[knob.table][:, knob.classes] = values[:, j : j + 1]
    return Efficiency(**tables)


def observations(rows: Iterable[dict[str, str]], folders: tuple[Path, ...] = ()) -> dict[str, list[FitRow]]:
    """The rows with a measured latency by class of software, each measurement once, without those that `validate`
    leaves out and without groups too small to count in its summary."""
    measured = []
    for row in rows:
        try:
            measured.append(interpret(row, folders))
        except Unpredictable:
            continue
    fit_rows: dict[tuple[object, ...], FitRow] = {}
    classes = fitted()
    for one, keep in zip(measured, validate.agreeing(measured), strict=True):
        key = (one.device.key, one.model, one.scenario, one.latency_s)
        if not keep or one.latency_s is None or one.device.software_class not in classes or key in fit_rows:
            continue
        try:
            fit_rows[key] = fit_row(one, one.latency_s)
        except Unpredictable:
            continue
    sizes = Counter(row.group for row in fit_rows.values())
    large = [row for row in fit_rows.values() if sizes[row.group] >= validate.LARGE]
    return {name: [row for row in large if row.setup.device.software_class == name] for name in classes}


def fit_row(one: Measurement, latency_s: float) -> FitRow:
    """The row as the fit needs it. Raises Unpredictable where its model must be captured first."""
    result = validate.estimated(one)
    run = result.run
    least = np.where(run.kernel_s > run.unthrottled_s, run.kernel_s, 0.0)
    adds, floor = validate.input_s(one, result)
    return FitRow(
        measured_s=latency_s,
        demand=result.demand,
        setup=result.setup,
        least_s=least,
        adds_s=adds[0],
        floor_s=floor[0],
        group=one.group,
        family=one.family,
        request=one,
    )


def predicted(rows: Sequence[FitRow], shipped: Efficiency, chosen: Sequence[Knob], values: Floats) -> Floats:
    """Latency of each row with the knobs at `values` (s, knobs), (s, rows)."""
    rates = settings(shipped, chosen, values)
    out = np.empty((len(values), len(rows)))
    for i, row in enumerate(rows):
        kernels = kernel_seconds(row.demand, row.setup, rates)
        out[:, i] = np.maximum(np.maximum(kernels, row.least_s).sum(axis=1) + row.adds_s, row.floor_s)
    return out


class Fit(msgspec.Struct, frozen=True):
    """Fitted values (knobs,) on rows of these weights, the error of each row there (log of predicted over measured)
    and its derivatives (rows, knobs) by the logarithms of the knobs; `shipped` is all that is not fitted."""

    knobs: tuple[Knob, ...]
    shipped: Efficiency
    weight: Floats
    values: Floats
    error: Floats
    slope: Floats
    pull: float


def fit(software: str, rows: Sequence[FitRow], progress: Progress = lambda _: None) -> Fit:
    """The efficiencies of a class of software, each group of rows weighing the same."""
    shipped = fitted()[software].efficiency
    return fit_knobs(software, rows, knobs(software), shipped, group_weights(rows), progress)


def fit_knobs(
    name: str,
    rows: Sequence[FitRow],
    chosen: tuple[Knob, ...],
    shipped: Efficiency,
    weight: Floats,
    progress: Progress,
    pull: float = PULL,
) -> Fit:
    """Values that minimise the absolute log error over rows, within the range of each knob and from where it starts."""
    low, high = _range(chosen)
    measured = np.array([row.measured_s for row in rows])
    x = np.array(
        [(a + b) / 2.0 if k.start is None else np.log(k.start) for k, a, b in zip(chosen, low, high, strict=True)]
    )
    best: Fit | None = None
    damping = 1.0
    for round_ in range(ROUNDS):
        progress(f"fitting {name}, round {round_ + 1} of {ROUNDS}")
        points = np.exp(np.vstack([x, x + STEP * np.eye(len(chosen))]))
        logs = np.log(predicted(rows, shipped, chosen, points) / measured)
        here = Fit(chosen, shipped, weight, points[0], logs[0], (logs[1:] - logs[0]).T / STEP, pull)
        if best is None or loss(here.error, weight) < loss(best.error, weight):
            best = here
        else:
            damping *= 0.5
        at = np.log(best.values)
        x = at + damping * least_absolute(best.error, best.slope, weight, low - at, high - at, pull)
    assert best is not None
    return best


def _range(chosen: Sequence[Knob]) -> tuple[Floats, Floats]:
    """Logarithms of the lowest and highest value of each knob."""
    return np.log([knob.low for knob in chosen]), np.log([knob.high for knob in chosen])


def group_weights(rows: Sequence[FitRow]) -> Floats:
    """Each group weighs the same."""
    counts = Counter(row.group for row in rows)
    return np.array([1.0 / max(counts[row.group], validate.LARGE) for row in rows])


def loss(error: Floats, weight: Floats) -> float:
    return float((weight * np.abs(error)).sum() / weight.sum())


def least_absolute(
    error: Floats, slope: Floats, weight: Floats, low: Floats, high: Floats, pull: float = PULL
) -> Floats:
    """The step (knobs,) from `low` to `high` that minimises sum(weight |error + slope step|), by reweighted least
    squares; knobs that no row depends on stay."""
    step = np.zeros(slope.shape[1])
    for _ in range(30):
        w = weight / np.maximum(np.abs(error + slope @ step), SMALL_ERROR)
        normal = (slope.T * w) @ slope + pull * weight.sum() * np.eye(len(step))
        step = np.clip(np.linalg.solve(normal, -(slope.T * w) @ error), low, high)
    return step


def left_out(rows: Sequence[FitRow], full: Fit, labels: Sequence[str]) -> Floats:
    """Latency (rows,) of each row from a fit without the rows that share its label.

    Each fit starts from the derivatives of the full one; its predictions are those of the model itself."""
    weight, at = full.weight, np.log(full.values)
    low, high = (end - at for end in _range(full.knobs))
    names = list(dict.fromkeys(labels))
    place = np.array([names.index(label) for label in labels])
    values = []
    for f in range(len(names)):
        others = place != f
        step = (low + high) / 2.0  # nothing else was measured: the middle of the range
        if others.any():
            step = least_absolute(full.error[others], full.slope[others], weight[others], low, high, full.pull)
        values.append(np.exp(at + step))
    each = predicted(rows, full.shipped, full.knobs, np.array(values))
    held: Floats = each[place, np.arange(len(rows))]
    return held


def recorded() -> tuple[HeldOut, ...]:
    """What `cross_validate` found on the shipped measurements when the efficiencies were fitted."""
    return tuple(msgspec.convert(row, HeldOut) for row in table()["cross_validation"])


def cross_validate(
    rows: Iterable[dict[str, str]], folders: tuple[Path, ...] = (), progress: Progress = lambda _: None
) -> tuple[HeldOut, ...]:
    """The error of each class of software on devices and on models that its fit has not seen."""
    progress("predicting")
    return tuple(
        held_out(software, mine, fit(software, mine, progress), progress)
        for software, mine in observations(rows, folders).items()
        if mine
    )


def held_out(software: str, rows: Sequence[FitRow], full: Fit, progress: Progress) -> HeldOut:
    """The errors of a class of software, given the fit to all of its rows."""
    measured = np.array([row.measured_s for row in rows])
    progress(f"leaving devices out of {software}")
    devices = left_out(rows, full, [row.setup.device.id for row in rows])
    progress(f"leaving models out of {software}")
    families = left_out(rows, full, [row.family for row in rows])
    progress(f"leaving runtimes out of {software}")
    runtimes = left_out(rows, full, [row.setup.runtime.id for row in rows])
    shipped = predicted(rows, full.shipped, (), np.zeros((1, 0)))[0]
    groups = [np.array([row.group == key for row in rows]) for key in dict.fromkeys(row.group for row in rows)]

    def error(latency: Floats) -> float:
        size = np.abs(latency / measured - 1.0)
        return float(np.median([np.median(size[group]) for group in groups]))

    fitted = error(np.exp(full.error) * measured)
    out = (error(latency) for latency in (shipped, devices, families, runtimes))
    return HeldOut(software, len(rows), len(groups), fitted, *out)


class Fitted(msgspec.Struct, frozen=True):
    """A class of software: its rows, the fit to all of them, and latencies by fits without their device and family."""

    rows: Sequence[FitRow]
    full: Fit
    device_s: Floats
    family_s: Floats


def without(software: str, rows: Sequence[FitRow], full: Fit) -> Fitted:
    """Each row predicted by a fit that left out its device, and one that left out its family of models."""
    by_device, by_family = [row.setup.device.id for row in rows], [row.family for row in rows]
    return Fitted(rows, full, left_out(rows, full, by_device), left_out(rows, full, by_family))


def calibrated(of: Iterable[Fitted]) -> str:
    """What analysis/estimate/trust.json is to say of the measurements that ship."""
    out: dict[tuple[object, ...], tuple[float, float]] = {}
    for each in of:
        for row, device_s, family_s in zip(each.rows, each.device_s.tolist(), each.family_s.tolist(), strict=True):
            out[_identity(row.request)] = (device_s, family_s)
    predictions, _ = validate.predict_all(shipped())
    kept = validate.agreeing([each.row for each in predictions])
    predictions = [each for each, keep in zip(predictions, kept, strict=True) if keep]
    latency = [(point, out.get(_identity(each.row))) for each in predictions for point in validate.points([each])]
    held = {id(point): left for point, left in latency if point.quantity == "latency"}
    points = [*(point for point, _ in latency), *kernel_points()]
    return bands.written(bands.table(bands.residuals(points, lambda point: held.get(id(point)))))


def _identity(one: Measurement) -> tuple[object, ...]:
    return one.device.key, one.model, one.scenario, one.latency_s


def _say(phase: str) -> None:
    print(phase, file=sys.stderr)


def main() -> None:
    """Print the fitted values beside the shipped ones, and the cross-validation as efficiency.toml records it; write
    what the bands of estimates follow from."""
    held, every = [], []
    for software, rows in observations(shipped(FITTED_ON)).items():
        fitted_now = fit(software, rows, _say)
        held.append(held_out(software, rows, fitted_now, _say))
        every.append(without(software, rows, fitted_now))
        now = fitted()[software].efficiency
        print(
            f"# {software}: {len(rows)} rows, mean absolute log error {loss(fitted_now.error, group_weights(rows)):.3f}"
        )
        for place, knob in enumerate(fitted_now.knobs):
            was = now.nchw[0] if knob.table == "nchw" else getattr(now, knob.table)[0, knob.classes[0]]
            print(f"#   {knob.table}.{knob.name:10} {was:.3f} -> {fitted_now.values[place]:.3f}")
    for each in held:
        print("\n[[cross_validation]]")
        for name, value in msgspec.to_builtins(each).items():
            print(f"{name} = {round(value, 4) if isinstance(value, float) else json.dumps(value)}")
    _say("bands")
    files.write(PATH, [calibrated(every)])


if __name__ == "__main__":
    main()
