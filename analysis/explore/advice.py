"""What to change, each suggestion quantified by running the model with the change: never a rule of thumb."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from analysis.estimate.estimate import Estimate, estimate
from analysis.estimate.figures import Figures, Head, about, figures, with_cost
from analysis.estimate.scenario import Scenario
from analysis.explore.comparison import larger_batches
from analysis.explore.next_step import NextStep, again
from analysis.explore.odds import odds, told
from analysis.reports.recomputation import recompute_one
from hardware.device import Device, in_mode
from hardware.errors import unknown
from hardware.plan import plan
from hardware.precision import FORMATS, KEYS, parse
from hardware.quantity import quantity
from hardware.runtime import MODES, runtimes

BATCHES = (2, 4, 8, 16, 32, 64, 128, 256)
AIMS = ("energy", "latency", "memory", "throughput", "edp")
_TOGETHER = ("batch", "precision", "fusion", "runtime", "layout", "power mode")  # what keeps the device
NOTICEABLE = 0.01  # a change of a figure by less is no improvement


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """One change and what it does: `saved_*` are now less then, so negative where the change costs; fractions are
    of now. `step` shows the run. `why` says what happens in words and numbers."""

    kind: str
    change: str
    after: Figures
    saved_energy_j: float
    saved_energy_fraction: float
    saved_latency_s: float
    saved_latency_fraction: float
    saved_latency_per_inference_fraction: float
    saved_memory_bytes: float
    saved_memory_fraction: float
    throughput_ratio: float
    why: str
    step: NextStep = msgspec.field(name="command")


class Advice(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer advise`: suggestions sorted by `aim`, what was tried without avail, and which
    devices that exist on paper only would help."""

    aim: str
    now: Figures
    suggestions: tuple[Suggestion, ...]
    design_targets: tuple[Suggestion, ...]
    tried: int
    without_avail: tuple[str, ...]


def advise(result: Estimate, devices: Sequence[Device], aim: str = "energy") -> Advice:
    """Try changes one at a time, then the best of them together. `devices` are tried as replacements.

    Raises RequestError for an unknown aim."""
    if aim not in AIMS:
        raise unknown("aim", aim, AIMS)
    now = figures(result)
    real, on_paper = ([device for device in devices if device.silicon is exists] for exists in (True, False))
    is_whole = not result.covered.gap  # of a part of a model nothing is said
    tried = [*_changes(result), *_devices(result, real), *_recomputed(result)] if is_whole else []
    useful = [suggestion for suggestion in tried if _helps(suggestion)]
    together = _together(result, useful, aim) if is_whole else None
    if together is not None:
        useful.append(together)
    useful.sort(key=lambda suggestion: -gain(suggestion, now, aim))
    return Advice(
        **about(result, on_device=True),
        aim=aim,
        now=now,
        suggestions=tuple(useful),
        design_targets=tuple(filter(_helps, _devices(result, on_paper))) if is_whole else (),
        tried=len(tried) + (together is not None),
        without_avail=tuple(suggestion.change for suggestion in tried if not _helps(suggestion)),
    )


def gain(s: Suggestion, now: Figures, aim: str) -> float:
    """How much better a suggestion is for an aim, as a fraction of now (throughput: of then)."""
    if aim == "edp":
        return 1.0 - s.after.edp_js / now.edp_js if now.edp_js else 0.0
    if aim == "throughput":
        return 1.0 - 1.0 / s.throughput_ratio if s.throughput_ratio else 0.0
    return {
        "energy": s.saved_energy_fraction,
        "latency": s.saved_latency_fraction,
        "memory": s.saved_memory_fraction,
    }[aim]


def _helps(s: Suggestion) -> bool:
    return (
        max(
            s.saved_energy_fraction, s.saved_latency_fraction, s.saved_latency_per_inference_fraction,
            s.saved_memory_fraction,
        )
        >= NOTICEABLE
    )  # fmt: skip


def _suggestion(kind: str, change: str, now: Figures, after: Figures, why: str, step: NextStep) -> Suggestion:
    def part(saved: float, whole: float) -> float:
        return saved / whole if whole else 0.0

    energy = now.energy_j_per_inference - after.energy_j_per_inference
    latency = now.latency_s - after.latency_s
    each = now.latency_s_per_inference - after.latency_s_per_inference
    memory = now.peak_memory_bytes - after.peak_memory_bytes
    return Suggestion(
        kind=kind,
        change=change,
        after=after,
        saved_energy_j=energy,
        saved_energy_fraction=part(energy, now.energy_j_per_inference),
        saved_latency_s=latency,
        saved_latency_fraction=part(latency, now.latency_s),
        saved_latency_per_inference_fraction=part(each, now.latency_s_per_inference),
        saved_memory_bytes=memory,
        saved_memory_fraction=part(memory, now.peak_memory_bytes),
        throughput_ratio=part(after.throughput_per_s, now.throughput_per_s),
        why=why,
        step=step,
    )


def _run(before: Estimate, kind: str, change: str, device: Device, scenario: Scenario) -> tuple[Suggestion, Estimate]:
    after = estimate(before.workload, device, scenario)
    return _suggestion(kind, change, figures(before), figures(after), _why(before, after), again(after)), after


def _why(before: Estimate, after: Estimate) -> str:
    """What the change did to time, power and traffic."""
    parts = [f"utilisation {before.utilization:.1%} to {after.utilization:.1%}"]
    if before.demand.n_kernels != after.demand.n_kernels:
        parts.append(f"{before.demand.n_kernels} kernels to {after.demand.n_kernels}")
    moved = [_dram(side) for side in (before, after)]
    if abs(moved[1] / (moved[0] or 1.0) - 1.0) > NOTICEABLE:
        parts.append(f"DRAM {quantity(moved[0], 'byte')} to {quantity(moved[1], 'byte')} per inference")
    static = [side.static_fraction for side in (before, after)]
    parts.append(f"static {static[0]:.0%} to {static[1]:.0%} of the energy")
    if before.bound != after.bound:
        parts.append(f"{before.bound} bound to {after.bound} bound")
    if before.device.key != after.device.key and after.trust.level == "engineering":
        parts.append("engineering values: nothing like it was measured there")
    if before.device.key != after.device.key:
        parts.extend(filter(None, [told(odds([after], before))]))
    if before.runtime.id != after.runtime.id and before.device.key == after.device.key:
        parts.append(f"{before.runtime.name} to {after.runtime.name}")
    if before.precision_run != after.precision_run:
        parts.append(f"{before.precision_run} to {after.precision_run}, accuracy to be checked")
    elif before.plan.weights != after.plan.weights:
        parts.append(f"weights {before.plan.weights} to {after.plan.weights}, accuracy to be checked")
    return ", ".join(parts)


def _dram(result: Estimate) -> float:
    flow = result.run.mapping.traffic
    return float((flow.dram_read + flow.dram_write).sum()) / result.scenario.batch


# --- what is tried ----------------------------------------------------------------------------------------


def _changes(result: Estimate) -> Iterator[Suggestion]:
    scenario, device = result.scenario, result.device
    change = msgspec.structs.replace
    larger = min(larger_batches(result, BATCHES), key=lambda tried: tried.energy_j_per_inference, default=None)
    if larger is not None:
        yield _run(result, "batch", f"batch {larger.scenario.batch}", device, larger.scenario)[0]
    stored, run = FORMATS[result.plan.weights].bytes, result.precision_run
    for name in KEYS:
        precision, runs = parse(name), plan(device, name, result.runtime.narrow_sums)
        narrower = precision.widths.weights < stored or FORMATS[precision.weights].stored == run
        as_asked = runs.convolution[1] == runs.contraction[1] == precision.multiplied
        as_asked |= not (precision.is_uniform or runs.marks)
        if narrower and as_asked and precision.suits(result.workload.work):
            yield _run(result, "precision", f"precision {name}", device, change(scenario, precision=name))[0]
    for mode in MODES[MODES.index(result.execution) + 1 :]:
        yield _run(result, "fusion", f"execution {mode}", device, change(scenario, execution=mode))[0]
    for name, runtime in runtimes().items():
        if name != result.runtime.id and runtime.fits(device, result.workload.work):
            suggested, after = _run(result, "runtime", f"runtime {name}", device, change(scenario, execution=name))
            if after.trust.level == "measured":  # no advice to change software by figures that nobody measured
                yield suggested
    if scenario.layout == "nchw" and device.arch.has_layouts:
        yield _run(result, "layout", "layout channels_last", device, change(scenario, layout="channels_last"))[0]
    for other in _other_modes(device):
        yield _run(result, "power mode", f"power mode {other.power_mode or 'default'}", other, scenario)[0]


def _other_modes(device: Device) -> list[Device]:
    """The device in its other power modes, those that differ in any fact."""
    path = Path(f"{device.id}.toml")  # names the file in messages only: it is read
    names = [name for name in ("", *device.file.power_modes) if name != device.power_mode]
    modes = [in_mode(path, device.file, name) for name in names]
    seen = [tuple(fact.value for fact in device.facts.values())]
    distinct = []
    for mode in modes:
        facts = tuple(fact.value for fact in mode.facts.values())
        if facts not in seen:
            seen.append(facts)
            distinct.append(mode)
    return distinct


def _devices(result: Estimate, devices: Sequence[Device]) -> Iterator[Suggestion]:
    """Of the other devices that the model fits on: that of the least energy, and the fastest."""
    tried = [
        _run(result, "device", f"device {device.marked}", device, result.scenario)
        for device in devices
        if device.id != result.device.id
    ]
    fitting = [suggestion for suggestion, after in tried if after.can_win]
    picked: list[Suggestion] = []
    figures: tuple[Callable[[Figures], float], ...] = (lambda e: e.energy_j_per_inference, lambda e: e.latency_s)
    for figure in figures:
        if fitting:
            best = min(fitting, key=lambda s: figure(s.after))
            if best not in picked:
                picked.append(best)
    yield from picked


def _recomputed(result: Estimate) -> Iterator[Suggestion]:
    """Recomputing the value held across the peak instead of keeping it: memory bought with work."""
    recomputed = recompute_one(result)
    if not recomputed.value or recomputed.saved_bytes <= 0:
        return
    now = figures(result)
    memory = now.peak_memory_bytes - recomputed.saved_bytes
    after = with_cost(
        now, now.latency_s + recomputed.latency_s, now.energy_j + recomputed.energy_j, peak_memory_bytes=memory,
        activation_bytes=now.activation_bytes - recomputed.saved_bytes,
    )  # fmt: skip
    why = f"{recomputed.kernels} kernels run again; {recomputed.value} is not held across the peak"
    step = NextStep("memory", result.workload, (result.device.key,), Scenario())
    yield _suggestion("checkpointing", f"recompute {recomputed.value}", now, after, why, step)


def _together(result: Estimate, useful: Sequence[Suggestion], aim: str) -> Suggestion | None:
    """The best change of each kind that keeps the device, all at once, and run; None where one of them does more."""
    now, scenario = figures(result), result.scenario
    best: dict[str, Suggestion] = {}
    for each in useful:
        if each.kind in _TOGETHER and gain(each, now, aim) > 0:
            held = best.get(each.kind)
            if held is None or gain(each, now, aim) > gain(held, now, aim):
                best[each.kind] = each
    if len(best) < 2:
        return None
    device = result.device
    values = {kind: each.change.rpartition(" ")[2] for kind, each in best.items()}
    if "power mode" in values:
        mode = values["power mode"]
        device = next(m for m in _other_modes(device) if (m.power_mode or "default") == mode)
    changed = msgspec.structs.replace(
        scenario,
        batch=int(values.get("batch", scenario.batch)),
        precision=values.get("precision", scenario.precision),
        execution=values.get("runtime", values.get("fusion", scenario.execution)),
        layout=values.get("layout", scenario.layout),
    )
    suggestion, after = _run(result, "together", " + ".join(each.change for each in best.values()), device, changed)
    alone = max(gain(each, now, aim) for each in best.values())
    return suggestion if after.fits and gain(suggestion, now, aim) > alone else None
