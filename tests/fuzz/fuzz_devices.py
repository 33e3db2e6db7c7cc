"""Device files: of a colleague's, of a download. What is read gives figures that are numbers, on every precision."""

import math
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from random import Random

import numpy as np

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from analysis.model.ir.workload import Workload
from hardware import device_catalog, device_file, known_architectures
from hardware.errors import RequestError
from hardware.event_prices import coefficients
from hardware.plan import make_plan
from hardware.precision import KEYS, UNITS
from tests.fuzz import mutate
from tests.fuzz.running import refused

NAMES = ("t4", "h100_sxm", "tpu_v4", "kpu_t256", "xeon_8490h", "jetson_agx_orin")
SEEDS = tuple((device_file.CATALOG / f"{name}.toml").read_bytes() for name in NAMES)
WORDS = (
    *UNITS, *device_file.QUALITIES, *(f"matrix:{name}" for name in UNITS),
    *(f"{event.category}.{event.name}" for each in known_architectures.ALL.values() for event in each.events),
    "[runs.fp32]\n", 'convolution = "matrix:tf32"\n', "[coefficients]\n", "low = 1", "high = 1e24",
)  # fmt: skip


def mutations(random: Random) -> Iterator[bytes]:
    return mutate.files(random, SEEDS, WORDS)


@lru_cache(maxsize=1)
def _model() -> Workload:
    return store.load("conv2d")


def survive(data: bytes) -> bool:
    stated = re.search(rb'(?m)^id = "(\w{1,40})"', data)  # the file has the name of its device, as a user's has
    path = Path(f"{stated[1].decode() if stated else 'mine'}.toml")
    path.write_bytes(data)
    try:
        spec = device_file.read_device_file(path)
        found = [device_catalog.device_in_mode(spec, mode) for mode in ("", *list(spec.power_modes)[:2])]
        for device in found:
            for precision in KEYS:
                prices = coefficients(device, make_plan(device, precision))
                assert np.isfinite(prices.value).all()
                assert (prices.low <= prices.value).all()
                assert (prices.value <= prices.high).all()
                result = estimate(_model(), device, Scenario(8, precision))
                figures = (result.latency_s, result.energy_j, *result.latency_band_s, *result.energy_band_j)
                assert all(math.isfinite(figure) and figure >= 0 for figure in figures), figures
    except RequestError as error:
        return refused(error)
    return True
