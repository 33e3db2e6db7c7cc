"""The architectural events of the node under the cursor: their branches are the pane's own affair."""

from __future__ import annotations

from hwexplorer.tui.panes.view import ViewPane
from hwexplorer.tui.views import Views
from hwexplorer.tui.widgets.table import TreeTable


class Events(ViewPane):
    content: TreeTable
    opens = "toggle"

    def made(self) -> TreeTable:
        return TreeTable(fold=True)

    def fill(self, views: Views) -> None:
        self.content.update(views.events, hide=self.hidden())
        self.entitle(self.state.at or self.state.model)

    def do_toggle(self, want: bool | None = None) -> None:
        self.content.toggle(want)
        self.redraw()

    def do_open(self) -> None:
        self.do_toggle(True)

    def do_close(self) -> None:
        self.do_toggle(False)

    def do_subtree(self, opened: int) -> None:
        self.content.unfold(frozenset(r.key for r in self.content.table.rows if r.has_children and opened))
        self.redraw()
