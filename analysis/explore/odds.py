"""Odds that one device beats another when their bands overlap, the verdict of a comparison, and the command that
measures an estimate to settle a doubt (by the tool of its runtime, measurement_tools.toml).

The logarithm of a measured figure is taken as normally distributed, centred in the logarithm of the band. Errors of
estimates that share constants (a device, a runtime) are correlated (odds.toml).

The verdict says which device leads by one metric, how sure that is, and what would settle it. From 90 % it is stated as
a fact, from 70 % as probable, below as too close to call; a device known from data sheets alone is named as such.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import exp, log, sqrt
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

import msgspec

from analysis import wording
from analysis.estimate.estimate import Estimate
from analysis.estimate.metrics import METRICS
from hardware.base import file_access
from hardware.base.file_access import read_list
from hardware.base.text import percent
from hardware.device import change_words
from hardware.engines.runtime import AUTO, MODES
from hardware.precision import runs_wider

if TYPE_CHECKING:
    from analysis.model.transformer.transformer_request import LoadSpec

_PATH = Path(__file__).with_name("measurement_tools.toml")
_ANSWER = 128  # tokens that a tool generates to time one
_ROUNDS, _REQUESTS = 8, 400  # requests of each client, and at a rate


class Tool(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A row of measurement_tools.toml."""

    runtimes: tuple[str, ...]
    kinds: tuple[str, ...]
    command: str
    result: str
    source: str
    formats: dict[str, str] = {}
    graphs: dict[str, str] = {}


@lru_cache(maxsize=1)
def _tools() -> tuple[Tool, ...]:
    return read_list(_PATH, "tool", Tool)


def describe_measurement(result: Estimate, figure: str, load: LoadSpec | None = None) -> str:
    """Write what to run to measure a metric of an estimate, or of an average step of a `load`, and what reads it."""
    model, scenario, runtime = result.workload.name, result.scenario, result.runtime
    kind = "load" if load is not None else result.workload.kind
    tool = next((row for row in _tools() if kind in row.kinds and runtime.id.startswith(row.runtimes)), None)
    key, name = result.device.key, model.partition(":")[0]
    made = f"makes my_{result.device.id} of it: ask again with that"
    words = f"measure {f'this load of {name} on ' * (load is not None)}{key} with {runtime.name}"
    if load is not None and (tool is None or load.requests):
        columns = "device,model,batch,precision,framework,latency_ms"
        return f"{words}; `hwexplorer calibrate {key} FILE.csv` {made} ({columns})"
    if tool is None:
        if name.endswith(".py"):  # a time in words names a model by one word, so not the inputs of its code
            shapes = ("x".join(str(n).replace("batch", "1") for n in spec.shape) for spec in result.workload.inputs)
            kinds = (f":{spec.dtype}" * (spec.dtype != "float32") for spec in result.workload.inputs)
            inputs = "".join(f" --input {shape}{kind}" for shape, kind in zip(shapes, kinds, strict=True))
            file = f"{name.removesuffix('.py')}.msgpack.gz"
            words, model = f"{words}; `hwexplorer capture {model}{inputs} -o {file}`", file
        settings = f"--runtime {runtime.id} --precision {result.format_name}"
        return f'{words}; `hwexplorer calibrate {key} "TIME ms {model} batch {scenario.batch}" {settings}` {made}'
    command = " ".join(tool.command.format(**_fields(tool, result, load)).split())
    reads = f"; `hwexplorer calibrate {key} {tool.result}` {made}"
    meters = file_access.shipped(_PATH)["power"].get(result.device.software_class, {})
    meter = meters.get(result.device.vendor, "") if figure in ("energy", "edp", "power") else ""
    return f"{words}; `{command}`{f', and `{meter}` meanwhile' * bool(meter)}{reads}"


def _fields(tool: Tool, result: Estimate, load: LoadSpec | None) -> dict[str, object]:
    """Return the fields of a command. Decoding is timed behind as many tokens as the estimate has in its cache."""
    from analysis.model.transformer import transformer_request  # not needed to start the screen

    workload, batch, precision = result.workload, result.scenario.batch, result.format_name
    lengths, name = workload.defaults, workload.name.partition(":")[0]
    depth = lengths.get("kv", 0)
    prompt = 0 if workload.kind == "decode" else lengths.get("sequence", 0)
    output = lengths.get("output", _ANSWER if workload.kind == "decode" else 0)
    file = name.replace("/", "_")
    hub = re.match(
        r"([\w.-]+/[\w.-]+) config\.json",
        transformer_request.preset(name).source if name in transformer_request.preset_names() else "",
    )
    rate, clients = (load.rate, load.concurrency) if load is not None else (0.0, batch)
    sizes = lengths | {"batch": batch}
    shapes = (f"{spec.name}:{'x'.join(str(sizes.get(str(n), n)) for n in spec.shape)}" for spec in workload.inputs)
    return {
        "model": file, "onnx": file.removesuffix(".onnx") + ".onnx", "hub": hub[1] if hub else name, "batch": batch,
        "tp": workload.devices,
        "device": result.device.key, "runtime": result.runtime.id, "format": tool.formats.get(precision, precision),
        "graph": tool.graphs.get(result.runtime.id, ""), "inputs": ",".join(shapes), "result": tool.result,
        "depth": depth, "prompt": prompt, "context": max(depth, prompt, 1), "output": output,
        "arrivals": f"--request-rate {rate:g}" if rate else f"--max-concurrency {clients}",
        "requests": max(clients * _ROUNDS, _REQUESTS if rate else 0),
    }  # fmt: skip


SURE, LIKELY = 0.9, 0.7  # odds from which a verdict is a fact, and probable
BEATS = {"latency": "is faster", "energy": "needs less energy"}
DOUBT = (0.05, 0.95)  # odds between which a comparison is in doubt
LOWEST, MOST = 0.01, 0.99  # the odds that are stated at most: bands have tails
SAFE = 0.75  # odds of keeping limits from which a configuration leads a search
_CONSTANTS = Path(__file__).with_suffix(".toml")
LEAST = 1e-6  # fraction of a figure, taken as the low end of a band that begins at 0


class Odds(msgspec.Struct, frozen=True, kw_only=True):
    """The probability that `device` beats `other` in a metric."""

    metric: str
    device: str
    other: str
    probability: float


def _constant(name: str) -> float:
    return float(file_access.shipped(_CONSTANTS)[name]["value"])


def probability(a: Estimate, b: Estimate, metric: str) -> float:
    """Return the probability, 0 to 1, that `a` would be measured below `b`; 0.5 for the same estimate."""
    return odds_of_less(_logarithm(a, metric), _logarithm(b, metric), correlation(a, b))


def odds_of_less(a: tuple[float, float], b: tuple[float, float], correlated: float) -> float:
    """Return the probability that `a` is less than `b`, each the mean and standard deviation of a logarithm."""
    (middle_a, spread_a), (middle_b, spread_b) = a, b
    covariance = correlated * spread_a * spread_b
    spread = sqrt(max(spread_a**2 + spread_b**2 - 2.0 * covariance, 0.0))
    gap = middle_b - middle_a
    if gap == 0.0:
        return 0.5
    return _bound(NormalDist().cdf(gap / spread) if spread else float(gap > 0))


def _bound(probability: float) -> float:
    return min(max(probability, LOWEST), MOST)


def _logarithm(one: Estimate, metric: str) -> tuple[float, float]:
    """Return mean and standard deviation of the logarithm of the measured figure. A device that takes longer than
    estimated also takes more energy, so for EDP the deviations of both factors add up."""
    latency = middle_and_spread(one.latency_s, one.latency_band_s)
    energy = middle_and_spread(one.energy_j, one.energy_band_j)
    if metric == "edp":
        return latency[0] + energy[0], latency[1] + energy[1]
    return latency if metric == "latency" else energy


def middle_and_spread(value: float, band: tuple[float, float]) -> tuple[float, float]:
    """Return mean and standard deviation of the logarithm of a figure with such a band."""
    low, high = (log(max(end, value * LEAST)) for end in band)
    return (low + high) / 2.0, (high - low) / 2.0 / _deviations()


def _deviations() -> float:
    """Return the half-width of a band in standard deviations."""
    return NormalDist().inv_cdf(0.5 + _constant("coverage") / 2.0)


def ratio_band(sides: Sequence[tuple[float, tuple[float, float]]], correlated: float) -> tuple[float, float]:
    """Return the band of the first of two figures over the second, each with its band."""
    (middle_a, spread_a), (middle_b, spread_b) = (middle_and_spread(*side) for side in sides)
    half = _deviations() * sqrt(max(spread_a**2 + spread_b**2 - 2.0 * correlated * spread_a * spread_b, 0.0))
    return exp(middle_a - middle_b - half), exp(middle_a - middle_b + half)


def correlation(a: Estimate, b: Estimate) -> float:
    """Return the correlation of the errors of two estimates."""
    if a.device.key == b.device.key and a.scenario == b.scenario:
        return 1.0
    if a.device.id == b.device.id and a.runtime.id == b.runtime.id:
        return _constant("same_device")
    return _constant("same_runtime") if a.runtime.id == b.runtime.id else 0.0


def odds(results: Sequence[Estimate], reference: Estimate) -> tuple[Odds, ...]:
    """Compare each device that the model fits on with the reference, in each metric."""
    rivals = [result for result in results if result is not reference and result.fits and reference.fits]
    return tuple(
        Odds(metric=metric, device=one.device.key, other=reference.device.key,
             probability=probability(one, reference, metric))
        for one in rivals
        for metric in BEATS
    )  # fmt: skip


def odds_below(value: float, band: tuple[float, float], limit: float) -> float:
    """Return the probability that a figure with such a band would be measured at most at a limit."""
    middle, spread = middle_and_spread(value, band)
    return _bound(NormalDist(middle, spread).cdf(log(limit)) if spread else float(log(limit) >= middle))


def odds_sentence(found: Sequence[Odds]) -> str:
    """Write `41 % chance it is faster, 90 % sure it needs less energy`; '' if nothing is in doubt."""
    doubtful = (odds for odds in found if DOUBT[0] < odds.probability < DOUBT[1])
    return ", ".join(f"{describe_odds(odds.probability)} it {BEATS[odds.metric]}" for odds in doubtful)


def describe_odds(probability: float) -> str:
    """Write `90 % sure`, or `40 % chance` below one half."""
    return f"{percent(probability)} {'sure' if probability >= 0.5 else 'chance'}"


# --- the verdict ------------------------------------------------------------------------------------------


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """`best` by a metric among the devices that exist, with the `odds` that it beats its closest `rival`; devices by
    key, '' for none. `is_predicted` if neither it nor similar chips were measured; `best_measured` is the best with
    measurements. `measurement` says what to run to settle a doubt. `lines` state all this, the answer first."""

    metric: str
    best: str
    rival: str
    odds: float
    is_predicted: bool
    best_measured: str
    measurement: str
    lines: tuple[str, ...]


def verdict(
    results: Sequence[Estimate], metric: str = "edp", on_paper: bool = False, unchanged: Sequence[Estimate] = ()
) -> Verdict | None:
    """Compare devices by a metric. Return None without two devices, or if none that exists can run the model. Designs
    on paper are never best: they get a line if they were asked for (`on_paper`) or would be best. Each device with
    changed facts gets a line against the unchanged device, which competes whether it is in the results or in
    `unchanged`."""
    results = tuple({run.device.key: run for run in (*unchanged, *results)}.values())
    figure = METRICS[metric].figure
    ordered = sorted((run for run in results if run.can_win), key=figure)
    rivals = [run for run in ordered if run.device.silicon]
    unreal = [run for run in ordered if not run.device.silicon]
    designs = [run for run in unreal if not run.device.changes]
    hypothetical = [run for run in unreal if run.device.changes]
    if len(results) < 2 or not rivals:
        return None
    best = rivals[0]
    rival = min(rivals[1:], key=lambda one: probability(best, one, metric), default=None)
    odds = 1.0 if rival is None else 0.5 if _unmeasured(best, rival) else probability(best, rival, metric)
    backed = next((run for run in rivals if wording.is_backed(run.trust)), None)
    is_predicted = not wording.is_backed(best.trust)
    is_in_doubt = rival is not None and (is_predicted or odds < SURE) and best.device.facts != rival.device.facts
    is_software = {best.runtime.id, (rival or best).runtime.id}.isdisjoint(MODES)  # no one can run a mode alone
    run = ""
    if rival is not None and is_in_doubt and is_software:  # on the device without measurements, or the wider band
        sides = _unmeasured(best, rival) or ([best, rival] if wording.is_backed(best.trust) else [best])
        run = describe_measurement(max(sides, key=lambda side: _logarithm(side, metric)[1]), metric)
    devices = [run.device for run in results]
    names = dict(zip([device.key for device in devices], wording.distinct_names(devices), strict=True))
    lines = [_sentence(best, rival, odds, metric, names)] if rival is not None or not hypothetical else []
    if rival is None and (wider := [run for run in results if runs_wider(run.scenario.precision, run.precision_run)]):
        others = ", ".join(f"{names[run.device.key]} {run.precision_run}" for run in wider)
        lines = [f"{names[best.device.key]} alone runs {best.scenario.precision}; not ranked: {others}."]
    lines += [_against_unchanged(run, results, best, metric, names) for run in hypothetical]
    lines += [f"To be sure: {run}."] * bool(run)
    unchanged_runs = [run for run in ordered if not run.device.changes]
    if wording.formats_differ(unchanged_runs):
        formats = (f"{names[run.device.key]} {run.precision_run}" for run in unchanged_runs)
        lines.append(f"{wording.DIFFER[0]}: {', '.join(formats)}.")
    if any(run.scenario.execution not in (AUTO, *MODES, run.runtime.id) for run in unchanged_runs):
        software = (f"{names[run.device.key]} {run.runtime.name}" for run in unchanged_runs)
        lines.append(f"{wording.DIFFER[1]}: {', '.join(software)}.")
    if is_predicted and backed is not None:
        lines.append(
            f"{wording.ASIDES[0]} {names[backed.device.key]} leads; {wording.describe_evidence(backed.trust)}."
        )
    if designs and (on_paper or figure(designs[0]) < figure(best)):
        factors = wording.compare_factors(designs[0], best, "more energy")
        compared = f"{' and '.join(factors)} than" if factors else "much the same as"
        design = f"{names[designs[0].device.key]}, {compared} {names[best.device.key]}"
        lines.append(f"{wording.ASIDES[1]} {design}; designs are not ranked.")
    return Verdict(
        metric=metric,
        best=best.device.key,
        rival=rival.device.key if rival is not None else "",
        odds=odds,
        is_predicted=is_predicted,
        best_measured=backed.device.key if backed is not None else "",
        measurement=run,
        lines=tuple(lines),
    )


def _sentence(best: Estimate, rival: Estimate | None, odds: float, metric: str, names: Mapping[str, str]) -> str:
    """Write `TPU v4 leads: 3.8x less EDP than H100 (93 % sure, from its data sheet alone).` There are no odds against a
    device on which, and on whose relatives, such work was never measured."""
    name = names[best.device.key]
    if rival is None:
        return f"{name} is the only device here that exists and can run it."
    change = METRICS[metric].figure(best) / (METRICS[metric].figure(rival) or 1.0)
    gap = wording.describe_metric(metric, change, names[rival.device.key])
    if unknown := describe_unmeasured((best, rival), (name, names[rival.device.key])):
        return f"{unknown} Data sheets give {name} {gap} with {rival.runtime.name}."
    known = f"{percent(odds)} {'sure' if odds >= LIKELY else 'odds'}"
    known += ", from its data sheet alone" * (not wording.is_backed(best.trust))
    start = f"{name} leads" if odds >= SURE else f"{name} probably leads"
    start = "Too close to call" + f", {name} is ahead" * (odds >= 0.5) if odds < LIKELY else start
    gap = f"{name} has {gap}" if odds < 0.5 else gap
    return f"{start}: {gap} ({known})."


def _unmeasured(*sides: Estimate) -> list[Estimate]:
    """Return the estimates without measured relatives; all, if neither the devices nor similar chips were measured."""
    if not any(wording.is_backed(side.trust) for side in sides):
        return list(sides)
    return [side for side in sides if not side.trust.rows]


def describe_unmeasured(sides: Sequence[Estimate], names: Sequence[str]) -> str:
    """Write `Unknown: nothing like TPU v4 with XLA was measured.`; '' if both sides or their relatives were."""
    known = {id(side) for side in _unmeasured(*sides)}
    unlike = [f"{name} with {side.runtime.name}" for side, name in zip(sides, names, strict=True) if id(side) in known]
    return f"Unknown: nothing like {' or '.join(unlike)} was measured." if unlike else ""


def _against_unchanged(
    one: Estimate, results: Sequence[Estimate], best: Estimate, metric: str, names: Mapping[str, str]
) -> str:
    """Write `What if H100 had memory bandwidth x2: EDP -9 % against H100; TPU v4 still has 3.5x less.`"""
    figure, device = METRICS[metric].figure, one.device
    key = device.key.removesuffix(device.changes)
    name, winner = names.get(key) or wording.plain_name(device), names[best.device.key]
    base = next((result for result in results if result.device.key == key), None)
    parts = []
    if base is not None:
        change = f"{figure(one) / (figure(base) or 1.0) * 100 - 100:+.0f} %"
        parts.append(f"{METRICS[metric].title} {change} against {name}")
    factor = figure(one) / (figure(best) or 1.0)
    if base is None or base is not best:
        gap = wording.describe_change(min(factor, 1 / factor), "less", "")
        words = f"{winner} still has {gap}" if factor > 1 else f"{gap} than {winner}"
        parts.append(words if gap else f"the same as {winner}")
    if factor < 1:
        parts.append("it is not counted")
    return f"What if {name} had {change_words(device.changes)}: {'; '.join(parts)}."
