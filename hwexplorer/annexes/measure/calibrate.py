"""Make a device of measurements: of `measure`, of a trace, or of a CSV.

It is kept in your own folder (or where --to says) and is found under its name like any other; shipped files stay.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import msgspec

from analysis.annexes.machine import own
from analysis.annexes.machine.here import Measured, read
from analysis.annexes.machine.measurement import read as rows_of
from analysis.annexes.machine.own import Own, Row
from analysis.annexes.machine.own_file import as_toml
from analysis.annexes.machine.own_trace import from_trace
from analysis.annexes.traces.read import read as read_trace
from analysis.document import Column
from hardware import files as storage
from hardware import places, policy
from hardware.device import files as shipped_files
from hardware.errors import RequestError
from hardware.quantity import of_fact
from hwexplorer import engine, output, request
from hwexplorer.declare import Verb
from hwexplorer.export.files import FORMATS
from hwexplorer.export.render import encode, plain
from hwexplorer.options import ON_ONE, option
from hwexplorer.state import parse, replace
from hwexplorer.views.measured import under
from hwexplorer.views.plain import Page, Table, Text
from hwexplorer.views.tables import rows

_NAME = re.compile(r"[a-z0-9][a-z0-9_]{0,40}")
SHARED = (
    "source", "device", "device_mode", "framework", "model", "batch", "image_size", "precision", "latency_ms",
    "throughput_per_s", "energy_mJ_per_inference", "power_W", "scenario", "note", "origin",
)  # fmt: skip


class Calibrated(msgspec.Struct, frozen=True, kw_only=True):
    """What was made: the file, from which device of the catalogue, and the errors of models left out of the fit, before
    (by that device) and after; `band` are the factors of an estimate that hold them."""

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
    facts: tuple[Stated, ...]
    rows: tuple[Row, ...]


class Stated(msgspec.Struct, frozen=True, kw_only=True):
    """A fact that was measured or read here."""

    name: str
    value: float
    unit: str
    source: str


def calibrated(measured: Measured, name: str, folder: Path | None = None) -> Calibrated:
    """Fit a device and write its file. Raises RequestError for a name that is taken, or too little measured."""
    with output.Progress() as progress:
        return written(own.own_device(measured, name_of(name), progress.show), folder)


def name_of(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise RequestError(f"device name {name[:40]!r}: small letters, digits and _ are expected, as this_cpu")
    if name in shipped_files():
        raise RequestError(f"{name} is a device of the catalogue, which is never changed: give another --name")
    return name


def written(made: Own, folder: Path | None = None) -> Calibrated:
    """Keep the device where it is found under its name."""
    folder = folder or places.devices_folder()
    path = folder / f"{made.device.id}.toml"
    policy.require_unserved(f"writing {path}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        storage.write(path, [as_toml(made.device)])
    except OSError as error:
        raise RequestError(f"cannot write {path}: {error.strerror or error}") from None
    engine.ENGINE.devices_changed()
    device, held = made.device, next(iter(made.device.file.trust), None)
    models = [row for row in made.rows if row.is_model]
    notes = [note for note in (*device.file.notes, *made.skipped) if note]
    if made.taken > _MUCH or made.noise > _MUCH:
        notes.insert(0, f"this machine is shared: {made.noise:.0%} between repeats, cores taken in {made.taken:.0%}")
    return Calibrated(
        device=device.id,
        name=device.file.name,
        file=str(path),
        nearest=made.nearest.id,
        models=len(models),
        error_before=own.median_error(models, before=True) if models else None,
        error_after=own.median_error(models) if models else None,
        band=(held.low, held.high) if held else None,
        noise=made.noise,
        shared=made.taken,
        notes=tuple(notes),
        facts=tuple(
            Stated(name=name, value=fact.value, unit=fact.unit, source=fact.source)
            for name, fact in device.file.facts.items()
            if fact.quality == "measured"
        ),
        rows=made.rows,
    )


_MUCH = 0.05

FACTS = (
    Column("name", "Fact", role="text", keep=0),
    Column("value", "Value", role="text", keep=0, of=lambda fact: of_fact(fact.value, fact.unit)),
    Column("source", "How it is known", role="text", keep=1),
)
ROWS = (
    Column("name", "Model or probe", role="text", keep=0),
    Column("batch", "Batch", "count", keep=0),
    Column("measured", "Measured", "s", keep=0, role="quantity", of="measured_s"),
    Column("spread", "Spread", "%", keep=2, help="half of the middle two thirds of the repeats"),
    Column("before", "Nearest", "s", keep=1, role="quantity", of="before_s", help="by the device it was made from"),
    Column("after", "Left out", "s", keep=0, role="quantity", of="after_s", help="by a fit without its family"),
    Column("error", "Error", "%", role="delta", keep=0, of=lambda row: row.after_s / row.measured_s - 1.0),
)


def page(made: Calibrated) -> Page:
    """For people: what was made, how good it is, what was measured."""
    lines = [f"{made.device}: {made.name}, kept in {made.file}"]
    if made.error_after is not None and made.band is not None:
        lines.append(
            f"{made.models} timings of models, each left out of the fit: median error {made.error_after:.0%}, by "
            f"{made.nearest} {made.error_before:.0%}; bands {made.band[0]:.2f} to {made.band[1]:.2f}"
        )
    lines += [*made.notes, f"next: hwexplorer resnet50 --on {made.device} --runtime eager"]
    facts = Table("facts", "Measured or read here", FACTS, rows(FACTS, made.facts, "name"), footer=())
    places = iter(range(len(made.rows)))
    shown = rows(ROWS, made.rows, key=lambda _: str(next(places)), dim=lambda row: not row.is_model)
    table = Table("rows", "Measured beside predicted", ROWS, shown, footer=())
    return Page(
        "calibrate",
        f"A device of this machine: {made.device}",
        (Text("summary", "Summary", (("", tuple(lines)),)), facts, table),
    )


def shared(measured: Measured, name: str) -> str:
    """The models that were timed, as rows of the tables that ship (analysis/annexes/machine/measured)."""
    machine = measured.machine
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(SHARED)
    for timed in measured.timed:
        case = timed.case
        if not case.model:
            continue
        joules = "" if timed.joules is None else f"{timed.joules / case.batch * 1e3:.6g}"
        watts = "" if timed.joules is None else f"{timed.joules / timed.seconds:.4g}"
        versions = " ".join(f"{each} {version}" for each, version in machine.versions.items())
        note = (
            f"{machine.name}; {machine.threads} threads; {versions}; median of {timed.rounds} interleaved rounds after "
            f"warm-up; spread {timed.spread:.1%}; {machine.energy}"
        )
        framework = f"pytorch {machine.versions.get('torch', '')} eager NCHW"
        writer.writerow(
            (
                f"hwexplorer measure {machine.date}", name, "", framework, case.model, case.batch, "", case.precision,
                f"{timed.seconds * 1e3:.6g}", f"{case.batch / timed.seconds:.6g}", joules, watts, "infer", note,
                "measured by its sender",
            )
        )  # fmt: skip
    return out.getvalue()


def _run(arguments: argparse.Namespace) -> None:
    file = arguments.file or places.devices_folder() / "measured" / "this_cpu.jsonl"
    if not arguments.file and not file.exists():
        raise RequestError("nothing is measured yet: `hwexplorer measure` does it, or name a file")
    policy.require_unserved(f"reading {file}", str(file))
    with output.Progress() as progress:
        made = _made(file, arguments, progress.show)
    found = written(made, arguments.to)

    def make(form: str) -> str:
        return encode(found) if form == "json" else plain(page(found), form, output.width())

    output.emit(arguments, make)


def _made(file: Path, arguments: argparse.Namespace, progress: Callable[[str], None]) -> Own:
    if file.name.endswith((".csv", ".csv.gz")):
        if arguments.on is None:
            raise RequestError(
                "of which device the rows are is not said: --on DEV, the one of the catalogue most like it"
            )
        return own.from_rows(rows_of([file]), engine.device(arguments.on), name_of(arguments.name or "mine"), progress)
    if arguments.model is not None:
        state = replace(
            parse(arguments.model), **({"on": arguments.on, "devices": (arguments.on,)} if arguments.on else {})
        )
        request.capture(state)
        trace = read_trace(file)
        return from_trace(trace, engine.result(under(state, trace)), name_of(arguments.name or "mine"))
    measured = read(file)
    name = arguments.name or ("this_cpu" if measured.machine.is_host else "this_gpu")
    return own.own_device(measured, name_of(name), progress)


VERB = Verb(
    options=(
        option(
            "file", type=Path, nargs="?", metavar="FILE",
            help="of `measure` (default: what was measured here), a CSV of measurements, or a trace",
        ),
        option("--name", metavar="NAME", help="of the device (default this_cpu, this_gpu)"),
        ON_ONE,
        option("--model", metavar="STATE", help="what a trace is of, as resnet50@b8,fp16,eager; then FILE is a trace"),
        option("--to", type=Path, metavar="DIR", help="folder of the device file (default: your own)"),
        option("--format", choices=FORMATS, metavar="F", help="of the summary (default text)"),
        option("-o", "--output", metavar="FILE", help="write the summary here"),
    ),
    run=_run,
    shown=("", "measured.csv --on t4 --name my_t4"),
)  # fmt: skip
