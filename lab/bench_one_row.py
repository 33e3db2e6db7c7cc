"""What one row of a chip says of its others, by hand: `nice python -m lab.bench_one_row`.

Every device is left out of the fit of efficiencies in turn. One random row of it is given back, the device moves as
`calibrate` moves it, and its other rows are predicted. Prints median errors without and with the row: of the same
runtime and class of work, and of others."""

from collections.abc import Sequence

import numpy as np

from hardware.base.records import group_by
from hwexplorer_annexes.calibration.device_fit import find_move
from hwexplorer_annexes.calibration.rate_fit import FitRow
from lab import efficiency_fit, load_superseded_runtimes
from lab.measured_rows import FITTED_ON, shipped_rows

LEAST_ROWS = 5
DRAWS = 40
LEVEL = "siblings"  # the evidence of a chip that no fit has seen


def left_out_errors() -> dict[tuple[str, ...], list[float]]:
    """Return the logarithms of measured over predicted by fits without the device, by device and runtime."""
    errors = list[tuple[FitRow, float]]()
    for software, rows in efficiency_fit.fit_rows_by_software(shipped_rows(FITTED_ON)).items():
        full = efficiency_fit.fit_software(software, rows)
        latency_s = efficiency_fit.left_out_latency(rows, full, [row.setup.device.id for row in rows]).tolist()
        errors += [(row, float(np.log(row.measured_s / s))) for row, s in zip(rows, latency_s, strict=True)]
    series = group_by(errors, lambda pair: (pair[0].setup.device.id, *pair[0].group))
    return {key: [error for _, error in pairs] for key, pairs in series.items() if len(pairs) >= LEAST_ROWS}


def median_errors(
    given: Sequence[float], others: Sequence[float], draw: np.random.Generator, has_runtime: bool = True
) -> tuple[float, float]:
    """Return the median error of `others` without and with one of the `given` rows, the mean over draws. Rows of
    another runtime move less."""
    errors = np.array(others)
    found = [find_move([float(given[i])], LEVEL) for i in draw.choice(len(given), DRAWS)]
    moves = [move.log_time if has_runtime else move.others_time for move in found]
    moved = [float(np.median(np.abs(np.expm1(move - errors)))) for move in moves]
    return float(np.median(np.abs(np.expm1(-errors)))), float(np.mean(moved))


def main() -> None:
    """Print the errors without and with one row, by series and over all devices."""
    load_superseded_runtimes()
    draw, series = np.random.default_rng(1), left_out_errors()
    same = {key: median_errors(errors, errors, draw) for key, errors in series.items()}
    for key, (one, two) in same.items():
        print(f"{' '.join(key):80} {len(series[key]):4} {one:.3f} -> {two:.3f}")
    pairs = [(a, b) for a in series for b in series if a != b and a[0] == b[0]]
    others = [median_errors(series[a], series[b], draw, a[1] == b[1]) for a, b in pairs]
    far = [pair for pair in same.values() if pair[0] > 0.15]
    devices = len({key[0] for key in series})
    for name, found in (("same work", list(same.values())), ("beyond 15 %", far), ("other work", others)):
        before, after = np.median(np.array(found or [(0.0, 0.0)]), axis=0)
        print(f"{name}: {len(found)} series on {devices} devices, median {before:.3f} -> {after:.3f}")


if __name__ == "__main__":
    main()
