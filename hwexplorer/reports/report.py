"""Write everything about one model on one device: text, Markdown, or a page to open offline."""

from collections.abc import Callable
from typing import Any

import msgspec

from analysis import wording
from analysis.estimate.figures import describe_deviations, head_fields
from analysis.explore import comparison
from hardware.base.text import percent, plain_number, quantity
from hwexplorer import declare, engine, plots, registry
from hwexplorer.answer import Answer
from hwexplorer.state import State, replace
from hwexplorer.text.next_command import command
from hwexplorer.views import captions, plain
from hwexplorer.views.device_rows import cards
from hwexplorer.views.tree_view import tree

OPEN = ("summary", "blocks", "plot", "events")  # parts of the page that are not folded; `plot` is the roofline
BLOCKS = 7  # rows of brief text


def _summary(state: State) -> plain.Text:
    result = engine.result(state)
    what = wording.work_word(result)
    memory, capacity = quantity(result.memory.peak_bytes, "byte"), quantity(result.device.memory_bytes, "byte")
    band = captions.band_words(result.latency_band_s, result.latency_s)
    band += " for a chip left out of the fit" * (result.trust.level == "siblings")
    figures = [
        f"latency {quantity(result.latency_s, 's')}, band {band}; evidence: {wording.describe_evidence(result.trust)}",
        f"energy {captions.energy_words(result.energy_j, result.scenario.batch, what=what)}, "
        f"band {captions.band_words(result.energy_band_j, result.energy_j)}; {percent(result.static_fraction)} static",
        f"EDP {quantity(result.edp_js, 'Js')}; {plain_number(result.throughput_per_s)} {what}s per second",
        f"utilisation {percent(result.utilization, 1)} of the {result.precision_run} peak; memory {memory}/{capacity}",
        wording.time_reason(result),
    ]
    if result.coverage < 1.0:
        figures.append(f"{percent(result.coverage)} of the work has a cost rule")
    sections = [("In short", tuple(figures)), ("Worth noticing", comparison.insights([result], result))]
    if marks := describe_deviations(result):
        sections.append(("Deviations from what was asked", marks))
    sections.append(("Next", tuple(map(command, comparison.next_steps([result], engine.scenario(state))))))
    return plain.Text("summary", "Summary", tuple(sections))


def _blocks(state: State) -> plain.Table:
    shown = tree(replace(state, at="", pin="", by="module", sort="share", descending=True))
    return msgspec.structs.replace(shown, name="blocks", title="Where it goes")


# Views between the sections of reports, by place in the same order as `Section.place`.
PARTS: dict[int, Callable[[State], plain.View]] = {
    -40: _summary,
    -35: _blocks,
    -20: plots.roofline,
    90: plots.batch,
}


def _answers(state: State) -> dict[int, tuple[str, str, Answer[Any]]]:
    """Return name, heading and answer of each section, by its place."""
    complete = replace(state, at="", pin="", sort="graph", heat=False)
    answers = {}
    for name, report in registry.reports().items():
        if report.section is not None:
            here = replace(complete, devices=(state.on,)) if report.subject.several else complete
            answers[report.section.place] = name, report.section.heading, Answer[Any](name, here)
    return dict(sorted(answers.items()))


def _view(state: State) -> plain.Page:
    """Return all parts; CSV has the tree. Only HTML shows the plots, since in text their points would fill pages."""
    by_place: dict[int, plain.View | plain.Page] = {place: make(state) for place, make in PARTS.items()}
    for place, (_, heading, answer) in _answers(state).items():
        by_place[place] = msgspec.structs.replace(answer.view(), title=heading)
    parts = tuple(by_place[place] for place in sorted(by_place))
    full = next(part for part in parts if isinstance(part, plain.Table) and part.name == "tree")
    own_cards = cards(replace(state, devices=(state.on,), baseline=state.on))
    title = captions.place_in_words(state)
    return plain.Page("report", title, parts, csv=full, brief=OPEN, cards=own_cards)


def _brief(state: State) -> plain.Page:
    """Return the summary and the largest blocks."""
    blocks = _blocks(state)
    rows = tuple(row for row in blocks.rows if row.depth < 2)[:BLOCKS]
    footer = ("every section: --all, or -o report.html",)
    short = msgspec.structs.replace(blocks, rows=rows, footer=footer, notes=())
    summary = msgspec.structs.replace(_summary(state), title="")
    return plain.Page("report", captions.place_in_words(state), (summary, short))


def _document(state: State) -> dict[str, Any]:
    result = engine.result(state)
    compared = replace(state, devices=(state.on,), baseline=state.on, at="", pin="")
    return {
        **head_fields(result, on_device=True),
        "compare": Answer("compare", compared).to_dict(),
        **{name: answer.to_dict() for name, _, answer in _answers(state).values()},
    }


VERB = declare.Report(
    subject=declare.DEVICE, document=_document, view=_view, brief=_brief, examples={"report": "conv2d --on h100_sxm"}
)
