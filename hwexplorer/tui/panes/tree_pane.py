"""The pane of the model as a tree, whose open branches are part of the state."""

from hardware.base.errors import RequestError
from hwexplorer.state import SORTS, replace
from hwexplorer.tui.panes.view_panes import ViewPane
from hwexplorer.tui.session import row_query
from hwexplorer.tui.session.state_changes import open_branches
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views.captions import metric_word
from hwexplorer.views.plain import Table


class TreePane(ViewPane):
    """Shows the tree. Its open branches and its cursor are fields of the state."""

    content: TreeTable
    cursor, double_click = "at", "toggle"
    sort_keys, sort_fields = SORTS, ("sort", "descending", True)
    make_content = TreeTable
    finds_rows = False  # the session searches the tree, since matches may be in closed branches

    def fill(self, views: Views) -> None:
        """Take the tree with the open branches and the cursor of the state."""
        state = self.state
        sought = row_query.plain_words(state.find)
        self.content.find = sought[0] if sought else ""
        table, counted = self._narrow_rows(views.tree)
        opened = None if counted else open_branches(self.session.index, state.open, state.at)
        self.content.update(table, opened, hide=self.hidden_roles())
        self.content.go(state.at)
        place = f"sorted by {state.order} · {self.content.cursor + 1}/{len(self.content.visible)}"
        device = f"{views.device_name(state.on)}{' and others' * state.heat}"
        subject = f"find {state.find!r}" if counted else f"by {state.by}"
        self.set_title(f"{subject} · {device}", f"{counted} of the {metric_word(state.metric)}" if counted else place)

    def _narrow_rows(self, tree: Table) -> tuple[Table, str]:
        """Return the rows that the search finds, and their number in words; the whole tree if it finds none."""
        try:
            table, counted = row_query.narrow_tree(tree, self.state.find) if self.state.find else (tree, "")
        except RequestError:  # a condition is half typed
            return tree, ""
        return (table, counted) if table.rows else (tree, "")

    def put_cursor(self, key: str) -> None:
        """Put the cursor on a key, '' for the root."""
        if not self.session.apply(replace(self.state, at=key)):
            self.refill()

    def _apply_branches(self, at: str, opened: tuple[str, ...]) -> None:
        self.session.apply(replace(self.state, at=at, open=opened))

    def _open_except(self, key: str) -> tuple[str, ...]:
        return tuple(k for k in self.state.open if k != key)

    def do_open(self) -> None:
        """Open the branch, or go to its first child if it is open."""
        state, index = self.state, self.session.index
        if not (below := index.children(state.at)):
            return
        if state.at and state.at not in open_branches(index, state.open, state.at):
            self._apply_branches(state.at, (*state.open, state.at))
        else:
            self._apply_branches(below[0], state.open)

    def do_close(self) -> None:
        """Close the branch, or go to its parent."""
        state = self.state
        if state.at in state.open:
            self._apply_branches(state.at, self._open_except(state.at))
        elif not state.at:
            self._apply_branches("", ())
        else:
            self._apply_branches(self.session.index.parent.get(state.at) or "", state.open)

    def do_toggle(self) -> None:
        """Open or close the branch under the cursor; on a leaf, close its parent."""
        state, index = self.state, self.session.index
        if state.at in state.open or (not state.at and state.open):
            self.do_close()
        elif not state.at:
            self.do_subtree(1)
        elif index.children(state.at):
            self._apply_branches(state.at, (*state.open, state.at))
        else:  # on a leaf, close its parent and go there
            parent = index.parent.get(state.at) or ""
            self._apply_branches(parent, self._open_except(parent))

    def do_subtree(self, opened: int) -> None:
        """Open or close everything below the cursor."""
        state, index = self.state, self.session.index
        branches = index.branches([state.at, *index.descendants(state.at)]) - {""}
        rest = tuple(k for k in state.open if k not in branches)
        self._apply_branches(state.at, (*rest, *sorted(branches)) if opened else rest)
