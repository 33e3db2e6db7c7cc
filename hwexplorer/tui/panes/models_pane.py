"""The pane of the models, which typing narrows."""

from hwexplorer.state import replace
from hwexplorer.tui.panes.view_panes import ViewPane
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.framed_pane import FramedPane
from hwexplorer.tui.widgets.tree_table import TreeTable


class ModelsPane(ViewPane):
    """Lists the models that match the filter."""

    content: TreeTable

    def fill(self, views: Views) -> None:
        """Take the models that the filter leaves, with a mark on the one on screen."""
        is_new = not self.content.key
        is_captured = self.session.views is not None
        names = {row.key for row in views.models.rows}
        model = self.state.model if self.state.model in names else self.state.model.partition(":")[0]  # its phase cut
        self.content.mark = model if is_captured else ""
        self.content.update(views.models, only=self.state.filter.partition(":")[0])  # without a phase
        if is_new and is_captured:
            self.content.go(model)
        total, only = len(self.content.table.rows), self.state.filter
        if is_captured:
            narrowed = f"{len(self.content.visible)} of {total} · {only!r}"
            self.set_title(remark=narrowed if only else f"{total} of {total}")

    def pick(self, at: FramedPane.Clicked) -> bool:
        """Load the model that was clicked."""
        is_row = super().pick(at)
        if is_row and at.times == 1:
            self.do_choose()
        return is_row

    def do_find(self, step: int) -> None:
        """Go to the next or previous model."""
        self.do_move(step)

    def do_choose(self) -> None:
        """Load the model under the cursor. If the pane shows only with focus, clear the filter and go to the tree."""
        session, before = self.session, self.state.model
        if self.content.row is None:  # no row matches: the filter may be a name with settings, or the user's own file
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
