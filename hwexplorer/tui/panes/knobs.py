"""The facts of the device under the cursor, to be turned."""

from __future__ import annotations

from hwexplorer.tui.panes.view import ViewPane
from hwexplorer.tui.views import Views
from hwexplorer.tui.widgets.knobs import KnobTable
from hwexplorer.tui.widgets.pane import Pane


class Knobs(ViewPane):
    content: KnobTable
    cursor = "fact"

    def made(self) -> KnobTable:
        return KnobTable()

    def fill(self, views: Views) -> None:
        self.content.show(views.knobs, self.state.metric)
        self.content.go(self.state.fact)
        self.entitle(views.device(self.state.on))

    def pick(self, at: Pane.Clicked) -> bool:
        """The halves of the row under the cursor turn it."""
        if self.content.head_at(at.x, at.y) is None and self.content.at(at.y) == self.state.fact:
            self.session.do_turn(1 if at.x >= self.content.width // 2 else -1)
        return super().pick(at)

    def wheel(self, at: Pane.Wheeled) -> bool:
        """Over the knob that is looked at it turns it."""
        is_here = self.content.is_here(at.y)
        if is_here:
            self.session.do_turn(-1 if at.by > 0 else 1)
        return is_here
