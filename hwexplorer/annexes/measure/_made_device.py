"""The document, the file and the page of a device that was made from measurements."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec

from analysis.annexes.machine.device_fit import OwnDevice, TimingRow, median_error
from analysis.annexes.machine.device_toml import device_toml
from analysis.document import Column, column, columns, record
from hardware import file_access, places, policy
from hardware.device import device_files as shipped_files
from hardware.errors import RequestError
from hardware.quantity import of_fact, percent
from hardware.sentence import count_noun
from hwexplorer import engine
from hwexplorer.export.render import encode, plain
from hwexplorer.options import option
from hwexplorer.process import output
from hwexplorer.views.plain import Page, Table, Text
from hwexplorer.views.tables import rows

NOISY = 0.05  # a machine counts as shared above this share of time taken by others, or spread between repeats
TO = option("--to", type=Path, metavar="DIR", help="folder of the device file (default: your own)")
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


VALUE = Column("value", "Value", role="text", keep=0, of=lambda fact: of_fact(fact.value, fact.unit))
ERROR = Column("error", "Error", "%", role="delta", keep=0, of=lambda row: row.after_s / row.measured_s - 1.0)
FACTS = columns(StatedFact, "name value source", VALUE)
ROWS = columns(TimingRow, "name batch measured spread before after error", ERROR)


def check_name(name: str) -> str:
    """Return the name of a device to make. Raises RequestError if it is not a valid name or is in the catalogue."""
    if not _NAME.fullmatch(name):
        raise RequestError(f"device name {name[:40]!r}: expected small letters, digits and _, e.g. this_cpu")
    if name in shipped_files():
        raise RequestError(f"{name} is a device of the catalogue, which cannot be changed: choose another --name")
    return name


def keep_device(made: OwnDevice, folder: Path | None = None) -> MadeDevice:
    """Write the file of a device, by default to the user's folder, and return its document. Raises RequestError."""
    folder = folder or places.devices_folder()
    path = folder / f"{made.device.id}.toml"
    policy.require_unserved(f"writing {path}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file_access.write(path, [device_toml(made.device)])
    except OSError as error:
        raise RequestError(f"cannot write {path}: {error.strerror or error}") from None
    engine.ENGINE.devices_changed()
    spec, models = made.device.file, [row for row in made.rows if row.is_model]
    band = next(((held.low, held.high) for held in spec.trust), None)
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
        band=band,
        shared=made.taken,
        notes=tuple(notes),
        facts=tuple(
            record(StatedFact, fact, name=name) for name, fact in spec.facts.items() if fact.quality == "measured"
        ),
    )


def device_page(made: MadeDevice) -> Page:
    """Return the page of a device: its file and its errors, its facts, and its measurements."""
    lines = [f"{made.device}: {made.name}, kept in {made.file}"]
    by_nearest = f"{percent(made.error_before or 0.0)}"
    if made.error_after is not None and made.band is not None:
        lines.append(
            f"{made.models} timings of models, each left out of the fit: median error {percent(made.error_after)}, "
            f"by {made.nearest} {by_nearest}; bands {made.band[0]:.2f} to {made.band[1]:.2f}"
        )
    elif made.models and made.band is not None:
        lines.append(
            f"{count_noun(made.models, 'measurement')}; {made.nearest} predicts it {by_nearest} off; "
            f"measured times of such work are expected at {made.band[0]:.2f} to {made.band[1]:.2f} times the prediction"
        )
    model = next((row.name for row in made.rows if row.is_model), "resnet50")
    lines += [*made.notes, f"next: hwexplorer compare {model} --on {made.nearest},{made.device}"]
    keys = iter(range(len(made.rows)))
    shown = rows(ROWS, made.rows, key=lambda _: str(next(keys)), dim=lambda row: not row.is_model)
    facts = Table("facts", "Measured or read here", FACTS, rows(FACTS, made.facts, "name"), footer=())
    parts = (
        Text("summary", "Summary", (("", tuple(lines)),)),
        *((facts,) if made.facts else ()),
        Table("rows", "Measured beside predicted", ROWS, shown, footer=()),
    )
    return Page("measure", f"A device made of measurements: {made.device}", parts)


def log_file(name: str) -> Path:
    """Return the path of the log of measurements of a device."""
    return places.devices_folder() / "measured" / f"{name}.jsonl"


def emit_device(arguments: argparse.Namespace, made: MadeDevice, csv: Callable[[], str] | None = None) -> None:
    """Print the page or document of a device; as CSV, print the measured rows."""

    def text(form: str) -> str:
        if form == "csv" and csv is not None:
            return csv()
        return encode(made) if form == "json" else plain(device_page(made), form, output.width())

    output.emit(arguments, text)
