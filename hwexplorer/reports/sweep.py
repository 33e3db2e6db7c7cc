"""A model over batches, precisions, image sizes; or the whole catalogue."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from analysis.decide.sweep import BATCHES, Best, Crossover, Sweep
from analysis.decide.sweep import sweep as run_sweep
from hardware.errors import RequestError
from hardware.quantity import quantity
from hwexplorer import engine, headless
from hwexplorer.configurations import GRID, INCLUDE_PAPER, asks_for_paper, devices
from hwexplorer.declare import DEVICES, Report, Rows, Subject
from hwexplorer.options import MODEL, option, or_default, whole, wholes
from hwexplorer.reports import _sweep_all
from hwexplorer.state import IMAGE_MAX, State, replace
from hwexplorer.views.plain import Column, Table
from hwexplorer.views.tables import rows
from hwexplorer.views.words import FLAGS, FLAGS_HELP, MARKED, YES_NO, leads

ROWS = (
    Column("device", "Device", role="text", keep=0, shown=MARKED),
    Column("image_size", "Pixels", "count", keep=4),
    Column("batch", "Batch", "count", keep=0),
    Column("precision", "Asked", role="text", keep=1),
    Column("precision_run", "Runs", role="text", keep=5, help="the format most multiply-accumulates run in"),
    Column("latency", "Latency", "s", keep=1, help="of the whole batch"),
    Column("energy_per_inference", "Energy/inf", "J", keep=1, of="energy_j_per_inference"),
    Column("edp", "EDP", "Js", keep=2, help="energy per inference x latency"),
    Column("throughput", "Inf/s", "1/s", keep=2),
    Column("power", "Power", "W", keep=4, of="average_power_w"),
    Column("utilization", "Util", "%", keep=4),
    Column("memory", "Memory", "byte", keep=5, of="peak_memory_bytes"),
    Column("fits", "Fits", role="text", keep=3, shown=YES_NO),
    Column("bound", "B", role="flag", keep=3, shown=FLAGS, help=FLAGS_HELP),
)
_AIM_UNIT = {"energy per inference": "J", "throughput": "1/s", "edp": "Js"}


def _best(best: Best) -> str:
    return quantity(best.value, _AIM_UNIT[best.aim])


BEST = (
    Column("device", "Device", role="text", keep=0, shown=MARKED),
    Column("precision", "Asked", role="text", keep=1),
    Column("image_size", "Pixels", "count", keep=4),
    Column("aim", "Best for", role="text", keep=0),
    Column("batch", "Batch", "count", keep=0),
    Column("value", "Value", role="text", keep=0, of=_best),
)
CROSS = (
    Column("before", "Ahead at first", role="text", keep=0, shown=MARKED),
    Column("after", "Against", role="text", keep=0, shown=MARKED),
    Column("metric", "Metric", role="text", keep=0),
    Column("precision", "Asked", role="text", keep=1),
    Column("image_size", "Pixels", "count", keep=4),
    Column("batch", "Crossover batch", "count", keep=0),
)

_Wholes = tuple[int, ...] | None
_Names = tuple[str, ...] | None


def _states(state: State, image_sizes: _Wholes, **_: object) -> tuple[State, ...]:
    return tuple(replace(state, image_size=size) for size in image_sizes or (state.image_size,))


def _document(
    state: State,
    batches: _Wholes,
    precisions: _Names,
    power_modes: bool,
    image_sizes: _Wholes,
    on_paper: bool,
    tick: Callable[[int, int], None] | None = None,
    **_: object,
) -> Sweep:
    """The model and devices of a state over the usual batches, in the state's precision, or what is given."""
    return run_sweep(
        [engine.workload(each) for each in _states(state, image_sizes)],
        [engine.device(key) for key in devices(state.devices, power_modes)],
        batches or BATCHES,
        precisions or (state.precision,),
        engine.scenario(state),
        tick,
        asks_for_paper(state, on_paper),
    )


def _title(sweep: Sweep, state: State) -> str:
    return f"{sweep.model}: {len(sweep.rows)} configurations, execution {sweep.execution}, layout {sweep.layout}"


def _not_fitting(sweep: Sweep, state: State) -> tuple[str, ...]:
    out = sum(not point.fits for point in sweep.rows)
    return (f"{out} configurations do not fit in device memory and are never best",) if out else ()


def _crossovers(sweep: Sweep, state: State) -> Table:
    def says(c: Crossover) -> str:
        if c.batch is None:
            return f"{c.before} is ahead from batch {sweep.batches[0]} to {sweep.batches[-1]}"
        again = f"; the lead changes {c.changes} times" if c.changes > 1 else ""
        return f"{c.after} is ahead from batch {c.batch}{again}"

    columns = (*CROSS, Column("says", "", role="text", keep=2, of=says))
    shown = rows(columns, sweep.crossovers, key=("before", "after", "metric", "precision", "image_size"))
    return Table("crossovers", "Where one device overtakes another", columns, shown)


def _run(arguments: argparse.Namespace) -> None:
    if arguments.all:
        _sweep_all.run(arguments)
        return
    if not arguments.model:
        raise RequestError("sweep needs a model, or --all (hwexplorer models lists them)")
    for name in ("workers", "scheduler", "resume"):
        if getattr(arguments, name):
            raise RequestError(f"--{name} belongs to sweep --all")
    headless.report("sweep", VERB, arguments)


VERB = Report(
    subject=Subject(options=(or_default(MODEL, ""), *DEVICES.options[1:]), several=True),
    options=(
        option("--all", action="store_true", help="all shipped models on all devices, as CSV or JSON"),
        *GRID,
        INCLUDE_PAPER,
        option("--image-sizes", type=wholes("image size", IMAGE_MAX), metavar="S,..", help="pixels"),
        option("--workers", type=whole(1, 256), metavar="N", help="processes of --all (default: cores)"),
        option("--scheduler", metavar="ADDRESS", help="hand --all to a Dask cluster, as tcp://host:8786"),
        option("--resume", action="store_true", help="--all -o FILE goes on where it was broken off"),
    ),
    document=_document,
    title=_title,
    parts=(
        Rows(
            name="sweep",
            columns=ROWS,
            of="rows",
            key=("device", "image_size", "batch", "precision"),
            kind="architecture",
            dim=lambda point: not point.fits,
            leads=leads,
            notes=_not_fitting,
        ),
        Rows(
            name="best",
            title="Best batch of each device",
            columns=BEST,
            key=("device", "precision", "image_size", "aim"),
        ),
        _crossovers,
    ),
    main="sweep",
    states=_states,
    ticks="configurations",
    run=_run,
    examples={"sweep": "conv2d --batches 1,8 --precisions fp32 --on h100_sxm,tpu_v4"},
)
