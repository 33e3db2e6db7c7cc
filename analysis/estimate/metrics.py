"""Metrics: one name per figure, with its key in a record, its unit, and which direction is better."""

from __future__ import annotations

import msgspec

from hardware.quantity import Unit


class Metric(msgspec.Struct, frozen=True):
    """`key` names the figure in Figures and in an Estimate; `title` begins a sentence or heads a column; `noun` is used
    within a sentence."""

    key: str
    unit: Unit
    title: str
    noun: str
    more_is_better: bool = False

    def figure(self, run: object) -> float:
        """Return the figure of an Estimate, Figures, or another object with this key."""
        value: float = getattr(run, self.key)
        return value


METRICS = {
    "edp": Metric("edp_js", "Js", "EDP", "EDP"),
    "energy": Metric("energy_j_per_inference", "J", "Energy per inference", "energy per inference"),
    "latency": Metric("latency_s", "s", "Latency of the batch", "latency"),
    "throughput": Metric("throughput_per_s", "1/s", "Inferences per second", "throughput", more_is_better=True),
    "power": Metric("average_power_w", "W", "Average power", "average power"),
    "memory": Metric("peak_memory_bytes", "byte", "Peak memory", "peak memory"),
    "cost": Metric("cost_usd_per_million", "", "Electricity of a million inferences, USD", "cost"),
    "utilization": Metric("utilization", "%", "Share of the peak", "utilisation", more_is_better=True),
    "coverage": Metric("coverage", "%", "Work with a cost rule", "coverage", more_is_better=True),
    "macs": Metric("macs", "MAC", "MACs", "MACs"),
    "flops": Metric("flops", "FLOP", "FLOPs", "FLOPs"),
    "operators": Metric("operators", "count", "Operators", "operators"),
    "ttft": Metric("ttft_p99_s", "s", "Time to first token, 99th percentile", "time to first token"),
    "tpot": Metric("tpot_p99_s", "s", "Time per output token, 99th percentile", "time per output token"),
}
# Metrics of which nodes have parts that add up to the model's: trees show them, and comparisons use them.
ADDITIVE = ("edp", "energy", "latency")
EXPLAINED = (*ADDITIVE, "memory")
AIMS = ("energy", "latency", "memory", "throughput", "edp")
ORDERS = ("energy", "latency", "throughput", "accuracy", "edp")  # of ranked models; accuracy is not in METRICS
RULED = ("energy", "latency", "throughput", "edp", "memory", "power", "utilization", "coverage")  # in rules of CI
RULED_OF_LOADS = ("ttft", "tpot")  # in rules about a model under a load
SEARCHED = ("energy", "latency", "memory", "power", "throughput", "cost")  # that a search can limit
CHANGING = ("energy", "latency", "edp", "memory", "macs", "flops", "operators")  # compared between two results
