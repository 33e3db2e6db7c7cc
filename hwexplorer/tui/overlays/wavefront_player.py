"""An overlay that plays an operator as it runs on several machines, beside each other."""

from functools import partialmethod
from typing import ClassVar

from rich.segment import Segment
from textual.binding import Binding, BindingType

from analysis.explore import wavefront_phases
from hardware.base.text import percent, quantity
from hwexplorer import engine
from hwexplorer.tui.overlays import overlay_screen
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.session.session import TextOpened
from hwexplorer.tui.widgets.framed_pane import Content, FramedPane
from hwexplorer.views import layout, plain, wavefront_drawing

FRAME_S = 0.1
DURATION_S = 8.0  # of the whole operator, at speed 1
STEP = 0.01  # of the time, by a key
FASTEST = 8.0


class MachineGrid(Content):
    """Machines at a moment, as many as have room, under a line that says which finishes first. With `one_clock` all
    have the time of the slowest, else each is at the same part of its own."""

    def __init__(self, machines: tuple[wavefront_phases.WavefrontMachine, ...]) -> None:
        self.machines, self.first, self.at, self.one_clock = machines, 0, 0.0, True
        self._lines: list[list[Segment]] | None = None
        timed = sorted((each for each in machines if each.latency_s), key=lambda each: each.latency_s)
        names = [f"{engine.marked_key(each.device)} {quantity(each.latency_s, 's')}" for each in timed]
        self._order = f"first done: {', '.join(names)}" if len(names) > 1 else ""

    def forget(self) -> None:
        """Drop the drawing."""
        self._lines = None

    @property
    def visible(self) -> tuple[wavefront_phases.WavefrontMachine, ...]:
        """The machines on screen."""
        columns, rows = wavefront_drawing.fit_machines(len(self.machines), self.width, self.height - 1)
        return self.machines[self.first : self.first + columns * rows]

    def states(self) -> list[wavefront_phases.WavefrontState]:
        """Return the moment of each machine on screen."""
        now = self.at * max(machine.latency_s for machine in self.machines)
        return [
            wavefront_phases.machine_state(
                machine, now / machine.latency_s if self.one_clock and machine.latency_s else self.at
            )
            for machine in self.visible
        ]

    def line(self, y: int, palette: Palette, focused: bool) -> list[Segment]:
        """Return line `y` of the drawings."""
        if self._lines is None:
            pairs = list(zip(self.visible, self.states(), strict=True))
            order = layout.whole(self._order, self.width, ", ")
            lines = [[(order, "strong")], *wavefront_drawing.draw_machines(pairs, self.width, self.height - 1)]
            self._lines = [[Segment(text, palette.get(role)) for text, role in line] for line in lines]
        return self._lines[y] if y < len(self._lines) else []


_DRAWING = "Left the blocks of the result, right the cells of one unit, or all units; above, the phases in time"


class WavefrontPlayer(overlay_screen.OverlayScreen):
    """Plays the time of an operator: all machines on one clock, or each in its own time."""

    content: MachineGrid
    words: tuple[str, ...] = ("show", "wavefront")
    BINDINGS: ClassVar[list[BindingType]] = [
        *overlay_screen.ENDS,
        Binding("space", "play", "plays"),
        Binding("left,h", "before", "steps", key_display="← →"),
        Binding("right,l", "after", ""),
        Binding("tab,n", "others", "others"),
        Binding("c", "clock", "clock"),
        Binding("plus,equals_sign,up,k", "faster", "speed", key_display="+ -"),
        Binding("minus,down,j", "slower", ""),
        overlay_screen.EXPORT,
        Binding("home,g,0", "start", "start"),
        Binding("end,G", "end", ""),
        Binding("W", "close", ""),
        Binding("question_mark,f1", "help", "help", key_display="?"),
    ]

    def __init__(
        self, host: overlay_screen.Host, node: str, machines: tuple[wavefront_phases.WavefrontMachine, ...]
    ) -> None:
        self.content = MachineGrid(machines)
        super().__init__(host, "wavefront", self.content)
        self.pane.heading = f"Wavefront · {node}"
        self.speed, self.is_playing = 1.0, True

    def on_mount(self) -> None:
        """Play from the first moment."""
        self.set_interval(FRAME_S, self.advance)
        self._draw()

    def on_resize(self) -> None:
        """Draw for the new size."""
        super().on_resize()
        self.content.first = 0
        self.call_after_refresh(self._draw)

    def _draw(self) -> None:
        content = self.content
        content.forget()
        clock = "one clock" if content.one_clock else "each its own time"
        self.pane.remark = (
            f"{percent(content.at)} · {'plays' if self.is_playing else 'paused'} {self.speed:g}x · {clock}"
        )
        self.pane.caption = (
            [Segment(wavefront_drawing.LEGEND, self.pane.palette.get("dim"))]
            if self.size.width > len(wavefront_drawing.LEGEND) + 8
            else []
        )
        self.pane.redraw()

    def _pause_at(self, at: float) -> None:
        self.is_playing, self.content.at = False, min(max(at, 0.0), 1.0)
        self._draw()

    def advance(self) -> None:
        """Go on by one frame if it plays; pause at the end."""
        if self.is_playing:
            self.content.at = min(self.content.at + FRAME_S * self.speed / DURATION_S, 1.0)
            self.is_playing = self.content.at < 1.0
            self._draw()

    def action_play(self) -> None:
        """Play, from the beginning if it has ended, or pause."""
        self.content.at *= self.content.at < 1.0
        self.is_playing = not self.is_playing
        self._draw()

    def _step(self, count: int) -> None:
        self._pause_at(round(self.content.at / STEP + count) * STEP)

    def _multiply_speed(self, factor: float) -> None:
        self.speed = min(max(self.speed * factor, 1.0 / FASTEST), FASTEST)
        self._draw()

    action_before, action_after = partialmethod(_step, -1), partialmethod(_step, 1)
    action_start, action_end = partialmethod(_pause_at, 0.0), partialmethod(_pause_at, 1.0)
    action_slower, action_faster = partialmethod(_multiply_speed, 0.5), partialmethod(_multiply_speed, 2.0)

    def action_clock(self) -> None:
        """Show all machines on one clock, or each at the same part of its own time."""
        self.content.one_clock = not self.content.one_clock
        self._draw()

    def action_others(self) -> None:
        """Show the machines that have no room beside these."""
        content = self.content
        content.first += len(content.visible)
        content.first *= content.first < len(content.machines)
        self._draw()

    def action_export(self) -> None:
        """Ask for a file to write this moment to."""
        self.is_playing = False
        devices = ",".join(machine.device for machine in self.content.machines)
        self.words = ("show", "wavefront", "--at", f"{self.content.at:.4g}", "--on", devices)
        super().action_export()

    def action_help(self) -> None:
        """Show what the drawing means, and the keys."""
        self.is_playing = False
        keys = tuple(f"{sign}\t{says}" for _, sign, says in self.hints)
        text = plain.Text("help", "Wavefront", ((_DRAWING, (wavefront_drawing.LEGEND,)), ("Keys", keys)))
        self.session.emit(TextOpened("help", "Wavefront", text))

    def on_framed_pane_clicked(self, at: FramedPane.Clicked) -> None:
        """Play or pause."""
        self.action_play()
