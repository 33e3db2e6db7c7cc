"""Random configurations against physics, by hand: `nice python -m tests.scan 100000 --seed 1`. Prints what it finds.

No power above its limit, no utilisation above 1, no kernel under its own traffic or work, parts that add up, and no
larger batch quicker; over every device in every power mode, every format with every cache and every runtime. Every
pair of a model and a device has its turn, in random order, before any has another; each turn is a few formats and
runtimes, each of these a chain of batches: a configuration is one of them with the next."""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from analysis.model.ir.workload import Workload
from hardware.device import Device
from hardware.device_catalog import load_device, load_devices
from hardware.engines import runtime
from hardware.precision import NAMES

MODELS = (
    "resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3_small", "vit_b_16", "swin_t", "efficientnet_b0",
    "densenet121", "convnext_tiny", "squeezenet1_1", "bert_base", "gemm", "conv2d", "attention_head",
    "llama3_8b:decode,layers=2,kv=512", "llama3_8b:prefill,layers=1,sequence=256", "mixtral_8x7b:decode,layers=1",
    "llama3_8b:request,layers=2,in=128,out=16", "llama3_70b:decode,layers=1,kv=4096,tp=4",
    "deepseek_v3:decode,layers=4,kv=256", "deepseek_v3:decode,layers=4,kv=4096",
    "mixtral_8x7b:decode,layers=1,ep=4", "deepseek_v3:request,layers=4,in=64,out=8,ep=8",
    "llama4_scout:decode,layers=2,kv=512,tp=4,ep=4", "vgg16",
)  # fmt: skip
BATCHES = (1, 2, 3, 4, 6, 7, 8, 9, 14, 16, 17, 31, 32, 33, 62, 64, 65, 127, 128, 200, 201, 400)
SOFTWARE, CHAIN = 4, 8  # formats with runtimes of a turn, configurations of each
SEARCHED = ("gemm", "conv2d", "attention_head")  # small enough where a mapping is searched for each operator
ROUNDING = 1e-9


def devices() -> list[Device]:
    """All there are, searched ones among them, in all power modes."""
    return [m for d in load_devices()[0] for m in (d, *(load_device(f"{d.id}:{mode}") for mode in d.file.power_modes))]


def faults(result: Estimate) -> Iterator[str]:
    """What is beyond physics of a run."""
    run, device, needs = result.run, result.device, result.demand
    limit, flow = device.power_limit_w * result.workload.devices, run.mapping.traffic
    energy, kernel_s = needs.per_kernel(run.energy_j), run.kernel_s
    # fmt: off
    checks = (
        ("a power above its limit", (energy > limit * kernel_s * (1 + ROUNDING)).any()),
        ("a utilisation above 1", result.utilization > 1 + ROUNDING and not run.mapping.is_reduced.any()),
        ("a kernel under its traffic", (needs.per_kernel(flow.dram_read + flow.dram_write)
            > device.memory_bandwidth * kernel_s * (1 + ROUNDING)).any()),
        ("a kernel under its work", (run.utilization > 1 + ROUNDING).any() and not run.mapping.is_reduced.any()),
        ("operators do not add up to kernels", not np.isclose(run.latency_s.sum(), kernel_s.sum(), rtol=ROUNDING)),
        ("events do not add up to energy",
            not np.isclose(result.event_energy_j.sum(), run.energy_j.sum(), rtol=ROUNDING)),
        ("a figure that is no positive number", not 0 < result.latency_s < np.inf or not 0 < result.energy_j < np.inf),
        ("a band without its figure", not result.latency_band_s[0] <= result.latency_s <= result.latency_band_s[1]),
    )
    # fmt: on
    yield from (name for name, wrong in checks if wrong)


def shrinks(result: Estimate, more: Estimate) -> Iterator[str]:
    """What is less with a larger batch and should not be."""
    if more.latency_s < result.latency_s * (1 - ROUNDING):
        yield "a larger batch is quicker"
    if more.waves == 1 and more.peak_memory_bytes < result.peak_memory_bytes:  # a wave may be smaller than a batch
        yield "a larger batch needs less memory"


def chains(draw: random.Random, models: dict[str, Workload]) -> Iterator[tuple[str, Device, str, str, list[int]]]:
    """Without end: a model, a device, a format, what runs it, and batches."""
    pairs = [(name, device) for device in devices() for name in (SEARCHED if device.arch.is_searched else MODELS)]
    while True:
        for name, device in draw.sample(pairs, len(pairs)):
            software = [runs for runs, each in runtime.runtimes().items() if each.fits(device, models[name].work)]
            for _ in range(SOFTWARE):
                precision = draw.choice(NAMES) + draw.choice(("", "", "kv4", "kv8", "kv16"))
                execution = draw.choice((*runtime.MODES, "auto", *software))
                yield name, device, precision, execution, sorted(draw.sample(BATCHES, CHAIN + 1))


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("count", type=int)
    arguments.add_argument("--seed", type=int, default=0)
    asked = arguments.parse_args()
    models, found, done = {name: store.load(name) for name in MODELS}, Counter[str](), 0
    for model, device, precision, execution, batches in chains(random.Random(asked.seed), models):
        runs = [estimate(models[model], device, Scenario(b, precision, execution)) for b in batches]
        seen = [(run, run, fault) for run in runs for fault in faults(run)]
        seen += [(run, more, fault) for run, more in pairwise(runs) for fault in shrinks(run, more)]
        for run, more, fault in seen:
            found[fault] += 1
            if found[fault] <= 20:
                what = f"{run.scenario.batch} -> {more.scenario.batch}: {run.latency_s:.6g} -> {more.latency_s:.6g} s"
                print(f"{fault}: {model} {device.key} {precision} {execution} {what}", flush=True)
        done += CHAIN
        if done % 5000 < CHAIN:
            print(f"{done} configurations, {found.total()} faults", flush=True)
        if done >= asked.count:
            break
    print(f"{done} configurations, seed {asked.seed}: {dict(found) or 'no fault'}")


if __name__ == "__main__":
    main()
