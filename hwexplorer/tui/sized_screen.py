"""A screen that has the size of its terminal, whatever size its messages tell, and the ground of a theme."""

from textual.geometry import Size
from textual.screen import Screen

from hwexplorer.tui.palette import COLOURS


class SizedScreen(Screen[None], inherit_css=False):
    """Textual's screen, which lays itself out for the present size of the terminal alone."""

    def _screen_resized(self, size: Size) -> None:
        # Each layout sends the screen the size that it had. Two sizes in a row, each overtaken by the message of the
        # other, would be laid out by turns for ever.
        super()._screen_resized(self.app.size)

    def take_ground(self, theme: str) -> None:
        """Have the ground of a theme behind what is drawn."""
        ground = COLOURS[theme].ground
        self.styles.background = "ansi_default" if ground == "default" else ground
