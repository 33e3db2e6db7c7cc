"""Kernels of attention that engines of language models run, by generation of GPU, operator and format of the cache."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from hardware import file_access
from hardware.device import Device

_TABLE = Path(__file__).with_name("attention_kernels.toml")


class AttentionKernel(msgspec.Struct, frozen=True):
    """A kernel of attention has these `constants` in place of the architecture's; of them, `parts` is the most parts of
    keys and `rate` the share of the rate of products. If it is `asynchronous` it waits for no matrix instruction."""

    constants: dict[str, float] = {}
    asynchronous: bool = False


def gpu_generation(device: Device) -> str:
    """Return the generation whose instructions and kernels engines use on a device, '' for others."""
    generations: dict[str, list[str]] = file_access.shipped(_TABLE)["generations"]
    return next((name for name, parts in generations.items() if any(part in device.id for part in parts)), "")


def first_rule(rules: list[dict[str, Any]], cells: dict[str, str]) -> dict[str, Any]:
    """Return the first rule that holds: each cell that it names contains one of the parts that it lists. {} if none."""
    for rule in rules:
        if all(any(part in (cells.get(name) or "") for part in parts) for name, parts in rule["of"].items()):
            return rule
    return {}


def attention_rule(cells: dict[str, str]) -> dict[str, Any]:
    """Return the rule of a kernel from the cells of its row: `engine`, `generation`, `operator`, `kernel`, formats."""
    return first_rule(file_access.shipped(_TABLE)["attention"], cells)


@lru_cache(maxsize=256)
def default_kernel(engine: str, generation: str, operator: str, cache_format: str) -> dict[str, Any]:
    """Return what the default kernel of an engine changes of its runtime, for `attention_decode` or
    `attention_prefill`."""
    kernel = file_access.shipped(_TABLE)["default"][engine].get(generation, "")
    kernel = kernel.format(phase=operator.removeprefix("attention_"))
    cells = {"engine": engine, "generation": generation, "operator": operator, "cache_format": cache_format}
    changes: dict[str, Any] = attention_rule({**cells, "kernel": kernel}).get("runtime", {})
    return changes
