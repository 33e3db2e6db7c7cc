"""The views of a state handed to the panes, and the lines around them."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from hwexplorer.state import PANES, PLOTS
from hwexplorer.tui import lines, prompts, query, standing
from hwexplorer.tui.navigate import shown
from hwexplorer.tui.views import linked
from hwexplorer.tui.widgets.pane import Pane

if TYPE_CHECKING:
    from hwexplorer.tui.app import HwExplorer


def stamp(app: HwExplorer, pane: Pane) -> object:
    """What the drawing of a pane depends on, where that seldom changes; None: draw it anew."""
    views, state = app.views, app.state
    if views is None or pane.pane not in ("models", "compare"):
        return None
    shared = (pane.active, id(pane.palette), pane.heading, pane.remark)
    if pane.pane == "models":
        return (views.models, state.filter, state.model, app.models.cursor, *shared)
    return (views.compare, state.on, bool(state.diff and state.pin), *shared)


def fill(app: HwExplorer) -> None:
    """Give each pane its view, its title and its remark."""
    views, state = app.views, app.state
    if views is None:  # nothing captured yet: the models can be looked at all the same
        app.models.update(app.cache.view("models", state), only=state.filter)
        return
    hide = () if state.diff and state.pin else ("delta",)
    app.models.mark, app.compare.mark = state.model, state.on
    seen = app.wanted(state)
    if "models" in seen:
        started = bool(app.models.key)
        app.models.update(views.models, only=state.filter)
        if not started:
            app.models.go(state.model)
    if "compare" in seen:
        app.compare.update(views.compare, hide=hide)
        app.compare.go(state.on)
    app.strip.show(views.cards, state.on)
    sought = query.words(state.find)
    app.outline.find = sought[0] if sought else ""
    app.outline.update(views.tree, shown(app.index, state.open, state.at), hide=hide)
    app.outline.go(state.at)
    if "events" in seen:
        app.events.update(views.events, hide=hide)
    if "heat" in seen:
        app.heat.update(views.heat)
        app.heat.go(state.at)
        app.panes["heat"].heading = f"Blocks x devices · {state.metric}"
    if "why" in seen:
        app.why.update(views.why)
    if "plot" in seen:
        app.plot.update(views.plot, linked(state), views.below)
    if "knobs" in seen:
        app.knobs.show(views.knobs, state.metric)
        app.knobs.go(state.fact)
    for name in PANES:
        pane = app.panes[name]
        pane.heading = lines.heading(name, state, views)
        pane.remark = _remark(app, name)


def _remark(app: HwExplorer, name: str) -> str:
    state = app.state
    if name == "tree":
        order = state.sort if state.descending else f"{state.sort} reversed"
        find = f"find {state.find!r} · " if state.find else ""
        fold = f"from {state.fold:g} % · " if state.fold else ""
        return f"{find}{fold}{order} · {app.outline.cursor + 1}/{len(app.outline.visible)}"
    if name == "compare" and state.rank != "given":
        return f"by {state.rank}{' reversed' if state.rank_reverse else ''}"
    if name == "plot":
        return f"{PLOTS.index(state.plot) + 1}/{len(PLOTS)}"  # its name is in the title
    if name == "models":
        total = len(app.models.table.rows)
        return f"{state.filter!r} {len(app.models.visible)} of {total}" if state.filter else f"{total} of {total}"
    return ""


def lines_around(app: HwExplorer, width: int) -> None:
    """The lines around the panes; the foot is whatever is most urgent."""
    state, colours = app.state, app.colours
    status = ""
    if app.views is not None:
        seen = "compare" in app.boxes(width, app.size.height)  # else the verdict has its place up here
        told = app.views.verdict.partition(": ")[2]  # the names stand beside it already
        status = app.views.status if seen or not told else told
    segments, app.places["head"] = lines.head(state, status, width, colours)
    app.bars["head"].show(segments)
    segments, app.places["tabs"] = lines.tabs(state, width, colours)
    app.bars["tabs"].show(segments)
    app.places["foot"] = []
    if app.prompt is not None:
        app.bars["foot"].show(lines.prompt_line(app.prompt, prompts.prompt_note(app), width, colours))
    elif app.said is not None:
        segments, app.places["foot"] = lines.message(*app.said, width, colours, state, app.keymap)
        app.bars["foot"].show(segments)
    elif app.errand is not None:
        elapsed = monotonic() - app.errand.started
        app.bars["foot"].show(lines.progress(app.errand.name, -1.0, elapsed, width, colours))
    elif app.capture is not None:
        phase, fraction = app.capture.progress()
        elapsed = monotonic() - app.capture.started
        app.bars["foot"].show(lines.progress(phase, fraction, elapsed, width, colours))
    else:
        stands = standing.standing(app, width)
        segments, app.places["foot"] = lines.foot(state, width, colours, app.keymap, stands)
        app.bars["foot"].show(segments)
