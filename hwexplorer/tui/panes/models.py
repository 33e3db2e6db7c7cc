"""The models: a drawer that narrows as one types."""

from __future__ import annotations

from contextlib import suppress

from textual.timer import Timer

from hardware.errors import RequestError
from hwexplorer.state import State, replace
from hwexplorer.tui.panes.view import ViewPane
from hwexplorer.tui.views import Views
from hwexplorer.tui.widgets.catalogue import ModelTable
from hwexplorer.tui.widgets.heads import EMPTY

QUIET = 0.2  # seconds


class Models(ViewPane):
    content: ModelTable
    opens = "choose"
    _quiet: Timer | None = None

    def made(self) -> ModelTable:
        return ModelTable()

    def fill(self, views: Views) -> None:
        is_new = not self.content.key
        is_captured = self.session.views is not None
        names = {row.key for row in views.models.rows}
        model = self.state.model if self.state.model in names else self.state.model.partition(":")[0]  # less its phase
        self.content.mark = model if is_captured else ""
        self.content.update(views.models, only=self.state.filter)
        if is_new and is_captured:
            self.content.go(model)
        total, only = len(self.content.table.rows), self.state.filter
        if is_captured:
            self.entitle(remark=f"{len(self.content.visible)} of {total} · {only!r}" if only else f"{total} of {total}")

        self._look()

    def redraw(self) -> None:
        super().redraw()
        self._look()

    def _look(self) -> None:
        """A picture of the model under the cursor, once that stands still."""
        if self.content.picture.name == self.content.key or not self.is_mounted:
            return
        if self._quiet is not None:
            self._quiet.stop()
        self._quiet = self.set_timer(QUIET, self._draw_picture)

    def _draw_picture(self) -> None:
        key, known = self.content.key, None
        if self.is_on_screen and key:
            with suppress(RequestError):  # such a name asks for more; loading it says what
                known = self.session.provider.picture(State(model=key))
        self.content.picture = replace(known or EMPTY, name=key)
        super().redraw()

    def depends(self, views: Views) -> object:
        return (views.models, self.state.filter, self.state.model, self.content.cursor)

    def do_find(self, step: int) -> None:
        self.do_move(step)

    def do_choose(self) -> None:
        """Load the model under the cursor; where the models were a drawer it closes."""
        session, before = self.session, self.state.model
        if self.content.row is None:  # no name in the list: one with what is asked of it, or a file of one's own
            session.stage.submit(f"model {self.state.filter}")
            if session.jobs or self.state.model != before:
                session.apply(replace(self.state, filter="", pane="tree"))
            return
        state = self.session.with_model(self.content.key)
        in_tree = replace(state, pane="tree")
        self.session.apply(state if self.pane in self.session.in_sight(in_tree) else in_tree)
