"""Make a device from measurements: results of benchmark tools, rows of a CSV, or a time or rate in words.

Its file goes to your own folder, where every verb finds it by name, or to --to; shipped files do not change.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from hwexplorer.extend import (
    Device,
    RequestError,
    Scenario,
    declare,
    device_catalog,
    device_toml,
    document,
    engine,
    file_access,
    files,
    options,
    output,
    predictions,
    state,
    tables,
    text,
)
from hwexplorer_annexes.calibration import device_fit

_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,40}")
_TOKENS = {"prefill": "sequence", "request": "output"}  # lengths that tokens/s count, by kind of work; one by default
_SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}
_TIMED = re.compile(rf"(\d*\.?\d+) ?({'|'.join(_SECONDS)}|\w+/s) +(\S+?)(?:,? +batch +(\d+))?((?:,? +\S+)*)")
_FORM = '"9.7 ms MODEL batch 8 fp16 tensorrt", where 120 tokens/s or 850 images/s may be the time'


class MadeDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device made from measurements, its file, and the `nearest` device of the catalogue. Median errors: before, by
    `nearest`; after, by this device with each model left out of the fit. `band`: factors that hold the rows. `next` is
    the command that compares both devices as they were measured."""

    device: str
    name: str
    file: str
    nearest: str
    models: int
    error_before: float
    error_after: float | None
    band: tuple[float, float]
    notes: tuple[str, ...]
    next: str
    rows: tuple[device_fit.TimingRow, ...]


def _document(
    state: state.State,
    device: str | None,
    file: str | None,
    base: str | None,
    execution_name: str | None,
    format_name: str | None,
    device_id: str | None,
    to: Path | None,
) -> MadeDevice:
    if file is None:  # the rows, or --on, name the device
        device, file = base, device
    if file is None:
        raise RequestError(f"calibrate needs the file of a measurement, or {_FORM}")
    timed = None if Path(file).exists() else _TIMED.fullmatch(file)
    if timed is None and " " in file and not Path(file).exists():
        raise RequestError(f"{file[:60]!r} is no file, and not like {_FORM}")
    table = [] if timed else tables.read_rows([Path(file)])
    nearest = _nearest_device(device or (table[0]["device"] if table else ""), is_asked=device is not None)
    name = _check_name(device_id or f"my_{nearest.id}"[:41])
    if timed:
        rows, skipped = [_timed_row(timed, nearest, execution_name, format_name)], list[str]()
    else:
        rows, skipped = device_fit.interpret_rows(table, nearest)
    with output.Progress() as progress:
        made = device_fit.fit_rows(rows, nearest, name, skipped, progress.show)
    return _keep_device(made, to or file_access.devices_folder())


def _timed_row(
    timed: re.Match[str], device: Device, execution_name: str | None, format_name: str | None
) -> predictions.MeasuredRow:
    """Return the row of a measurement in words. Raises RequestError."""
    digits, unit, model, batch, words = timed.groups()
    if not (amount := float(digits)):
        raise RequestError(f"{timed[0]}: the time or rate must be above 0")
    is_rate, counts_tokens = unit not in _SECONDS, unit.startswith("tokens")
    model += ":decode" if counts_tokens and ":" not in model else ""
    settings = ",".join((f"b{batch or 1}", *words.replace(",", " ").split()))
    asked = state.parse(f"{model}@{settings}")
    of_model = engine.workload(asked)
    tokens = of_model.defaults.get(_TOKENS.get(of_model.kind, ""), 1) if counts_tokens else 1
    latency_s = asked.batch * tokens / amount if is_rate else amount * _SECONDS[unit]
    scenario = Scenario(asked.batch, format_name or asked.precision, execution_name or asked.execution)
    return predictions.MeasuredRow(
        group=(timed[0],), model=model, device=device, scenario=scenario, latency_s=latency_s, energy_j=None,
        is_rate=is_rate,
    )  # fmt: skip


def _nearest_device(name: str, is_asked: bool) -> Device:
    """Return the device of the catalogue that is asked for, else that of the rows. Raises RequestError."""
    try:
        return engine.device(name)
    except RequestError as error:
        unknown = f"calibrate DEV FILE must name the device of the catalogue most like that of the rows ({error})"
        raise error if is_asked else RequestError(unknown) from None


def _check_name(name: str) -> str:
    """Return the name of a device to make. Raises RequestError if it is not a valid name or is in the catalogue."""
    if not _NAME.fullmatch(name):
        raise RequestError(f"device name {name[:40]!r}: expected small letters, digits and _, e.g. my_t4")
    if name in device_catalog.find_folders():
        raise RequestError(f"{name} is a device of the catalogue, which cannot be changed: choose another --name")
    return name


def _keep_device(made: device_fit.OwnDevice, folder: Path) -> MadeDevice:
    """Write the file of a device to a folder and return its document. Raises RequestError."""
    path = folder / f"{made.device.id}.toml"
    with suppress(OSError):  # writing reports it
        folder.mkdir(parents=True, exist_ok=True)
    files.write(path, device_toml(made.device), overwrite=True)
    engine.devices_changed()
    (held,) = made.device.file.trust
    return MadeDevice(
        device=made.device.id,
        name=made.device.file.name,
        file=str(path),
        nearest=made.nearest.id,
        models=len(made.rows),
        error_before=device_fit.median_error(made.rows, before=True),
        error_after=device_fit.median_error(made.rows) if made.left_out else None,
        band=(held.low, held.high),
        notes=(*made.device.file.notes[len(made.nearest.file.notes) :], *made.skipped),
        next=f"hwexplorer compare {made.asked} --on {made.device.id}",
        rows=made.rows,
    )


def _summary(made: MadeDevice, state: state.State) -> Iterator[str]:
    """Yield where the device is kept, how far off its figures and those of the nearest device are, and what is next."""
    yield f"{made.device}: {made.nearest} as it was measured, kept in {made.file}"
    by_nearest, (low, high) = text.percent(made.error_before), made.band
    if made.error_after is not None:
        yield (
            f"{made.models} timings of models, each left out of the fit: median error "
            f"{text.percent(made.error_after)}, by {made.nearest} {by_nearest}; bands {low:.2f} to {high:.2f}"
        )
    else:
        yield (
            f"{text.count_noun(made.models, 'measurement')}; {made.nearest} predicts it {by_nearest} off; "
            f"measured times of such work are expected at {low:.2f} to {high:.2f} times the prediction"
        )
    yield from made.notes
    yield f"next: ask again with {made.device} in place of {made.nearest}, as in {made.next}"


ROWS = document.columns(
    device_fit.TimingRow,
    "name batch measured before after error",
    document.Column("error", "Error", "%", role="delta", keep=0, of=lambda row: row.after_s / row.measured_s - 1.0),
)
VERB = declare.Report(
    subject=declare.CATALOGUE,
    options=(
        options.option("device", nargs="?", metavar="DEV", help="the device of the catalogue most like the measured"),
        options.option(
            "file", nargs="?", metavar="FILE",
            help=f"a CSV of measurements, a result of {tables.tool_names()}, or {_FORM}",
        ),
        options.option("--on", dest="base", metavar="DEV", help="the same device, as an option"),
        options.option("--runtime", dest="execution_name", metavar="R", help="software of a time in words: tensorrt"),
        options.option("--precision", dest="format_name", metavar="P", help="format of a time in words: fp16"),
        options.option("--name", dest="device_id", metavar="NAME", help="of the device that is made (default my_DEV)"),
        options.option("--to", type=Path, metavar="DIR", help="folder of the device file (default: your own)"),
    ),
    document=_document,
    title=lambda made, state: f"A device made of measurements: {made.device}",
    parts=(
        declare.summary_text(_summary),
        declare.Rows("rows", "Measured beside predicted", ROWS, key=("name", "batch")),
    ),
    on_screen=False,
    shown=("t4 measured.csv", "rtx_4090 llama-bench.json", 'l4 "9.7 ms resnet50 batch 8" --runtime tensorrt'),
)  # fmt: skip
