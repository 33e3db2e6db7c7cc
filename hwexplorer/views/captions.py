"""Captions: the subject of figures in words, with model, scenario, node and device."""

import re
from collections.abc import Sequence

from analysis.estimate.causes import LIMITS, limits
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Figures
from analysis.estimate.metrics import METRICS
from analysis.model.names import zoo
from hardware import precision as formats
from hardware.base.text import count_noun, quantity
from hardware.device import change_words
from hardware.engines.runtime import AUTO
from hwexplorer import engine
from hwexplorer.settings import SETTINGS
from hwexplorer.state import State, configuration_name, replace
from hwexplorer.views import plain

LINE, LINE_WITH_MORE = 90, 70  # most characters of a title that lists devices, without and with `settings`

# Facts whose keys say too little in words.
_FACT_WORDS = {
    "active": "active power", "clocked idle": "clocked idle power", "idle": "idle power", "launch": "launch time",
    "matrix": "matrix rate", "process": "process node", "unpacking at once": "unpacking rate",
    "usable last level": "usable L2 share", "vector": "vector rate",
}  # fmt: skip


def headline_of_state(state: State, settings: str = "") -> str:
    """Return the subject of figures in one line: model, batch, precision, runtime, and devices, or the number of
    devices if the line is too long. `settings` replaces batch and precision if there are several."""
    if len(state.devices) == 1 and not state.load:
        return place_in_words(replace(state, on=state.devices[0]), settings, at="")
    runtime = "usual software" if state.execution == AUTO else ""
    subject = f"{_name_with_size(state)}, {scenario_words(state, runtime, settings)}"
    line = f"{subject} on {', '.join(map(engine.device_key, state.devices))}"
    longest = LINE_WITH_MORE if settings else LINE
    return line if len(line) <= longest or len(state.devices) == 1 else f"{subject} on {len(state.devices)} devices"


def _name_with_size(state: State) -> str:
    """Return the name of the model, with the image size if the state sets one, or with the phase `prefill`."""
    workload = engine.workload(state)
    name = workload.name.partition(":serve")[0]
    if state.image_size:
        return f"{name} at {state.image_size} px"
    return f"{name} (prefill)" if workload.kind == "prefill" and ":" not in name else name


def scenario_words(state: State, runtime: str = "", settings: str = "") -> str:
    """Return the scenario in words: `batch 8, fp16, auto`, with the lengths for a language model. `runtime` replaces
    the execution of the state; `settings` replaces batch, lengths and precision."""
    others = {SETTINGS[name]: getattr(state, name) for name in ("layout", "prices")}
    changed = "".join(f", {setting.label(value)}" for setting, value in others.items() if value != setting.default)
    settings = settings or f"{_work_words(state)}, {formats.short(state.precision)}"
    return f"{settings}, {runtime or state.execution}{changed}"


def length_words(state: State) -> str:
    """Return the tokens that a language model takes and makes in a run; '' for any other model."""
    lengths = engine.workload(state).defaults
    if "output" in lengths:
        return f"{lengths['sequence']:,} prompt and {lengths['output']:,} output tokens"
    cached = lengths.get("kv", 0)
    tokens = count_noun(lengths["sequence"], "token") if "sequence" in lengths else ""
    return f"{tokens}, {cached:,} in the cache" if cached else tokens


def _work_words(state: State) -> str:
    """Return the load of the scenario in words, or its batch and lengths: `batch 8, 512 tokens`."""
    lengths = filter(None, (f"batch {state.batch}", length_words(state)))
    return engine.ref(state).load_and_lengths or ", ".join(lengths)


def place_in_words(state: State, settings: str = "", at: str | None = None) -> str:
    """Return the subject of a node's figures: `layer1.0.conv1 of resnet18, batch 8, fp16, xla on Google TPU v4`."""
    outcome = engine.outcome(state)
    result, model = outcome.estimate, outcome.describe_model(_name_with_size(state))
    device = result.device.label + f" x {outcome.devices}" * (outcome.devices > 1)
    at = state.at if at is None else at
    node = f"{at} of {model}" if at not in ("", "/", result.workload.name) else model
    if not settings and formats.runs_otherwise(state.precision, result.precision_run):
        settings = f"{_work_words(state)}, {state.precision} (runs {result.precision_run})"
    return f"{node}, {scenario_words(state, result.runtime.name, settings)} on {device}"


def bound_counts(result: Estimate) -> str:
    """Return the number of kernels by what bounds them: `compute 12, launch 51`."""
    counts = [(name, int((limits(result) == i).sum())) for i, name in enumerate(LIMITS)]
    return ", ".join(f"{name} {count}" for name, count in counts if count)


def figures_lead(point: Figures) -> str:
    """Return the configuration that a row of figures opens (state.open_configuration).

    It leaves the runtime and the layout as they are on screen."""
    info = zoo.table().get(point.model)
    size = () if info is None or point.image_size == info.image_size else (f"i{point.image_size}",)
    return configuration_name(point.model, point.device, f"b{point.batch}", point.precision, *size)


def metric_word(metric: str) -> str:
    """Return `EDP`, `energy` or `latency`: the metric in one word."""
    return METRICS[metric].noun.partition(" ")[0]


def band_words(ends: tuple[float, float], nominal: float) -> str:
    """Write a band relative to the nominal figure, `-22/+48 %`; '' if that figure is 0."""
    if not nominal:
        return ""
    down, up = (f"{(end / nominal - 1) * 100:+.0f}" for end in ends)
    return plain.Band(f"{down}/{up} %", *ends)


def energy_words(energy_j: float, batch: int, what: str) -> str:
    """Return the energy of a batch in words: `2.58 mJ per inference (20.6 mJ per batch of 8)`."""
    amount = f"{quantity(energy_j / batch, 'J')} per {what}"
    many = f"for {batch} requests" if what == "request" else f"per batch of {batch}"
    return amount if batch == 1 else f"{amount} ({quantity(energy_j, 'J')} {many})"


def amount_of_one(value_j: float, unit: str) -> plain.Amount:
    """Return the energy of one event in J, or the power in W if the event is counted in seconds."""
    return plain.Amount(value_j, "W" if unit == "s" else "J")


def fact_words(name: str) -> str:
    """Return a fact or event in words, without the unit that its amount has: `clocked idle power`, `tile MAC`."""
    group, _, own = name.rpartition(".")
    words = change_words(own if "_" in own or not group else f"{group}_{own}")  # several memories have a `read`
    words = _FACT_WORDS.get(words, words).replace("bytes per clock", "rate").replace(" bytes per", " per")
    return re.sub(r"\b(?:dram|l[123]|mac|flop|tdp|tlb|fifo|pe)\b", lambda match: match[0].upper(), words)


def chain(names: Sequence[str], most: int = 12) -> str:
    """Write a path, `a > b > c`, without its middle if it has more than `most` names."""
    if len(names) <= most:
        return " > ".join(names)
    half = most // 2
    return f"{' > '.join(names[:half])} > ({len(names) - 2 * half} more) > {' > '.join(names[-half:])}"


def list_names(names: Sequence[str], most: int = 4) -> str:
    """Write the first `most` names, and the number of the others."""
    listing = ", ".join(names[:most])
    return listing if len(names) <= most else f"{listing} and {len(names) - most} more"
