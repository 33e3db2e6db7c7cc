"""A screen that has the size of its terminal, whatever size its messages tell, and the ground of a theme."""

from textual.geometry import Region, Size
from textual.screen import Screen
from textual.strip import Strip

from hwexplorer.tui.palette import COLOURS


class SizedScreen(Screen[None], inherit_css=False):
    """Textual's screen, which lays itself out for the present size of the terminal alone."""

    def _screen_resized(self, size: Size) -> None:
        # Each layout sends the screen the size that it had. Two sizes in a row, each overtaken by the message of the
        # other, would be laid out by turns for ever.
        super()._screen_resized(self.app.size)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return no lines once panes cover the screen: Textual would keep them after the end of the screen."""
        return [] if len(self._compositor.visible_widgets) > 1 else super().render_lines(crop)

    def take_ground(self, theme: str) -> None:
        """Have the ground of a theme behind what is drawn."""
        ground = COLOURS[theme].ground
        self.styles.background = "ansi_default" if ground == "default" else ground
