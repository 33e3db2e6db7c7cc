"""The facts a device file may state: name, unit, who needs it, and how a missing one is derived.

A fact that a file leaves empty stays empty in the file. Where this table has a rule the value is derived by
it and marked `derived`; a required fact without a rule is an error that names file and field.
"""

from __future__ import annotations

import msgspec

# What a figure of a device file is within, whatever its SI unit, unless it is 0: a chip's rates end at 1e19 and the
# energy of one event at 1e-16 J. Products of several figures stay far from what a float holds.
LEAST, MOST = 1e-24, 1e24
ARCHITECTURES = ("cpu", "gpu", "tpu", "kpu")
_ALL = frozenset(ARCHITECTURES)


class Field(msgspec.Struct, frozen=True):
    """A rule is a product: a factor times another field (or 1): 'tdp_w * 0.12'. `why` justifies it."""

    name: str
    unit: str
    architectures: frozenset[str] = _ALL
    base: str = ""
    factor: float | dict[str, float] = 1.0
    required: bool = False
    why: str = ""


def _need(name: str, unit: str, *archs: str) -> Field:
    return Field(name, unit, frozenset(archs) or _ALL, required=True)


def _derive(name: str, unit: str, base: str, factor: float | dict[str, float], why: str, *archs: str) -> Field:
    return Field(name, unit, frozenset(archs) or _ALL, base, factor, True, why)


def _optional(name: str, unit: str, *archs: str) -> Field:
    return Field(name, unit, frozenset(archs) or _ALL)


FIELDS: dict[str, Field] = {
    field.name: field
    for field in (
        _need("process_nm", "nm"),
        _need("units", "count"),
        _need("clock_hz", "Hz"),
        _optional("nominal_clock_hz", "Hz"),
        _derive("vector_clock_hz", "Hz", "clock_hz", 1.0, "vector units run at the clock of the device"),
        _need("memory_bytes", "byte"),
        _need("memory_bandwidth", "byte/s"),
        _derive(
            "last_level_bandwidth",
            "byte/s",
            "memory_bandwidth",
            {"cpu": 6.0, "gpu": 1.5, "tpu": 4.0, "kpu": 8.0},
            "the last on-chip level against memory: shared L3 as compiled PyTorch reaches it (fitted, 2-12), L2 "
            "against HBM or GDDR (published, 1.2-4), CMEM against HBM (assumed), memory tiles against LPDDR5 (target)",
        ),
        _optional("memory_bus_bits", "bit"),
        _optional("memory_transfer_rate", "transfer/s"),
        _need("tdp_w", "W"),
        _derive("power_limit_w", "W", "tdp_w", 1.0, "without a published sustained limit the TDP is the limit"),
        _derive("sustained_w", "W", "tdp_w", 1.0, "what continuous load settles at, where the maker says no more"),
        _derive(
            "idle_w",
            "W",
            "tdp_w",
            {"cpu": 0.20, "gpu": 0.12, "tpu": 0.30, "kpu": 0.10},
            "idle shares of TDP: GPUs 10-18 % measured, TPU v1-v4 and servers higher, KPU as specified",
        ),
        _derive(
            "clocked_idle_w",
            "W",
            "sustained_w",
            {"cpu": 0.20, "gpu": 0.18, "gpu_integrated": 0.14, "tpu": 0.45, "kpu": 0.08},
            "drawn while a program holds the device at working clocks, whatever it computes; at least idle_w: "
            "on GPUs an open context adds 26-66 W to bare idle (arXiv 2605.23918)",
        ),
        _derive(
            "active_w",
            "W",
            "sustained_w",
            {"cpu": 0.68, "gpu": 0.51, "gpu_integrated": 0.25, "tpu": 0.05, "kpu": 0.06},
            "clock tree, schedulers and uncore of a busy device beyond idle: spinning or spin-waiting devices "
            "draw about this share of TDP before any arithmetic",
        ),
        _derive(
            "dispatch_s",
            "s",
            "",
            {"cpu": 6e-6, "gpu": 17e-6, "tpu": 17e-6, "kpu": 17e-6},
            "host time to issue one operator from a framework in eager mode",
        ),
        _derive(
            "launch_s",
            "s",
            "",
            {"cpu": 26e-6, "gpu": 4.0e-6, "tpu": 1.0e-6, "kpu": 0.5e-6},
            "start and end of one kernel on the device: fork and join of threads, grid launch and drain, program step; "
            "GPUs: between batch 1 under TensorRT (5.5 us: A100, A30, A40, A10, A2, T4, RTX 3060) and decoding with "
            "CUDA graphs (2.5 us)",
        ),
        _need("l1_bytes_per_unit", "byte", "cpu", "gpu"),
        _need("l2_bytes", "byte", "cpu", "gpu"),
        _derive("l3_bytes", "byte", "l2_bytes", 1.0, "no third level: the second is the last", "cpu"),
        _derive("registers_bytes_per_unit", "byte", "", 262144.0, "64 K 32-bit registers per SM", "gpu"),
        _derive("threads_per_unit", "count", "", 2048.0, "resident threads per SM", "gpu"),
        _derive("blocks_per_unit", "count", "", 32.0, "resident blocks per SM", "gpu"),
        _derive(
            "fp16_accumulation_rate",
            "x fp32 accumulation",
            "",
            1.0,
            "tensor cores are as fast with fp32 accumulation, except on GeForce cards",
            "gpu",
        ),
        _need("array_rows", "count", "tpu", "kpu"),
        _need("array_columns", "count", "tpu", "kpu"),
        _need("arrays_per_unit", "count", "tpu"),
        _need("vector_memory_bytes_per_unit", "byte", "tpu"),
        _need("scratchpad_bytes", "byte", "tpu", "kpu"),
        _need("tile_memory_bytes", "byte", "kpu"),
    )
}
