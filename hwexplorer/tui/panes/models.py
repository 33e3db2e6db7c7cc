"""The models: a drawer that narrows as one types."""

from __future__ import annotations

from hwexplorer.state import replace
from hwexplorer.tui.panes.view import ViewPane
from hwexplorer.tui.views import Views
from hwexplorer.tui.widgets.table import TreeTable


class Models(ViewPane):
    content: TreeTable
    opens = "choose"

    def fill(self, views: Views) -> None:
        is_new = not self.content.key
        is_captured = self.session.views is not None
        self.content.mark = self.state.model if is_captured else ""
        self.content.update(views.models, only=self.state.filter)
        if is_new and is_captured:
            self.content.go(self.state.model)
        total, only = len(self.content.table.rows), self.state.filter
        if is_captured:
            self.entitle(remark=f"{only!r} {len(self.content.visible)} of {total}" if only else f"{total} of {total}")

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
