"""Explain why a node costs what it costs."""

import math
import re
from functools import partial

import msgspec
import numpy as np

from analysis.estimate.alternatives import WORTH, best_setting, gain_per_inference
from analysis.estimate.causes import STEPS, causes, shares, steps, sum_events, values_by_cause
from analysis.estimate.deviations import describe_deviations
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.host_work import divide_host_work
from analysis.estimate.kernel_rows import kernels
from analysis.estimate.outline import HOST
from analysis.estimate.tree_figures import TreeFigures, estimate_of_node, find_node, modifier_or_none, operators_of
from analysis.estimate.tree_figures import tree as tree_figures
from analysis.estimate.tree_figures import tree_without_host as figures_without_host
from analysis.model.ir.workload import Ints
from analysis.text.bound_reasons import (
    attention_parts,
    bound_change,
    members_reason,
    model_reason,
    operator_reason,
    subgraph_reason,
)
from analysis.text.headline import ratio, work_word
from hardware.base.text import count_noun, percent, quantity, whole
from hardware.execute import BOUNDS, POWER
from hardware.map_demand import architecture_of
from hardware.published_prices import price_table
from hwexplorer import engine
from hwexplorer.declare import NODE, Report
from hwexplorer.state import State
from hwexplorer.state import format as format_state
from hwexplorer.views import answer_lines
from hwexplorer.views.captions import band_words, category_words, energy_words, place_in_words
from hwexplorer.views.cause_looks import LOOKS
from hwexplorer.views.measured_times import MeasuredTimes, add_measured_step, measured_times, trace_annex
from hwexplorer.views.plain import SUMMARY, Section, Stack, Text, WaterfallStep

TOP = 6
MORE = "More: --all (requests over time, kernels by limit, largest events)"
NOTHING = 1e-9  # fraction of the latency below which a step is left out

# Names of the steps of analysis/estimate/causes.py.
STEP_NAMES = ("ideal (roofline)", "+ tiles and waves", "+ memory wait", "+ launch", "+ power limit")


class NodeGain(msgspec.Struct, frozen=True):
    """The gain of a node from a setting, which is spelt as in states (`b32`, `int8`, `fused`), and in words in `name`.
    `work` is what an inference is called: a token, a request."""

    setting: str
    name: str
    work: str
    speedup: float
    energy_ratio: float

    @property
    def is_batch(self) -> bool:
        """Return True if the setting is another batch."""
        return self.setting[0] == "b" and self.setting[1:].isdigit()

    @property
    def short(self) -> str:
        """Return `try b16: 6.6x as fast/inf`, of a token `/tok`, of a request `/req`."""
        short_name = self.setting if self.name.startswith("batch") else self.name.replace(" requests", "")
        return str(self).replace(self.name, short_name).replace(f" per {self.work}", f"/{self.work[:3]}")

    def __str__(self) -> str:
        """Return `try batch 16: 6.6x as fast per inference, 3.7x less energy`."""
        faster = f"as fast per {self.work}" if self.is_batch else "faster"
        gains = ((self.speedup, faster), (self.energy_ratio, "less energy"))
        return f"try {self.name}: " + ", ".join(f"{ratio(gain)} {words}" for gain, words in gains if gain >= WORTH)


_HOST = ("The device waits while the host prepares a step: the call, the scheduler, sampling.",)


class NodeStep(msgspec.Struct, frozen=True):
    """A step of the time of a node, from the roofline to the power limit, and its division among causes."""

    step: str
    latency_s: float
    latency_by_cause_s: dict[str, float]


class NodeExplanation(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer why`: what a node costs, step by step. `state` opens it on the screen; `measured` is
    its time in the trace of the state; `next` is the setting that helps it most; `sections` are headings with lines."""

    state: str
    name: str = "why"
    title: str
    energy_j: float
    energy_j_per_inference: float
    steps: tuple[NodeStep, ...]
    measured: object | msgspec.UnsetType = msgspec.UNSET
    next: NodeGain | None
    sections: tuple[Section, ...]


def _best_setting(result: Estimate, members: Ints) -> NodeGain | None:
    best = best_setting(result, members)
    if best is None:
        return None
    gain = gain_per_inference(result, best.result, members)
    name = best.change if best.kind == "batch" else best.setting
    return NodeGain(best.setting, name, work_word(result), gain.speedup, gain.energy_ratio)


def next_step(state: State) -> NodeGain | None:
    """Return the setting that helps the node under the cursor most. Return None under a load or if no gain is large."""
    outcome = engine.outcome(state)
    members = operators_of(outcome.estimate, state.at)
    is_served = outcome.is_simulated and outcome.fits
    return None if is_served else _best_setting(outcome.estimate, members)


def why(state: State, is_whole: bool = True, says_setting: bool = True) -> Text:
    """Explain the node under the cursor on the device under the cursor, also against the pin if there is one.
    `is_whole` adds the sources of event prices as footnotes. `says_setting` adds the setting that helps most, which
    takes further estimates."""
    outcome = engine.outcome(state)
    whole, extra = outcome.estimate, () if state.at else outcome.sections
    result = estimate_of_node(whole, state.at)
    kind, index = find_node(whole, state.at)
    if kind == "operator":
        figures = tree_figures(result)
    else:  # the text does not mention fusion, so the tree's figures are enough
        figures = msgspec.structs.replace(figures_without_host(whole), estimate=result)
    members = operators_of(whole, state.at)
    best = next_step(state) if says_setting else None
    reason = _HOST if state.at == HOST else _reason(figures, kind, index, members)
    answer = () if state.at else outcome.answer
    first: list[Section] = [(SUMMARY, (*answer, *reason)), ("", _actual(figures, kind, members, best))]
    waterfall = _steps(result, members)
    first += extra if is_whole else extra[:1]
    if times := _trace_times(state, whole):
        first.append(("Measured", trace_annex().node_lines(times, members)))
        waterfall = add_measured_step(times, members, waterfall)
    if change := answer_lines.lines(state):
        first.append((f"Against the pin{f', {state.at}' if state.at else ''}", change))
    lower: list[Section] = [("Time", _time(figures, kind, index, members)), ("Energy", _energy(figures, kind, members))]
    if len(members) == 1 and (parts := attention_parts(result, int(members[0]))):
        lower.insert(0, ("Inside", parts))
    if kind == "operator":
        lower.append(("EDP", _edp(figures, index)))
    if kind == "model" and (coverage := (*_gaps(result), *result.workload.notes)):
        lower.append(("Coverage", coverage))
    if notes := describe_deviations(result):
        lower.append(("Notes", notes))
    if is_whole or not extra:
        lower += _largest_events(whole, state.at, is_whole)
    else:
        lower = [*lower[1:], ("", (MORE,))]
    return Text("why", place_in_words(state), (*first, *lower), waterfall, len(first))


def _trace_times(state: State, result: Estimate) -> MeasuredTimes | None:
    """Return the state's trace aligned with the estimate. Return None for the host's work, which no trace has."""
    return None if state.at == HOST else measured_times(state, result)


def _steps(result: Estimate, members: Ints) -> tuple[WaterfallStep, ...]:
    table = steps(causes(result).sum_over(members))
    total = float(table.sum())
    if not total:
        return ()
    bars, start_s = [], 0.0
    for name, parts in zip(STEP_NAMES, table, strict=True):
        seconds = float(parts.sum())
        if seconds > NOTHING * total:
            bars.append(WaterfallStep(name, seconds, start_s / total, Stack((parts / total).tolist())))
        start_s += seconds
    return tuple(bars)


def _actual(figures: TreeFigures, kind: str, members: Ints, best: NodeGain | None) -> tuple[str, ...]:
    """Return the predicted time, which is the sum of the steps, and the gain from the best setting."""
    result = figures.estimate
    latency_s = float(result.run.latency_s[members].sum())
    if latency_s <= 0:
        return (f"It takes no time of its own: it is inside the kernel of {_head(figures, int(members[0]))}.",)
    fast, slow = (latency_s * factor for factor in result.trust.band)
    lines = [f"= predicted {_s(latency_s)} (band {_s(fast)} to {_s(slow)})"]
    if kind == "operator" and figures.fused[members[0]]:
        head = _head(figures, int(members[0]))
        if head != result.workload.operators.path[int(members[0])]:
            lines[0] += f", inside the kernel of {head}"
    if best is not None:
        saves = f" and take {ratio(best.energy_ratio)} less energy" if best.energy_ratio >= WORTH else ""
        name = best.name[0].upper() + best.name[1:] if best.is_batch else best.name
        lines.append(f"{name} would be {ratio(best.speedup)} as fast per {best.work}{saves}")
    return tuple(lines)


def _head(figures: TreeFigures, operator: int) -> str:
    """Return the path of the operator for which the kernel of an operator is launched."""
    result = figures.estimate
    head = int(kernels(result).head[result.demand.kernel[operator]])
    return result.workload.operators.path[head]


def _gaps(result: Estimate) -> tuple[str, ...]:
    """Return the share of the work that has a cost rule; nothing if all of it has one."""
    count, coverage = len(result.workload.operators.path), result.rule_coverage
    if not coverage.missing:
        return ()
    return (
        f"{percent(coverage.operators)} of {count} operators have a cost rule; they move {percent(coverage.bytes)} of "
        f"the bytes and do about {percent(coverage.flops)} of the FLOPs",
    )


def _document(state: State) -> NodeExplanation:
    whole = engine.result(state)
    members, result = operators_of(whole, state.at), estimate_of_node(whole, state.at)
    text = why(state)
    table = steps(causes(result).sum_over(members))
    times = _trace_times(state, whole)
    energy_j = float(result.run.energy_j[members].sum())
    return NodeExplanation(
        **head_fields(result, on_device=True),
        state=format_state(state),
        title=text.title,
        energy_j=energy_j,
        energy_j_per_inference=energy_j / result.scenario.batch,
        steps=tuple(
            NodeStep(name, float(parts.sum()), values_by_cause(parts)) for name, parts in zip(STEPS, table, strict=True)
        ),
        measured=times.time(members) if times else msgspec.UNSET,
        next=_best_setting(whole, members),
        sections=text.sections,
    )


def _reason(figures: TreeFigures, kind: str, index: int, members: Ints) -> tuple[str, ...]:
    result = figures.estimate
    if kind == "model":
        return (model_reason(result),)
    if kind == "operator":
        return (operator_reason(figures, index),)
    count = len(_kernels(result, members))
    reason = members_reason(result, members, count) if kind == "group" else subgraph_reason(figures, index)
    return (*_main_work(result, members), reason)


def _main_work(result: Estimate, members: Ints) -> tuple[str, ...]:
    """Return the work that takes most of the time of a node, the number of operators that do it, and its share."""
    seconds: dict[str, list[float]] = {}
    works: dict[tuple[int, float], str] = {}  # key: shape and elements, since equal operators have equal mappings
    alike = zip(result.demand.shapes[1][members].tolist(), result.demand.elements[members].tolist(), strict=True)
    for i, key, taken_s in zip(members.tolist(), alike, result.run.latency_s[members].tolist(), strict=True):
        work = works.get(key) or works.setdefault(key, _describe_work(result, i))
        seconds.setdefault(work, []).append(taken_s)
    work, times_s = max(seconds.items(), key=lambda item: sum(item[1]))
    total = sum(map(sum, seconds.values()))
    if not total:
        return ()
    times = f"{len(times_s)} times " if len(times_s) > 1 else ""
    share = sum(times_s) / total
    return (f"{times}{work}" + (f": {percent(share)} of the time" if share < 0.995 else ""),)


def _describe_work(result: Estimate, i: int) -> str:
    """Write the work of an operator and its unit: `3,136 x 64 x 64 product on tensor cores (tf32)`."""
    demand = result.demand
    if demand.is_depthwise[i]:
        groups, _, _, reduction = demand.gemm[:, i]
        side = math.sqrt(reduction)
        window = f" {side:.0f} x {side:.0f}" if side.is_integer() else ""
        return f"depthwise{window} convolution of {whole(groups)} channels"
    return architecture_of(result.device).sentence(demand, result.setup, result.run.mapping, i).partition(":")[0]


def _kernels(result: Estimate, members: Ints) -> Ints:
    # np.unique would import numpy.ma, which takes 15 ms of the start.
    return np.flatnonzero(np.bincount(result.demand.kernel[members])).astype(np.int32)


def _time(figures: TreeFigures, kind: str, index: int, members: Ints) -> tuple[str, ...]:
    result, run = figures.estimate, figures.estimate.run
    places = _kernels(result, members)
    if len(places) == 1:
        of_kernel = _kernel_lines(result, places[0])
        if kind == "operator" and figures.fused[index]:
            part_s, kernel_s = run.latency_s[index], run.kernel_s[places[0]]
            return (f"{_s(part_s)} of the {_s(kernel_s)} that its kernel takes; of the whole kernel:", *of_kernel)
        return of_kernel
    total = float(run.kernel_s[places].sum())
    lines = [f"{len(places)} kernels = {_s(total)}"]
    if kind == "model":
        lines[0] += f" (band {band_words(result.latency_band_s, result.latency_s)})"
    for b, name in enumerate(BOUNDS):
        bound_s = run.kernel_s[places][run.bound[places] == b]
        if part := float(bound_s.sum()):
            lines.append(f"{_percent(part / total)} {name} bound: {count_noun(len(bound_s), 'kernel')}, {_s(part)}")
    return tuple(lines)


def _kernel_lines(result: Estimate, k: int) -> tuple[str, ...]:
    run, rows = result.run, kernels(result)
    compute, memory, busy = (_s(seconds[k]) for seconds in (rows.compute_s, rows.memory_s, run.busy_s))
    launch_s = divide_host_work(result)[0].run.overhead_s[k]
    host_s = run.unthrottled_s[k] - run.busy_s[k] - launch_s
    host = f" + host's start {_s(host_s)}" if host_s > launch_s * 1e-9 else ""
    limit = quantity(result.power_limit_w, "W")
    return (
        f"work {busy} (compute {compute}, memory {memory}) + launch {_s(launch_s)}{host} = {_s(run.unthrottled_s[k])}",
        *([f"power limit {limit}: throttled to {_s(run.kernel_s[k])}"] if run.bound[k] == POWER else []),
        f"{quantity(rows.flops[k], 'FLOP')} at {percent(run.utilization[k], 1)} of the peak; "
        f"{quantity(rows.dram_bytes[k], 'byte')} of the {quantity(rows.chip_bytes[k], 'byte')} moved cross DRAM",
        f"another bound with {bound_change(result, k)}",
    )


def _energy(figures: TreeFigures, kind: str, members: Ints) -> tuple[str, ...]:
    result = figures.estimate
    energy, time = float(result.run.energy_j[members].sum()), float(result.run.latency_s[members].sum())
    batch = result.scenario.batch
    band = f", band {band_words(result.energy_band_j, energy)}" if kind == "model" else ""
    by_cause = zip(LOOKS, (causes(result).sum_over(members).energy_j / batch).tolist(), strict=True)
    lines = [
        f"{energy_words(energy, batch, what=work_word(result))}{band}",
        " + ".join(f"{look.name} {quantity(part, 'J')}" for look, part in by_cause if part),
    ]
    if kind != "operator" and time:
        lines.append(
            f"average power {quantity(energy / time, 'W')}; limit {quantity(result.power_limit_w, 'W')}, "
            f"TDP {quantity(result.device.tdp_w, 'W')}"
        )
    return tuple(lines)


def _edp(figures: TreeFigures, i: int) -> tuple[str, ...]:
    level, result = figures.operators, figures.estimate
    how = "fused with others in one kernel" if result.execution != "eager" else "in one kernel with others"
    separate = how if figures.fused[i] else "a kernel of its own"
    benefit = float(level.fusion_benefit_js[i])
    modifier, parts = modifier_or_none(float(level.modifier[i])), shares(result, "edp")[:, i]
    main = f"{percent(parts.max() / (parts.sum() or 1.0))} of it {LOOKS[int(parts.argmax())].name}"
    paid = "almost no work: no modifier" if modifier is None else f"x modifier {modifier:.3g}, {main}"
    return (
        f"attributed {_js(float(level.share[i]) * result.edp_js)} = share {percent(level.share[i], 2)} x "
        f"{_js(result.edp_js)}",
        f"base {_js(float(level.base_edp_js[i]))} {paid} ({separate})",
        f"fusion {'saves' if benefit >= 0 else 'adds'} {_js(abs(benefit))}",
    )


def _largest_events(result: Estimate, path: str, is_whole: bool) -> list[Section]:
    """Return the largest events with the quality of their prices; `is_whole` adds the sources as numbered footnotes."""
    members, result = operators_of(result, path), estimate_of_node(result, path)
    counts, energies = sum_events(result, members)
    lines, footnotes = [], dict[str, int]()
    for i in (-energies).argsort(kind="stable")[:TOP].tolist():
        count, energy_j = float(counts[i]), float(energies[i])
        if energy_j <= 0:
            continue
        event, price = result.events[i], result.run.prices.rows[i]
        marks = [str(footnotes.setdefault(source, len(footnotes) + 1)) for source in price.source.split("; ")]
        backing = f"{price.quality} {', '.join(marks)}" if is_whole else price.quality
        amount = _s(count) if event.count == "s" else f"{quantity(count, 'SI')} {event.count}"
        lines.append(
            f"{_percent(energy_j / float(energies.sum()))} {category_words(event.category)}: {event.name}, {amount} x "
            f"{quantity(energy_j / count, 'W' if event.count == 's' else 'J')} "
            f"({price.low_j / price.value_j:.2g}-{price.high_j / price.value_j:.2g}x) [{backing}]".replace("_", " ")
        )
    sections: list[Section] = [("Largest events", tuple(lines))]
    if is_whole:
        titles = {key: text.partition(": ")[0] for key, text in price_table()["sources"].items()}
        texts = (re.sub(rf"\b({'|'.join(titles)})\b", lambda key: titles[key[1]], source) for source in footnotes)
        sections.append(("Sources", tuple(f"{number} {source}" for number, source in enumerate(texts, 1))))
    return sections


def _percent(fraction: float) -> str:
    """Write whole percents, aligned to the right; a positive share below 0.5 % is `<1 %`."""
    return " <1 %" if 0 < fraction < 0.005 else f"{fraction * 100:3.0f} %"


_s, _js = partial(quantity, unit="s"), partial(quantity, unit="Js")


VERB = Report(
    subject=NODE,
    document=_document,
    view=why,
    brief=partial(why, is_whole=False),
    pane=partial(why, says_setting=False),
    examples={"why": "conv2d --on h100_sxm --node relu"},
)
