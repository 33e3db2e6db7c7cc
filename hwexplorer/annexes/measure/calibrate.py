"""Make a device from measurements: the log of `measure`, or a CSV.

Its file goes to your own folder, where every verb finds it by name, or to --to; shipped files do not change.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from analysis.annexes.machine.device_fit import OwnDevice, fit_machine, fit_rows
from analysis.annexes.machine.measured_rows import read_rows
from analysis.annexes.machine.measurement_log import read_log
from hardware import policy
from hardware.errors import RequestError
from hwexplorer import engine
from hwexplorer.annexes.measure._made_device import TO, check_name, emit_device, keep_device, log_file
from hwexplorer.declare import Verb
from hwexplorer.export.files import FORMATS
from hwexplorer.options import ON_ONE, option
from hwexplorer.process import output


def _run(arguments: argparse.Namespace) -> None:
    stated = arguments.file or arguments.source
    file = stated or log_file("this_cpu")
    if not stated and not file.exists():
        raise RequestError("nothing has been measured yet: run `hwexplorer measure`, or name a file")
    policy.require_unserved(f"reading {file}", str(file))
    with output.Progress() as progress:
        made = _fit_file(file, arguments.on, arguments.name, progress.show)
    emit_device(arguments, keep_device(made, arguments.to))


def _fit_file(file: Path, base: str | None, name: str | None, progress: Callable[[str], None]) -> OwnDevice:
    if not file.name.endswith((".csv", ".csv.gz")):
        log = read_log(file)
        return fit_machine(log, check_name(name or ("this_cpu" if log.machine.is_host else "this_gpu")), progress)
    rows = read_rows([file])
    try:
        device = engine.device(base or (rows[0]["device"] if rows else ""))
    except RequestError as error:
        unknown = f"--on DEV must name the device of the catalogue most like that of the rows ({error})"
        raise error if base else RequestError(unknown) from None
    return fit_rows(rows, device, check_name(name or f"my_{device.id}"[:41]), progress)


VERB = Verb(
    options=(
        option(
            "file", type=Path, nargs="?", metavar="FILE",
            help="log of `measure` (default: this machine's), or a CSV of measurements with one row or more",
        ),
        option("--from", dest="source", type=Path, metavar="FILE", help="the same file, as an option"),
        option("--name", metavar="NAME", help="name of the device (default this_cpu, this_gpu, my_DEV)"),
        ON_ONE,
        TO,
        option("--format", choices=FORMATS, metavar="F", help="format of the summary (default text)"),
        option("-o", "--output", metavar="FILE", help="write the summary here"),
    ),
    run=_run,
    shown=("", "measured.csv --on t4 --name my_t4"),
)  # fmt: skip
