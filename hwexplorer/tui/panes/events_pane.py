"""The pane of the events of the node under the cursor. Its open branches are no part of the state."""

from __future__ import annotations

from hwexplorer.tui.panes.view_pane import ViewPane
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.tree_table import TreeTable


class EventsPane(ViewPane):
    content: TreeTable
    double_click = "toggle"

    def make_content(self) -> TreeTable:
        return TreeTable(fold=True)

    def fill(self, views: Views) -> None:
        self.content.update(views.events, hide=self.hidden_roles())
        self.set_title(self.state.at or self.state.model)

    def do_toggle(self, is_open: bool | None = None) -> None:
        self.content.toggle(is_open)
        self.redraw()

    def do_open(self) -> None:
        self.do_toggle(True)

    def do_close(self) -> None:
        self.do_toggle(False)

    def do_subtree(self, opened: int) -> None:
        self.content.unfold(frozenset(r.key for r in self.content.table.rows if r.has_children and opened))
        self.redraw()
