"""The answers of the views and the engine to the screen's requests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from analysis.document import Column
from analysis.estimate.tree_figures import operators_of
from analysis.model.ir.workload import Workload, uncovered_note
from hardware.base.text import percent
from hwexplorer import engine, registry
from hwexplorer.answer import Answer
from hwexplorer.declare import Report
from hwexplorer.state import State, replace
from hwexplorer.views import answer_lines, device_rows, plain, tree_view
from hwexplorer.views.captions import length_words

if TYPE_CHECKING:
    from analysis.explore.grid import Point
    from analysis.explore.wavefront_phases import Wavefront
    from hwexplorer.export.sheet import Sheet
    from hwexplorer.reports.why import NodeGain

_REPORTS = {"knobs": "tune"}  # pane -> its report, where the names differ
_FACT = re.compile(r"^(\S+) {2,}(.+?) {2,}")  # name and value in their columns


class ScreenQueries:
    """The screen's interface to the engine: functions of the state that take a few milliseconds. A wrong request
    raises RequestError."""

    # The costs of each device of the state, in their order; the tree.
    cards, tree = staticmethod(device_rows.cards), staticmethod(tree_view.view)
    # Which device is best, in sentences; the state against its pin.
    answer, verdict = staticmethod(answer_lines.answer), staticmethod(answer_lines.verdict)
    is_edited, revision = staticmethod(engine.is_edited), staticmethod(engine.revision)
    length_words = staticmethod(length_words)
    resolve_model_name = staticmethod(engine.resolve_model_name)

    def plot(self, state: State) -> plain.Plot:
        """Return the plot, whose points are keyed by operator."""
        from hwexplorer import plots  # not needed to start the screen

        return plots.plot(state)

    def ready(self, state: State) -> bool:
        """Return False for a model that must be captured first or takes long to read, or a trace that must be read."""
        return tree_view.is_read(state.trace) and engine.is_ready(state) and not engine.is_long_to_read(state)

    def capture(self, state: State) -> Any:
        """Return the job that makes the model of a state, or else its trace, ready."""
        if engine.is_long_to_read(state):
            return engine.ModelReading(engine.ref(state))
        is_of_model = tree_view.is_read(state.trace) or not engine.is_ready(state)
        return engine.capture_job(state) if is_of_model else tree_view.trace_annex().reading_job(state.trace)

    def under_traced_runtime(self, state: State) -> State:
        """Return the state with the runtime that its trace was recorded with, if it has no other one."""
        return state if not state.trace or not self.ready(state) else tree_view.trace_annex().under_runtime(state)

    def keep(self, state: State, made: Any) -> None:
        """Use the workload that a job made. A trace is kept by its job."""
        if isinstance(made, Workload):
            engine.keep(state, made)

    def next_step(self, state: State) -> NodeGain | None:
        """Return the setting that helps the node under the cursor most. It takes some estimates."""
        from hwexplorer.reports import why

        return why.next_step(state)

    def status(self, state: State) -> str:
        """Return in a short line the lengths, the work without a cost rule, and what the devices are compared with."""
        result = engine.result(state)
        note = f"only {percent(result.coverage, 1)} covered" if result.coverage < 1 else ""
        note = uncovered_note(result.workload, state.batch) or note
        examples = "four example chips" if state.devices == State().devices else ""
        baseline = f"baseline {state.baseline}" if len(state.devices) > 1 and state.baseline != state.on else ""
        return "; ".join(filter(None, (length_words(state), note, examples, baseline)))

    def turn_knob(self, state: State, by: int) -> State:
        """Step the knob up (1), down (-1), or to what the device has (0). Raises RequestError at the end."""
        from hwexplorer.reports.tune import tune

        return tune.step_selected_knob(state, by)

    def devices(self, state: State) -> plain.Table:
        """Return the catalogue; devices of the state are keyed as they are spelt there."""
        table = Answer("devices", state).view()
        assert isinstance(table, plain.Table)
        by_id = {engine.device(name).id: name for name in state.devices}
        column = Column("chosen", "In", role="text", keep=0)
        rows = tuple(
            replace(
                row, key=by_id.get(row.key, row.key), cells=(row.cells[0], "x" * (row.key in by_id), *row.cells[1:])
            )
            for row in table.rows
        )
        return replace(table, columns=(table.columns[0], column, *table.columns[1:]), rows=rows)

    def device_names(self, state: State) -> list[str]:
        """Return the names of all devices, those of the state as they are spelt there. No device is read."""
        by_id = {engine.device(name).id: name for name in state.devices}
        return [by_id.get(id, id) for id in engine.device_ids()]

    def device(self, name: str) -> plain.Text:
        """Return the sheet of a device. Tabs separate its facts, as in terms: a narrow screen would break columns."""
        page = Answer("devices", State(), device=name).view()
        assert isinstance(page, plain.Page)
        text = page.parts[0]
        assert isinstance(text, plain.Text)
        sections = [(head, tuple(_FACT.sub(r"\1\t\2 ", line) for line in lines)) for head, lines in text.sections]
        return replace(text, sections=tuple(sections))

    def point(self, state: State, device: str) -> Point:
        """Return the figures of the model of a state on a device. Raises RequestError if it cannot run there."""
        from analysis.explore import grid  # not needed to start the screen

        chips = (engine.device(device),)
        axes = grid.Axes((engine.workload(state),), chips, (state.batch,), (state.precision,), engine.scenario(state))
        return grid.evaluate(axes)[0]

    def operators_below(self, state: State) -> frozenset[str]:
        """Return the operators of the row `state.at`; if it merges blocks, the operators of every block."""
        result = engine.result(state)
        return frozenset(result.partition.operator_id[i] for i in operators_of(result, state.at).tolist())

    def device_key(self, name: str) -> str:
        """Return the one name of a device. Raises RequestError for an unknown name."""
        return engine.device(name).key

    def sheet(self, state: State, verb: str, width: int) -> Sheet | None:
        """Return the answer of a verb about a state; None if it needs a subprocess."""
        from hwexplorer.export.sheet import sheet

        report = registry.load(verb)
        if not isinstance(report, Report) or not report.on_screen:
            return None
        return sheet(Answer(verb, state).view(), width)

    def report(self, name: str, state: State) -> plain.Table | plain.Text | plain.Page:
        """Return the answer of a report about a state, for a pane of its name."""
        name = _REPORTS.get(name, name)
        report = registry.load(name)
        pane = report.about(state).pane if isinstance(report, Report) else None
        view = pane(state) if pane is not None else Answer(name, state).view()
        assert isinstance(view, plain.Table | plain.Text | plain.Page)
        return view

    def wavefront(self, state: State) -> Wavefront:
        """Return the operator under the cursor on all devices; beside a single one, on the usual ones of other
        architectures."""
        from hwexplorer.reports.show.wavefront import document

        names, architectures = state.devices, {engine.device(name).architecture for name in state.devices}
        usual = [name for name in State().devices if engine.device(name).architecture not in architectures]
        return document(replace(state, devices=names if len(names) > 1 else (*names, *usual)), 0.0)

    def at_its_batch(self, state: State) -> State:
        """Return the state at the only batch of its model, unchanged if it takes any. The model must be ready."""
        fixed = engine.fixed_batch(state)
        return state if fixed is None else replace(state, batch=fixed)

    def exported(self, state: State, view: str, form: str) -> str:
        """Return one view (a pane's name) as the content of a file in a format."""
        return _shown_answer(view, state).to_text(form)

    def command(self, state: State, view: str) -> str:
        """Return the command line that prints one view."""
        return _shown_answer(view, state).command


def _shown_answer(view: str, state: State) -> Answer[Any]:
    """Return the answer that a view shows. A tree is shown whole: `at` is only its cursor."""
    if view == "events" and state.zoom:
        from hwexplorer.reports.show import events

        if events.compares_devices(state):
            return Answer("why", state, sides=state.devices)
    if view == "knobs":
        from hwexplorer.reports.tune import tune

        state = replace(state, fact=tune.select_state_knob(state))
    return Answer(_REPORTS.get(view, view), replace(state, at="") if view == "tree" else state)
