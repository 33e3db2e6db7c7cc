"""Predict every measured row, summarise errors by class of work, and cross-validate the fits.

`python -m lab.validate [--data FILE ..] [--served | --cross-validate] [--on DEV] [--all] [--format text|json]`.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from analysis.document import columns
from analysis.estimate.trust import ClassEvidence
from analysis.measured.predictions import LARGE, PredictionPoint
from analysis.measured.services import TABLE as SERVED_TABLE
from analysis.measured.services import predict_served
from analysis.measured.tables import FITTED_ON, SHIPPED, read_rows, shipped_rows
from analysis.serving.served_load import load_evidence
from hardware.base.errors import RequestError
from hardware.base.text import count_noun, percent
from hwexplorer.export import render
from hwexplorer.process.output import Progress
from hwexplorer.views.plain import Table
from hwexplorer.views.tables import rows
from lab import efficiency_fit, load_superseded_runtimes
from lab.efficiency_fit import CrossValidation
from lab.errors import ClassErrors, Validation, validate
from lab.operator_fit import predict_left_out
from lab.serving_fit import ServedErrors, ServedGroups, validate_served
from lab.timed_kernels import is_kernel_table, is_operator_table, predict_kernels, shipped_kernels

_ERRORS = "median_ape p90_ape bias spearman band_coverage band_half_width"
CLASSES = columns(ClassErrors, f"name n devices {_ERRORS}")
SERVED_NEEDED = ("device", "public_model", "phase_split", "load_kind", "runtime", "source")
SERVED_COLUMNS = columns(ServedErrors, f"figure group n {_ERRORS}")
LOAD = "served at load, "  # prefix of the names of classes of services


class ModelGroups(Validation, frozen=True, kw_only=True):
    """Errors of whole models, the cross-validation of the fit, and the recorded errors of served loads."""

    cross_validation: tuple[CrossValidation, ...]
    served: tuple[ClassEvidence, ...]


def _are_loads(paths: Sequence[Path]) -> bool:
    """Return True if all files are of services under load: results of tools, or tables as the shipped one."""
    try:
        return all("load_kind" in row for row in read_rows(paths, ("load_kind",)))
    except RequestError:  # a table of something else
        return False


def _on_device(rows: list[dict[str, str]], device: str | None) -> list[dict[str, str]]:
    """Return the rows with this device where they state none. Raises RequestError if none is given."""
    if not device and not all(row["device"] for row in rows):
        raise RequestError("the result of a tool states no device: name it with --on DEV")
    return [row | {"device": row["device"] or str(device)} for row in rows]


def make_document(
    data: Sequence[Path] = (), served: bool = False, cross_validate: bool = False, base: str | None = None
) -> ModelGroups | ServedGroups:
    """Return the errors of all shipped rows, or of those of files. Raises RequestError."""
    if served or (data and _are_loads(data)):
        loads = _on_device(read_rows(data or [SHIPPED / SERVED_TABLE], SERVED_NEEDED), base)
        return validate_served(*predict_served(loads))
    models = list[dict[str, str]]()
    points, skipped = list[PredictionPoint](), Counter[str]()
    for path in data:
        table = read_rows((path,), ("device",))
        names, predictions, left_out = next(iter(table), {}), list[PredictionPoint](), Counter[str]()
        if is_kernel_table(names):
            predictions, left_out = predict_kernels(table)
            if cross_validate and is_operator_table(names):
                with Progress() as progress:
                    predictions += predict_left_out(table, (), progress.show)
        else:
            models += _on_device(read_rows((path,)), base)
        points += [msgspec.structs.replace(point, name=point.family) for point in predictions]
        skipped += left_out
    model_rows = models if data else shipped_rows()
    validated = validate(model_rows, kernels=points if data else shipped_kernels(), unread=skipped if data else None)
    fitted_on = model_rows if data else shipped_rows(FITTED_ON)
    errors = () if data else efficiency_fit.recorded_cross_validation()
    if cross_validate:
        with Progress() as progress:
            errors = efficiency_fit.cross_validate(fitted_on, progress=progress.show)
    recorded = () if data else tuple(load_evidence().values())
    return ModelGroups(**msgspec.structs.asdict(validated), cross_validation=errors, served=recorded)


def _view(document: ModelGroups | ServedGroups, is_whole: bool) -> Table:
    if isinstance(document, ServedGroups):
        return _served_table(document)
    count, kernels, left_out = (document.summary[name] for name in ("predicted", "kernels", "skipped"))
    twice = sum(each.n for each in document.classes) - count
    reasons = tuple(f"{count_noun(each.rows, 'row')} not predicted: {each.reason}" for each in document.skipped)
    services = "; ".join(f"{each.name.removeprefix(LOAD)} {percent(each.median_error)}" for each in document.served)
    footer = (
        f"{count:,} rows predicted, {left_out:,} not"
        + f" ({kernels:,} are single kernels, {twice:,} count in time and in energy)" * (twice > 0)
        + ": --all says why" * (not is_whole),
        f"errors below 30 %: the median of {_count_small_errors('median_ape', document)}, the 90th percentile of "
        f"{_count_small_errors('p90_ape', document)}",
        *map(_cross_validation_line, document.cross_validation),
        *((f"services under load (--served), median error: {services}",) if services else ()),
    )
    columns_shown = CLASSES if is_whole else columns(ClassErrors, f"name n {_ERRORS.replace('spearman ', '')}")
    cells = rows(columns_shown, document.classes, key=("quantity", "name"), dim=lambda each: each.n < LARGE)
    title = "Predicted against measured, by class of work (held: rows inside their band; band: its half-width)"
    return Table("validate", title, columns_shown, cells, footer=footer, notes=reasons * is_whole)


def _count_small_errors(field: str, document: ModelGroups) -> str:
    """Return the classes of work whose error is below 30 %, and all."""
    classes = document.classes
    return f"{sum(getattr(row, field) < 0.3 for row in classes)} of {len(classes)} classes"


def _cross_validation_line(errors: CrossValidation) -> str:
    left_out = {name: getattr(errors, f"{name}_out") for name in ("device", "family", "runtime")}
    return f"{errors.software.replace('_', ' ')}: {percent(errors.fitted, 1)} off{_left_out(left_out)}"


def _left_out(errors: dict[str, float]) -> str:
    words = ", ".join(f"{name} {percent(error, 1)}" for name, error in errors.items())
    return f"; fitted without each {words}" if words else ""


def _served_line(errors: ClassEvidence) -> str:
    left_out = (("device", errors.device_out), ("family of models", errors.family_out))
    holds = "".join(f"; without each {name} its band holds {percent(x)}" for name, x in left_out if x is not None)
    return (
        f"{errors.name}: {percent(errors.median_error, 1)} off ({errors.rows:,} runs on "
        f"{count_noun(errors.devices, 'device')}; recorded, --served repeats it)"
        f"{_left_out(errors.left_out)}{holds}"
    )


def _served_table(document: ServedGroups) -> Table:
    footer = [*map(_served_line, document.evidence)]
    if document.curves:
        footer.append(
            f"knee within one doubling of the load on {percent(document.knees_found)} of "
            f"{count_noun(document.curves, 'curve')}"
        )
    if document.choices:
        footer.append(
            f"of {document.choices} groups of three or more systems at one load, the best is chosen in "
            f"{percent(document.best_chosen)}; tokens/s per device lost by the choice: median "
            f"{percent(document.median_regret)}, worst {percent(document.worst_regret)}"
        )
    notes = [f"{each.rows} runs not predicted: {each.reason}" for each in document.skipped]
    cells = rows(SERVED_COLUMNS, document.served, key=("figure", "group"), dim=lambda each: each.n < LARGE)
    title = "Services under load, predicted against measured"
    return Table("validate", title, SERVED_COLUMNS, cells, footer=tuple(footer), notes=tuple(notes))


def main(words: Sequence[str] | None = None) -> int:
    """Print the validation that the words of the command line ask for, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m lab.validate", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--data", action="append", type=Path, default=[], help="measurements (default: shipped)")
    parser.add_argument("--on", dest="base", help="the device of results that state none")
    parser.add_argument("--served", action="store_true", help="services under load")
    parser.add_argument("--cross-validate", action="store_true", help="also fit without each device, family, runtime")
    parser.add_argument("--all", action="store_true", help="text in full")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    arguments = parser.parse_args(words)
    load_superseded_runtimes()
    try:
        document = make_document(arguments.data, arguments.served, arguments.cross_validate, arguments.base)
    except RequestError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.format == "json":
        print(render.encode(document), end="")
    else:
        print(render.plain(_view(document, arguments.all), "text", is_whole=arguments.all))
    return 0


if __name__ == "__main__":
    sys.exit(main())
