"""Measure this machine: microbenchmarks and a few models, and a device made of them.

Needs torch. Nothing is sent anywhere. Finished measurements are in a file of yours, so a stop loses nothing.
"""

import argparse

from hwexplorer.extend import RequestError, answers, declare, options, output
from hwexplorer_annexes.measure.benchmark import DTYPES
from hwexplorer_annexes.measure.calibrate import log_file
from hwexplorer_annexes.measure.device_parts import TORCH_HOST
from hwexplorer_annexes.measure.measurement_log import shared_csv
from hwexplorer_annexes.measure.torch_process import measure_models
from hwexplorer_annexes.verb_parts import FORMATS, State, option, whole_list

EFFORTS = {"quick": 30.0, "default": 180.0, "thorough": 900.0}  # s


def _run(arguments: argparse.Namespace) -> None:
    effort = "quick" if arguments.quick else "thorough" if arguments.thorough else "default"
    name = arguments.name or ("this_cpu" if arguments.device == TORCH_HOST else "this_gpu")
    log = log_file(name)
    if not arguments.resume and log.exists():
        log.unlink()
    plan = {
        "device": arguments.device,
        "effort": effort,
        "models": arguments.models or (),
        "batches": arguments.batches or (),
        "threads": arguments.threads or 0,
        "precisions": arguments.precisions or ("fp32",),
    }
    with output.Progress() as progress:
        try:
            measured = measure_models(
                plan, log, EFFORTS[effort], lambda phase, done: progress.show(f"{done * 100:3.0f} % measured: {phase}")
            )
        except KeyboardInterrupt:
            kept = f"stopped; finished timings are kept, `hwexplorer measure --resume` continues ({log})"
            raise RequestError(kept) from None
    made = answers.Answer[object]("calibrate", State(), file=log, device_id=name)
    made.view()  # fits the device and keeps its file, also if only rows are printed
    output.emit(
        arguments, lambda form: shared_csv(measured, name) if form == "csv" else made.to_text(form, output.width())
    )


VERB = declare.Verb(
    options=(
        option("--quick", action="store_true", excludes="effort", help="take 30 s: fewer shapes and two models"),
        option("--thorough", action="store_true", excludes="effort", help="take 15 minutes: more models and batches"),
        option("--device", default=TORCH_HOST, metavar="D", help="cpu (default), or cuda:0 where torch sees a GPU"),
        option("--name", metavar="NAME", help="name of the device that is made (default this_cpu or this_gpu)"),
        option("--models", type=options.name_list("model"), metavar="M,..",
               help="whole models to time (default: more with --thorough)"),
        option("--batches", type=whole_list("batch", 4096), metavar="N,..", help="batches of the models (default 1,8)"),
        option("--threads", type=options.whole(1, 4096), metavar="N", help="cores of the CPU to use (default: all)"),
        option(
            "--precisions", type=options.name_list("precision", tuple(DTYPES)), metavar="P,..",
            help=f"precision of the models: {', '.join(DTYPES)} (default {next(iter(DTYPES))})",
        ),
        option("--resume", action="store_true", help="continue an earlier measurement"),
        option("--format", choices=FORMATS, metavar="F", help="text (default), json, csv: the rows, to share, .."),
        option("-o", "--output", metavar="FILE", help="write here; .csv: rows in the format of the tables that ship"),
    ),
    run=_run,
    shown=("--quick", "--thorough --models resnet18,vit_b_16"),
)  # fmt: skip
