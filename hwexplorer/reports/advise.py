"""Suggest changes of batch, precision, runtime and device, each evaluated, the best first."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from analysis.document import Column, columns, record
from analysis.estimate.figures import Figures
from analysis.estimate.metrics import METRICS, select_metrics
from analysis.explore.advice import Advice, Suggestion, advise
from analysis.explore.next_step import NextStep
from analysis.text.insight import UNMEASURED, accuracy_note
from hwexplorer import configurations, engine
from hwexplorer.declare import DEVICE, Report, Rows, Section
from hwexplorer.options import choice, name_list, option
from hwexplorer.state import State, configuration_name
from hwexplorer.text.next_command import command
from hwexplorer.views.plain import Text


class _Change(msgspec.Struct, frozen=True, kw_only=True):
    """A row: the figures after a change, and their signed relative changes. The first row has the present figures."""

    change: str
    after: Figures
    energy: float | None = None
    latency: float | None = None
    memory: float | None = None
    rate: float = 1.0
    why: str = ""
    step: NextStep | None = None

    @property
    def leads(self) -> str:
        """The configuration with the change; '' in the row of the present figures."""
        if self.step is None:
            return ""
        run = self.step.scenario
        size = () if self.step.image_size is None else (f"i{self.step.image_size}",)
        settings = (f"b{run.batch}", run.precision, run.execution, run.layout, *size)
        return configuration_name(self.after.model, self.after.device, *settings)


def _changes(advice: Advice) -> Iterator[_Change]:
    yield _Change(change="now", after=advice.now)
    for s in advice.suggestions:
        yield record(
            _Change,
            s,
            energy=-s.saved_energy_fraction,
            latency=-s.saved_latency_fraction,
            memory=-s.saved_memory_fraction,
            rate=s.throughput_ratio,
        )


COLUMNS = columns(
    Figures,
    "change energy saved_energy latency saved_latency throughput throughput_ratio memory saved_memory why",
    Column("change", "Change", role="text", keep=0),
    Column("energy", "Energy/inf", "J", keep=1, of="after.energy_j_per_inference", help="joules per inference"),
    Column("saved_energy", "Energy", "%", role="delta", keep=0, of="energy", help="joules per inference, against now"),
    Column("saved_latency", "Latency", "%", role="delta", keep=0, of="latency", help="of the batch, against now"),
    Column("throughput_ratio", "Rate", "x", role="quantity", keep=2, of="rate", help="throughput against now"),
    Column("saved_memory", "Memory", "%", role="delta", keep=1, of="memory"),
    Column("memory", "Peak memory", "byte", keep=3, of="after.peak_memory_bytes"),
    Column("why", "What happens", role="text", keep=5),
    within="after", latency=1, memory=2,
)  # fmt: skip


def _document(state: State, aim: str, instead: tuple[str, ...] | None, on_paper: bool) -> Advice:
    """Return advice for the device under the cursor. Replacements are `instead` or, if None, the state's devices."""
    names = configurations.catalogue(on_paper) if instead == CATALOGUE else instead or state.devices
    others = [engine.device(name) for name in names]
    if not instead and not configurations.asks_for_paper(state, on_paper):
        others = [device for device in others if device.silicon]
    return advise(engine.result(state), others, aim)


def _heading(advice: Advice) -> str:
    order = "the best first" + ", other devices last" * any(s.kind == "device" for s in advice.suggestions)
    return f"{len(advice.suggestions)} of {advice.tried} changes improve {METRICS[advice.aim].noun}, {order}"


def _cautions(suggestion: Suggestion, now: Figures) -> Iterator[str]:
    """Yield the warnings that a reader must check before a change: accuracy, and devices without measurements."""
    after = suggestion.after
    if "precision" in suggestion.change:
        yield accuracy_note(after.precision)
    elif after.precision_run != now.precision_run:
        yield accuracy_note(after.precision_run)
    if suggestion.kind == "device" and after.trust.level == "engineering":
        yield UNMEASURED


def _commands(advice: Advice, state: State) -> Text:
    """Return the commands that show the changes, and the warnings before each change."""
    sections = [("Commands, in the same order", tuple(command(s.step) for s in advice.suggestions) or ("none",))]
    if advice.suggestions:
        sections.insert(0, (f"Start with {advice.suggestions[0].change}", ()))
    if advice.design_targets:
        on_paper = tuple(f"{s.change}: {command(s.step)}" for s in advice.design_targets)
        sections.append(("On paper only", on_paper))
    cautions: dict[str, list[str]] = {}
    for s in advice.suggestions:
        for caution in _cautions(s, advice.now):
            cautions.setdefault(caution, []).append(s.change)
    if cautions:
        sections.append(("Before a change", tuple(f"{', '.join(names)}: {said}" for said, names in cautions.items())))
    if advice.no_gain:
        sections.append((f"Tried, no better {METRICS[advice.aim].noun}", (", ".join(advice.no_gain),)))
    return Text("savings", "", tuple(sections))


CATALOGUE = ("catalogue",)
VERB = Report(
    subject=DEVICE,
    options=(
        choice("--aim", select_metrics(lambda metric: metric.is_aim), default="energy", metavar="AIM"),
        option(
            "--instead", type=name_list("device"), metavar="DEV,..", in_shell=CATALOGUE,
            help="devices to try instead (default: the catalogue)",
        ),
        configurations.INCLUDE_PAPER,
    ),
    document=_document,
    title="",
    parts=(Rows("advise", _heading, COLUMNS, of=_changes, leads=lambda change: change.leads), _commands),
    main="advise",
    section=Section(100, "What to change"),
    examples={"advise": "conv2d --on h100_sxm"},
)  # fmt: skip
