"""The pane of the facts of the device under the cursor, to be turned."""

from __future__ import annotations

from hwexplorer.tui.panes.view_pane import ViewPane
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.widgets.framed_pane import FramedPane
from hwexplorer.tui.widgets.knob_content import KnobContent


class KnobsPane(ViewPane):
    """The knobs of a device, the curve of one, and what the device costs by them."""

    content: KnobContent
    cursor = "fact"

    def make_content(self) -> KnobContent:
        """Create what draws the view."""
        return KnobContent()

    def fill(self, views: Views) -> None:
        """Take the view and the title."""
        self.content.show(views.knobs, self.state.metric)
        self.content.go(self.state.fact)
        self.set_title(views.device_name(self.state.on))

    def pick(self, at: FramedPane.Clicked) -> bool:
        """Turn the knob under the cursor: down on the left half of its row, up on the right."""
        if self.content.head_at(at.x, at.y) is None and self.content.key_at(at.y) == self.state.fact:
            self.session.do_turn(1 if at.x >= self.content.width // 2 else -1)
        return super().pick(at)

    def wheel(self, at: FramedPane.Wheeled) -> bool:
        """Turn the knob under the cursor where the wheel is over its row."""
        is_over_knob = self.content.is_cursor_row(at.y)
        if is_over_knob:
            self.session.do_turn(-1 if at.by > 0 else 1)
        return is_over_knob
