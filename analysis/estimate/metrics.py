"""What runs are compared by: one name per figure, its key in a record, its unit, and which way is better."""

from __future__ import annotations

import msgspec

from hardware.quantity import Unit


class Metric(msgspec.Struct, frozen=True):
    """`key` names the figure in Figures and in an Estimate; `title` begins a sentence or heads a column."""

    key: str
    unit: Unit
    title: str
    more_is_better: bool = False

    def of(self, run: object) -> float:
        """The figure of a run: an Estimate, Figures, or what holds their keys."""
        value: float = getattr(run, self.key)
        return value


METRICS = {
    "edp": Metric("edp_js", "Js", "EDP"),
    "energy": Metric("energy_j_per_inference", "J", "Energy per inference"),
    "latency": Metric("latency_s", "s", "Latency of the batch"),
    "throughput": Metric("throughput_per_s", "1/s", "Inferences per second", more_is_better=True),
    "power": Metric("average_power_w", "W", "Average power"),
    "memory": Metric("peak_memory_bytes", "byte", "Peak memory"),
    "utilization": Metric("utilization", "%", "Share of the peak", more_is_better=True),
    "coverage": Metric("coverage", "%", "Work with a cost rule", more_is_better=True),
}
# Those that nodes have parts of which add up to the model's: what trees are shown in and devices compared by.
ADDITIVE = ("edp", "energy", "latency")
EXPLAINED = (*ADDITIVE, "memory")
AIMS = ("energy", "latency", "memory", "throughput", "edp")
ORDERS = ("energy", "latency", "throughput", "accuracy", "edp")  # of ranked models; accuracy is no figure of a run
