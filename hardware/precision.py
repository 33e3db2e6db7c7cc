"""Number formats: their width, and what a device runs when it is asked for one it lacks."""

from __future__ import annotations

PRECISIONS = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "int4")

# Width in memory. tf32 is a multiplier format: its tensors are stored as fp32.
STORED_BYTES: dict[str, float] = {
    "fp32": 4.0,
    "tf32": 4.0,
    "fp16": 2.0,
    "bf16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5,
}

# What to try next when a unit lacks a format: the nearest format that loses nothing, then the customary
# replacement (bf16 for fp16 on units that have only that). Software does the same when it "emulates".
WIDER: dict[str, tuple[str, ...]] = {
    "int4": ("int8", "fp16", "bf16", "fp32"),
    "int8": ("fp16", "bf16", "fp32"),
    "fp8": ("bf16", "fp16", "fp32"),
    "fp16": ("bf16", "fp32"),
    "bf16": ("fp16", "fp32"),
    "tf32": ("fp32", "bf16"),
    "fp32": ("bf16",),
}
