"""What the tests of the estimate share: models, devices, scenarios, altered devices, toys, figures per kernel."""

import json
import tomllib
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from analysis.model.ir.workload import Workload
from hardware import known_architectures
from hardware.device import Device
from hardware.device_catalog import CATALOG, load_device, load_devices
from hardware.engines.runtime import LIKE_FOR_LIKE
from hardware.plan import Plan, make_plan
from hardware.precision import KEYS, parse
from tests.models import load_once as workload

Floats = NDArray[np.float64]

EXACT = 1e-9  # relative: sums of the same figures in another order

BLOCKS = (
    "mlp", "conv2d", "resnet_block", "attention_head", "depthwise_separable", "pooling", "layer_norm",
    "transformer_block", "gemm",
)  # fmt: skip
MODELS = (
    "resnet18", "resnet50", "mobilenet_v2", "vit_b_16", "swin_t", "efficientnet_b0", "densenet121", "inception_v3",
    "squeezenet1_1", "convnext_tiny",
)  # fmt: skip
# A KPU takes the fastest schedule, which may move more where it is not throttled: test_recurrence.py says what holds.
ARCHITECTURES = tuple(one for one in known_architectures.ALL.values() if one.id != "kpu")
DEFAULTS = tuple(known_architectures.classes()[one.id] for one in ARCHITECTURES)
# Where what is kept on chip follows from what was moved since, not from where a compiler placed its layers.
KEEPING = tuple(name for name in DEFAULTS if not load_device(name).arch.places_models)
BATCHES = (1, 8, 64, 512)
MODES = ("eager", "fused")
ALL_MODES = ("eager", "compiled", "fused")
# Every short name, and one with all roles apart; test_estimate_precisions.py draws from all the others.
PRECISIONS = (*(name for name in KEYS if parse(name).is_uniform), "w4a8kv8")


@cache
def catalogue(modes: bool = True) -> tuple[Device, ...]:
    """Every device, with its power modes or without."""
    devices, errors = load_devices()
    assert not errors, errors
    if not modes:
        return tuple(devices)
    return tuple(m for d in devices for m in (d, *(load_device(f"{d.id}:{mode}") for mode in d.file.power_modes)))


def representatives() -> list[str]:
    """Of each architecture: the default, the one with the least and the one with the most bandwidth per FLOP."""
    devices = catalogue(modes=False)
    chosen = list(DEFAULTS)
    for architecture in ARCHITECTURES:
        mine = [d for d in devices if d.architecture == architecture.id]
        mine.sort(key=lambda d: (d.memory_bandwidth / max(d.peaks.values()), d.id))
        chosen += [d.id for d in (mine[0], mine[-1]) if d.id not in chosen]
    return chosen


@cache
def device(name: str) -> Device:
    return load_device(name)


def run(
    model: str | Workload, on: str | Device, batch: int = 1, precision: str = "fp32", mode: str = "auto"
) -> Estimate:
    target, runtime = workload(model) if isinstance(model, str) else model, mode.replace("fused", LIKE_FOR_LIKE)
    return estimate(target, device(on) if isinstance(on, str) else on, Scenario(batch, precision, runtime))


def distinct_precisions(on: Device) -> list[str]:
    """One precision of each group that a device runs in the same way."""
    seen: dict[tuple[Any, ...], str] = {}
    for precision in PRECISIONS:
        seen.setdefault(plan_key(make_plan(on, precision)), precision)
    return list(seen.values())


def plan_key(p: Plan) -> tuple[Any, ...]:
    """All that decides what a plan costs."""
    return (p.stored, p.widths, p.convolution, p.contraction, p.matrix, p.vector_mac, p.vector)


def event_rows(on: Device, *endings: str) -> list[int]:
    """Rows of the events with one of these names (`dram_read`) or whose count is in that unit (`MAC`)."""
    return [i for i, e in enumerate(on.arch.events) if e.name in endings or e.count in endings]


def counted(result: Estimate, *endings: str) -> Floats:
    """Counts per operator, summed over the events with these names or units."""
    total: Floats = result.run.counts[event_rows(result.device, *endings)].sum(axis=0)
    return total


def per_kernel(result: Estimate, values: Floats) -> Floats:
    return np.bincount(result.demand.kernel, values, minlength=result.demand.n_kernels)


def dram_bytes(result: Estimate) -> Floats:
    return counted(result, "dram_read", "dram_write")


def untimed(result: Estimate) -> Floats:
    """The counts of all events that follow from graph and mapping alone."""
    keep = [event.is_dynamic for event in result.events]
    counts: Floats = result.run.counts[keep]
    return counts


def static_w(on: Device) -> float:
    """What a device draws while a program holds it, whatever it computes."""
    return max(on.idle_w, on.clocked_idle_w)


Change = Callable[[dict[str, Any]], None]


def altered(folder: Path, original: str, change: Change, name: str = "altered") -> Device:
    """A catalogue device with changed facts, written as a device file and loaded from `folder`."""
    data = tomllib.loads((CATALOG / f"{original}.toml").read_text(encoding="utf-8"))
    data["id"], data["name"], data["aliases"] = name, name, []
    for fact in ("memory_bus_bits", "memory_transfer_rate"):  # no longer agree with a changed bandwidth
        data["facts"].pop(fact, None)
    data.pop("peak_flops", None)
    change(data)
    folder.mkdir(parents=True, exist_ok=True)
    text = "\n".join(f"{_toml(key)} = {_toml(value)}" for key, value in data.items())
    (folder / f"{name}.toml").write_text(text + "\n", encoding="utf-8")
    return load_device(name, folders=(folder,))


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_toml(str(key))} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def scaled(fact: dict[str, Any], factor: float) -> dict[str, Any]:
    """A fact of a device file times a factor, its ends with it."""
    return {key: item * factor if key in ("value", "low", "high") else item for key, item in fact.items()}


def faster(facts: tuple[str, ...] = (), units: tuple[str, ...] = (), factor: float = 1.5) -> Change:
    """Multiplies facts, and the FMA per clock of units ('matrix', 'vector')."""

    def change(data: dict[str, Any]) -> None:
        for name in facts:
            if name in data["facts"]:
                data["facts"][name] = scaled(data["facts"][name], factor)
        for unit in units:
            for precision, fact in data["fma_per_clock"].get(unit, {}).items():
                data["fma_per_clock"][unit][precision] = scaled(fact, factor)

    return change


@lru_cache(maxsize=256)
def toy_gemm(m: int, n: int, k: int) -> Workload:
    return store.load(f"gemm:M={m},N={n},K={k}")
