"""The one screen: where the panes are, and where its keys go."""

from __future__ import annotations

from textual import events
from textual.geometry import NULL_OFFSET, Region, Size, Spacing
from textual.layout import Layout, WidgetPlacement
from textual.screen import Screen
from textual.widget import Widget


class PaneLayout(Layout):
    """Places the panes where the pure `arrange` says; a pane that is not mentioned is not drawn."""

    name = "panes"

    def arrange(self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True) -> list[WidgetPlacement]:
        boxes = parent.app.boxes(size.width, size.height)  # type: ignore[attr-defined]
        return [
            WidgetPlacement(Region(*boxes[child.id]), NULL_OFFSET, Spacing(), child)
            for child in children
            if child.id in boxes
        ]


class Explorer(Screen[None]):
    """The one screen. Keys go to the app's registry, not to a chain of bindings."""

    _panes = PaneLayout()

    @property
    def layout(self) -> Layout:
        return self._panes

    def on_key(self, event: events.Key) -> None:
        if self.app.press_key(event.key, event.character):  # type: ignore[attr-defined]
            event.stop()
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        self.app.paste(event.text)  # type: ignore[attr-defined]
