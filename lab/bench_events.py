"""Microbenchmarks of an H100 as counts of events: predicted against measured energy and power.

`python -m lab.bench_events` prints a row for each event of analysis/measured/tables/events.csv. A row is
what one repetition of the benchmark counts, priced by the device as any kernel is: a warp instruction is fetched,
decoded and scheduled, its lanes read and write registers, a byte passes each level of memory on its way."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import msgspec
import numpy as np

from analysis.measured.tables import SHIPPED
from hardware.architecture_facts import GpuConstants
from hardware.device import Device
from hardware.device_catalog import load_device
from hardware.event_prices import coefficients
from hardware.plan import make_plan

TABLE = SHIPPED / "events.csv"
DEVICES = {"NVIDIA H100 80GB HBM3": "h100_sxm", "NVIDIA H200": "h200_sxm"}
_WIDE = 512.0  # bytes that a warp instruction moves
_STAGES = ("register.operand_collector", "pipeline.warp_fetch", "pipeline.warp_decode", "pipeline.warp_schedule")
Counts = dict[str, float]


class EventRow(msgspec.Struct, frozen=True):
    """One microbenchmark: pJ of one event, measured and predicted, and the board's power at the best rate, W."""

    device: str
    event: str
    data: str
    measured_pj: float
    predicted_pj: float
    measured_w: float
    predicted_w: float

    @property
    def error(self) -> float:
        """Predicted over measured, minus one."""
        return self.predicted_pj / self.measured_pj - 1.0


def _instruction(lanes: float = 32.0, reads: float = 3.0, writes: float = 1.0) -> Counts:
    """Count a warp instruction whose lanes read and write registers of four bytes."""
    registers = {"register.file_read": 4.0 * lanes * reads, "register.file_write": 4.0 * lanes * writes}
    return dict.fromkeys(_STAGES, 1.0) | registers


def _sum(*parts: tuple[float, Counts]) -> Counts:
    total: Counts = {}
    for times, counts in parts:
        for label, count in counts.items():
            total[label] = total.get(label, 0.0) + times * count
    return total


def _load(moves: dict[str, float], others: float) -> Counts:
    """Count what a byte of a load or store of 512 bytes takes, with `others` instructions beside it."""
    own, beside = _instruction(reads=1.0, writes=4.0), _instruction(reads=2.0)
    return _sum((1.0, moves), (1.0 / _WIDE, own), (others / _WIDE, beside))


def _product(macs: float, reads: float, writes: float, shared: float = 0.0) -> Counts:
    """Count a multiply-add of a tensor core in an instruction of `macs` that reads and writes bytes of registers."""
    registers = {"register.file_read": reads, "register.file_write": writes}
    each = {"compute.tensor_core_mac": 1.0, "memory.shared_read": shared}
    return each | _sum((1.0 / macs, _instruction(0.0)), (1.0 / macs, registers))


def _wgmma(width: float) -> Counts:
    """Count m64n128: both operands from shared memory, sums of four bytes in registers."""
    depth = 32.0 / width
    macs = 64.0 * 128.0 * depth
    sums = 4.0 * 64.0 * 128.0
    counts = _product(macs, sums, sums, shared=(64.0 + 128.0) * depth * width / macs)
    return _sum((1.0, counts), (3.0 / macs, _instruction(0.0)))  # four warps issue it


_NEAR = {"memory.l1_read": 1.0, "memory.l2_read": 1.0}
_FAR = {"memory.l2_far": 0.5}
_BEYOND = {"memory.dram_controller": 1.0} | _FAR
EVENTS: dict[str, tuple[str, Counts]] = {
    "ffma": ("fp32", _sum((1.0, _instruction()), (32.0, {"compute.cuda_core_mac": 1.0}))),
    "fadd": ("fp32", _sum((1.0, _instruction(reads=2.0)), (32.0, {"compute.cuda_core_flop": 1.0}))),
    "fmul": ("fp32", _sum((1.0, _instruction(reads=2.0)), (32.0, {"compute.cuda_core_flop": 1.0}))),
    "imad": ("fp32", _sum((1.0, _instruction()), (32.0, {"compute.cuda_core_mac": 1.0}))),
    "iadd": ("fp32", _sum((1.0, _instruction()), (32.0, {"compute.integer_address": 1.0}))),
    "lop3": ("fp32", _sum((1.0, _instruction()), (32.0, {"compute.integer_address": 1.0}))),
    "sel": ("fp32", _sum((1.0, _instruction(reads=2.0)), (32.0, {"compute.integer_address": 1.0}))),
    "shfl": ("fp32", _sum((1.0, _instruction(reads=1.0)), (128.0, {"memory.shared_read": 1.0}))),
    "ffma_lanes1": ("fp32", _sum((1.0, _instruction(1.0)), (1.0, {"compute.cuda_core_mac": 1.0}))),
    "ffma_lanes8": ("fp32", _sum((1.0, _instruction(8.0)), (8.0, {"compute.cuda_core_mac": 1.0}))),
    "ffma_lanes16": ("fp32", _sum((1.0, _instruction(16.0)), (16.0, {"compute.cuda_core_mac": 1.0}))),
    "lop3_lanes1": ("fp32", _sum((1.0, _instruction(1.0)), (1.0, {"compute.integer_address": 1.0}))),
    "mma_fp16": ("fp16", _product(2048.0, 1280.0, 512.0)),
    "mma_bf16": ("bf16", _product(2048.0, 1280.0, 512.0)),
    "mma_fp16acc": ("fp16", _product(2048.0, 1024.0, 256.0)),
    "mma_tf32": ("tf32", _product(1024.0, 1280.0, 512.0)),
    "mma_int8": ("int8", _product(4096.0, 1280.0, 512.0)),
    "wgmma_bf16": ("bf16", _wgmma(2.0)),
    "wgmma_fp16": ("fp16", _wgmma(2.0)),
    "wgmma_tf32": ("tf32", _wgmma(4.0)),
    "wgmma_int8": ("int8", _wgmma(1.0)),
    "lds128": ("fp32", _load({"memory.shared_read": 1.0}, 0.4)),
    "ldsm": ("fp32", _load({"memory.shared_read": 1.0}, 2.1)),
    "sts128": ("fp32", _load({"memory.shared_write": 1.0}, 2.5)),
    "l1_read": ("fp32", _load({"memory.l1_read": 1.0}, 2.1)),
    "l2_read_16MB": ("fp32", _load(_NEAR, 2.0)),
    "l2_read_40MB": ("fp32", _load(_NEAR | _FAR, 2.0)),
    "l2_write_16MB": ("fp32", _load({"memory.l1_write": 1.0, "memory.l2_write": 1.0}, 2.0)),
    "dram_read": ("fp32", _load(_NEAR | _BEYOND | {"memory.dram_read": 1.0}, 2.0)),
    "dram_copy": ("fp32", _sum(
        (0.5, _load(_NEAR | _BEYOND | {"memory.dram_read": 1.0}, 0.5)),
        (0.5, _load({"memory.l1_write": 1.0, "memory.l2_write": 1.0, "memory.dram_write": 1.0} | _BEYOND, 0.5)),
    )),
    "bar": ("fp32", {"simt_control.barrier": 1.0}),
    **{
        f"launch_{how}_{blocks}_blocks": ("fp32", {
            "launch.kernel_launch": 1.0, "launch.host_dispatch": float(how == "stream"),
            "pipeline.block_schedule": float(blocks), "launch.grid_drain": float(min(blocks, 132)),
        })
        for how in ("graph", "stream") for blocks in (1, 132, 2112, 33792)
    },
}  # fmt: skip


def event_rows(table: Path = TABLE) -> Iterator[EventRow]:
    """Yield a row for each microbenchmark that is described here, with random data and with zeros."""
    with table.open(newline="") as file:
        for row in csv.DictReader(file):
            if row["event"] not in EVENTS:
                continue
            form, counts = EVENTS[row["event"]]
            for data, activity, cell in (("random", 1.0, "pj"), ("zeros", 0.0, "pj_zero_data")):
                if row[cell]:
                    device = load_device(DEVICES[row["device"]])
                    price_j = _price_j(device, form, counts, activity)
                    idle_w = max(device.idle_w, device.clocked_idle_w) + device.active_w
                    rate = float(row["best_rate_per_s"])
                    watts = float(row["power_w_at_best"] or 0.0) * (data == "random")
                    yield EventRow(
                        device.id, row["event"], data, float(row[cell]), price_j * 1e12, watts,
                        idle_w + rate * price_j if watts else 0.0,
                    )  # fmt: skip


def _price_j(device: Device, form: str, counts: Counts, activity: float) -> float:
    if form == "int8":  # uniform bytes, not those of networks
        activity /= cast(GpuConstants, device.arch.constants).integer_activity
    facts = device.facts | {"data_activity": msgspec.structs.replace(device.facts["data_activity"], value=activity)}
    device = msgspec.structs.replace(device, facts=facts)
    prices = coefficients(device, make_plan(device, form)).value
    return float(sum(count * prices[device.arch.row[label]] for label, count in counts.items()))


def main() -> None:
    """Print the rows and their median error."""
    rows = list(event_rows())
    for row in rows:
        power = f"{row.measured_w:6.0f} W {row.predicted_w:6.0f} W" if row.measured_w else ""
        print(
            f"{row.device:9} {row.event:28} {row.data:7} {row.measured_pj:12.4g} pJ {row.predicted_pj:12.4g} pJ "
            f"{row.error:+6.0%}  {power}"
        )
    print(f"median error {np.median([abs(row.error) for row in rows]):.1%} of {len(rows)} rows")


if __name__ == "__main__":
    main()
