"""Tabulate a model over batches, precisions and image sizes; or the whole catalogue.

A sweep has the best batches, and the batch from which another device wins.
"""

import argparse
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Annotated, Any

import msgspec

from analysis.document import Column, column, columns, record
from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.figures import Figures, figures
from analysis.estimate.metrics import ADDITIVE, METRICS
from analysis.estimate.scenario import Scenario
from analysis.explore.search import catalogue_sweep, workers
from analysis.explore.search.catalogue_sweep import BATCHES, Chunk, Tick, check_lists, estimate_grid
from analysis.model.ir.batch_limits import batches_of
from analysis.model.ir.workload import Workload
from analysis.model.transformer.load_spec import MOST_CLIENTS
from hardware.base.errors import RequestError
from hardware.base.text import quantity
from hardware.device import Device
from hardware.precision import SWEEP
from hwexplorer import engine
from hwexplorer.configurations import GRID, INCLUDE_PAPER, asks_for_paper, catalogue, devices
from hwexplorer.declare import DEVICES, Report, Rows, Subject
from hwexplorer.export import files
from hwexplorer.export.kept_parts import KeptParts
from hwexplorer.headless import answers
from hwexplorer.options import MODEL, amounts, name_list, option, or_default, whole, whole_list
from hwexplorer.process import output
from hwexplorer.settings import IMAGE_MAX
from hwexplorer.state import State, replace
from hwexplorer.views.captions import MARKED, figures_lead, headline_of_state


class BestBatch(msgspec.Struct, frozen=True):
    """The best batch of one device for one aim, among those that fit; `value` in the aim's SI unit."""

    device: Annotated[str, column("Device")]
    precision: Annotated[str, column("Precision", keep=1)]
    precision_run: str
    image_size: Annotated[int | None, column("Pixels", "count", keep=4)]
    aim: Annotated[str, column("Best for")]
    batch: Annotated[int, column("Batch", "count")]
    value: float


class BatchCrossover(msgspec.Struct, frozen=True):
    """From `batch` on, `after` has the lower metric; if it is None, `before` wins throughout. `changes` counts how
    often the winner changes over the batches swept."""

    metric: Annotated[str, column("Metric")]
    precision: Annotated[str, column("Precision", keep=1)]
    image_size: Annotated[int | None, column("Pixels", "count", keep=4)]
    before: Annotated[str, column("Ahead at first")]
    after: Annotated[str, column("Against")]
    batch: Annotated[int | None, column("Crossover batch", "count")]
    changes: int


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """The document of `hwexplorer sweep MODEL`."""

    model: str
    batches: tuple[int, ...]
    precisions: tuple[str, ...]
    execution: str
    layout: str
    rows: tuple[Figures, ...]
    best: tuple[BestBatch, ...]
    crossovers: tuple[BatchCrossover, ...]


def sweep(
    workloads: Sequence[Workload],
    devices: Sequence[Device],
    batches: Iterable[int],
    precisions: Iterable[str],
    base: Scenario,
    tick: Tick | None = None,
    on_paper: bool = True,
) -> Sweep:
    """Evaluate every combination; `workloads` are one model at several image sizes. Without `on_paper`, crossovers
    leave out design targets. Raises RequestError for an empty or invalid list."""
    sizes, formats = tuple(sorted(set(batches))), tuple(dict.fromkeys(precisions))
    check_lists("sweep", image_size=workloads, device=devices, batch=sizes, precision=formats)
    results = iter(estimate_grid(workloads, devices, base, sizes, formats, tick))
    keys = [(w, d, p) for w, p, d in product(*map(range, (len(workloads), len(formats), len(devices))))]
    lines = {key: [next(results) for _ in sizes] for key in keys}  # by workload, device and precision
    series = [(line, [figures(result) for result in line]) for _, line in sorted(lines.items())]
    return record(
        Sweep,
        base,
        model=workloads[0].name,
        batches=sizes,
        precisions=formats,
        rows=tuple(row for _, rows in series for row in rows),
        best=tuple(best for _, rows in series for best in _best_batches(rows)),
        crossovers=_crossovers([line for line in series if on_paper or line[1][0].silicon]),
    )


# The aims that a batch can be best for.
BATCH_AIMS = {
    "energy per inference": METRICS["energy"], "inferences per joule": METRICS["efficiency"],
    "throughput": METRICS["throughput"], "edp": METRICS["edp"],
}  # fmt: skip


def _best_batches(rows: list[Figures]) -> list[BestBatch]:
    """Return the best batch of one device for each aim, the smallest of equals; empty if no batch fits."""
    fitting, best = [row for row in rows if row.can_win], []
    for aim, metric in BATCH_AIMS.items() if fitting else ():
        top = (max if metric.more_is_better else min)(fitting, key=metric.figure)
        best.append(record(BestBatch, top, aim=aim, value=metric.figure(top)))
    return best


def _figure(result: Figures | Estimate, name: str) -> float:
    """Return the metric; infinity if the device may not be recommended, so that it never wins."""
    return METRICS[name].figure(result) if result.can_win else float("inf")


_Line = tuple[list[Estimate], list[Figures]]  # one device over the batches


def _crossovers(lines: Sequence[_Line]) -> tuple[BatchCrossover, ...]:
    """Return, for each pair of devices in the same precision and image size, the batch from which the other wins."""
    return tuple(
        _crossover(name, first, second)
        for first, second in combinations(lines, 2)
        if (first[1][0].precision, first[1][0].image_size) == (second[1][0].precision, second[1][0].image_size)
        and first[1][0].device != second[1][0].device
        for name in ADDITIVE
    )


def _crossover(name: str, first: _Line, second: _Line) -> BatchCrossover:
    (runs_a, a), (runs_b, b) = first, second
    wins = [_figure(p, name) <= _figure(q, name) for p, q in zip(a, b, strict=True)]
    changes = [k for k, (now, after_it) in enumerate(pairwise(wins)) if now != after_it]
    names = (a[0].device, b[0].device) if wins[0] else (b[0].device, a[0].device)
    k = changes[0] if changes else 0
    batch = _bisect_batch(name, runs_a[k], runs_b[k], a[k].batch, a[k + 1].batch) if changes else None
    return BatchCrossover(name, a[0].precision, a[0].image_size, *names, batch, len(changes))


def _bisect_batch(name: str, one: Estimate, other: Estimate, low: int, high: int) -> int:
    """Find the batch in (low, high] at which the winner changes. Every batch tried is estimated, not interpolated."""

    def wins(batch: int) -> bool:
        """Return True if the first device has the lower metric at a batch."""
        first, second = (
            estimate(side.workload, side.device, msgspec.structs.replace(side.scenario, batch=batch))
            for side in (one, other)
        )
        return _figure(first, name) <= _figure(second, name)

    is_ahead = wins(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wins(middle) == is_ahead else (low, middle)
    return high


# --- the verb ---------------------------------------------------------------------------------------------------------

ROWS = columns(
    Figures,
    "device image_size batch precision precision_run latency energy_per_inference edp throughput power utilization "
    "memory fits bound",
    device={"shown": MARKED}, precision=3, fits=4,
    precision_run={"help": "the format most multiply-accumulates run in"}, latency=1, energy_per_inference=1,
    edp={"help": "energy per inference x latency"}, power=4, memory=5, bound=3,
)  # fmt: skip


def _best_of(aim: str) -> Column:
    """Return a column of the best batch for an aim, with its figure."""

    def cell(of: dict[str, BestBatch]) -> str:
        """Return the best batch of an aim with its figure, as text."""
        best = of.get(aim)
        return "" if best is None else f"{best.batch} ({quantity(best.value, BATCH_AIMS[aim].unit)})"

    return Column(aim, BATCH_AIMS[aim].title, role="text", keep=1, of=cell)


def _group_field(field: str) -> Callable[[dict[str, BestBatch]], Any]:
    return lambda of: getattr(next(iter(of.values())), field)


BEST = (
    Column("device", "Device", role="text", keep=0, of=_group_field("device"), shown=MARKED),
    Column("precision", "Precision", role="text", keep=1, of=_group_field("precision")),
    Column("precision_run", "Format used", role="text", keep=2, of=_group_field("precision_run")),
    Column("image_size", "Pixels", "count", keep=4, of=_group_field("image_size")),
    *map(_best_of, BATCH_AIMS),
)


def _best_by_aim(sweep: Sweep) -> Iterator[dict[str, BestBatch]]:
    """Yield the best batch by aim, for each device, precision and image size."""
    groups: dict[tuple[Any, ...], dict[str, BestBatch]] = {}
    for best in sweep.best:
        groups.setdefault((best.device, best.precision, best.image_size), {})[best.aim] = best
    yield from groups.values()


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
    workloads = [engine.workload(size_state) for size_state in _states(state, image_sizes)]
    return sweep(
        workloads,
        [engine.device(key) for key in devices(state.devices, power_modes)],
        batches or batches_of(workloads[0], BATCHES),
        precisions or (state.precision,),
        engine.scenario(state),
        tick,
        asks_for_paper(state, on_paper),
    )


def _title(sweep: Sweep, state: State) -> str:
    batches = f"batches {', '.join(map(str, sweep.batches))}" if len(sweep.batches) > 1 else f"batch {sweep.batches[0]}"
    return headline_of_state(state, f"{batches}, {', '.join(sweep.precisions)}")


def _not_fitting(sweep: Sweep, state: State) -> tuple[str, ...]:
    count = sum(not point.fits for point in sweep.rows)
    return (f"{count} configurations do not fit in device memory and are never best",) if count else ()


def _describe_lead(c: BatchCrossover) -> str:
    if c.batch is None:
        return f"{c.before} at every batch, {c.after} never"
    return f"{c.before}, then {c.after} from batch {c.batch} on" + (
        f"; the lead changes {c.changes} times" if c.changes > 1 else ""
    )


LEADS = columns(
    BatchCrossover,
    "says metric batch precision image_size before after",
    Column("says", "Who leads", role="text", keep=0, of=_describe_lead),
    before={"shown": MARKED},
    after={"shown": MARKED},
)


def _run_all(arguments: argparse.Namespace) -> None:
    """Write the sweep of every shipped torchvision model on all devices, or those of --on, chunk by chunk."""
    target = Path(arguments.output) if arguments.output is not None else None
    if target is not None:
        files.check(target, overwrite=True)
    form = arguments.format or (files.format_of(target) if target is not None else "csv")
    if form not in catalogue_sweep.FORMATS:
        raise RequestError(f"sweep --all writes csv or json, not {form}")
    if arguments.image_size or arguments.image_sizes:
        raise RequestError("sweep --all runs each model at its own image size: leave the size out")
    lists = {option.name: option.value_in(arguments) for option in GRID}
    keys = () if arguments.on is None else tuple(engine.device(name).key for name in name_list("device")(arguments.on))
    if arguments.power_modes:
        keys = devices(keys or catalogue(), True)
    work = catalogue_sweep.chunks(
        lists["batches"] or BATCHES,
        lists["precisions"] or SWEEP,
        tuple(dict.fromkeys(keys)),
        Scenario(execution=arguments.execution or "auto", layout=arguments.layout or "nchw"),
        engine.folders(),
        form,
    )
    finished = KeptParts(work, engine.folders()) if target is not None else None
    count = len(finished.texts) if finished is not None else 0
    if count:
        output.say(f"{count} of {len(work)} parts are taken from a run that was stopped")
    texts = workers.local(catalogue_sweep.run_chunk, work[count:], arguments.workers or 0)
    with closing(texts):  # end the workers before an error is reported
        parts = catalogue_sweep.join(form, _show_progress(work, finished.continue_with(texts) if finished else texts))
        if target is not None:
            files.write(target, parts, overwrite=True)
        else:
            for part in parts:
                output.put(part)


def _show_progress(work: list[Chunk], parts: Iterator[str]) -> Iterator[str]:
    start, rows, total = time.monotonic(), 0, sum(chunk.n_rows for chunk in work)
    with output.Progress() as progress:
        for chunk, part in zip(work, parts, strict=True):
            rows += chunk.n_rows
            rate = rows / max(time.monotonic() - start, 1e-9)
            progress.show(f"{rows:,} of {total:,} rows, {rate:,.0f} rows/s")
            yield part


def _run(arguments: argparse.Namespace) -> None:
    if arguments.all and not arguments.model:
        _run_all(arguments)
        return
    if not arguments.model:
        raise RequestError("sweep needs a model, or --all for all shipped models on all devices, as CSV or JSON")
    if arguments.workers:
        raise RequestError("--workers belongs to sweep --all")
    answers.print_report("sweep", arguments)


VERB = Report(
    subject=Subject(options=(or_default(MODEL, ""), *DEVICES.options[1:]), several=True),
    options=(
        *GRID,
        INCLUDE_PAPER,
        option(
            "--rates",
            type=amounts("rate", "1/s"),
            metavar="R,..",
            applies_to="load",
            help="for a load: requests/s, e.g. 1,2,4",
        ),
        option(
            "--clients",
            type=whole_list("clients", MOST_CLIENTS),
            metavar="N,..",
            applies_to="load",
            help="for a load: clients that each wait for their answer",
        ),
        option(
            "--image-sizes", type=whole_list("image size", IMAGE_MAX), metavar="S,..", applies_to="batch", help="pixels"
        ),
        option("--workers", type=whole(1, 256), metavar="N", help="processes of --all (default: cores)"),
    ),
    document=_document,
    title=_title,
    parts=(
        Rows("best", "Best batch of each device", BEST, of=_best_by_aim, first=8),
        Rows(
            "crossovers",
            "Where one device overtakes another",
            LEADS,
            optional=True,
            first=3,
            of=lambda sweep: sorted(sweep.crossovers, key=lambda one: one.batch is None),
            key=("before", "after", "metric", "precision", "image_size"),
            brief={
                "without": lambda sweep: ("batch", "before", "after", *("precision",) * (len(sweep.precisions) < 2))
            },
        ),
        Rows(
            "sweep",
            "Each device and batch",
            ROWS,
            of="rows",
            key=("device", "image_size", "batch", "precision"),
            kind="architecture",
            dim=lambda point: not point.fits,
            leads=figures_lead,
            notes=_not_fitting,
            first=15,
        ),
    ),
    main="sweep",
    states=_states,
    ticks="configurations",
    run=_run,
    examples={"sweep": "conv2d --batches 1,8 --precisions fp32 --on h100_sxm,tpu_v4"},
)
