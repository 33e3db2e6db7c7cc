"""Suggest changes of batch, precision, runtime and device, each evaluated, the best first.

Each suggestion is an estimate. The batches, precisions and modes that are tried come from
analysis/estimate/alternatives.py.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

import msgspec

from analysis.document import Column, columns
from analysis.estimate.alternatives import Alternative, alternatives, best_setting, combine, gain_per_inference
from analysis.estimate.estimate import Estimate
from analysis.estimate.figures import Head, head_fields
from analysis.estimate.metrics import METRICS, select_metrics
from analysis.explore import comparison
from analysis.explore.cost import settings
from analysis.explore.grid import Axes, Point, make_point
from analysis.explore.odds import odds, odds_sentence
from analysis.explore.plans import FormatPlan, FusionPlan
from hardware.base.errors import unknown
from hardware.device import Device
from hardware.setup import FRAMEWORK_MODES
from hwexplorer import configurations, engine
from hwexplorer.declare import DEVICE, Report, Rows, Section
from hwexplorer.options import choice, name_list, option
from hwexplorer.reports._under_load import under_load
from hwexplorer.reports.advise import _plans
from hwexplorer.state import State, configuration_name
from hwexplorer.text.next_command import command
from hwexplorer.views import plain


class Suggestion(msgspec.Struct, frozen=True, kw_only=True):
    """One change and its effect: `saved_*` are now minus after, as fractions of now. `step` is the request that shows
    the change (None: the present figures), `why` says what happens."""

    kind: str
    change: str
    after: Point
    saved_energy_fraction: float = 0.0
    saved_latency_fraction: float = 0.0
    saved_memory_fraction: float = 0.0
    throughput_ratio: float = 1.0
    why: str = ""
    step: comparison.NextStep | None = msgspec.field(name="command", default=None)

    @property
    def leads(self) -> str:
        """The configuration with the change; '' for the present figures."""
        if self.step is None:
            return ""
        run = self.step.scenario
        size = () if self.step.image_size is None else (f"i{self.step.image_size}",)
        settings = (f"b{run.batch}", run.precision, run.execution, run.layout, *size)
        return configuration_name(self.after.model, self.after.device, *settings)


class Advice(Head, frozen=True, kw_only=True):
    """The document of `hwexplorer advise`: changes of settings, then of the device, each sorted by `aim`; `next` is
    the change in compare and why too."""

    aim: str
    now: Point
    suggestions: tuple[Suggestion, ...]
    design_targets: tuple[Suggestion, ...]
    next: str
    tried: int
    no_gain: tuple[str, ...]


def advise(result: Estimate, devices: Sequence[Device], aim: str = "energy") -> Advice:
    """Try changes one at a time, then the best of them together, and `devices` as replacements. Raises RequestError for
    an unknown aim."""
    if aim not in (aims := select_metrics(lambda metric: metric.is_aim)):
        raise unknown("aim", aim, aims)
    now = make_point(result, settings())
    real, on_paper = ([device for device in devices if device.silicon is exists] for exists in (True, False))
    is_whole = not result.rule_coverage.gap  # no advice on a part of a model
    others = [_try(result, one_change) for one_change in alternatives(result)] if is_whole else []
    tried = [suggestion for suggestion, _ in others]
    if is_whole:
        tried += _try_devices(result, real)

    def helps(suggestion: Suggestion) -> bool:
        """Return True if a change noticeably improves the aim, or makes fit what does not."""
        return gain(suggestion, now, aim) >= comparison.NOTICEABLE if result.fits else suggestion.after.fits

    useful = [suggestion for suggestion in tried if helps(suggestion)]
    combined = _combine(result, others, aim) if is_whole else None
    if combined is not None:
        useful.append(combined)
    useful.sort(key=lambda suggestion: (suggestion.kind == "device", -gain(suggestion, now, aim)))
    best = best_setting(result) if is_whole else None
    return Advice(
        **head_fields(result, on_device=True),
        aim=aim,
        now=now,
        suggestions=tuple(useful),
        design_targets=tuple(filter(helps, _try_devices(result, on_paper))) if is_whole else (),
        next=best.change if best is not None else "",
        tried=len(tried) + (combined is not None),
        no_gain=tuple(suggestion.change for suggestion in tried if not helps(suggestion)),
    )


def gain(suggestion: Suggestion, now: Point, aim: str) -> float:
    """Return the improvement of a metric as a fraction of its present value (throughput: of the changed value)."""
    metric = METRICS[aim]
    old, new = metric.figure(now), metric.figure(suggestion.after)
    if metric.more_is_better:
        old, new = new, old
    return (old - new) / old if old else 0.0


def _try(before: Estimate, other: Alternative[Estimate]) -> tuple[Suggestion, Estimate]:
    run = other.result
    now, new = (make_point(one, settings()) for one in (before, run))
    chances = odds_sentence(odds([run], before)) if before.device.key != run.device.key else ""
    fields = {"energy": "energy_j_per_inference", "latency": "latency_s", "memory": "peak_memory_bytes"}
    suggestion = Suggestion(
        kind=other.kind,
        change=other.change,
        after=new,
        **{
            f"saved_{name}_fraction": (before_it - getattr(new, field)) / before_it
            for name, field in fields.items()
            if (before_it := getattr(now, field))
        },
        throughput_ratio=new.throughput_per_s / now.throughput_per_s if now.throughput_per_s else 0.0,
        why=comparison.change_effects(before, run, chances),
        step=comparison.request_of(run),
    )
    return suggestion, run


def _try_devices(result: Estimate, devices: Sequence[Device]) -> list[Suggestion]:
    """Return the devices with the least energy and the least latency, among others that run the model at a lower EDP:
    a tenth of the energy in a hundred times the time is no advice."""
    # A device whose runtime is a mode alone has no framework in that mode.
    batch, precision = result.scenario.batch, result.scenario.precision
    chips = tuple(device for device in devices if device.id != result.device.id)
    others = Axes((result.workload,), chips, (batch,), (precision,), result.scenario).walk() if chips else ()
    fitting = [
        _try(result, Alternative("device", f"device {run.device.marked_key}", run.device.key, run))[0]
        for run in others
        if run.can_win and run.runtime.id not in FRAMEWORK_MODES and gain_per_inference(result, run).mean > 1.0
    ]
    best = [min(fitting, key=lambda s: METRICS[name].figure(s.after), default=None) for name in ("energy", "latency")]
    return [s for i, s in enumerate(best) if s is not None and s not in best[:i]]


def _combine(result: Estimate, others: Sequence[tuple[Suggestion, Estimate]], aim: str) -> Suggestion | None:
    """Return the best settings of each kind combined, those that gain or make the model fit. Return None if that gains
    no more than one of them alone."""
    now = make_point(result, settings())
    best: dict[str, tuple[float, Suggestion, Estimate]] = {}
    for suggestion, result_after in others:
        gained, makes_fit = gain(suggestion, now, aim), suggestion.after.fits and not result.fits
        if (makes_fit or gained >= comparison.NOTICEABLE) and gained > best.get(suggestion.kind, (-inf,))[0]:
            best[suggestion.kind] = gained, suggestion, result_after
    if len(best) < 2:
        return None
    run = combine(result, (result_after for _, _, result_after in best.values()))
    change = " + ".join(suggestion.change for _, suggestion, _ in best.values())
    combined, _ = _try(result, Alternative("together", change, "", run))
    most = max((gained for gained, each, _ in best.values() if each.after.fits), default=-inf)
    return combined if run.fits and gain(combined, now, aim) > most else None


_Document = Advice | FormatPlan | FusionPlan


def _changes(advice: _Document) -> tuple[Suggestion, ...]:
    if not isinstance(advice, Advice):
        return ()
    return Suggestion(kind="now", change="now", after=advice.now), *advice.suggestions


def _saved(what: str, title: str, keep: int, help: str = "") -> Column:
    """Return the column of what a change takes more (+) or less (-) than now, as a fraction."""
    field = f"saved_{what}_fraction"
    return Column(f"saved_{what}", title, "%", role="delta", keep=keep, help=help,
                  of=lambda change: None if change.step is None else -getattr(change, field))  # fmt: skip


COLUMNS = columns(
    Point,
    "change energy saved_energy latency saved_latency throughput throughput_ratio memory saved_memory why",
    Column("change", "Change", role="text", keep=0),
    Column("energy", "Energy/inf", "J", keep=1, of="after.energy_j_per_inference", help="joules per inference"),
    _saved("energy", "Δ energy", 0, "joules per inference, against now"),
    _saved("latency", "Δ latency", 0, "of the batch, against now"),
    Column("throughput_ratio", "Rate", "x", role="quantity", keep=2, help="throughput against now"),
    _saved("memory", "Δ memory", 1),
    Column("memory", "Peak memory", "byte", keep=3, of="after.peak_memory_bytes"),
    Column("why", "What happens", role="text", keep=5),
    within="after", latency=1, memory=2,
)  # fmt: skip


def _document(
    state: State, aim: str, instead: tuple[str, ...] | None, on_paper: bool, plan: str | None = None, **planned: Any
) -> _Document:
    """Return advice for the device under the cursor. Replacements are `instead` or, if None, the state's devices."""
    if plan is not None:
        return _plans.document(state, plan, **planned)
    names = configurations.catalogue(on_paper) if instead == configurations.ALL_DEVICES else instead or state.devices
    others = [engine.device(name) for name in names]
    if not instead and not configurations.asks_for_paper(state, on_paper):
        others = [device for device in others if device.silicon]
    return advise(engine.result(state), others, aim)


def _states(state: State, plan: str | None = None, formats: tuple[str, ...] | None = None, **_: Any) -> Sequence[State]:
    return _plans.states(state, formats) if plan == _plans.FORMS else (state,)


def _heading(advice: _Document) -> str:
    if not isinstance(advice, Advice):
        return ""
    order = "the best first" + ", other devices last" * any(s.kind == "device" for s in advice.suggestions)
    does = f"improve {METRICS[advice.aim].noun}" if advice.now.fits else "make it fit"
    return f"{len(advice.suggestions)} of {advice.tried} changes {does}, {order}"


def _cautions(suggestion: Suggestion, now: Point) -> Iterator[str]:
    """Yield the warnings that a reader must check before a change: accuracy, and devices without measurements."""
    point = suggestion.after
    if "precision" in suggestion.change:
        yield comparison.accuracy_note(point.precision)
    elif point.precision_run != now.precision_run:
        yield comparison.accuracy_note(point.precision_run)
    if "lora=" in suggestion.change or "8bit" in suggestion.change:
        yield "trains otherwise: compare the loss"
    if suggestion.kind == "device" and point.trust.level == "engineering":
        yield comparison.UNMEASURED


def _commands(advice: _Document, state: State) -> plain.Text:
    """Return the commands that show the changes, and the warnings before each change."""
    if not isinstance(advice, Advice):
        return plain.Text("savings", "", ())
    sections = [
        ("Commands, in the same order", tuple(command(s.step) for s in advice.suggestions if s.step) or ("none",))
    ]
    if advice.suggestions:
        sections.insert(0, (f"Start with {advice.suggestions[0].change}", ()))
    if advice.design_targets:
        on_paper = tuple(f"{s.change}: {command(s.step)}" for s in advice.design_targets if s.step)
        sections.append(("On paper only", on_paper))
    cautions: dict[str, list[str]] = {}
    for s in advice.suggestions:
        for caution in _cautions(s, advice.now):
            cautions.setdefault(caution, []).append(s.change)
    if cautions:
        sections.append(
            ("Before a change", tuple(f"{', '.join(names)}: {caution}" for caution, names in cautions.items()))
        )
    if advice.no_gain:
        noun = METRICS[advice.aim].noun_of(engine.outcome(state).work)
        heading = f"Tried, no better {noun}" if advice.now.fits else "Tried, does not fit"
        sections.append((heading, (", ".join(advice.no_gain),)))
    return plain.Text("savings", "", tuple(sections))


VERB = Report(
    subject=DEVICE,
    served=lambda report: under_load().advise(report),
    options=(
        choice("--aim", select_metrics(lambda metric: metric.is_aim), default="energy", metavar="AIM"),
        option(
            "--instead", type=name_list("device"), metavar="DEV,..", in_shell=configurations.ALL_DEVICES,
            help="devices to try instead (default: the catalogue)",
        ),
        configurations.INCLUDE_PAPER,
        *_plans.OPTIONS,
    ),
    document=_document,
    states=_states,
    title="",
    parts=(
        Rows("advise", _heading, COLUMNS, of=_changes, leads=lambda change: change.leads, optional=True),
        _commands,
        *_plans.PARTS,
    ),
    main="advise",
    exports=_plans.EXPORTS,
    section=Section(100, "What to change"),
    examples={"advise": "conv2d --on h100_sxm"},
    shown=("formats resnet18 --on h100_sxm --keep conv1,fc", "fusion resnet18"),
)  # fmt: skip
