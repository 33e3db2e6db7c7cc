"""Metrics: one name per figure, with its key in a record, its unit, and which direction is better. Rates of a batch.

States and settings name metrics, so this module needs no estimate.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from hardware.base.text import Unit


class Rates(msgspec.Struct, frozen=True, kw_only=True):
    """Figures that follow from the batch, latency and energy of an estimate. The energy-delay product is of one
    inference: its energy times the latency of the batch that it waits for."""

    latency_s_per_inference: float
    energy_j_per_inference: float
    edp_js: float
    throughput_per_s: float
    average_power_w: float


def rates(batch: int, latency_s: float, energy_j: float, pipelined_s: float = 0.0) -> Rates:
    """Return the rates of a whole batch; throughput and power are 0 without latency. The next batch may enter
    `pipelined_s` before this one has left, so inferences can follow each other sooner than one takes."""
    follows_s = latency_s - pipelined_s
    return Rates(
        latency_s_per_inference=latency_s / batch,
        energy_j_per_inference=energy_j / batch,
        edp_js=energy_j / batch * latency_s,
        throughput_per_s=batch / follows_s if follows_s else 0.0,
        average_power_w=energy_j / latency_s if latency_s else 0.0,
    )


class Metric(msgspec.Struct, frozen=True):
    """`key` names the figure in Figures and in an Estimate; `title` begins a sentence or heads a column; `noun` is used
    within a sentence."""

    key: str
    unit: Unit
    title: str
    noun: str
    more_is_better: bool = False
    # Computes the figure of an Estimate that has no such property. Figures then have it in `derived`.
    formula: Callable[[Any], float] | None = None
    letter: str = ""  # of its limits on the screen: L<5ms; "" if the screen has none
    limit_example: str = ""  # an amount, for the help of its limit in `search`; "" if a search cannot limit it
    band: str = ""  # "energy", "latency" or both: the figures whose bands it follows
    ratio: str = ""  # names its ratio to the baseline in `compare`; "" if there is none
    is_aim: bool = False  # of advice
    is_order: bool = False  # of configurations in a search, and of ranked models
    is_ruled: bool = False  # in rules of CI
    is_compared: bool = False  # between two results
    is_of_load: bool = False  # a figure of a model that serves requests, not of one run

    def noun_of(self, work: str) -> str:
        """Return the noun of what is counted, such as `energy per sample`."""
        return self.noun.replace("inference", work)

    def figure(self, run: object) -> float:
        """Return the figure of an Estimate, Figures, or another object with this key."""
        if self.formula is not None:
            return run.derived[self.key] if hasattr(run, "derived") else self.formula(run)
        value: float = getattr(run, self.key)
        return value


METRICS = {
    "energy": Metric(
        "energy_j_per_inference", "J", "Energy per inference", "energy per inference", letter="E",
        limit_example="100mJ", band="energy", ratio="energy", is_aim=True, is_order=True, is_ruled=True,
        is_compared=True,
    ),
    "latency": Metric(
        "latency_s", "s", "Latency of the batch", "latency", letter="L", limit_example="50ms", band="latency",
        ratio="latency", is_aim=True, is_order=True, is_ruled=True, is_compared=True,
    ),
    "edp": Metric(
        "edp_js", "Js", "EDP", "EDP", band="latency energy", ratio="edp", is_aim=True, is_order=True, is_ruled=True,
        is_compared=True,
    ),
    "memory": Metric(
        "peak_memory_bytes", "byte", "Peak memory", "peak memory", letter="M", limit_example="512MB",
        ratio="peak_memory", is_aim=True, is_ruled=True, is_compared=True,
    ),
    "power": Metric(
        "average_power_w", "W", "Average power", "average power", letter="P", limit_example="15W", is_ruled=True
    ),
    "throughput": Metric(
        "throughput_per_s", "1/s", "Inferences per second", "throughput", more_is_better=True, limit_example="10000",
        band="latency", ratio="throughput", is_aim=True, is_order=True, is_ruled=True,
    ),
    "efficiency": Metric(
        "inferences_per_j", "1/J", "Inferences per joule", "inferences per joule", more_is_better=True,
        formula=lambda run: 1.0 / run.energy_j_per_inference if run.energy_j_per_inference else 0.0, band="energy",
        is_ruled=True,
    ),
    "cost": Metric(
        "cost_usd_per_million", "", "Electricity of a million inferences, USD", "cost", limit_example="0.05",
        band="energy", is_order=True,
    ),
    "utilization": Metric(
        "utilization", "%", "Share of the peak", "utilisation", more_is_better=True, band="latency", is_ruled=True
    ),
    "coverage": Metric("coverage", "%", "Work with a cost rule", "coverage", more_is_better=True, is_ruled=True),
    "macs": Metric("macs", "MAC", "MACs", "MACs", is_compared=True),
    "flops": Metric("flops", "FLOP", "FLOPs", "FLOPs", is_compared=True),
    "operators": Metric("operators", "count", "Operators", "operators", is_compared=True),
    "ttft": Metric(
        "ttft_p99_s", "s", "Time to first token, 99th percentile", "time to first token", letter="ttft",
        is_ruled=True, is_of_load=True,
    ),
    "tpot": Metric(
        "tpot_p99_s", "s", "Time per output token, 99th percentile", "time per output token", letter="tpot",
        is_ruled=True, is_of_load=True,
    ),
}  # fmt: skip


# Metrics of which nodes have parts that add up to the model's: trees show them, and comparisons use them.
ADDITIVE = ("edp", "energy", "latency")


def select_metrics(has: Callable[[Metric], object]) -> tuple[str, ...]:
    """Return the names of the metrics with a flag, in the order of METRICS."""
    return tuple(name for name, metric in METRICS.items() if has(metric))
