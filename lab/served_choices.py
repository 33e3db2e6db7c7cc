"""What predictions of services under load lead to: the load of a curve's knee, and the system that is chosen."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from analysis.measured.services import PredictedLoad, ServedRow
from analysis.serving.served_load import find_knee
from hardware.base.text import count_noun, percent

WITHIN_KNEE = 2.0  # one doubling of load
LEAST_CURVE, LEAST_CHOICE = 4, 3  # least loads of a curve with a knee, least systems of a choice


def describe(loads: Sequence[PredictedLoad]) -> Iterator[str]:
    """Yield how often knees and best systems are found, in words."""
    curves = _group_closed(
        loads,
        LEAST_CURVE,
        lambda row: (row.source, row.deployment.key, row.lengths),
        lambda row: row.load.concurrency,
    )
    if knees := [_finds_knee(curve) for curve in curves]:
        share = percent(float(np.mean(knees)))
        yield f"knee within one doubling of the load on {share} of {count_noun(len(knees), 'curve')}"
    choices = _group_closed(
        loads,
        LEAST_CHOICE,
        lambda row: (row.source, row.deployment.model, row.lengths, row.load.concurrency),
        lambda row: row.deployment.key,
    )
    if regrets := [regret(group) for group in choices]:
        best = percent(float(np.mean([lost == 0.0 for lost in regrets])))
        yield (
            f"of {len(regrets)} groups of three or more systems at one load, the best is chosen in {best}; tokens/s "
            f"per device lost by the choice: median {percent(float(np.median(regrets)))}, worst {percent(max(regrets))}"
        )


def _group_closed(
    loads: Sequence[PredictedLoad],
    least: int,
    key: Callable[[ServedRow], Any],
    member: Callable[[ServedRow], Any],
) -> list[list[PredictedLoad]]:
    """Return groups of `least` or more closed loads that share a `key`, one for each `member`."""
    groups: dict[object, dict[object, PredictedLoad]] = defaultdict(dict)
    for load in loads:
        if load.row.load.concurrency and {"TTFT", "TPOT"} <= load.row.measured.keys():
            groups[key(load.row)][member(load.row)] = load
    return [list(group.values()) for group in groups.values() if len(group) >= least]


def output_per_s(load: PredictedLoad) -> tuple[float, float]:
    """Return output tokens per second of a closed load, measured and predicted, from the times of requests."""
    row, outputs = load.row, float(load.row.load.output.mean()) - 1.0
    times_s = [figures.get("TTFT", 0.0) + outputs * figures["TPOT"] for figures in (row.measured, load.usual)]
    return row.load.concurrency * outputs / times_s[0], row.load.concurrency * outputs / times_s[1]


def _finds_knee(curve: Sequence[PredictedLoad]) -> bool:
    """Return True if the load at the knee is predicted within a factor of two."""
    ordered = sorted(curve, key=lambda each: each.row.load.concurrency)
    measured_and_predicted = zip(*(output_per_s(load) for load in ordered), strict=True)
    knees = [ordered[find_knee(rates)].row.load.concurrency for rates in measured_and_predicted]
    return bool(max(knees) <= WITHIN_KNEE * min(knees))


def regret(group: Sequence[PredictedLoad]) -> float:
    """Return the fraction of output per device that is lost by choosing the system that is predicted best."""
    rates = [[rate / load.row.deployment.devices for rate in output_per_s(load)] for load in group]
    best = max(rates, key=lambda pair: pair[1])
    return 1.0 - best[0] / max(rate for rate, _ in rates)
