"""Explain a cost: of a node, of one device, state or file against another, or of a model on several devices in turn."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from analysis import wording
from analysis.document import Column, columns
from analysis.estimate import causes, measured_runs, tree_figures
from analysis.estimate.alternatives import WORTH, best_setting, gain_per_inference
from analysis.estimate.causes import divide_host_work
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, describe_deviations, head_fields
from analysis.estimate.kernel_rows import kernels
from analysis.estimate.tree_figures import HOST
from analysis.explore import attribution, difference
from analysis.explore.difference import read_result
from analysis.explore.outcome import Outcome, evaluate_rules, parse_rule
from analysis.model.ir.workload import Ints
from analysis.wording import ratio, work_word
from hardware.base.errors import RequestError
from hardware.base.records import group_by
from hardware.base.text import Unit, count_noun, percent, quantity, whole
from hardware.map_demand import architecture_of
from hwexplorer import engine
from hwexplorer.declare import NODE, Report, Subject
from hwexplorer.options import choice, option
from hwexplorer.reports import check
from hwexplorer.state import State, is_result, pinned, replace, split_settings
from hwexplorer.state import format as format_state
from hwexplorer.views import answer_lines, captions, plain, tables, tree_view
from hwexplorer.views.layout import shorten

LEAST_STEP = 1e-3  # fraction of the latency, which has three digits, below which a step is left out

# Names of the steps of analysis/estimate/causes.py.
STEP_NAMES = ("roofline", "+ part filled", "+ memory wait", "+ launch", "+ power limit", "- overlapped")


class NodeGain(msgspec.Struct, frozen=True):
    """The gain of the model, as in `advise`, from the setting that helps a node most. The setting is spelt as in states
    (`b32`, `int8`, `fused`), and in words in `name`. `latency_ratio` is the price: the latency of the batch over that
    now."""

    setting: str
    name: str
    speedup: float
    energy_ratio: float
    latency_ratio: float

    def __str__(self) -> str:
        """Return `batch 16: 6.6x rate at 2.4x latency, 2.5x less energy`."""
        gains = ((self.speedup, "rate"), (self.latency_ratio, "latency"), (self.energy_ratio, "less energy"))
        text = ", ".join(f"{ratio(gain)} {words}" for gain, words in gains if gain >= WORTH)
        return f"{self.name}: {text.replace('rate, ', 'rate at ', self.latency_ratio >= WORTH)}"


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
    sections: tuple[plain.Section, ...]


def next_step(state: State) -> NodeGain | None:
    """Return the setting that helps the node under the cursor most. Return None under a load or if no gain is large."""
    outcome = engine.outcome(state)
    result, is_served = outcome.estimate, outcome.is_simulated and outcome.fits
    best = None if is_served else best_setting(result, tree_figures.operators_of(result, state.at))
    if best is None or (gain := gain_per_inference(result, best.result)).mean < WORTH:
        return None
    name = best.change if best.kind == "batch" else best.setting
    larger = best.result.batch / result.scenario.batch
    return NodeGain(best.setting, name, gain.speedup, gain.energy_ratio, larger / (gain.speedup or 1.0))


def why(state: State, is_whole: bool = True, says_setting: bool = True) -> plain.Text:
    """Explain the node under the cursor on the device under the cursor, also against the pin if there is one.
    `is_whole` adds all sections of a request. `says_setting` adds the setting that helps most, which takes further
    estimates."""
    outcome = engine.outcome(state)
    whole, extra = outcome.estimate, () if state.at else outcome.sections
    result = tree_figures.estimate_of_node(whole, state.at)
    kind, index = tree_figures.find_node(whole, state.at)
    if kind == "operator":
        figures = tree_figures.tree(result)
    else:  # the text does not mention fusion, so the tree's figures are enough
        figures = msgspec.structs.replace(tree_figures.tree_without_host(whole), estimate=result)
    members = tree_figures.operators_of(whole, state.at)
    best = next_step(state) if says_setting else None
    waterfall = _steps(result, members)
    lead = (wording.time_reason(result, members),) * bool(waterfall)
    reason = () if state.at == HOST else _reason(figures, kind, index, members)
    lead = _HOST if state.at == HOST else (() if state.at else outcome.answer) or lead
    first: list[plain.Section] = [("", lead)] * bool(lead)
    first.append(("", (*reason, *_actual(result, members, best))))
    first += extra if is_whole else extra[:1]
    if state.at != HOST and (times := tree_view.measured_times(state, whole)):  # no trace has the host's work
        first.append(("Measured", tree_view.trace_annex().node_lines(times, members)))
        waterfall = tree_view.add_measured_step(times, members, waterfall)
    if change := _against_pin(state, whole):
        first.append((f"Against the pin{f', {state.at}' if state.at else ''}", change))
    lower: list[plain.Section] = [
        ("Time", _time(figures, kind, index, members)),
        ("Energy", _energy(figures, kind, members)),
    ]
    if len(members) == 1 and (parts := wording.attention_parts(result, int(members[0]))):
        lower.insert(0, ("Inside", parts))
    if kind == "model" and not outcome.is_simulated and (near := measured_runs.nearest_runs(result)):
        lower.append(("Measured nearest to this", tuple(map(str, near))))
    if kind == "model" and (coverage := (*_gaps(result), *result.workload.notes)):
        lower.append(("Coverage", coverage))
    if notes := describe_deviations(result):
        lower.append(("Notes", notes))
    if extra and not is_whole:
        lower = [*lower[1:], ("", ("More: --all (what slow requests wait for)",))]
    return plain.Text("why", captions.place_in_words(state), (*first, *lower), waterfall, len(first))


def _against_pin(state: State, here: Estimate) -> tuple[str, ...]:
    """Explain the node under the cursor against the pin; nothing without one, a line if its model is another one."""
    pinned_state = pinned(state)
    if pinned_state is None:
        return ()
    there = engine.result(pinned_state)
    if not attribution.is_comparable(here, there):
        return (answer_lines.verdict(state),)
    return attribution.explain(there, here, state.metric, state.at).reasons


def _steps(result: Estimate, members: Ints) -> tuple[plain.WaterfallStep, ...]:
    table = causes.steps(result, members)
    total = float(table[:-1].sum())
    if not result.run.latency_s[members].any():
        return ()
    bars, start_s = [], 0.0
    for name, parts in zip(STEP_NAMES, table, strict=True):
        seconds = float(parts.sum())
        if seconds >= LEAST_STEP * total:
            bars.append(plain.WaterfallStep(name, seconds, start_s / total, plain.Stack((parts / total).tolist())))
        elif seconds <= -LEAST_STEP * total:
            hidden = plain.Stack((-seconds / total, *[0.0] * 5))
            bars.append(plain.WaterfallStep(name, seconds, (start_s + seconds) / total, hidden))
        start_s += seconds
    return tuple(bars)


def _actual(result: Estimate, members: Ints, best: NodeGain | None) -> tuple[str, ...]:
    """Return the predicted time, which is the sum of the steps, and the gain from the best setting."""
    latency_s = float(result.run.latency_s[members].sum())
    if latency_s <= 0:
        return ("It takes no time of its own.",)
    fast, slow = (latency_s * factor for factor in result.trust.band)
    lines = [f"= predicted {_s(latency_s)} (band {_s(fast)} to {_s(slow)})"]
    if best is not None:
        lines.append(f"{str(best)[0].upper()}{str(best)[1:]}" if best.name.startswith("batch") else str(best))
    return tuple(lines)


def _gaps(result: Estimate) -> tuple[str, ...]:
    """Return the share of the work that has a cost rule; nothing if all of it has one."""
    count, coverage = len(result.workload.operators.path), result.rule_coverage
    words = (
        f"{percent(coverage.operators)} of {count} operators have a cost rule; they move {percent(coverage.bytes)} of "
        f"the bytes and do about {percent(coverage.flops)} of the FLOPs"
    )
    return (words,) if coverage.missing else ()


def _explain_node(state: State) -> NodeExplanation:
    whole = engine.result(state)
    members, result = tree_figures.operators_of(whole, state.at), tree_figures.estimate_of_node(whole, state.at)
    text = why(state)
    table = causes.steps(result, members)
    times = None if state.at == HOST else tree_view.measured_times(state, whole)
    energy_j = float(result.run.energy_j[members].sum())
    return NodeExplanation(
        **head_fields(result, on_device=True),
        state=format_state(state),
        title=text.title,
        energy_j=energy_j,
        energy_j_per_inference=energy_j / result.scenario.batch,
        steps=tuple(
            NodeStep(name, float(parts.sum()), causes.values_by_cause(parts))
            for name, parts in zip(causes.STEPS, table, strict=True)
        ),
        measured=times.time(members) if times else msgspec.UNSET,
        next=next_step(state),
        sections=text.sections,
    )


def _reason(figures: tree_figures.TreeFigures, kind: str, index: int, members: Ints) -> tuple[str, ...]:
    result = figures.estimate
    if kind == "model":
        return ()
    if kind == "operator":
        return (wording.operator_reason(figures, index),)
    kernel = (wording.subgraph_reason(figures, index),) if kind == "subgraph" else ()
    return (*_main_work(result, members), *kernel, *_shared_kernels(result, members))


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


def _shared_kernels(result: Estimate, members: Ints) -> tuple[str, ...]:
    """Name the operators with which a node shares most of its kernels."""
    kernel = result.demand.kernel
    is_other = np.isin(kernel, kernel[members])
    is_other[members] = False
    others = np.flatnonzero(is_other)
    shared, own = (len({*kernel[operators].tolist()}) for operators in (others, members))
    if 2 * shared <= own:
        return ()
    name = tables.name_pattern(result.workload.operators.path[others[0]])
    text, hidden_s = f"{count_noun(shared, 'kernel')} shared with {name}", -causes.steps(result, members)[-1].sum()
    if hidden_s > LEAST_STEP * result.run.latency_s[members].sum():
        text += f", behind whose work {_s(float(hidden_s))} are hidden"
    return (text,)


def _describe_work(result: Estimate, i: int) -> str:
    """Write the work of an operator and its unit: `3 x 3 convolution, 64 channels, 56 x 56 on tensor cores (tf32)`."""
    demand = result.demand
    sentence = (
        architecture_of(result.device).sentence(demand, result.setup_of(i), result.run.mapping, i).partition(":")[0]
    )
    if not demand.is_convolution[i]:
        return sentence
    groups, _, filters, _ = demand.gemm[:, i]
    height, width, *window = map(whole, demand.windows[:4, i])
    kind = "depthwise " * bool(demand.is_depthwise[i])
    unit = sentence.partition("matrix product")[2]
    return f"{kind}{' x '.join(window)} convolution, {whole(groups * filters)} channels, {height} x {width}{unit}"


def _time(figures: tree_figures.TreeFigures, kind: str, index: int, members: Ints) -> tuple[str, ...]:
    result, run = figures.estimate, figures.estimate.run
    places = np.flatnonzero(np.bincount(result.demand.kernel[members])).astype(np.int32)  # np.unique loads numpy.ma
    if len(places) == 1:
        of_kernel = _kernel_lines(result, places[0])
        if kind == "operator" and figures.fused[index]:
            part_s, kernel_s = run.latency_s[index], run.kernel_s[places[0]]
            return (f"{_s(part_s)} of the {_s(kernel_s)} that its kernel takes; of the whole kernel:", *of_kernel)
        return of_kernel
    return (f"{len(places)} kernels = {_s(float(run.kernel_s[places].sum()))}",)


def _kernel_lines(result: Estimate, k: int) -> tuple[str, ...]:
    run, rows = result.run, kernels(result)
    compute, memory, busy = (_s(seconds[k]) for seconds in (rows.compute_s, rows.memory_s, run.busy_s))
    launch_s = divide_host_work(result)[0].run.overhead_s[k]
    host_s = run.unthrottled_s[k] - run.busy_s[k] - launch_s
    host = f" + host's start {_s(host_s)}" if host_s > launch_s * 1e-9 else ""
    return (
        f"work {busy} (compute {compute}, memory {memory}) + launch {_s(launch_s)}{host} = {_s(run.unthrottled_s[k])}",
        f"{quantity(rows.flops[k], 'FLOP')} at {percent(run.utilization[k], 1)} of the peak; "
        f"{quantity(rows.dram_bytes[k], 'byte')} of the {quantity(rows.chip_bytes[k], 'byte')} moved cross DRAM",
        f"another bound with {wording.bound_change(result, k)}",
    )


def _energy(figures: tree_figures.TreeFigures, kind: str, members: Ints) -> tuple[str, ...]:
    result = figures.estimate
    energy, time = float(result.run.energy_j[members].sum()), float(result.run.latency_s[members].sum())
    batch = result.scenario.batch
    band = f", band {captions.band_words(result.energy_band_j, energy)}" if kind == "model" else ""
    by_cause = zip(plain.LOOKS, (causes.causes(result).sum_over(members).energy_j / batch).tolist(), strict=True)
    lines = [
        f"{captions.energy_words(energy, batch, what=work_word(result))}{band}",
        " + ".join(f"{look.name} {quantity(part, 'J')}" for look, part in by_cause if part),
    ]
    if kind != "operator" and time:
        of_run = "" if kind == "model" else f", in the whole run {quantity(result.average_power_w, 'W')}"
        tdp_w = result.device.tdp_w * result.workload.devices
        limits = f"limit {quantity(result.power_limit_w, 'W')}, TDP {quantity(tdp_w, 'W')}"
        lines.append(f"average power {quantity(energy / time, 'W')}{of_run}; {limits}")
    return tuple(lines)


_s = partial(quantity, unit="s")


# --- one side against another, and several in turn --------------------------------------------------------

_TITLES = {"family": "By event family", "subgraph": "By subgraph", "cause": "By cause", "contents": "At the peak"}
Sides = tuple[str | State, ...]


def _sides(state: State, sides: Sides) -> tuple[State, ...]:
    """Return the state of each side: of the one that is asked about, of devices in the words, or of another model."""
    if len(sides) == 1 and isinstance(sides[0], State):
        return state, sides[0]
    return tuple(side if isinstance(side, State) else _on_device(state, side) for side in sides) or (state,)


def _on_device(state: State, text: str) -> State:
    """Return the state on a device, `h100_sxm`, or with settings of its own, `h100_sxm@b8,fp16`."""
    device, settings = split_settings(text)
    engine.device(device)
    pinned_state = pinned(replace(state, pin=text)) if settings else None
    return replace(pinned_state or state, devices=(device,), on=device, pin="")


def _document(
    state: State, sides: Sides = (), measure: str | None = None, rule: Sequence[str] | None = None
) -> NodeExplanation | difference.Difference | difference.Progression:
    states = _sides(state, sides)
    if len(states) != 2 and (measure or rule):
        raise RequestError("--metric and --rule compare two sides: why MODEL DEVICE DEVICE, or why BEFORE AFTER")
    if len(states) == 1:
        return _explain_node(states[0])
    if len(states) > 2:
        return difference.compare_in_turn([engine.result(side) for side in states], state.at)
    rules, last = [parse_rule(text) for text in rule or ()], states[1]

    def run(device: str) -> Outcome:
        """Return the outcome of the second side on a device. Raises RequestError for a file."""
        if is_result(last.model):
            raise RequestError(f"{last.model} is a file: rules about it begin with change, as change(energy) < 5%")
        return engine.outcome(last, device)

    first, second = (
        read_result(Path(side.model), engine.device(side.on).key) if is_result(side.model) else engine.result(side)
        for side in states
    )
    return difference.compare_results(
        first, second, measure or state.metric, state.at,
        lambda changes: evaluate_rules(rules, run, changes.relative_change),
    )  # fmt: skip


def _view(state: State, is_whole: bool, **options: Any) -> plain.Text | plain.Page:
    document = _document(state, **options)
    if isinstance(document, NodeExplanation):
        return why(_sides(state, options.get("sides", ()))[0], is_whole)
    if isinstance(document, difference.Progression):
        return _progression_page(document, replace(state, devices=tuple(side.device for side in document.sides)))
    return _difference_page(document, is_whole)


def _difference_page(found: difference.Difference, is_whole: bool) -> plain.Page:
    explained = found.explanation
    settings = [f"The sides differ in {', '.join(found.settings)}"] if found.settings else []
    missing = [f"Only one side has its {', '.join(found.missing)}"] if found.missing else []
    reasons = (*found.reasons, *settings, *missing)
    parts: list[plain.Table] = []
    figure, *others = columns(difference.FigureChange, "figure change unit", unit={"keep": 3})
    shown = (figure, *_columns_of_sides(found), *others)
    figures = plain.Table("figures", "Figures", shown, tables.rows(shown, found.figures, key="figure"))
    if explained is None:
        types = columns(difference.TypeCount, a={"title": _labels(found)[0]}, b={"title": _labels(found)[1]})
        parts = [
            figures,
            plain.Table("operators", "Operators by type", types, tables.rows(types, found.operators), first=5),
            plain.Table("places", "Operators that changed", PLACES, tables.rows(PLACES, found.places), first=6),
        ]
    elif is_whole:
        parts = [figures, *(_part_table(found, explained, name, 0) for name in explained.groups)]
    elif abs(explained.ratio - 1.0) >= attribution.SAME_COST:  # else the words say so, and parts say nothing
        most = 6, 9 if len(found.reasons) < 8 else 4  # one screen in all
        parts = [_part_table(found, explained, *pair) for pair in zip(explained.groups, most, strict=False)]
    parts.append(
        plain.Table("findings", "Rules", check.COLUMNS, tables.rows(check.COLUMNS, found.findings, key="rule"))
    )
    csv = figures if explained is None else _part_table(found, explained, next(iter(explained.groups)), 0)
    filled = [part for part in parts if part.rows]
    return plain.Page("why", _difference_title(found), (plain.Text("why", "", (("Why", reasons),)), *filled), csv=csv)


def _difference_title(found: difference.Difference) -> str:
    """Return both sides in a line: what they share once, and `first -> second` where they differ."""
    sides = found.a, found.b
    formats = [side.precision + f", {side.prices} prices" * (side.prices != "own") for side in sides]
    software = [side.runtime or f"{side.execution} kernels" for side in sides]
    texts = [
        *([side.model for side in sides], [f"batch {side.batch}" for side in sides], formats),
        [f"{name} on {side.device}" for name, side in zip(software, sides, strict=True)],
    ]
    title = ", ".join(" -> ".join(dict.fromkeys(pair)) for pair in texts)
    title = f"{found.node} of {title}" if found.node else title
    if (explained := found.explanation) is None:
        return title
    return f"{title}: {next(each.title for each in found.figures if each.figure == explained.metric)}"


def _labels(found: difference.Difference) -> tuple[str, str]:
    """Return a name for each side, by what tells them apart: the device, the model, or all settings."""
    a, b = found.a, found.b
    if a.device != b.device:
        return a.device, b.device
    if a.model != b.model:
        return a.model, b.model
    names = [f"{side.device}@b{side.batch},{side.precision},{side.execution}" for side in (a, b)]
    return (names[0], names[1]) if names[0] != names[1] else ("Before", "After")


def _columns_of_sides(found: difference.Difference, unit: Unit = "") -> tuple[Column, ...]:
    """Return a column for each side, whose cells are in the unit of their row."""
    first, second = _labels(found)
    return (
        Column("a", first, unit, role="quantity", keep=0, of=lambda row: plain.Amount(row.a, row.unit)),
        Column("b", second, unit, role="quantity", keep=0, of=lambda row: plain.Amount(row.b, row.unit)),
    )


def _part_table(found: difference.Difference, explained: attribution.Explanation, name: str, most: int) -> plain.Table:
    """Return the parts of a division of the difference, the largest ones if not all are asked for (0)."""
    unit, parts, is_product = explained.unit, explained.groups[name], explained.metric == "edp"
    shown = (
        Column("part", "Part", role="text", keep=0, of="name"),
        *(() if is_product else _columns_of_sides(found, unit)),  # EDP has no parts of its own, only changes of factors
        Column("difference", "Change", unit, role="quantity", keep=0, of="difference"),
        *[Column("fraction", "of the change", "%", keep=0, of="fraction")] * is_product,
    )
    return plain.Table(name, _TITLES[name], shown, tables.rows(shown, _largest(parts, most) if most else parts))


def _largest(parts: Sequence[attribution.Part], most: int) -> list[attribution.Part]:
    """Return the largest parts, those alike but for the number of their block merged, and the sum of the others."""
    alike = group_by(parts, lambda part: (f"{part.a:.3g}", f"{part.b:.3g}", tables.name_pattern(part.name)))
    merged = sorted(map(_sum_parts, alike.values()), key=lambda part: -abs(part.fraction))
    largest = [part for part in merged[:most] if part.difference] or merged[:most]
    rest = [part for part in merged if part not in largest]
    return [*largest, *([msgspec.structs.replace(_sum_parts(rest), name=f"{len(rest)} more: --all")] if rest else [])]


def _sum_parts(parts: Sequence[attribution.Part]) -> attribution.Part:
    sums = {field: sum(getattr(part, field) for part in parts) for field in ("a", "b", "difference", "fraction")}
    return attribution.Part(name=tables.merge_names([part.name for part in parts]), unit=parts[0].unit, **sums)


def _progression_page(document: difference.Progression, state: State) -> plain.Page:
    table = family_table(document, engine.outcome(state).work)
    lines = tuple((f"{step.from_device} to {step.to_device}", step.says) for step in document.steps)
    steps_text = plain.Text("steps", f"Steps of {document.node or 'the whole model'}", lines)
    answer = plain.Text("answer", "", (("Answer", document.answers),))
    title = f"{document.node} of " * bool(document.node) + captions.headline_of_state(state)
    return plain.Page("why", title, (answer, table, steps_text), csv=table)


def family_table(document: difference.Progression, work: str) -> plain.Table:
    """Return the families that take energy on each device, per unit of `work`, the costliest first."""
    sides = document.sides
    most_j = {name: max(side.energy_by_family_j[name] for side in sides) for name in causes.FAMILIES}
    families = sorted((name for name in most_j if most_j[name]), key=lambda name: -most_j[name])
    largest_j = max(most_j.values()) or 1.0

    def energy(side: difference.ArchitectureSide, name: str) -> plain.Stack:
        """Return the energy of a family on a device, and its bar in the colour of its cause."""
        energy_j, cause = side.energy_by_family_j[name], causes.cause_of_family(name)
        bar = [energy_j / largest_j * (place == cause) for place in range(len(causes.CAUSES))]
        return plain.Stack(bar, energy_j)

    runs = (
        f"{engine.marked_key(side.device)}: {quantity(side.latency_s, 's')}, "
        f"{quantity(side.energy_j_per_inference, 'J')}, {side.precision_run}, {side.runtime}"
        for side in sides
    )
    shown = [Column("family", "Events", role="text", keep=0, of=str)]
    for side in sides:
        title = shorten(side.device, 10, middle=True)
        energies = partial(energy, side)
        shown.append(Column(side.device, title, "J", role="bar", keep=1, of=energies, scale=sides[0].device))
    return plain.Table(
        "families",
        f"Energy per {work} of {document.node or document.model} by event family",
        tuple(shown),
        tables.rows(shown, families, key=str),
        footer=tuple(runs),
        is_stacked=True,
    )


PLACES = columns(difference.OperatorChange)
VERB = Report(
    subject=Subject(options=NODE.options, compares=True),
    options=(
        option("sides", nargs="*", default=(), metavar="SIDE", is_model=True,
               help="devices to compare (h100_sxm@b8,fp16), or another model, state or JSON file of results"),
        choice("--metric", attribution.EXPLAINED, metavar="M", dest="measure", help="what two sides are compared by"),
        option("--rule", action="append", metavar="RULE",
               help='of the second of two sides, e.g. "change(energy) < 5%"; exit 1 if one does not hold'),
    ),
    document=_document,
    view=partial(_view, is_whole=True),
    brief=partial(_view, is_whole=False),
    pane=partial(why, says_setting=False),
    states=lambda state, sides=(), **_: tuple(s for s in _sides(state, sides) if not is_result(s.model)),
    fails=check.broken_rules,
    examples={
        "why": "conv2d --on h100_sxm --node relu",
        "why_devices": "conv2d h100_sxm tpu_v4 --metric energy",
        "why_latency": "conv2d h100_sxm tpu_v4 --metric latency",
        "why_models": 'vgg11 vgg13 --on h100_sxm --rule "change(energy) < 50%"',
        "why_in_turn": "resnet18 xeon_8490h h100_sxm tpu_v4 kpu_t256",
    },
    shown=("resnet50 --on h100_sxm --node layer3", "resnet50 cpu gpu tpu kpu", "before.json after.json"),
)  # fmt: skip
