"""Figures of the core, by hand: `python -m lab.bench_core`. Prints, asserts nothing."""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.estimate.tree_figures import tree
from analysis.model import store
from analysis.model.ir.workload import Workload
from analysis.model.names import zoo
from hardware import device_catalog
from hardware.device import Device

DEVICES = ("xeon_8490h", "h100_sxm", "tpu_v4", "kpu_t256")


def milliseconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def median(work: Callable[[], object], times: int) -> tuple[float, float]:
    """Median and best of some runs, ms."""
    taken = [milliseconds(work) for _ in range(times)]
    return statistics.median(taken), min(taken)


def largest() -> str:
    """The shipped model of the most operators, by the size of its capture; at its default image size."""
    paths = {name: store._shipped_path(zoo.spec(name)) for name in zoo.names()}
    sizes = {name: path.stat().st_size for name, path in paths.items() if path.is_file()}
    biggest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:12]
    return max(biggest, key=lambda name: store.load(name).n_operators)


def process(times: int, *words: str) -> tuple[float, float]:
    def run() -> None:
        subprocess.run([sys.executable, "-m", "hwexplorer", *words], check=True, stdout=subprocess.DEVNULL)

    return median(run, times)


def evaluation(name: str, times: int) -> None:
    loading, quickest = median(lambda: store.load(name), 9)
    workload: Workload = store.load(name)
    print(f"\n{name}: {workload.n_operators} operators; loading its capture {loading:.2f} ms (best {quickest:.2f})")
    print(f"  {'device':14}{'first touch':>14}{'again, median':>16}{'best':>9}{'tree':>9}   ms")
    for device_name in DEVICES:
        device, fresh = device_catalog.load_device(device_name), store.load(name)
        first = milliseconds(lambda fresh=fresh, device=device: estimate(fresh, device, Scenario()))  # type: ignore[misc]
        batches = iter(range(2, 4096))  # another batch each time, as when one scrubs: nothing remembered helps

        def again(fresh: Workload = fresh, device: Device = device) -> None:
            estimate(fresh, device, Scenario(batch=next(batches)))  # noqa: B023

        middle, best = median(again, times)
        result = estimate(fresh, device, Scenario())
        whole = milliseconds(lambda result=result: tree(result))  # type: ignore[misc]
        print(f"  {device_name:14}{first:14.2f}{middle:16.2f}{best:9.2f}{whole:9.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=50, help="evaluations per device (default 50)")
    parser.add_argument("models", nargs="*", help="default: resnet50, vit_b_16 and the largest shipped")
    arguments = parser.parse_args()
    start = time.perf_counter()
    for name in DEVICES:
        device_catalog.load_device(name)
    print(f"loading four device files: {(time.perf_counter() - start) * 1e3:.1f} ms")
    for name in arguments.models or ("resnet50", "vit_b_16", largest()):
        evaluation(name, arguments.times)
    print()
    for words in (("compare", "resnet50"), ("tree", "resnet50", "--format", "json"), ("devices",), ("--version",)):
        middle, best = process(9, *words)
        print(f"whole process, hwexplorer {' '.join(words):32} {middle:6.0f} ms median, {best:6.0f} ms best of 9")


if __name__ == "__main__":
    main()
