"""Make a device from measurements: the log of `measure`, or a CSV.

Its file goes to your own folder, where every verb finds it by name, or to --to; shipped files do not change.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from hwexplorer.extend import (
    RequestError,
    declare,
    device_catalog,
    device_toml,
    document,
    engine,
    files,
    measured_rows,
    output,
    quantity,
    tool_results,
)
from hwexplorer_annexes.measure.device_fit import OwnDevice, TimingRow, fit_machine, fit_rows, median_error
from hwexplorer_annexes.measure.device_parts import column, count_noun, percent, record
from hwexplorer_annexes.measure.measurement_log import read_log
from hwexplorer_annexes.verb_parts import Rows, State, option

NOISY = 0.05  # a machine counts as shared above this share of time taken by others, or spread between repeats
_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,40}")


class StatedFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact of a device that comes from measurements."""

    name: Annotated[str, column("Fact")]
    value: float
    unit: str
    source: Annotated[str, column("How it is known", keep=1)]


class MadeDevice(msgspec.Struct, frozen=True, kw_only=True):
    """A device made from measurements, its file, and the `nearest` device of the catalogue. Median errors of models:
    before, by `nearest`; after, by this device with each model left out of the fit. `band`: factors that hold them."""

    device: str
    name: str
    file: str
    nearest: str
    models: int
    error_before: float | None
    error_after: float | None
    band: tuple[float, float] | None
    noise: float
    shared: float
    notes: tuple[str, ...]
    facts: tuple[StatedFact, ...]
    rows: tuple[TimingRow, ...]


def log_file(name: str) -> Path:
    """Return the path of the log of measurements of a device."""
    return engine.user_folder() / "measured" / f"{name}.jsonl"


def _check_name(name: str) -> str:
    """Return the name of a device to make. Raises RequestError if it is not a valid name or is in the catalogue."""
    if not _NAME.fullmatch(name):
        raise RequestError(f"device name {name[:40]!r}: expected small letters, digits and _, e.g. this_cpu")
    if name in device_catalog.device_files():
        raise RequestError(f"{name} is a device of the catalogue, which cannot be changed: choose another --name")
    return name


def _document(
    state: State, file: Path | None, source: Path | None, device_id: str | None, base: str | None, to: Path | None
) -> MadeDevice:
    stated = file or source
    path = stated or log_file("this_cpu")
    if not stated and not path.exists():
        raise RequestError("nothing has been measured yet: run `hwexplorer measure`, or name a file")
    with output.Progress() as progress:
        made = _fit_file(path, base, device_id, progress.show)
    return _keep_device(made, to or engine.user_folder())


def _fit_file(file: Path, base: str | None, name: str | None, progress: Callable[[str], None]) -> OwnDevice:
    if file.name.endswith(".jsonl"):
        log = read_log(file)
        return fit_machine(log, _check_name(name or ("this_cpu" if log.machine.is_host else "this_gpu")), progress)
    rows = measured_rows.read_rows([file])
    try:
        device = engine.device(base or (rows[0]["device"] if rows else ""))
    except RequestError as error:
        unknown = f"--on DEV must name the device of the catalogue most like that of the rows ({error})"
        raise error if base else RequestError(unknown) from None
    return fit_rows(rows, device, _check_name(name or f"my_{device.id}"[:41]), progress)


def _keep_device(made: OwnDevice, folder: Path) -> MadeDevice:
    """Write the file of a device to a folder and return its document. Raises RequestError."""
    path = folder / f"{made.device.id}.toml"
    with suppress(OSError):  # writing reports it
        folder.mkdir(parents=True, exist_ok=True)
    files.write(path, device_toml(made.device), overwrite=True)
    engine.devices_changed()
    spec, models = made.device.file, [row for row in made.rows if row.is_model]
    notes = [note for note in (*spec.notes, *made.skipped) if note]
    if made.taken > NOISY or made.noise > NOISY:
        noise, taken = made.noise * 100, made.taken * 100
        notes.insert(0, f"this machine is shared: {noise:.0f} % between repeats, cores taken in {taken:.0f} %")
    return record(
        MadeDevice,
        made,
        device=made.device.id,
        name=spec.name,
        file=str(path),
        nearest=made.nearest.id,
        models=len(models),
        error_before=median_error(models, before=True) if models else None,
        error_after=median_error(models) if models and made.left_out else None,
        band=next(((held.low, held.high) for held in spec.trust), None),
        shared=made.taken,
        notes=tuple(notes),
        facts=tuple(
            record(StatedFact, fact, name=name) for name, fact in spec.facts.items() if fact.quality == "measured"
        ),
    )


def _summary(made: MadeDevice, state: State) -> Iterator[str]:
    """Yield where the device is kept, how far off its figures and those of the nearest device are, and what is next."""
    yield f"{made.device}: {made.name}, kept in {made.file}"
    by_nearest = percent(made.error_before or 0.0)
    if made.error_after is not None and made.band is not None:
        yield (
            f"{made.models} timings of models, each left out of the fit: median error {percent(made.error_after)}, "
            f"by {made.nearest} {by_nearest}; bands {made.band[0]:.2f} to {made.band[1]:.2f}"
        )
    elif made.models and made.band is not None:
        yield (
            f"{count_noun(made.models, 'measurement')}; {made.nearest} predicts it {by_nearest} off; "
            f"measured times of such work are expected at {made.band[0]:.2f} to {made.band[1]:.2f} times the prediction"
        )
    yield from made.notes
    model = next((row.name for row in made.rows if row.is_model), "resnet50")
    yield f"next: hwexplorer compare {model} --on {made.nearest},{made.device}"


FACTS = document.columns(
    StatedFact,
    "name value source",
    document.Column("value", "Value", role="text", keep=0, of=lambda fact: quantity.of_fact(fact.value, fact.unit)),
)
ROWS = document.columns(
    TimingRow,
    "name batch measured spread before after error",
    document.Column("error", "Error", "%", role="delta", keep=0, of=lambda row: row.after_s / row.measured_s - 1.0),
)
VERB = declare.Report(
    subject=declare.CATALOGUE,
    options=(
        option(
            "file", type=Path, nargs="?", metavar="FILE",
            help="log of `measure` (default: this machine's), a CSV of one measurement or more, or a result of "
            f"{tool_results.tool_names()}",
        ),
        option("--from", dest="source", type=Path, metavar="FILE", help="the same file, as an option"),
        option("--name", dest="device_id", metavar="NAME", help="of the device (default this_cpu, this_gpu, my_DEV)"),
        option("--on", dest="base", metavar="DEV", help="the device of the catalogue most like that of the rows"),
        option("--to", type=Path, metavar="DIR", help="folder of the device file (default: your own)"),
    ),
    document=_document,
    title=lambda made, state: f"A device made of measurements: {made.device}",
    parts=(
        declare.summary_text(_summary),
        Rows("facts", "Measured or read here", FACTS, key="name", optional=True),
        Rows(
            "rows", "Measured beside predicted", ROWS, key=("name", "batch"), dim=lambda row: not row.is_model,
        ),
    ),
    on_screen=False,
    shown=("", "measured.csv --on t4 --name my_t4", "--from llama-bench.json --on rtx_4090"),
)  # fmt: skip
