"""Words about an estimate: how its device differs from others (`1st · 1.5x faster`), and how its figures are known."""

import re
from collections.abc import Sequence

from analysis.estimate.causes import COMPUTE, DRAM, LAUNCH_CAUSE, ON_CHIP, THROTTLED, causes
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import METRICS
from analysis.estimate.trust import Trust
from analysis.model.ir.workload import Ints
from hardware.base.text import count_noun, percent, quantity
from hardware.device import ON_PAPER, Device

UNRANKED = ("on paper", "hypothetical")
SAME = 1.05  # ratio below which two figures count as equal
FACTOR_MIN = 1.095  # ratio from which a difference is a factor, `1.1x less`; a smaller one is in percent
NOTICEABLE = 0.005  # difference, a fraction, below which two figures read the same
FORM, MEMORY = r"SXM\d*|PCIe|OAM|NVL|HGX", r"\d+ ?[GM]B"  # parts of a device's name
WAIT_MIN = 0.4  # share of the latency from which a device is said to wait on a cause
_WAITS = {
    COMPUTE: "computing",
    ON_CHIP: "waiting for on-chip memory",
    DRAM: "waiting for DRAM",
    LAUNCH_CAUSE: "waiting for kernel launches",
    THROTTLED: "slowed by the power limit",
}


def ratio(value: float) -> str:
    """Write a ratio above 1: `1.04x`, `1.4x`, `27x`, `3,120x`."""
    return f"{value:,.{2 if value < FACTOR_MIN else 1 if value < 9.95 else 0}f}x"


def describe_change(change: float, less: str, more: str, times: str = "", factor_min: float = FACTOR_MIN) -> str:
    """Describe a figure that is `change` times another: `4 % less EDP`, `1.4x less EDP`, `2.7x the EDP`. Return '' if
    they read the same."""
    if abs(change - 1) < NOTICEABLE:
        return ""
    factor = max(change, 1 / change)
    is_factor = factor >= factor_min
    words = less if change < 1 else times if times and is_factor else more
    return f"{ratio(factor) if is_factor else percent(abs(change - 1))} {words}"


# What a lower and a higher figure are called against another.
CHANGES = {"energy": ("less energy", "more energy"), "latency": ("faster", "slower"), "edp": ("less EDP", "more EDP")}


def describe_metric(metric: str, change: float, other: str = "") -> str:
    """Describe a metric that is `change` times that of another: `3.8x less EDP`, `4.8x slower than TPU v4`."""
    noun = METRICS[metric].noun
    words = describe_change(change, *CHANGES.get(metric, (f"less {noun}", f"more {noun}")))
    than = f" {'than' if words else 'as'} {other}" if other else ""
    return (words or f"the same {noun}") + than


def short_name(device: Device) -> str:
    """Return the name of a device without its maker, with its power mode, its changes, and the mark of a design."""
    return device.label.removeprefix(f"{device.vendor} ") or device.id


def plain_name(device: Device) -> str:
    """Return the short name without the mark of a design, form factor and memory size, as people say it: `H100`."""
    name = short_name(device).removesuffix(ON_PAPER)
    return re.sub(rf" (?:{FORM}|{MEMORY})(?= |$)", "", name)


def name_with_format(name: str, result: Estimate, others: Sequence[Estimate]) -> str:
    """Return the name of a device, with the format that it runs if another device runs another: `H100 (tf32)`,
    `KPU-T256 (paper, fp32)`."""
    if all(other.precision_run == result.precision_run for other in others):
        return name
    start = f"{name.removesuffix(')')}, " if name.endswith(")") else f"{name} ("
    return f"{start}{result.precision_run})"


def advantage(result: Estimate, other: Estimate) -> str:
    """Write `1.5x faster and 2.7x less energy than`, to precede the name of the other device."""
    factors = compare_factors(result, other, "more energy")
    return f"{' and '.join(factors)} than" if factors else "much the same as"


def headlines(
    results: Sequence[Estimate], reference: Estimate, ranks: Sequence[str], metric: str = "edp"
) -> tuple[str, ...]:
    """Return a headline for each device: its rank by `metric` in words (`rank_words`) and its ratios to the reference
    (`1x`), that of `metric` first."""
    parts = [_parts(result, rank, reference, metric) for result, rank in zip(results, ranks, strict=True)]
    return tuple(" · ".join(part for part in phrase if part and (part != "1x" or len(parts) > 1)) for phrase in parts)


def rank_values(values: Sequence[float], competes: Sequence[bool]) -> list[int]:
    """Return the place of each value among those that compete, from 1; 0 for one that does not compete."""
    rivals = sorted(value for value, is_rival in zip(values, competes, strict=True) if is_rival)
    return [rivals.index(value) + 1 if is_rival else 0 for value, is_rival in zip(values, competes, strict=True)]


def rank_words(results: Sequence[Estimate], metric: str) -> tuple[str, ...]:
    """Return `1st`, `2nd` .. among the devices that exist and can run the model, `on paper` for a design,
    `hypothetical` for changed facts."""
    competes = [run.can_win and run.device.silicon for run in results]
    ranks = rank_values([METRICS[metric].figure(run) for run in results], competes)
    return tuple(
        (("hypothetical" if run.device.changes else "on paper") if run.fits else "")
        if not run.device.silicon
        else _ordinal(rank) * (rank > 0 and sum(competes) > 1)
        for run, rank in zip(results, ranks, strict=True)
    )


def _ordinal(place: int) -> str:
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
    return f"{place}{ending}"


def _parts(result: Estimate, rank: str, reference: Estimate, metric: str) -> list[str]:
    if not result.fits:
        needs, has = result.peak_memory_bytes, result.device.memory_bytes
        return [f"needs {quantity(needs, 'byte')}, has {quantity(has, 'byte')}"]
    if rank[:1].isdigit() and not is_backed(result.trust):
        rank = f"predicted {rank}"
    if result is reference:
        cause, share = largest_cause(result)
        return [rank, "1x", *[describe_wait(cause, share)] * (share >= WAIT_MIN)]
    words = compare_factors(result, reference, "the energy")
    if metric == "energy":
        words.sort(key=lambda part: "energy" not in part)
    elif metric == "edp":
        change = METRICS["edp"].figure(result) / (METRICS["edp"].figure(reference) or 1.0)
        words[:0] = [describe_change(change, "less EDP", "more EDP", "the EDP") or "the same EDP"]
    words = words or ["within 5 % of the baseline"]
    return [f"{rank}: {words[0]}", *words[1:]] if rank in UNRANKED else [rank, *words]


def compare_factors(result: Estimate, other: Estimate, more_energy: str) -> list[str]:
    """Write the ratios of speed and energy between two devices. Ratios within SAME are left out."""
    changes = (
        (result.latency_s / (other.latency_s or 1.0), *CHANGES["latency"], ""),
        (result.energy_j / (other.energy_j or 1.0), *CHANGES["energy"], more_energy),
    )
    return [describe_change(*change) for change in changes if not 1 / SAME < change[0] < SAME]


def largest_cause(result: Estimate, members: Ints | slice = slice(None)) -> tuple[int, float]:
    """Return the cause of most of the time of some operators, and its share of that time."""
    time_s = causes(result).sum_over(members).time_s
    cause = int(time_s.argmax())
    return cause, float(time_s[cause]) / (float(time_s.sum()) or 1.0)


def describe_wait(cause: int, share: float) -> str:
    """Write `84 % of the time waiting for kernel launches`."""
    return f"{percent(share)} of the time {_WAITS[cause]}"


def phase_words(result: Estimate) -> tuple[str, str]:
    """Return the name of the latency of a language model's phase, and what it makes; empty texts for other work."""
    lengths = result.workload.defaults
    if "kv" not in lengths or "output" in lengths:
        return "", ""
    return ("TPOT", "token") if lengths.get("sequence") == 1 else ("TTFT", "prompt")


def work_word(result: Estimate) -> str:
    """Return what a run of a model makes: `inference`, or `prompt`, `token` or `request` of a language model."""
    return phase_words(result)[1] or ("request" if "output" in result.workload.defaults else "inference")


# --- evidence ---------------------------------------------------------------------------------------------

# The words for each level of evidence: here for a table, below for a sentence.
EVIDENCE = {"measured": "measured", "siblings": "similar chip", "engineering": "data sheet", "design_target": "paper"}
_SENTENCES = {
    "measured": "measured on it",
    "siblings": "similar chips",
    "engineering": "data sheets only, nothing measured",
    "design_target": "on paper",
}


def is_backed(trust: Trust) -> bool:
    """Return True if the device or similar chips were measured."""
    return trust.level in ("measured", "siblings")


def evidence_word(result: Estimate) -> str:
    """Return the word for the evidence of an estimate; `none` for a device whose facts were changed."""
    return "none" if result.device.changes else EVIDENCE[result.trust.level]


def describe_evidence(trust: Trust) -> str:
    """Write `similar chips: 412 measurements, typically 21 % off there`."""
    words = _SENTENCES[trust.level]
    if trust.median_error is None or not is_backed(trust):
        return words
    return f"{words}: {count_noun(trust.rows, 'measurement')}, typically {percent(trust.median_error)} off" + (
        " there" * (trust.level == "siblings")
    )
