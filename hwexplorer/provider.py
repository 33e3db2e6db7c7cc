"""What the screen asks for, answered by the views and the engine."""

from __future__ import annotations

from pathlib import Path

from analysis.workload.errors import ModelError
from analysis.workload.job import CaptureJob
from hwexplorer import engine
from hwexplorer.state import State, replace
from hwexplorer.views import compare, events, models, plot, tree, why
from hwexplorer.views.plain import Plot, Table, Text


class Job:
    """A capture as the screen watches it; `poll` never blocks. It has finished once `poll` has seen its end."""

    def __init__(self, job: CaptureJob, state: State) -> None:
        self._job, self._state = job, state
        self.finished = False
        self.error = ""

    def start(self) -> None:
        self._job.start()

    def poll(self) -> tuple[str, float]:
        if self._job.done and not self.finished:
            try:
                engine.keep(self._state, self._job.result())
            except ModelError as error:
                self.error = str(error)
            self.finished = True
        return self._job.progress

    def cancel(self) -> None:
        self._job.cancel()


class Engine:
    """The provider of the screen (hwexplorer/tui/provider.py)."""

    def models(self, state: State) -> Table:
        return models.models(state)

    def compare(self, state: State) -> Table:
        return compare.compare(state)

    def tree(self, state: State) -> Table:
        return tree.tree(state)

    def events(self, state: State) -> Table:
        return events.events(state)

    def why(self, state: State) -> Text:
        return why.why(state)

    def plot(self, state: State) -> Plot:
        return plot.plot(state)

    def status(self, state: State) -> str:
        result = engine.result(state)
        known = "" if result.coverage == 1 else f"{result.coverage:.0%} of operators covered"
        return "; ".join(part for part in (known, *result.marks) if part)

    def ready(self, state: State) -> bool:
        return engine.is_ready(state)

    def capture(self, state: State) -> Job:
        return Job(engine.capture_job(state), state)

    def export(self, state: State, view: str, path: Path, overwrite: bool) -> str:
        from hwexplorer.export import files
        from hwexplorer.export.render import render

        # On the screen `at` is where the cursor stands, not the part of the tree that is shown.
        shown = replace(state, at="") if view == "tree" else state
        files.write(path, render(shown, view, files.format_of(path)), overwrite)
        return f"{view} written to {path}"
