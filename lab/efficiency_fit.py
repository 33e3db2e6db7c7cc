"""Fit of the efficiencies of hardware/efficiency.toml to measured latencies, and its cross-validation: fits without a
device, a family of models or a runtime show how well the efficiencies transfer.

There is one efficiency per kind of operator and class of software, none per model or device. The error is the logarithm
of predicted over measured. Each group of measurements has the same weight; least absolute errors limit outliers.
`python -m lab.efficiency_fit` prints the fitted and the shipped values and writes the errors of cross-validation to
lab/cross_validation.json. Held rows are not read.
"""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np

from analysis.measured import predictions, tables
from analysis.model.ir.workload import Floats
from hardware import known_architectures
from hardware.architecture_facts import Software
from hardware.base import file_access
from hardware.demand import OpClass
from hwexplorer_annexes.calibration import rate_fit
from hwexplorer_annexes.calibration.rate_fit import FitRow, FittedRate, Progress, RateFit
from lab import load_superseded_runtimes, measured_rows, trust_bands

CROSS_VALIDATION = Path(__file__).with_name("cross_validation.json")


class CrossValidation(msgspec.Struct, frozen=True):
    """Median over groups (of ten rows or more) of the median absolute error, a fraction: with the fit to all rows, with
    the shipped values, and with fits that left out the device, family of models or runtime of a row."""

    software: str
    rows: int
    groups: int
    fitted: float
    shipped: float
    device_out: float
    family_out: float
    runtime_out: float


def fitted_software() -> dict[str, Software]:
    """Return the classes of software whose efficiencies are fitted, by name."""
    every = {name: one for arch in known_architectures.ALL.values() for name, one in arch.data.software.items()}
    return {name: one for name, one in every.items() if one.not_fitted is not None}


def software_rates(software: str) -> tuple[FittedRate, ...]:
    """Return the fitted efficiencies of a class of software, by the names of efficiency.toml."""
    shipped = fitted_software()[software]
    rates = []
    for part, section in (("compute", shipped.compute), ("bandwidth", shipped.bandwidth)):
        rest = tuple(int(op) for op in OpClass if op.name not in section)
        for name, (_, low, high) in section.items():
            if name not in (shipped.not_fitted or ()):
                rates.append(FittedRate(part, name, rest if name == "other" else (int(OpClass[name]),), low, high))
    if shipped.fits_nchw:
        rates.append(FittedRate("nchw", "nchw", (), *shipped.nchw[1:]))
    return tuple(rates)


def fit_rows_by_software(
    table_rows: Sequence[dict[str, str]], folders: tuple[Path, ...] = ()
) -> dict[str, list[FitRow]]:
    """Return the rows with a measured latency by class of software. Repeated rows of a measurement, rows that
    `validate` leaves out and groups that are too small for its summary are left out."""
    rows, _ = tables.interpret_each(table_rows, lambda cells: predictions.interpret_row(cells, folders))
    fit_rows: dict[tuple[object, ...], FitRow] = {}
    classes = fitted_software()
    for row in rows:
        known = row.identity in fit_rows or row.device.software_class not in classes
        if row.latency_s is None or known:
            continue
        try:
            fit_rows[row.identity] = rate_fit.make_fit_row(row)
        except tables.Unpredictable:
            continue
    sizes = Counter(row.group for row in fit_rows.values())
    large = [row for row in fit_rows.values() if sizes[row.group] >= predictions.LARGE]
    return {name: [row for row in large if row.setup.device.software_class == name] for name in classes}


def fit_software(software: str, rows: Sequence[FitRow], progress: Progress = lambda _: None) -> RateFit:
    """Fit the efficiencies of a class of software, with equal weight for each group of rows."""
    shipped = fitted_software()[software].efficiency
    weight = trust_bands.row_weights(row.group for row in rows)
    return rate_fit.fit_rates(software, rows, software_rates(software), shipped, weight, progress)


def left_out_latency(rows: Sequence[FitRow], full: RateFit, labels: Sequence[str]) -> Floats:
    """Return the latency (rows,) of each row, predicted by a fit without the rows that share its label.

    Each fit is one step with the derivatives of the full fit; its predictions are computed without linearisation."""
    names = list(dict.fromkeys(labels))
    place = np.array([names.index(label) for label in labels])
    steps = [rate_fit.least_absolute_step(full, place != f) for f in range(len(names))]
    latency = rate_fit.predict_latency(rows, full.shipped, full.rates, full.values * np.exp(steps))
    selected: Floats = latency[place, np.arange(len(rows))]
    return selected


def cross_validate_fit(
    software: str, rows: Sequence[FitRow], full: RateFit, progress: Progress
) -> tuple[CrossValidation, dict[str, Floats]]:
    """Return the errors of a class of software and latencies (rows,) by name: `fitted` by the full fit, `shipped`, and
    by fits without the `device`, `family` or `runtime` of each row."""
    labels = {
        "device": [row.setup.device.id for row in rows],
        "family": [row.family for row in rows],
        "runtime": [row.setup.runtime.id for row in rows],
    }
    latency_s = {"fitted": np.exp(full.error) * np.array([row.measured_s for row in rows])}
    latency_s["shipped"] = rate_fit.predict_latency(rows, full.shipped, (), np.zeros((1, 0)))[0]
    for axis, of_rows in labels.items():
        progress(f"leaving each {axis} out of {software}")
        latency_s[axis] = left_out_latency(rows, full, of_rows)
    measured = np.array([row.measured_s for row in rows])
    groups = [np.array([row.group == key for row in rows]) for key in dict.fromkeys(row.group for row in rows)]
    errors = {}
    for name, latency in latency_s.items():
        medians = [np.median(np.abs(latency / measured - 1.0)[group]) for group in groups]
        errors[f"{name}_out" if name in labels else name] = float(np.median(medians))
    return CrossValidation(software=software, rows=len(rows), groups=len(groups), **errors), latency_s


def main() -> None:
    """Print the fitted and the shipped values in the format of efficiency.toml, and write the cross-validation."""
    load_superseded_runtimes()
    progress: Progress = partial(print, file=sys.stderr)
    validations: list[CrossValidation] = []
    for software, rows in fit_rows_by_software(measured_rows.shipped_rows(measured_rows.FITTED_ON, held=False)).items():
        full = fit_software(software, rows, progress)
        validations.append(cross_validate_fit(software, rows, full, progress)[0])
        error = rate_fit.mean_error(full.error, full.weight)
        print(f"# {software}: {len(rows)} rows, mean absolute log error {error:.3f}")
        for rate, value in zip(full.rates, full.values, strict=True):
            shipped = getattr(full.shipped, rate.table)[0]
            shipped = shipped[rate.classes[0]] if rate.classes else shipped
            print(f"#   {rate.table}.{rate.name:10} {shipped:.3f} -> {value:.3f}")
    rounded = [
        {
            name: round(field, 4) if isinstance(field, float) else field
            for name, field in msgspec.to_builtins(row).items()
        }
        for row in validations
    ]
    file_access.write(CROSS_VALIDATION, ["[\n", ",\n".join(map(json.dumps, rounded)), "\n]\n"])


if __name__ == "__main__":
    main()
