"""What-if devices as people and programs write them: `h100_sxm{units*2,tile.mac:fp32=2.64pJ}`."""

import math
from collections.abc import Iterator
from random import Random

from analysis.estimate.estimate import estimate
from analysis.estimate.scenario import Scenario
from analysis.model import store
from hardware.device_catalog import load_device
from hardware.errors import RequestError
from tests.fuzz import mutate
from tests.fuzz.running import refused

SEEDS = (
    "h100_sxm{memory_bandwidth*2}",
    "kpu_t256{units=512,clock_hz=1.2e9,scratchpad_bytes=128M,process_nm=7}",
    "tpu_v4{array=256x256}",
    "kpu_t256{tile.mac:fp32=2.64pJ,tile.operand_stream/2}",
    "jetson_agx_orin:30w{units*2,tdp_w=60,matrix.fp16*0.5}",
    "xeon_8490h{units*2,l3_bytes=1G,vector*2}",
    "hailo8{array_rows=16,clock_hz*1.5}",
    "h100_sxm@400W@1.4GHz{units*2}",
)
WORDS = ("{", "}", "{}", ",", "*", "/", "=", "1e308", "1e-300", "nan", "inf", "-1", "0", "0x8", "8x", "units*1,",
         "process_nm=180", "memory_bytes*1e9", "idle_w*2", "power_limit_w/9", "matrix", "vector.fp32", "launch_s=0",
         "clock_hz=20G", "units=1", "@", "@300W", "@1400MHz", "@0.01kw")  # fmt: skip


def mutations(random: Random) -> Iterator[str]:
    return mutate.texts(random, SEEDS, WORDS)


def survive(text: str) -> bool:
    try:
        device = load_device(text)
        assert load_device(device.key) == device
        result = estimate(store.load("conv2d"), device, Scenario(8, "fp16"))
        figures = (result.latency_s, result.energy_j, *result.latency_band_s, *result.energy_band_j)
        assert all(math.isfinite(figure) and figure > 0 for figure in figures), figures
        assert result.average_power_w <= device.power_limit_w * (1 + 1e-9)
    except RequestError as error:
        return refused(error)
    return True
