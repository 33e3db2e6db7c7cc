"""The pane of the models, which typing narrows."""

from __future__ import annotations

from contextlib import suppress

from textual.timer import Timer

from hardware.errors import RequestError
from hwexplorer.state import State, replace
from hwexplorer.tui.panes.view_panes import ViewPane
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.model_table import ModelTable
from hwexplorer.views.plain import EMPTY_TABLE

QUIET_S = 0.2  # without a move of the cursor


class ModelsPane(ViewPane):
    """The models; those that the filter leaves."""

    content: ModelTable
    double_click = "choose"
    make_content = ModelTable
    _timer: Timer | None = None

    def fill(self, views: Views) -> None:
        """Take the view and the title."""
        is_new = not self.content.key
        is_captured = self.session.views is not None
        names = {row.key for row in views.models.rows}
        model = self.state.model if self.state.model in names else self.state.model.partition(":")[0]  # less its phase
        self.content.mark = model if is_captured else ""
        self.content.update(views.models, only=self.state.filter.partition(":")[0])  # a phase is none of its name
        if is_new and is_captured:
            self.content.go(model)
        total, only = len(self.content.table.rows), self.state.filter
        if is_captured:
            narrowed = f"{len(self.content.visible)} of {total} · {only!r}"
            self.set_title(remark=narrowed if only else f"{total} of {total}")
        self._schedule_picture()

    def redraw(self) -> None:
        """Draw again, and the picture once the cursor stands still."""
        super().redraw()
        self._schedule_picture()

    def _schedule_picture(self) -> None:
        """Draw the parts of the model under the cursor once that stands still."""
        if self.content.picture.name == self.content.key or not self.is_mounted:
            return
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(QUIET_S, self._draw_picture)

    def _draw_picture(self) -> None:
        key, known = self.content.key, None
        if self.is_on_screen and key:
            with suppress(RequestError):  # such a name asks for more; loading it says what
                known = self.session.provider.picture(State(model=key))
        self.content.picture = replace(known or EMPTY_TABLE, name=key)
        super().redraw()

    def drawing_key(self, views: Views) -> object:
        """Return the view and the cursor that the drawing follows from."""
        return (views.models, self.state.filter, self.state.model, self.content.cursor)

    def do_find(self, step: int) -> None:
        """Go to the next model, or the one before."""
        self.do_move(step)

    def do_choose(self) -> None:
        """Load the model under the cursor; a drawer of models closes, and opens again with all of them."""
        session, before = self.session, self.state.model
        if self.content.row is None:  # no name in the list: one with what is asked of it, or a file of one's own
            from hwexplorer.tui.commands.command_line import submit  # not needed to start the screen

            submit(session, f"model {self.state.filter}")
            if session.jobs or self.state.model != before:
                session.apply(replace(self.state, filter="", pane="tree"))
            return
        _, colon, asked = self.state.filter.partition(":")
        state = self.session.with_model(f"{self.content.key}:{asked}" if colon else self.content.key)
        in_tree = replace(state, pane="tree")
        is_drawer = self.pane not in self.session.visible_boxes(in_tree)
        self.session.apply(replace(in_tree, filter="") if is_drawer else state)
