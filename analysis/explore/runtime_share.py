"""Attribution of a ratio between two devices to the software that they run with and to the chip."""

from __future__ import annotations

import msgspec

from analysis.estimate.estimate import Estimate, estimate
from hardware.execute import BOUNDS, LAUNCH
from hardware.runtime import LIKE_FOR_LIKE

WORTH_SAYING = 0.05  # of the ratio


class SoftwareShare(msgspec.Struct, frozen=True):
    """`ratio` of two latencies = `software` x `chip`; the chip's part is that of both by their ahead-of-time
    compilers, the rest is what they run with: `cause`, in words."""

    ratio: float
    software: float
    chip: float
    cause: str

    @property
    def text(self) -> str:
        """Return the sentence, as `15.5x: 8.1x is host dispatch, 1.9x the chip`."""
        return f"{self.ratio:.3g}x: {self.software:.2g}x is {self.cause}, {self.chip:.2g}x the chip"


def attribute_to_software(slower: Estimate, quicker: Estimate) -> SoftwareShare | None:
    """Attribute the ratio of two latencies; None where software has no part in it worth saying."""
    if not slower.latency_s or not quicker.latency_s:
        return None
    sides = slower, quicker
    alike = [_like_for_like(side) for side in sides]
    penalties = [side.latency_s / (same.latency_s or 1.0) for side, same in zip(sides, alike, strict=True)]
    ratio, chip = slower.latency_s / quicker.latency_s, alike[0].latency_s / (alike[1].latency_s or 1.0)
    software = ratio / chip
    if abs(software - 1.0) < WORTH_SAYING:
        return None
    responsible = sides[0 if penalties[0] >= penalties[1] else 1]
    waits = responsible.runtime.mode != "fused" and responsible.bound == BOUNDS[LAUNCH]
    names = " against ".join(dict.fromkeys(side.runtime.name for side in sides))
    return SoftwareShare(ratio, software, chip, f"host dispatch ({names})" if waits else f"software ({names})")


def _like_for_like(result: Estimate) -> Estimate:
    scenario = msgspec.structs.replace(result.scenario, execution=LIKE_FOR_LIKE)
    return result if scenario == result.scenario else estimate(result.workload, result.device, scenario)
