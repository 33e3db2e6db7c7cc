"""Claims that are often made of inference, held against this model's own numbers.

Each claim comes from single-shot estimators that count static power against latency alone, or a fixed matrix
product as the model. What this engine finds, and why it differs, is said with figures.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import numpy as np

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.tree import how_many, tree
from hardware.architectures import registry
from hardware.device import Device
from hardware.quantity import quantity

STATIC_CLAIM = (0.72, 0.76)
TOP = 3
TOP_CLAIM = 0.5
LARGER = 64


class Claim(msgspec.Struct, frozen=True):
    """A common claim, whether it holds here, and what was found, in words with numbers."""

    claim: str
    holds: bool
    found: str


def claims(result: Estimate, load: Callable[[str], Device]) -> tuple[Claim, ...]:
    """Static share and concentration on the result's device; what is said of one architecture against another."""
    rivals = [(one, *said) for one in registry.every() for said in one.data.story.claims]
    against = (_worse(claim, result, load(rival), load(one.id)) for one, claim, rival in rivals)
    return (_static(result), _concentrated(result), *against)


def _static(result: Estimate) -> Claim:
    share, name = result.static_fraction, result.device.name
    low, high = STATIC_CLAIM
    clock = [i for i, event in enumerate(result.events) if event.family == "clock"]
    clocks = float(result.event_energy_j[clock].sum()) / (result.energy_j or 1.0)
    bound_s = float(result.run.busy_s.sum()) / (result.latency_s or 1.0)
    why = f"clocks of busy units are counted apart ({clocks:.0%}); {name} works {bound_s:.0%} of the time"
    return Claim("static power takes 72-76 % of the energy", low <= share <= high, f"{share:.0%} on {name}: {why}")


def _concentrated(result: Estimate) -> Claim:
    share = tree(result).subgraphs.share
    top, half = float(np.sort(share)[::-1][:TOP].sum()), how_many(share, 0.5)
    why = "its subgraphs cost alike" if half > TOP else "a few subgraphs do most of the work"
    if result.bound == "launch":
        why = "every kernel costs at least one dispatch, whatever it computes"
    sentence = f"the top {TOP} make {top:.0%}, half takes {half} of {len(share)}: {why}"
    return Claim("the top 3 subgraphs make half of the EDP", top >= TOP_CLAIM, sentence)


def _worse(claim: str, result: Estimate, rival: Device, device: Device) -> Claim:
    """Whether a device takes more energy than a rival at batch 1, and what a batch does to it."""
    workload, one = result.workload, msgspec.structs.replace(result.scenario, batch=1)
    a, b = estimate(workload, rival, one), estimate(workload, device, one)
    many = estimate(workload, device, msgspec.structs.replace(one, batch=LARGER))
    per_inference = many.energy_j / LARGER
    sentence = (
        f"at batch 1 {device.name} takes {quantity(b.energy_j, 'J')} against {quantity(a.energy_j, 'J')} on "
        f"{rival.name}, {b.utilization:.1%} of its peak used; batch {LARGER} makes it "
        f"{quantity(per_inference, 'J')} per inference ({b.energy_j / (per_inference or 1.0):.1f}x less)"
    )
    return Claim(claim, b.energy_j > a.energy_j, sentence)
