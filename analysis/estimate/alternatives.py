"""The same model in the same scenario with one setting changed: batch, precision, execution, layout or power mode.

Every alternative is an estimate, never a rule of thumb. `alternatives` yields all; `best_batch` and `best_setting`
select the one that compare, why and advise recommend. The objective is the gain per inference: the geometric mean of
the ratio of latencies and the ratio of energies. They are no grid: one setting changes at a time, and a batch is tried
only if the one before it fits.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import product, takewhile
from math import log, sqrt
from typing import Any, Generic, TypeVar

import msgspec

from analysis.estimate.estimate import Estimate, estimate, estimate_batches
from analysis.model.ir.workload import Floats, Ints, batch_words, refusal
from analysis.model.training.step import change_settings, optimizer_name
from analysis.model.training.training_request import Training
from hardware.base.errors import RequestError
from hardware.base.records import memoize
from hardware.device import Device
from hardware.device_catalog import device_in_mode
from hardware.engines.runtime import MODES, runtimes
from hardware.plan import make_plan
from hardware.precision import FORMATS, KEYS, NARROWER, Precision, parse

BATCH_FACTORS = (4, 16, 64, 256)
WORTH = 1.1  # gain from which a change is worth naming
ENOUGH = 0.7  # of the logarithm of the largest gain: the smallest batch with it is preferred to larger ones
LOW_UTILIZATION = 0.3  # of the peak, below which a larger batch may fill the device
Result = TypeVar("Result")


class Costs(msgspec.Struct, frozen=True):
    """The latency and energy of the operators of an estimate, (n,): all that is kept to compare it with others."""

    batch: int
    fits: bool
    energy_j_per_inference: float
    latency_s: Floats
    energy_j: Floats


class Alternative(msgspec.Struct, Generic[Result], frozen=True):
    """A result that differs from another in one setting: the `kind` of setting, the `change` in words (`batch 32`),
    and the `setting` as a state of the screen spells it (`b32`)."""

    kind: str
    change: str
    setting: str
    result: Result


Tried = Alternative[Costs]
Estimated = Alternative[Estimate]


def _costs(result: Estimate) -> Costs:
    """Return the costs of an estimate. They are copied, as its arrays may be parts of those of several batches."""
    operators = result.run.latency_s.copy(), result.run.energy_j.copy()
    return Costs(result.scenario.batch, result.fits, result.energy_j_per_inference, *operators)


def _estimate_with(result: Estimate, name: str, value: int | str) -> Estimate | None:
    """Estimate with one field of the scenario, or setting of training, changed. Return None if the model or device does
    not allow it."""
    try:
        if name in Training.__struct_fields__:
            return estimate(change_settings(result.workload, (name, value)), result.device, result.scenario)
        return estimate(result.workload, result.device, msgspec.structs.replace(result.scenario, **{name: value}))
    except RequestError:
        return None


_keep_estimate = memoize(large=True)(_estimate_with)


def _change_setting(result: Estimate, kind: str, name: str, value: int | str, words: str = "") -> list[Estimated]:
    """Return the alternative as a list, empty if it is invalid. `words`, by default name and value, describe it."""
    other, setting = _keep_estimate(result, name, value), f"b{value}" if name == "batch" else str(value)
    return [] if other is None else [Alternative(kind, words or f"{name} {value}", setting, other)]


@memoize(large=True)
def _try_setting(result: Estimate, kind: str, name: str, value: str) -> Tried | None:
    other = _estimate_with(result, name, value)
    return None if other is None else Tried(kind, f"{name} {value}", value, _costs(other))


@memoize(large=True)
def _try_batches(result: Estimate, batches: tuple[int, ...]) -> list[Costs]:
    return [_costs(other) for other in estimate_batches(result.workload, result.device, result.scenario, batches)]


def larger_batches(result: Estimate) -> list[Tried]:
    """Try multiples of the batch, as long as the model fits. A load decides its batch itself."""
    workload, batches = result.workload, [result.scenario.batch * factor for factor in BATCH_FACTORS]
    known = takewhile(lambda batch: not refusal(workload, batch), batches if ":serve" not in workload.name else ())
    is_small = workload.repeats is None and workload.n_operators <= 250  # else the work can pause between batches
    groups = [tuple(known)] if is_small else [(batch,) for batch in known]
    costs = takewhile(lambda each: each.fits, (each for group in groups for each in _try_batches(result, group)))
    return [Tried("batch", batch_words(workload, each.batch), f"b{each.batch}", each) for each in costs]


def precisions(result: Estimate, is_candidate: Callable[[Precision], bool]) -> Iterator[Estimated]:
    """Yield alternatives of every precision that suits the model and is a candidate, the widest first."""
    for name in KEYS:
        precision = parse(name)
        if precision.suits(result.workload.work) and is_candidate(precision):
            yield from _change_setting(result, "precision", "precision", name)


def training_settings(result: Estimate) -> Iterator[Estimated]:
    """Yield a step of training that computes its blocks again, and if it does not fit, each setting with which it does,
    alone or with such blocks: the fewest parts of its batch, an optimizer of 8 bits, a part of all weights on each
    device, adapters."""
    step = result.workload.training
    if step is None:
        return
    now: Training = step.settings
    again: list[Estimated] = []
    if now.recompute != "blocks":
        again = _change_setting(result, "training", "recompute", "blocks", "recompute=blocks")
    yield from again
    if result.fits:
        return
    own, counts = result.scenario.batch // now.devices, [2**power for power in range(1, 13)]
    changes: dict[str, list[int | str]] = {
        "accumulate": [count for count in counts if count > now.accumulate and own % count == 0],
        "optimizer": ["adamw8bit"] * (optimizer_name(now, step.forward) == "adamw"),
        "zero": [3] * (now.devices > 1 and now.zero < 3),
        "lora": [16] * (result.workload.family == "language" and not now.lora),
    }
    starts = {"": result} | {f"{other.change},": other.result for other in again if not other.result.fits}
    for (name, values), (start, base) in product(changes.items(), starts.items()):
        others = (_change_setting(base, "training", name, value, f"{start}{name}={value}") for value in values)
        yield from next((fitting for fitting in others if fitting and fitting[0].result.fits), ())


def combine(result: Estimate, others: Iterable[Estimate]) -> Estimate:
    """Estimate with every setting in which one of several alternatives differs, the last one's if several do."""
    workload, device, scenario, step = result.workload, result.device, result.scenario, result.workload.training
    for other in others:
        scenario = msgspec.structs.replace(scenario, **_changes(result.scenario, other.scenario))
        device = other.device if other.device.key != result.device.key else device
        if step is not None and other.workload.training is not None:
            changes = _changes(step.settings, other.workload.training.settings)
            workload = change_settings(workload, *changes.items()) if changes else workload
    return estimate(workload, device, scenario)


def _changes(old: msgspec.Struct, new: msgspec.Struct) -> dict[str, Any]:
    """Return the fields in which a record differs from an old one."""
    return {name: value for name, value in msgspec.structs.asdict(new).items() if value != getattr(old, name)}


def alternatives(result: Estimate) -> Iterator[Estimated]:
    """Yield every alternative that keeps the device: the best batch, and all other settings that run as asked."""
    device, work = result.device, result.workload.work
    larger = best_batch(result)
    if larger is not None:
        yield from _change_setting(result, larger.kind, "batch", larger.result.batch, larger.change)
    yield from training_settings(result)
    yield from precisions(result, lambda precision: _is_narrower_as_asked(result, precision))
    for execution in MODES[MODES.index(result.execution) + 1 :]:
        yield from _change_setting(result, "fusion", "execution", execution)
    for name, runtime in runtimes().items():
        if name != result.runtime.id and runtime.fits(device, work):
            for other in _change_setting(result, "runtime", "execution", name, f"runtime {name}"):
                if other.result.trust.level == "measured":  # only measurements justify other software
                    yield other
    if result.scenario.layout == "nchw" and device.arch.has_layouts:
        yield from _change_setting(result, "layout", "layout", "channels_last")
    for mode in _other_power_modes(device):
        words = f"power mode {mode.power_mode or 'default'}"
        yield Alternative("power mode", words, mode.key, estimate(result.workload, mode, result.scenario))


def _is_narrower_as_asked(result: Estimate, precision: Precision) -> bool:
    """Return True if the device runs the format as asked, and weights are narrower than now or what runs already."""
    narrower = precision.widths.weights < FORMATS[result.plan.weights].bytes
    if not narrower and FORMATS[precision.weights].stored != result.precision_run:
        return False
    runs = make_plan(result.device, precision.name, result.runtime)
    as_asked = runs.convolution[1] == runs.contraction[1] == precision.multiplied
    return as_asked or not (precision.is_uniform or runs.marks)


def _other_power_modes(device: Device) -> list[Device]:
    names = [name for name in ("", *device.file.power_modes) if name != device.power_mode]
    distinct = {tuple(fact.value for fact in device.facts.values()): device}
    for mode in (device_in_mode(device.file, name) for name in names):
        distinct.setdefault(tuple(fact.value for fact in mode.facts.values()), mode)
    return list(distinct.values())[1:]


# --- the best of them ---------------------------------------------------------------------------------------


class Gain(msgspec.Struct, frozen=True):
    """The factors by which an inference is faster and takes less energy; below 1 it is slower or takes more."""

    speedup: float
    energy_ratio: float

    @property
    def mean(self) -> float:
        """The objective: the geometric mean of both."""
        return sqrt(self.speedup * self.energy_ratio)


def gain_per_inference(now: Estimate, after: Estimate | Costs, members: Ints | None = None) -> Gain:
    """Return the gain of an estimate over another of the same model, for some of its operators or all."""
    chosen = slice(None) if members is None else members
    costs = after if isinstance(after, Costs) else _costs(after)
    times = costs.batch / now.scenario.batch
    before_s, after_s = (float(side.latency_s[chosen].sum()) for side in (now.run, costs))
    before_j, after_j = (float(side.energy_j[chosen].sum()) for side in (now.run, costs))
    return Gain(before_s / after_s * times if after_s else 0.0, before_j / after_j * times if after_j else 0.0)


def best_batch(result: Estimate, members: Ints | None = None) -> Tried | None:
    """Return the smallest larger batch with nearly the gain of the best one; None if no gain is worth naming."""
    larger = [(other, gain_per_inference(result, other.result, members).mean) for other in larger_batches(result)]
    most = max((mean for _, mean in larger), default=0.0)
    if most < WORTH:
        return None
    return next(other for other, mean in larger if mean >= WORTH and log(mean) >= ENOUGH * log(most))


def best_setting(result: Estimate, members: Ints | None = None) -> Tried | None:
    """Return the setting that helps a model, or some operators of it, most: a batch or execution that leaves results as
    they are, else the next narrower precision. Return None if no gain is worth naming."""
    batch = best_batch(result, members) if result.utilization < LOW_UTILIZATION else None
    bits = FORMATS[parse(result.scenario.precision).weights].bits
    narrower = [name for name in NARROWER if FORMATS[parse(name).weights].bits < bits][:1]
    more_fused = MODES[MODES.index(result.execution) + 1 :]
    for others in (
        [batch, *(_try_setting(result, "fusion", "execution", mode) for mode in more_fused)],
        (_try_setting(result, "precision", "precision", name) for name in narrower),
    ):
        gains = [
            (gain_per_inference(result, other.result, members).mean, other)
            for other in others
            if other is not None and (other.result.fits or not result.fits)
        ]
        mean, best = max(gains, key=lambda pair: pair[0], default=(0.0, None))
        if mean >= WORTH:
            return best
    return None
