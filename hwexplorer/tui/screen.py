"""The one screen: the panes that show the session, the lines around them, what lies over them, and where its keys go.

A key becomes an action, an action a new state of the session, which has its views shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from textual import events
from textual.layout import Layout
from textual.screen import Screen
from textual.timer import Timer

from hardware.errors import unknown
from hwexplorer.state import State, led, replace
from hwexplorer.tui import lines, panes
from hwexplorer.tui.layout import Box
from hwexplorer.tui.palette import THEMES, Palette
from hwexplorer.tui.session import Session
from hwexplorer.tui.widgets.pane import Line, Pane, PaneLayout
from hwexplorer.tui.widgets.strip import CardStrip
from hwexplorer.tui.widgets.table import TreeTable
from hwexplorer.views.plain import Text

if TYPE_CHECKING:
    from hwexplorer.export.sheet import Sheet
    from hwexplorer.tui.ahead import Ahead
    from hwexplorer.tui.overlays.overlay import Overlay
    from hwexplorer.tui.prompts import Prompt

MESSAGE_SECONDS = 6.0
EVERY = 0.1  # seconds between two looks at the work beside the screen


class Explorer(Screen[None]):
    """The stage of a session. Keys go to the registry of actions, not to a chain of bindings."""

    _panes = PaneLayout()

    def __init__(self, look: str, ascii: bool, remark: str, **about: Any) -> None:
        """`remark` is said at once; `about` is what `Session` takes."""
        super().__init__()
        self.session = session = Session(stage=self, **about)
        self.look, self.ascii, self._remark = look, ascii, remark
        self.colours = colours = Palette(look, ascii)
        self.views = panes.load(session, colours)
        self.strip = CardStrip(colours)
        self.bars = {name: Line(name, colours) for name in ("head", "tabs", "foot")}
        self.prompt: Prompt | None = None
        self.ahead: Ahead | None = None
        self._saying: Timer | None = None
        self._polling: Timer | None = None
        self._arrangement: object = None
        self._places: dict[str, list[lines.Place]] = {}  # what a click on a line means

    @property
    def layout(self) -> Layout:
        return self._panes

    @property
    def state(self) -> State:
        return self.session.state

    @property
    def outline(self) -> TreeTable:
        """The rows of the tree as they are drawn."""
        content: TreeTable = self.views["tree"].content
        return content

    def on_mount(self) -> None:
        self.session.size = (self.app.size.width, self.app.size.height)
        self.mount(*self.bars.values(), self.strip, *self.views.values())
        if self.session.views is None:
            self.session.capture(self.state)
        self.show()
        if self._remark:
            self.session.say(self._remark, "warn")

    def resized(self, width: int, height: int) -> None:
        self.session.size = (width, height)
        self.show_lines()
        self.call_after_refresh(self.show)  # panes that come in sight have views to be made

    def _compositor_refresh(self) -> None:
        if self.over is None:  # Textual would send what covers all of it anew, with every key
            super()._compositor_refresh()

    # --- drawing ------------------------------------------------------------------------------------------

    @property
    def over(self) -> Overlay | None:
        """What lies over the panes, the uppermost."""
        over = [each for each in self.app.screen_stack if each.has_class("overlay")]
        return cast("Overlay", over[-1]) if over else None

    @property
    def overlay(self) -> str:  # help, sheet, report, picker, results
        return (self.over.name or "") if self.over is not None else ""

    @property
    def is_bare(self) -> bool:
        """Nothing lies over the panes, and nothing is being typed."""
        return not self.overlay and self.prompt is None and self.is_current

    def boxes(self, width: int, height: int) -> dict[str, Box]:
        return self.session.in_sight(self.state, (width, height))

    def follow(self) -> None:
        self.show()
        self.wake()

    def wake(self) -> None:
        """What is computed ahead waits until it is quiet again."""
        if self.ahead is not None:
            self.ahead.wake()

    def show(self) -> None:
        """Hand the views to the panes and repaint."""
        if not self.is_running:
            return
        session, state = self.session, self.state
        if session.views is None:  # nothing captured yet: the models can be looked at all the same
            views = session.cache.views(state)
            self.views["models"].fill(views)
        else:
            views = session.views
            self.strip.show(views.cards, state.on)
            for name in session.wanted(state):
                if name in self.views:
                    self.views[name].fill(views)
        for name, pane in self.views.items():
            pane.active = name == state.pane
        self.show_lines()
        if self.over is not None:
            return  # drawn when it is seen again
        arrangement = (state.pane, state.zoom, len(state.devices))
        if arrangement != self._arrangement:
            self._arrangement = arrangement
            self.bars["head"].refresh(layout=True)  # a child: that is what makes its parent place anew
        seen = self.boxes(*self.size)
        for name, pane in self.views.items():
            if name in seen:
                pane.redraw_if(pane.stamp(views))

    def show_lines(self) -> None:
        """The lines around the panes; the foot is whatever is most urgent."""
        session, state, colours = self.session, self.state, self.colours
        width, height = session.size
        status = ""
        if session.views is not None:
            seen = "compare" in self.boxes(width, height)  # else the verdict has its place up here
            told = session.views.verdict.partition(": ")[2].replace(", ", "; ")  # the names stand beside it already
            status = session.views.status if seen or not told else told
        segments, self._places["head"] = lines.head(state, status, width, colours)
        self.bars["head"].show(segments)
        segments, self._places["tabs"] = lines.tabs(state, width, colours)
        self.bars["tabs"].show(segments)
        hints = session.keymap.hints(state.pane)
        segments, self._places["foot"] = lines.told(session, self.prompt, hints, width, colours)
        self.bars["foot"].show(segments)
        if self.over is not None:
            self.over.tell()

    def tell(self) -> None:
        if self._saying is not None:
            self._saying.stop()
        if self.is_running:
            self._saying = self.set_timer(MESSAGE_SECONDS, self.session.hush)
            self.show_lines()

    def attend(self) -> None:
        if self._polling is None:
            self._polling = self.set_interval(EVERY, self._poll)
        else:
            self._polling.resume()

    def _poll(self) -> None:
        if not self.session.poll() and self._polling is not None:
            self._polling.pause()

    def dress(self, look: str | None = None) -> None:
        if look is not None:
            self.look = look
            self.app.theme = f"hw-{look}"
        self.colours = Palette(self.look, self.ascii)
        is_old = any(job.dims for job in self.session.jobs)
        old = Palette(self.look, self.ascii, dimmed=True) if is_old else self.colours
        for name, pane in self.views.items():
            pane.palette = self.colours if name == "models" else old
            pane.content.forget()
        for bar in self.bars.values():
            bar.palette = self.colours
        self.strip.palette = old
        self.show()

    # --- what lies over the panes -------------------------------------------------------------------------

    def submit(self, line: str) -> None:
        """Do what a line after `:` says."""
        from hwexplorer.tui.command import submit  # not needed to start the screen, as other imports below

        submit(self.session, line)

    def ask(self, prompt: Prompt | None) -> None:
        """A line to type in the foot of what is uppermost, or no longer one."""
        (self.over or self).prompt = prompt
        self.show_lines()

    def cover(self, overlay: Overlay) -> None:
        self.app.push_screen(overlay)

    def show_text(self, name: str, heading: str, text: Text) -> None:
        from hwexplorer.tui.overlays.reading import Reading

        self.cover(Reading(self.session, name, heading, text))

    def present(self, name: str, sheet: Sheet, go: Callable[[str], State] | None = None) -> None:
        if sheet.table is None:
            text = Text("report", sheet.title, (("", tuple(sheet.text.rstrip().split("\n"))),))
            self.show_text("report", name.title(), text)
        else:
            from hwexplorer.tui.overlays.results import Results

            go = go or (lambda leads: led(self.state, leads))
            self.cover(Results(self.session, name, sheet, sheet.table, go))

    def export(self, name: str) -> None:
        from hwexplorer.tui.exports import export

        export(self.session, name)

    # --- keys and mouse -----------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        if self.press_key(event.key, event.character):
            event.stop()
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        self.paste(event.text)

    def paste(self, text: str) -> None:
        if (prompt := (self.over or self).prompt) is not None:
            prompt.paste(text)

    def press_key(self, key: str, character: str | None) -> bool:
        """True when the key meant something."""
        session, keymap = self.session, self.session.keymap
        self.wake()
        if key.startswith("alt+") and keymap.find(key, self.state.pane) is None:
            self.press_key("escape", None)  # typed right after it: two keys that a terminal sends as one
            key = key.removeprefix("alt+")
        if (prompt := (self.over or self).prompt) is not None:
            prompt.press(key, character)
            return True
        said = session.hush()
        if self.over is not None:
            return self.over.press(key, character)
        action = keymap.of(key, character, self.state.pane)
        if action is None:
            return False
        self._do(action.id, said)
        return True

    def _do(self, id: str, said: tuple[str, str] | None) -> None:
        """An action, after what was said; what there was no room for is shown by help."""
        if id == "help" and said is not None and lines.is_cut(said[0], self.size.width):
            self.show_text("report", "Said", Text("report", "", (("", (said[0],)),)))
        else:
            self.perform(id)

    def perform(self, id: str) -> None:
        """Do an action of the registry by its name: from a key, the palette, the mouse or a test."""
        action = self.session.keymap.by_id[id]
        if action.change is not None:
            wanted = action.change(self.state)
            if wanted == self.state and action.group != "Panes":
                self.session.say(f"nothing to change: {action.help[0].lower()}{action.help[1:]}", "dim")
            self.session.apply(wanted)
            return
        there = [self.views[name] for name in (self.state.pane, *action.panes)]
        owners = (*there, self.session, self, self.app)
        does = next(does for owner in owners if (does := getattr(owner, f"do_{action.effect}", None)) is not None)
        does(*(() if action.argument is None else (action.argument,)))

    def on_pane_clicked(self, message: Pane.Clicked) -> None:
        if self.prompt is None:
            self.views[message.pane].click(message)

    def on_pane_wheeled(self, message: Pane.Wheeled) -> None:
        pane = self.views[message.pane]
        if self.prompt is not None or not pane.wheel(message):
            pane.scroll_content(message.by)

    def on_card_strip_clicked(self, message: CardStrip.Clicked) -> None:
        if self.prompt is None:
            state = replace(self.state, on=message.device)
            self.session.apply(replace(state, pane="compare") if message.is_double else state)

    def on_line_clicked(self, message: Line.Clicked) -> None:
        places = self._places.get(message.line, [])  # those in sight, before what was said goes
        name = lines.at(places, message.x)
        if self.prompt is not None:
            self.prompt.click(name if message.line == "foot" else "")
            return
        said = self.session.hush()
        if name:
            self._do(f"pane_{name}" if message.line == "tabs" else name, said)

    # --- actions of the screen ----------------------------------------------------------------------------

    def do_prompt(self, kind: str) -> None:
        """A line to type in the foot."""
        from hwexplorer.tui.exports import Export
        from hwexplorer.tui.prompts import PROMPTS

        self.ask({**PROMPTS, "export": Export}[kind](self.session))

    def do_devices(self) -> None:
        """The catalogue over everything."""
        from hwexplorer.tui.overlays.picker import Picker

        self.cover(Picker(self.session))

    def do_sessions(self) -> None:
        self.submit("sessions")

    def do_help(self) -> None:
        from hwexplorer.tui.overlays.reading import of_help

        self.show_text("help", "Terms and keys", of_help(self.session, self.views[self.state.pane].content))

    def do_back(self) -> None:
        state = self.state
        if self.session.stop() or self.views[state.pane].leave_column():
            return
        if state.find and state.pane == "tree":
            wanted = replace(state, find="")
        elif state.filter and state.pane == "models":
            wanted = replace(state, filter="")
        else:
            wanted = replace(state, zoom=False) if state.zoom else replace(state, pane="tree")
        self.session.apply(wanted)

    def do_theme(self, name: str = "") -> None:
        """The one named, or the next."""
        if name and name not in THEMES:
            raise unknown("theme", name, THEMES)
        if self.app.no_color:
            self.session.say("NO_COLOR is set: there is only the terminal's own look", "bad" if name else "dim")
            return
        self.dress(name or THEMES[(THEMES.index(self.look) + 1) % len(THEMES)])
        if not name:
            self.session.say(f"theme: {self.look}", "dim")
