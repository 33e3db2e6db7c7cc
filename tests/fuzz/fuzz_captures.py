"""Stored captures: what is read gives figures that are finite and not negative in every report, or is refused."""

import gzip
import math
from collections.abc import Iterator
from pathlib import Path
from random import Random

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from analysis.model.ir import batch_limits
from analysis.model.names import targets
from hardware.device_catalog import load_device
from hwexplorer import engine, registry
from hwexplorer.answer import Answer
from hwexplorer.declare import Report
from hwexplorer.state import State
from tests.capture import altered
from tests.fuzz import mutate
from tests.fuzz.running import refused

_MODELS = ("mlp", "conv2d", "attention_head", "resnet18", "mixtral_8x7b:decode,kv=64,layers=2", "squeezenet1_1")
_DEVICES = ("h100_sxm", "xeon_8490h", "tpu_v4", "kpu_t256")
# What these take is a file of their own, several models, some units only, or words that no state has.
CASE_SECONDS = 20.0
_OTHER = {
    *("models", "devices", "device", "validate", "coefficients", "search", "pareto", "sweep", "check", "rank", "trace"),
    *("design", "diff", "load", "calibrate", "mission", "fallback", "offload"),
}
_REPORTS = [name for name in registry.names() if name not in _OTHER and isinstance(registry.load(name), Report)]


def mutations(random: Random) -> Iterator[bytes]:
    seeds = [store.pack(found) for name in _MODELS if (found := store.ready(name)) is not None]
    while True:
        whole, kind = random.choice(seeds), random.randrange(8)
        if kind == 0:
            yield mutate.flipped(random, whole)
        elif kind == 1:
            yield gzip.compress(mutate.flipped(random, gzip.decompress(whole)), compresslevel=1)
        else:
            yield altered.at_random(random, whole)


def survive(data: bytes) -> bool:
    path = Path("altered" + targets.STORED)
    path.write_bytes(data)
    try:
        workload = store.unpack(data)
    except (OSError, ValueError) as error:
        assert store._read(path) is None, "refused, and read all the same"
        return refused(error)
    batch = batch_limits.fixed_batch(workload) or 1
    pick = Random(len(data))
    name = pick.choice(_DEVICES)
    figures = estimate(workload, load_device(name), Scenario(batch=batch))
    for value in (figures.latency_s, figures.energy_j, figures.edp_js, figures.peak_memory_bytes, figures.utilization):
        assert math.isfinite(value), "a figure that is no number"
        assert value >= 0, "a negative figure"
    state = State(batch=min(batch, 4096), devices=(name, "t4"), on=name)
    engine.keep(state, workload)
    Answer(pick.choice(_REPORTS), state).to_text("json")
    return True
