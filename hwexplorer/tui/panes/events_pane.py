"""The pane of the events of the node under the cursor. Its open branches are no part of the state."""

from __future__ import annotations

from hwexplorer.tui.panes.view_pane import ViewPane
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.tree_table import TreeTable


class EventsPane(ViewPane):
    """The events of a node; its branches are the pane's own."""

    content: TreeTable
    double_click = "toggle"

    def make_content(self) -> TreeTable:
        """Create what draws the view."""
        return TreeTable(fold=True)

    def fill(self, views: Views) -> None:
        """Take the view and the title."""
        self.content.update(views.events, hide=self.hidden_roles())
        self.set_title(self.state.at or self.state.model)

    def do_toggle(self, is_open: bool | None = None) -> None:
        """Open or close what the cursor is on."""
        self.content.toggle(is_open)
        self.redraw()

    def do_open(self) -> None:
        """Open the branch."""
        self.do_toggle(True)

    def do_close(self) -> None:
        """Close the branch, or go to its parent."""
        self.do_toggle(False)

    def do_subtree(self, opened: int) -> None:
        """Open or close everything below the cursor."""
        self.content.unfold(frozenset(r.key for r in self.content.table.rows if r.has_children and opened))
        self.redraw()
