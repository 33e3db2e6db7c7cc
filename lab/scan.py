"""Random configurations against laws of power and monotony, by hand: `nice python -m lab.scan 20000 --seed 1`.

Each draw is a model, batch, format and runtime on a device, and the same on the device with one fact that is better:
more clock, bandwidth, units or cache, or a higher power limit. The better one is never slower, and both keep the limit
as their mean, and the electrical limit in each kernel. Not counted as slower: what threads of more cores take to fork
and join, and a batch that takes longer where more of them are done in a second, since the chip keeps the network."""

import argparse
import math
import random
from collections.abc import Iterator

import numpy as np

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from hardware.base.errors import RequestError
from hardware.base.records import group_by
from hardware.device import Device
from hardware.device_catalog import catalogue_devices, load_device
from hardware.engines.runtime import MODES

MODELS = (
    "resnet18", "resnet50", "mobilenet_v2", "vit_b_16", "efficientnet_b0", "bert_base", "gemm", "conv2d",
    "attention_head", "llama3_8b:decode,layers=2,kv=512", "llama3_8b:prefill,layers=1,sequence=256",
    "mixtral_8x7b:decode,layers=1", "llama3_8b:request,layers=2,in=128,out=16",
)  # fmt: skip
FACTS = {
    "clock": ("clock_hz", "vector_clock_hz"),
    "bandwidth": ("memory_bandwidth", "last_level_bandwidth"),
    "units": ("units",),
    "cache": ("l2_bytes", "l3_bytes", "scratchpad_bytes"),
    "limit": ("power_limit_w",),
}
FACTORS = (1.1, 1.5, 2, 4, 10)
ROUNDING = 1e-8


def power_faults(result: Estimate) -> Iterator[str]:
    """Yield the laws of power that a run breaks."""
    run, limit_w = result.run, result.power_limit_w
    peak_w = result.device.power_budget(result.static_w).peak_w * result.workload.devices
    if result.average_power_w > limit_w * (1 + ROUNDING):
        yield f"draws {result.average_power_w:.6g} of {limit_w:g} W"
    if (result.demand.per_kernel(run.energy_j) > peak_w * run.kernel_s * (1 + ROUNDING)).any():
        yield "a kernel draws more than the electrical limit"
    if not np.isclose(result.event_energy_j.sum(), result.energy_j, rtol=ROUNDING):
        yield "events do not add up to the energy"


def added_threads_s(before: Estimate, after: Estimate) -> float:
    """Return what the threads of more cores take at most to fork and join, s: a law of software."""
    if "thread_join_s" not in before.device.facts:
        return 0.0
    doublings = math.log2(max(after.device.units / before.device.units, 1.0))
    return before.device.thread_join_s * doublings * 3.0 * before.demand.n_kernels


def draw(random_: random.Random, devices: list[Device]) -> tuple[str, str, str, str, Scenario]:
    """Return what is better, its change, a model, a device and a scenario."""
    device = random_.choice(devices)
    law = random_.choice(sorted(FACTS))
    names = [name for name in FACTS[law] if name in device.facts]
    change = f"{random_.choice(names or ['power_limit_w'])}*{random_.choice(FACTORS)}"
    scenario = Scenario(
        batch=random_.choice((1, 2, 3, 8, 17, 64, 200)),
        precision=random_.choice(("fp32", "fp16", "bf16", "int8", "w4a16")),
        execution=random_.choice((*MODES, "auto")),
    )
    return law, change, random_.choice(MODELS), device.key, scenario


def scan(count: int, seed: int) -> Iterator[str]:
    """Yield a line for each law that one of `count` draws breaks."""
    random_ = random.Random(seed)
    groups = group_by(catalogue_devices(), lambda device: device.software_class)
    classes = sorted(groups)
    for place in range(count):
        law, change, model, key, scenario = draw(random_, groups[classes[place % len(classes)]])
        workload = store.load(model)
        try:
            before = estimate(workload, load_device(key), scenario)
            after = estimate(workload, load_device(f"{key}{{{change}}}"), scenario)
        except RequestError:
            continue
        what = f"{model}@b{scenario.batch},{scenario.precision},{scenario.execution}/{key}{{{change}}}"
        for result in (before, after):
            yield from (f"{fault}: {what}" for fault in power_faults(result))
        is_later = after.latency_s > before.latency_s * (1 + ROUNDING) + added_threads_s(before, after)
        if is_later and after.throughput_per_s < before.throughput_per_s:
            yield f"{law}: {after.latency_s / before.latency_s:.6f} x slower, {before.bound} bound: {what}"


def main() -> None:
    """Print what a scan finds."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("count", type=int)
    arguments.add_argument("--seed", type=int, default=0)
    asked, found = arguments.parse_args(), 0
    for line in scan(asked.count, asked.seed):
        found += 1
        print(line, flush=True)
    print(f"{asked.count} draws, seed {asked.seed}: {found} faults")


if __name__ == "__main__":
    main()
