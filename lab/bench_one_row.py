"""What one row of a chip says of its others, by hand: `nice python -m lab.bench_one_row`.

Every device is left out in turn: of the fit of efficiencies and of the spreads. One random row of it is given back, and
the other rows of its class of work and runtime are predicted without and with it. Prints the spreads over all devices,
as hwexplorer_annexes/calibration/spreads.toml has them, and the median errors by architecture."""

import msgspec
import numpy as np

from analysis.measured import predictions
from analysis.measured.tables import FITTED_ON, Unpredictable, shipped_rows
from hwexplorer_annexes.calibration import device_fit
from lab import efficiency_fit, load_superseded_runtimes

LIMITS = ("compute", "memory", "start")
LEAST_ROWS = 5
FAR = 0.7  # logarithms beyond are of another cause
PULL = 0.02  # towards the mean of the limits, of the weight of all pairs
DRAWS = 40
SCALES = (1.0, 0.5, 0.25, 0.12, 0.06, 0.03)  # of the variances between devices
NO_WORSE = 1.03  # an error within so much of the least is as good: then the row moves less


class Row(msgspec.Struct):
    """A row's error without its device, and what its time is made of."""

    device: str
    group: str
    cell: tuple[str, ...]
    error: float
    shares: device_fit.Shares

    @property
    def bounded(self) -> float:
        """The error, no further than FAR."""
        return float(np.clip(self.error, -FAR, FAR))


def collect() -> list[Row]:
    """Return every shipped row that can be predicted, by a fit without its device where it was fitted."""
    left_out: dict[tuple[object, ...], float] = {}
    for software, fit_rows in efficiency_fit.fit_rows_by_software(shipped_rows(FITTED_ON)).items():
        if fit_rows:
            full = efficiency_fit.fit_software(software, fit_rows)
            _, seconds = efficiency_fit.cross_validate_fit(software, fit_rows, full, lambda _: None)
            left_out |= dict(zip([row.identity for row in fit_rows], seconds["device"].tolist(), strict=True))
    rows: dict[tuple[object, ...], Row] = {}
    for cells in shipped_rows():
        try:
            row = predictions.interpret_row(cells)
            result = predictions.estimate_row(row)
        except Unpredictable:
            continue
        if row.latency_s and result.work_class:
            predicted = left_out.get(row.identity) or predictions.predict_row(row)[0].predicted
            cell = (row.device.id, result.runtime.id, result.work_class, row.scenario.precision)
            kind = device_fit.spread_group(result)
            error = float(np.log(row.latency_s / predicted))
            rows[row.identity] = Row(row.device.id, kind, cell, error, device_fit.time_shares(result))
    return list(rows.values())


def cells_of(rows: list[Row]) -> dict[tuple[str, ...], list[Row]]:
    """Return the rows of each device, runtime and class of work that has enough of them."""
    cells: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        cells.setdefault(row.cell, []).append(row)
    return {key: members for key, members in cells.items() if len(members) >= LEAST_ROWS}


def fit_spreads(cells: list[list[Row]]) -> dict[str, float]:
    """Return the variances of limits that best explain products of the errors of two rows of a cell (Haseman-Elston),
    and that of a row: what is left."""
    draw = np.random.default_rng(0)
    normal, target, total = np.zeros((3, 3)), np.zeros(3), 0.0
    for rows in cells:
        for _ in range(150):
            a, b = (rows[i] for i in draw.choice(len(rows), 2, replace=False))
            x = np.array([
                sum(share * b.shares.get(part, 0.0) for part, share in a.shares.items() if part[0] == limit)
                for limit in LIMITS
            ])  # fmt: skip
            normal += np.outer(x, x) / 150
            target += x * a.bounded * b.bounded / 150
        total += float(np.mean([row.bounded**2 for row in rows])) / len(cells)
    mean = max(float(target.sum() / normal.sum()), 0.0)
    weight = PULL * float(np.trace(normal)) * np.eye(3)
    values = np.full(3, mean)
    for _ in range(200):  # coordinate descent, no variance below a hundredth
        for i in range(3):
            rest = (normal + weight)[i] @ values - (normal + weight)[i, i] * values[i]
            values[i] = max((target[i] + weight[i, i] * mean - rest) / (normal + weight)[i, i], mean / 4, 1e-3)
    taken = [sum(values[LIMITS.index(p[0])] * s * s for p, s in row.shares.items()) for rows in cells for row in rows]
    return dict(zip(LIMITS, values.tolist(), strict=True)) | {"row": max(total - float(np.mean(taken)), 0.1 * total)}


def error_after(given: Row, row: Row, variances: dict[str, float]) -> float:
    """Return the absolute error of a row when another of its cell is known, a fraction."""
    told = device_fit.condition([given.shares], [given.error], variances)
    moved = sum(share * told.parts.get(part, 0.0) for part, share in row.shares.items())
    return abs(float(np.expm1(moved - row.error)))


def scale_spreads(cells: list[list[Row]], variances: dict[str, float]) -> dict[str, float]:
    """Return the variances between devices, scaled so that one row leaves the least error in the others of its cell:
    pairs of rows are also alike where both are of models that are predicted badly on any device."""
    draw = np.random.default_rng(2)
    pairs = [[[rows[i] for i in draw.choice(len(rows), 2, replace=False)] for _ in range(120)] for rows in cells]

    def left(scale: float) -> float:
        scaled = variances | {name: variances[name] * scale for name in LIMITS}
        return float(
            np.mean([np.median([error_after(given, row, scaled) for given, row in of_cell]) for of_cell in pairs])
        )

    errors = {scale: left(scale) for scale in SCALES}
    least = min(scale for scale, error in errors.items() if error <= NO_WORSE * min(errors.values()))
    return variances | {name: variances[name] * least for name in LIMITS}


def main() -> None:
    """Print the spreads and the errors without and with one row."""
    load_superseded_runtimes()
    cells = cells_of(collect())
    groups = sorted({rows[0].group for rows in cells.values()})
    draw = np.random.default_rng(1)
    for group in groups:
        members = [rows for rows in cells.values() if rows[0].group == group]
        fitted = scale_spreads(members, fit_spreads(members))
        print(f"{group}: {len(members)} cells", {name: round(value**0.5, 3) for name, value in fitted.items()})
        before, after, far = [], [], []
        for rows in members:
            others = [each for each in members if each[0].device != rows[0].device]
            variances = scale_spreads(others, fit_spreads(others)) if len(others) > 2 else fitted
            errors = []
            for _ in range(DRAWS):
                given, *rest = (rows[i] for i in draw.permutation(len(rows))[:25])
                errors += [(abs(float(np.expm1(-row.error))), error_after(given, row, variances)) for row in rest]
            one, two = np.median(np.array(errors), axis=0)
            before.append(one)
            after.append(two)
            far += [(one, two)] if one > 0.15 else []
            bias = float(np.median([np.exp(-row.error) for row in rows])) - 1.0
            print(f"   {' '.join(rows[0].cell):70} {len(rows):4} {one:.3f} -> {two:.3f}, bias {bias:+.3f}")
        away = np.median(np.array(far or [(0, 0)]), axis=0)
        print(f"  median {np.median(before):.3f} -> {np.median(after):.3f}; {len(far)} beyond 15 %: {away.round(3)}")


if __name__ == "__main__":
    main()
