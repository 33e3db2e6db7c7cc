"""Tabulate a model over batches, precisions and image sizes; or the whole catalogue.

A sweep has the best batches, and the batch from which another device wins.
"""

import argparse
from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from analysis.document import Column, columns, record
from analysis.estimate.metrics import ADDITIVE, METRICS
from analysis.explore import grid
from analysis.model.transformer.transformer_request import MOST_CLIENTS
from hardware.base.errors import RequestError
from hardware.base.text import count_noun, quantity
from hwexplorer import configurations, engine
from hwexplorer.declare import DEVICES, Report, Rows, Subject
from hwexplorer.options import MODEL, amounts, option, or_default, whole, whole_list
from hwexplorer.reports._under_load import under_load
from hwexplorer.settings import IMAGE_MAX
from hwexplorer.state import State, replace
from hwexplorer.views.captions import figures_lead, headline_of_state

_Wholes = tuple[int, ...] | None
_Names = tuple[str, ...] | None
# The aims that a batch can be best for, by their metrics.
AIMS = {
    "energy": "energy per inference",
    "efficiency": "inferences per joule",
    "throughput": "throughput",
    "edp": "edp",
}


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer sweep MODEL`."""

    model: str
    batches: tuple[int, ...]
    precisions: tuple[str, ...]
    execution: str
    layout: str
    rows: tuple[grid.Point, ...]
    best: tuple[grid.Best, ...]
    crossovers: tuple[grid.Crossing, ...]


def _states(state: State, image_sizes: _Wholes, **_: object) -> tuple[State, ...]:
    return tuple(replace(state, image_size=size) for size in image_sizes or (state.image_size,))


def _document(
    state: State,
    batches: _Wholes,
    precisions: _Names,
    power_modes: bool,
    image_sizes: _Wholes,
    on_paper: bool,
    tick: grid.Tick | None = None,
    **_: object,
) -> Sweep:
    formats = tuple(dict.fromkeys(precisions or (state.precision,)))
    axes = configurations.axes_of(state, batches, formats, power_modes, sizes=image_sizes or ())
    sizes, devices = [w.image_size for w in axes.workloads], [device.key for device in axes.devices]
    found = grid.evaluate(axes, tick)
    points = grid.Points(sorted(found, key=lambda p: (sizes.index(p.image_size), devices.index(p.device))))
    may_lead = on_paper or configurations.asks_for_paper(state)
    rivals = points.where(lambda point: may_lead or point.silicon)
    return record(
        Sweep,
        axes.base,
        axes,
        model=axes.workloads[0].name,
        rows=tuple(points),
        best=points.best_by(tuple(AIMS)),
        crossovers=rivals.crossings(axes, ADDITIVE),
    )


ROWS = grid.point_columns(
    "device image_size batch precision precision_run latency energy_per_inference edp throughput power utilization "
    "memory fits bound",
    device={"shown": engine.marked_key}, precision=3, fits=4,
    precision_run={"help": "the format most multiply-accumulates run in"}, latency=1, energy_per_inference=1,
    edp={"help": "energy per inference x latency", "keep": 2}, power=4, memory=5, bound=3,
)  # fmt: skip


def _best_for(aim: str, of: Sequence[grid.Best]) -> str:
    """Write the best batch for an aim, with its figure."""
    best = next(each for each in of if each.aim == aim)
    return f"{best.batch} ({quantity(best.value, METRICS[aim].unit)})"


# A row has the best batches of a device, precision and image size, one for each aim.
BEST = (
    *(
        msgspec.structs.replace(one, of=partial(lambda key, of: getattr(of[0], key), one.key))
        for one in columns(grid.Best, "device precision precision_run image_size", device={"shown": engine.marked_key})
    ),
    *(Column(AIMS[aim], METRICS[aim].title, role="text", keep=1, of=partial(_best_for, aim)) for aim in AIMS),
)


def _title(sweep: Sweep, state: State) -> str:
    batches = f"batches {', '.join(map(str, sweep.batches))}" if len(sweep.batches) > 1 else f"batch {sweep.batches[0]}"
    return headline_of_state(state, f"{batches}, {', '.join(sweep.precisions)}")


def _not_fitting(sweep: Sweep, state: State) -> tuple[str, ...]:
    count = sum(not point.fits for point in sweep.rows)
    return (f"{count_noun(count, 'configuration')} cannot fit in device memory and can never be best",) if count else ()


def _describe_lead(c: grid.Crossing) -> str:
    if c.batch is None:
        return f"{c.before} at every batch, {c.after} never"
    changes = f"; the lead changes {c.changes} times" * (c.changes > 1)
    return f"{c.before}, then {c.after} from batch {c.batch} on{changes}"


LEADS = columns(
    grid.Crossing,
    "says metric batch precision image_size before after",
    Column("says", "Who leads", role="text", keep=0, of=_describe_lead),
    before={"shown": engine.marked_key},
    after={"shown": engine.marked_key},
)


def _run(arguments: argparse.Namespace, print_report: Callable[[argparse.Namespace], None]) -> None:
    if arguments.all and not arguments.model:
        from hwexplorer.reports import _bulk_sweep  # not needed for one model

        _bulk_sweep.sweep_all(arguments, {option.name: option.value_in(arguments) for option in configurations.GRID})
        return
    if not arguments.model:
        raise RequestError("sweep needs a model, or --all for all shipped models on all devices, as CSV or JSON lines")
    for flag in ("workers", "cluster"):
        if getattr(arguments, flag):
            raise RequestError(f"--{flag} belongs to sweep --all")
    print_report(arguments)


VERB = Report(
    subject=Subject(options=(or_default(MODEL, ""), *DEVICES.options[1:]), several=True),
    served=lambda _: under_load().SWEEP,
    options=(
        *configurations.GRID,
        configurations.INCLUDE_PAPER,
        option("--rates", type=amounts("rate", "1/s"), metavar="R,..", applies_to="load",
               help="for a load: requests/s, e.g. 1,2,4"),
        option("--clients", type=whole_list("clients", MOST_CLIENTS), metavar="N,..", applies_to="load",
               help="for a load: clients that each wait for their answer"),
        option("--image-sizes", type=whole_list("image size", IMAGE_MAX), metavar="S,..", applies_to="batch",
               help="pixels"),
        option("--workers", type=whole(1, 256), metavar="N", help="processes of --all (default: cores)"),
        option("--cluster", metavar="ADDRESS", help="Dask scheduler that runs --all, as tcp://HOST:8786"),
    ),
    document=_document,
    title=_title,
    parts=(
        Rows("best", "Best batch of each device", BEST, first=8,
             of=lambda sweep: [sweep.best[i : i + len(AIMS)] for i in range(0, len(sweep.best), len(AIMS))]),
        Rows(
            "crossovers", "Where one device overtakes another", LEADS, optional=True, first=3,
            of=lambda sweep: sorted(sweep.crossovers, key=lambda one: one.batch is None),
            key=("before", "after", "metric", "precision", "image_size"),
            brief={
                "without": lambda sweep: ("batch", "before", "after", *("precision",) * (len(sweep.precisions) < 2))
            },
        ),
        Rows(
            "sweep", "Each device and batch", ROWS, of="rows", key=("device", "image_size", "batch", "precision"),
            kind="architecture", dim=lambda point: not point.fits, leads=figures_lead, notes=_not_fitting, first=15,
        ),
    ),
    main="sweep",
    states=_states,
    ticks="configurations",
    run=_run,
    examples={"sweep": "conv2d --batches 1,8 --precisions fp32 --on h100_sxm,tpu_v4"},
)  # fmt: skip
