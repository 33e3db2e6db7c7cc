"""What one row of a chip says of its others, by hand: `nice python -m lab.bench_one_row`.

Rows that are given to fits are predicted by the facts of their chip, and by those of its data sheet alone. Each row in
turn moves the chip as `calibrate` does, by the logarithms of times. Prints medians over chips of the median error
without the row, with it, and by the median of what is judged, the best that a factor of the chip can do: for the same
family of models, and for others with the same runtime."""

from collections.abc import Sequence

import msgspec
import numpy as np

from analysis.measured import predictions, tables
from hardware.base.records import group_by, memoize
from hardware.device import Device
from hardware.device_catalog import device_in_mode
from hwexplorer_annexes.calibration.device_fit import find_move
from lab import load_superseded_runtimes
from lab.measured_rows import MODELS, shipped_rows

LEAST_ROWS, MOST_ROWS = 5, 40
STATED = ("data sheet", "derived")


@memoize()
def of_data_sheet(device: Device) -> Device:
    """Return a device of an unknown name that has only facts of its data sheet, and defaults for others."""
    usual = device.arch.data.facts
    facts = device.file.facts | (device.file.power_modes[device.power_mode].facts if device.power_mode else {})
    kept = {name: fact for name, fact in facts.items() if fact.quality in STATED or usual[name].value is None}
    file = msgspec.structs.replace(device.file, id="unknown", facts=kept, power_modes={}, mode="", changes=())
    return device_in_mode(file)


def median_errors(points: Sequence[predictions.PredictionPoint], is_family: bool) -> tuple[float, ...]:
    """Return the median error of rows beside another one: without it, with it, and by the median of such rows."""
    logs = np.log([point.measured / point.predicted for point in points])
    found = []
    for i, row in enumerate(points):
        alike = [(p.family == row.family) is is_family and p.runtime == row.runtime and p is not row for p in points]
        if any(alike):
            move = find_move([float(logs[i])], "siblings", of_family=is_family).log_time
            moves = (0.0, move, float(np.median(logs[alike])))
            found.append([np.median(np.abs(np.expm1(each - logs[alike]))) for each in moves])
    return tuple(np.mean(found, axis=0)) if found else ()


def main() -> None:
    """Print the errors without a row, with one, and by the best factor."""
    load_superseded_runtimes()
    rows, _ = tables.interpret_each(shipped_rows(MODELS, held=False), predictions.interpret_row)
    chips = group_by((row for row in rows if row.latency_s), lambda row: row.device.id)
    for name, change in (("own facts", lambda device: device), ("data sheet alone", of_data_sheet)):
        series = list[list[predictions.RowPoint]]()
        for members in chips.values():
            some = members[:: -(-len(members) // MOST_ROWS)]
            asked = [
                msgspec.structs.replace(row, device=change(row.device), others=(), is_governed=False) for row in some
            ]
            points = [found[0] for found in tables.interpret_each(asked, predictions.predict_row)[0]]
            series += [points] * (len(points) >= LEAST_ROWS)
        for work, is_family in (("same family", True), ("other families", False)):
            errors = [each for points in series if (each := median_errors(points, is_family))]
            text = ", ".join(f"{100 * each:.1f} %" for each in np.median(np.array(errors), axis=0))
            print(f"{name}, {work}: {len(errors)} chips, without, with a row, best: {text}", flush=True)


if __name__ == "__main__":
    main()
