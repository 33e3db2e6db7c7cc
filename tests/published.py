"""`python -m tests.published`: accelerators described from their papers against what these publish."""

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from hardware.area import area
from hardware.device_catalog import load_device

MACHINES = Path(__file__).parent / "architectures" / "published"


def _found(result: Estimate, part: str, times: int) -> dict[str, float]:
    """The figures of a run, or of its attention alone: one of `times` equal layers; J without the memory off chip."""
    mine = result.demand.is_attention if part == "attention" else np.ones(result.demand.n, dtype=np.bool_)
    dram = [event.family == "dram" for event in result.device.arch.events]
    energy = result.event_energy_j[:, mine]
    flow = result.run.mapping.traffic
    latency_s = result.run.latency_s[mine].sum() / times
    chip_j = (energy.sum() - energy[dram].sum()) / times
    per_kernel = result.demand.per_kernel
    product = per_kernel(mine * result.demand.macs) > 0
    kernel_j = per_kernel(np.delete(result.event_energy_j, np.flatnonzero(dram), axis=0).sum(axis=0))[product]
    return {
        "latency_s": latency_s,
        "throughput_per_s": result.scenario.batch / latency_s,
        "energy_j": energy.sum() / times,
        "chip_j": chip_j,
        "chip_w": chip_j / latency_s,
        "peak_w": (kernel_j / per_kernel(result.run.latency_s)[product]).max(),
        "dram_bytes": (flow.dram_read + flow.dram_write)[mine].sum() / times,
        "area_mm2": area(result.device).total_mm2,
        "compute_mm2": area(result.device).compute_mm2,
        "core_mm2": area(result.device).compute_mm2 + area(result.device).memory_mm2,
    }


def rows(is_wanted: Callable[[dict[str, Any]], bool] = bool) -> Iterator[tuple[str, str, str, float, float]]:
    """Device, model, figure, ours, and the published one, of the rows that are wanted."""
    table = tomllib.loads(MACHINES.with_suffix(".toml").read_text(encoding="utf-8"))
    for row in filter(is_wanted, table["rows"]):
        device = load_device(row["device"], (MACHINES,))
        result = estimate(store.load(row["model"]), device, Scenario(row["batch"], row["precision"]))
        found = _found(result, row.get("part", ""), row.get("times", 1))
        for figure, published in row["published"].items():
            yield row["device"], row["model"], figure, float(found[figure]), published


def main() -> None:
    for name, model, figure, ours, published in rows():
        print(f"{name:12} {model:24} {figure:18} {ours:10.4g} / {published:<10.4g} {ours / published:.2f}")


if __name__ == "__main__":
    main()
