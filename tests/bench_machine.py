"""Is the estimate true on this machine? `python -m tests.bench_machine [--seconds 900] [--threads N] [--log FILE]`.

Times the probes, the models that the fit of `hwexplorer measure` is made on, 20 torchvision models and 10 of families
that the fit never saw, at batch 1 and 8, all in turn; fits a device to the first two, and prints how it predicts the
others, beside the nearest device of the catalogue. `--log` keeps the timings and goes on with them.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from hardware import file_access
from hardware.device import Device
from hwexplorer_annexes.measure import device_fit, host_facts, torch_process
from hwexplorer_annexes.measure.measurement_log import MeasurementLog, TimedCase

FIT = tuple(
    file_access.table(Path(__file__).parents[1] / "hwexplorer_annexes/measure/probes.toml")["models"]["default"][
        "names"
    ]
)
KNOWN = (
    "resnet18", "resnet34", "resnet50", "resnet101", "wide_resnet50_2", "vgg11", "vgg16", "alexnet", "squeezenet1_0",
    "squeezenet1_1", "densenet121", "densenet169", "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large",
    "efficientnet_b0", "efficientnet_b1", "vit_b_16", "swin_t", "inception_v3",
)  # fmt: skip
OWN = str(Path(__file__).with_name("bench_models.py"))
UNSEEN = (
    "mnasnet1_0", "shufflenet_v2_x1_0", "convnext_tiny", "maxvit_t", "regnet_y_400mf", "googlenet", "resnext50_32x4d",
    *(f"{OWN}:{name}" for name in ("lstm", "gru", "encoder")),
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--log", type=Path)
    asked = parser.parse_args()
    log = asked.log or Path(tempfile.mkdtemp()) / "bench.jsonl"
    models = tuple(dict.fromkeys((*FIT, *KNOWN, *UNSEEN)))
    plan = {"models": models, "batches": (1, 8), "seconds": asked.seconds, "threads": asked.threads}
    print(f"load before: {host_facts.load_average():.1f}", flush=True)
    measured = torch_process.measure_models(plan, log, asked.seconds, _show)
    print(f"load after: {host_facts.load_average():.1f}; log: {log}")
    judge(measured)
    os._exit(0)


def _show(phase: str, fraction: float) -> None:
    print(f"\r\x1b[K{phase}", end="", file=sys.stderr)


def judge(measured: MeasurementLog) -> None:
    """Print the errors of the device that the fit makes, on models by whether the fit saw them."""
    fitted = tuple(t for t in measured.timed if not t.case.model or t.case.model in FIT)
    made = device_fit.fit_machine(msgspec.structs.replace(measured, timed=fitted), "this_cpu")
    noise, taken = measured.noise or 0.0, measured.disturbed_share
    print(f"nearest: {made.nearest.id}; between repeats {noise:.1%}; others took a core in {taken:.0%} of the samples")
    held = {(row.name, row.batch): row.after_s for row in made.rows if row.is_model}
    names = {name.rpartition("/")[2] for name in UNSEEN}
    for title, wanted in (("20 of torchvision", set(KNOWN)), ("10 that the fit never saw", names)):
        those = [timed for timed in measured.timed if timed.case.model in wanted]
        _errors(title, those, made.device, made.nearest, held)


def _errors(
    title: str, those: Sequence[TimedCase], device: Device, nearest: Device, held: dict[tuple[str, int], float]
) -> None:
    rows = []
    for timed in those:
        workload = timed.workload()
        if workload is None:
            print(f"  {timed.case.model} b{timed.case.batch}: not captured at this batch")
            continue
        scenario = Scenario(timed.case.batch, "fp32", "pytorch_eager", "nchw")
        result = estimate(workload, device, scenario)
        after = held.get((timed.case.model, timed.case.batch), result.latency_s)  # of the fit without its family
        before = estimate(workload, nearest, scenario).latency_s
        low, high = device.file.trust[0].low * after, device.file.trust[0].high * after
        rows.append((before / timed.seconds, after / timed.seconds, low <= timed.seconds <= high))
        name = f"{timed.case.model} b{timed.case.batch}"
        print(f"  {name:34} {timed.seconds * 1e3:9.2f} ms  nearest {rows[-1][0]:5.2f}  here {rows[-1][1]:5.2f}")
    if not rows:
        print(f"{title}: none was timed\n")
        return
    before, after = (np.abs(np.array([row[i] for row in rows]) - 1.0) for i in (0, 1))
    inside = np.mean([row[2] for row in rows])
    print(
        f"{title}: {len(rows)} timings, median error {np.median(before):.1%} -> {np.median(after):.1%}, 90th "
        f"{np.quantile(before, 0.9):.0%} -> {np.quantile(after, 0.9):.0%}; bands hold {inside:.0%}\n"
    )


if __name__ == "__main__":
    main()
