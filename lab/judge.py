"""Predict the held fifth of all measured rows, which no fit, flag, rule, table or band follows from, and print errors.

`python -m lab.judge [--given] [--by device|family|runtime] [--write] [--all] [--format text|json] [FILE ..]`
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np

from analysis.document import column, columns
from analysis.estimate import trust
from analysis.estimate.trust import ClassEvidence, work_classes
from analysis.measured import predictions, services, tables
from analysis.measured.predictions import LARGE, PredictionPoint
from analysis.serving import served_load
from hardware.base import file_access
from hardware.base.errors import RequestError
from hardware.base.records import group_by
from hardware.base.text import count_noun
from hwexplorer.export import render
from hwexplorer.views.plain import Table
from hwexplorer.views.tables import rows as table_rows
from lab import load_superseded_runtimes, measured_rows, served_choices, timed_kernels, trust_bands

KERNELS = ("gpu_kernels_fp32.csv.gz", "kernels.csv.gz")
OWN = ("own_models.csv.gz", "own_llm.csv.gz")  # of one H100 and one H200: judged apart, and in no band
OWN_KERNELS = ("own_kernels.csv.gz",)
APART = "own, "  # begins the names of their classes


class JudgedClass(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of a class of work on held rows, fractions, beside what trust.json claims of it."""

    name: Annotated[str, column("Class of work")]
    rows: Annotated[int, column("Rows", "count")]
    devices: Annotated[int, column("Devices", "count", keep=2)]
    median: Annotated[float, column("Median err", "%", help="median absolute error")]
    error_90: Annotated[float, column("90th", "%", keep=1)]
    bias: Annotated[float, column("Bias", "%", role="delta", help="median of predicted / measured - 1")]
    in_band: Annotated[float, column("In band", "%", help="share of rows inside the stated band")]
    claimed: Annotated[float | None, column("Claimed", "%", help="median error that is published")]
    given: Annotated[
        float | None, column("Given", "%", keep=1, help="median error of the rows that constants follow from")
    ]


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """Errors by class, choices that predictions of services lead to, and skipped rows by reason."""

    classes: tuple[JudgedClass, ...]
    choices: tuple[str, ...]
    skipped: dict[str, int]


class Points(msgspec.Struct, frozen=True):
    """Predicted figures by class, predicted services, and the numbers of skipped rows by reason."""

    points: list[PredictionPoint]
    loads: list[services.PredictedLoad]
    skipped: Counter[str]


def predict_models(held: bool) -> tuple[list[PredictionPoint], Counter[str]]:
    """Return the predictions of shipped rows of models and kernels, the held ones or the others, and the numbers of
    skipped rows by reason."""
    models, skipped = predictions.predict_rows(measured_rows.shipped_rows(held=held))
    kernels, skipped_kernels = timed_kernels.predict_kernels(measured_rows.shipped_rows(KERNELS, held))
    return [*models, *kernels], skipped + skipped_kernels


def predict(held: bool) -> Points:
    """Return the predictions of all shipped rows, the held ones or the others."""
    points, skipped = predict_models(held)
    own, skipped_own = predictions.predict_rows(measured_rows.shipped_rows(OWN, held))
    own_kernels, skipped_own_kernels = timed_kernels.predict_kernels(measured_rows.shipped_rows(OWN_KERNELS, held))
    loads, skipped_loads = services.predict_served(measured_rows.shipped_rows((services.TABLE,), held))
    own_points: list[tuple[str, PredictionPoint]] = [(point.name, point) for point in own]
    own_points += [("kernels of a framework", point) for point in own_kernels]
    points += [msgspec.structs.replace(point, name=f"{APART}{name}") for name, point in own_points]
    points += [point for load in loads for point in load.points]
    return Points(points, loads, skipped + skipped_own + skipped_own_kernels + skipped_loads)


def predict_files(paths: Sequence[Path]) -> Points:
    """Return the predictions of all rows of tables of models, kernels or operators, and services. Raises
    RequestError."""
    points, all_loads, skipped = list[PredictionPoint](), list[services.PredictedLoad](), Counter[str]()
    for path in paths:
        rows = tables.read_rows((path,), ("device",))
        names = next(iter(rows), {})
        if timed_kernels.is_kernel_table(names):
            kernels, reasons = timed_kernels.predict_kernels(rows)
            points += [msgspec.structs.replace(point, name=point.family) for point in kernels]
        elif "load_kind" in names:
            loads, reasons = services.predict_served(rows)
            all_loads += loads
            points += [point for load in loads for point in load.points]
        else:
            predicted, reasons = predictions.predict_rows(rows)
            points += predicted
        skipped += reasons
    return Points(points, all_loads, skipped)


def claims() -> dict[tuple[str, str], ClassEvidence]:
    """Return what is published of each class, by its name and quantity."""
    known = (*trust.trust_table().classes, *served_load.load_evidence().values())
    return {(each.name, each.quantity): each for each in known}


def judge(points: Points, given: Sequence[PredictionPoint] = (), by: str = "name") -> Judgement:
    """Return the errors of predictions by class, or by another field of a point."""
    of_given = group_by(given, lambda point: (point.quantity, point.name))
    claimed, order = claims(), [kind.name for kind in work_classes()]

    def judge_class(key: tuple[str, str, str], members: Sequence[PredictionPoint]) -> JudgedClass:
        """Return the errors of one class."""
        quantity, name, label = key
        error = np.array([point.predicted / point.measured - 1.0 for point in members])
        inside = [point.band[0] <= point.measured <= point.band[1] for point in members]
        known = claimed.get((name, quantity))
        others = [abs(point.predicted / point.measured - 1.0) for point in of_given.get((quantity, name), ())]
        return JudgedClass(
            name=", ".join(
                filter(None, (name, "energy" if quantity == "energy" and "energy" not in name else "", label))
            ),
            rows=len(members),
            devices=len({point.device for point in members}),
            median=float(np.median(np.abs(error))),
            error_90=float(np.quantile(np.abs(error), 0.9)),
            bias=float(np.median(error)),
            in_band=float(np.mean(inside)),
            claimed=None if known is None else known.median_error,
            given=float(np.median(others)) if others and by == "name" else None,
        )

    groups = group_by(points.points, lambda p: (p.quantity, p.name, "" if by == "name" else str(getattr(p, by))))
    places = {name: place for place, name in enumerate(order)}
    keys = sorted(groups, key=lambda key: (key[1].startswith(APART), key[0], places.get(key[1], -1), key[1:]))
    return Judgement(
        classes=tuple(judge_class(key, groups[key]) for key in keys),
        choices=tuple(served_choices.describe(points.loads)),
        skipped=dict(points.skipped.most_common()),
    )


def write() -> None:
    """Write trust.json and load_trust.json, whose errors are those of held rows and bands those of the others."""
    rows = (measured_rows.shipped_rows((services.TABLE,), held) for held in (True, False))
    loads, given = (services.predict_served(each)[0] for each in rows)
    engines = [
        msgspec.structs.replace(
            point, name=trust.SERVED, device=load.row.deployment.device.id, runtime=load.row.deployment.runtime
        )
        for load in loads
        for point in load.points
        if point.quantity == "TPOT"
    ]
    table = trust_bands.trust_table(predict_models(held=True)[0], predict_models(held=False)[0], engines)
    file_access.write(trust.PATH, [trust_bands.encode_trust(table)])
    held_points, given_points = ([point for load in each for point in load.points] for each in (loads, given))
    evidence = trust_bands.served_evidence(held_points, given_points)
    file_access.write(served_load.EVIDENCE, ["[\n", trust_bands.encode_rows(evidence), "\n]\n"])


def _view(judgement: Judgement, is_whole: bool) -> Table:
    shown = columns(JudgedClass, " ".join(JudgedClass.__struct_fields__))
    cells = table_rows(shown, judgement.classes, key=("name",), dim=lambda each: each.rows < LARGE)
    count = sum(each.rows for each in judgement.classes)
    notes = [f"{count_noun(rows, 'row')} not predicted: {reason}" for reason, rows in judgement.skipped.items()]
    footer = (f"{count:,} figures; {sum(judgement.skipped.values()):,} rows are not predicted (--all says why)",)
    title = "Predicted against measured rows that nothing follows from, by class of work"
    return Table("judge", title, shown, cells, footer=(*footer, *judgement.choices), notes=tuple(notes) * is_whole)


def main(words: Sequence[str] | None = None) -> int:
    """Print the errors that the words of the command line ask for, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.judge", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="all rows of other tables instead")
    parser.add_argument("--given", action="store_true", help="also predict the rows that constants follow from")
    parser.add_argument("--by", choices=("name", "device", "family", "runtime"), default="name", help="group rows")
    parser.add_argument("--write", action="store_true", help="write bands and published errors of held rows")
    parser.add_argument("--all", action="store_true", help="also say why rows are not predicted")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    arguments = parser.parse_args(words)
    load_superseded_runtimes()
    try:
        if arguments.write:
            write()
            return 0
        points = predict_files(arguments.files) if arguments.files else predict(held=True)
        given = predict(held=False).points if arguments.given else ()
    except RequestError as error:
        print(error, file=sys.stderr)
        return 2
    judgement = judge(points, given, arguments.by)
    if arguments.format == "json":
        print(render.encode(judgement), end="")
    else:
        print(render.plain(_view(judgement, arguments.all), "text", is_whole=arguments.all))
    return 0


if __name__ == "__main__":
    sys.exit(main())
