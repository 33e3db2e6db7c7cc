"""The program: one frozen state, the views of it, six panes that draw them.

A key becomes an action, an action a new state; `apply` computes its views and only then shows it, so what is on
screen always belongs together, and a request that cannot be met leaves everything as it was.
"""

from __future__ import annotations

import asyncio
import gc
from contextlib import suppress
from importlib import import_module
from os import environ
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import App
from textual.screen import Screen
from textual.timer import Timer

from hardware.errors import RequestError
from hwexplorer.history import History, push
from hwexplorer.state import PANES, State, node, replace
from hwexplorer.tui import actions, effects, jump, mouse, overlays, panes, prompts, work
from hwexplorer.tui.actions import Keymap
from hwexplorer.tui.answers import answer
from hwexplorer.tui.capture import Capture
from hwexplorer.tui.folding import more_key
from hwexplorer.tui.layout import arrange
from hwexplorer.tui.limits import Limits
from hwexplorer.tui.navigate import Index, at_heaviest
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.prompt import Prompt, typed
from hwexplorer.tui.provider import Provider
from hwexplorer.tui.screen import Explorer
from hwexplorer.tui.split import Divide, Split, applied
from hwexplorer.tui.views import ALWAYS, READS, Cache, Views
from hwexplorer.tui.widgets import prose
from hwexplorer.tui.widgets.knobs import KnobTable
from hwexplorer.tui.widgets.pane import Content, Line, Pane
from hwexplorer.tui.widgets.plot_area import PlotArea
from hwexplorer.tui.widgets.prose import Prose
from hwexplorer.tui.widgets.strip import CardStrip
from hwexplorer.tui.widgets.table import EMPTY, TreeTable
from hwexplorer.views.plain import Table

if TYPE_CHECKING:
    from hwexplorer.tui.ahead import Ahead
    from hwexplorer.tui.sessions import Sessions
    from hwexplorer.tui.task import Task

MESSAGE_SECONDS = 6.0


def _covering(overlay: str) -> str:
    """The pane that an overlay is drawn in."""
    return "picker" if overlay == "picker" else "help"


class HwExplorer(App[None]):
    """The explorer on a provider. `failures` lists what should not have happened; tests hold it empty."""

    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar = {lambda: import_module("hwexplorer.tui.finder").Everything}  # imported when it is opened
    ALLOW_SELECT = False
    TITLE = "hwexplorer"

    def __init__(
        self,
        state: State,
        provider: Provider,
        ascii: bool = False,
        theme: str = "dark",
        keymap: Keymap = actions.DEFAULT,
        keeper: Sessions | None = None,
        remark: str = "",
        heaviest: bool = False,
    ) -> None:
        # https://no-color.org: the terminal's own look, of which only bold and reversed are left.
        plain = bool(environ.get("NO_COLOR"))
        theme = "ansi" if plain else theme
        super().__init__(ansi_color=True if plain else None)
        from hwexplorer.tui.themes import themes

        for each in themes():
            self.register_theme(each)
        self.look = theme
        self.theme = f"hw-{theme}"
        self.ascii = ascii
        self.provider = provider
        self.cache = Cache(provider)
        self.history = History(present=state)
        self.failures: list[str] = []
        self.prompt: Prompt | None = None
        self.limits = Limits()
        self.split, self.grabbed = Split(), Divide(())  # borders as they were dragged, and the one under the pointer
        self.jumps: dict[str, tuple[str, str]] = {}  # letter -> field of the state and its value, while they are shown
        self.picked = False  # a device with space, since the picker was opened
        self.told = prose.EMPTY  # all of the text over the panes, of which some may be searched for
        self.overlay = ""  # what lies over the panes: help, sheet, picker, report
        self.keymap = keymap
        self.keeper = keeper
        self.remark = remark
        self.commands: list[str] = []
        self.capture: Capture | None = None
        self.errand: Task | None = None
        self.ahead: Ahead | None = None
        self.said: tuple[str, str] | None = None
        self._saying: Timer | None = None
        self.polling: Timer | None = None
        self._turning: asyncio.AbstractEventLoop | None = None
        self._leaving = 0  # the signal that closes the screen
        self.places: dict[str, list[tuple[int, int, str]]] = {}
        self._indices: list[Index] = []
        self.views: Views | None = None
        self.colours = Palette(theme, ascii)
        self.models, self.compare = TreeTable(tree=False), TreeTable(tree=False)
        self.outline, self.events = TreeTable(), TreeTable(fold=True)
        self.why, self.plot, self.help, self.knobs = Prose(), PlotArea(), Prose(), KnobTable()
        main = (self.models, self.compare, self.outline)
        shown_in: tuple[Content, ...] = (*main, self.events, self.why, self.plot, self.knobs)
        self.contents: dict[str, Content] = dict(zip(PANES, shown_in, strict=True))
        self.panes = {n: Pane(n, i, self.contents[n], self.colours) for i, n in enumerate(PANES, 1)}
        self.panes["help"] = Pane("help", 0, self.help, self.colours)
        self.picker, self.heat = TreeTable(tree=False), TreeTable(tree=False)
        self.panes["heat"] = Pane("heat", 0, self.heat, self.colours)
        self.panes["picker"] = Pane("picker", 0, self.picker, self.colours)
        self.strip = CardStrip(self.colours)
        self.bars = {name: Line(name, self.colours) for name in ("head", "tabs", "foot")}
        if provider.ready(state):  # a state that cannot be shown ends before the screen opens
            if heaviest and not (state.at or state.open):
                state = replace(state, by="module", sort="share")
                state = at_heaviest(state, Index(self.cache.view("tree", state)))
            state, self.views = self._unhidden(state, self.cache.views(state))
            self.views.make(ALWAYS)
            self.history = History(present=state)

    @property
    def state(self) -> State:
        return self.history.present

    @property
    def index(self) -> Index:
        """The tree as shown, small rows folded."""
        return self._indexed(self.views.tree if self.views else EMPTY)

    @property
    def unfolded(self) -> Index:
        """All of the tree."""
        return self._indexed(self.views.unfolded if self.views else EMPTY)

    def _indexed(self, table: Table) -> Index:
        for index in self._indices:
            if index.table is table:
                return index
        self._indices = [Index(table), *self._indices[:1]]
        return self._indices[0]

    def get_default_screen(self) -> Screen[None]:
        return Explorer()

    def on_load(self) -> None:
        self._turning = asyncio.get_running_loop()
        if self._leaving:
            self.exit()

    def leave(self, number: int) -> None:
        """Close the screen: a signal came, or the terminal is gone. At any time, from any thread."""
        self._leaving = number
        if self._turning is not None:
            with suppress(RuntimeError):  # it has ended meanwhile
                self._turning.call_soon_threadsafe(self.exit)

    def restore(self) -> None:
        """The terminal as it was, where there is no time to leave."""
        restore = getattr(self._driver, "restore", None)
        if restore is not None:
            restore()

    def _fatal_error(self) -> None:
        """No traceback over the screen that is left: `program` raises what went wrong."""
        self._close_messages_no_wait()

    def end_work(self) -> None:
        """Nothing that was started beside the screen outlives it."""
        for beside in (self.capture, self.errand):
            if beside is not None:
                beside.end()

    def on_mount(self) -> None:
        self.screen.mount(*self.bars.values(), self.strip, *self.panes.values())
        if self.views is None:
            self.start_capture(self.state)
        self.show()
        if self.remark:
            self.say(self.remark, "warn")

    def on_ready(self) -> None:
        """The first frame is out: collect again, but never go through what was made at the start."""
        from hwexplorer.tui.ahead import Ahead

        self.ahead = Ahead(self)
        self.ahead.wake()
        if not gc.isenabled():
            gc.freeze()
            gc.enable()

    def wanted(self, state: State) -> tuple[str, ...]:
        """The views that are in sight in a state."""
        seen = arrange(*self.size, state.pane, state.zoom, len(state.devices)).boxes
        return tuple(name for name in READS if name in ALWAYS or name in seen)

    def is_in_sight(self, name: str, state: State) -> bool:
        return name in arrange(*self.size, state.pane, state.zoom, len(state.devices)).boxes

    def boxes(self, width: int, height: int) -> dict[str, tuple[int, int, int, int]]:
        state = self.state
        boxes = applied(arrange(width, height, state.pane, state.zoom, len(state.devices)).boxes, self.split)
        if self.overlay:
            foot = {"foot": boxes["foot"]} if "foot" in boxes else {}
            return {_covering(self.overlay): (0, 0, width, height - len(foot)), **foot}
        return boxes

    def on_resize(self, event: events.Resize) -> None:
        self.show_lines(event.size.width)
        self.call_after_refresh(self.show)  # panes that come in sight have views to be made

    # --- state --------------------------------------------------------------------------------------------

    def apply(self, state: State, history: History | None = None) -> bool:
        """Show another state, or say why not. `history` when the step is an undo."""
        if state == self.state and history is None:
            return False
        try:
            if not self.provider.ready(state):
                self.start_capture(state)
                return False
            state, views = self._unhidden(state, self.cache.views(state))
            views.make(self.wanted(state))
        except RequestError as error:
            self.say(str(error), "bad")
            return False
        except Exception as error:  # a fault of ours: the screen stays as it was, and says so
            self.fail(error)
            return False
        told = answer(self.state, state, self.views.cards, views.cards) if self.views is not None else ""
        back = "undone: " if history is not None and len(history.past) < len(self.history.past) else ""
        self.history = history or push(self.history, state)
        self.views = views
        self.show()
        if self.ahead is not None:
            self.ahead.wake()
        if told:
            self.say(back + told, "dim")
        return True

    def fail(self, error: Exception) -> None:
        self.failures.append(f"{type(error).__name__}: {error}")
        self.say(f"internal error, the screen is as before: {self.failures[-1]}", "bad")

    def _unhidden(self, state: State, views: Views) -> tuple[State, Views]:
        """The row under the cursor is always in the tree: what it is folded into opens."""
        if not state.fold or state.at in self._indexed(views.tree).place:
            return state, views
        folds = self._folds_over(state.at, self._indexed(views.unfolded), self._indexed(views.tree))
        if not folds:
            return state, views
        state = replace(state, open=(*state.open, *sorted(folds)))
        return state, self.cache.views(state)

    @staticmethod
    def _folds_over(at: str, unfolded: Index, shown: Index) -> set[str]:
        """The rows of folded ones that a node or what it hangs on is in."""
        above = {at, *unfolded.ancestors(at)} - {""} - shown.place.keys()
        return {more_key(unfolded.parent[key] or "") for key in above if key in unfolded.place}

    def standing_for(self, state: State) -> str:
        """The row that stands for the one under the cursor when a state folds: itself, its branch or `~more`."""
        place = self._indexed(self.cache.views(replace(state, at="")).tree).place
        at = node(state.at)
        while at and at not in place:
            parent = self.unfolded.parent.get(at) or ""
            if more_key(parent) in place:
                return more_key(parent)
            at = parent
        return at

    def move_to(self, node: str) -> None:
        """Put the tree's cursor on a node; what hides it opens."""
        above = self.unfolded.ancestors(node)
        folds = self._folds_over(node, self.unfolded, self.index)
        opened = (*self.state.open, *sorted((above | folds) - set(self.state.open) - {""}))
        self.apply(replace(self.state, at=node, open=opened))

    # --- showing ------------------------------------------------------------------------------------------

    def show(self) -> None:
        """Hand the views to the panes and repaint."""
        if not self.is_running or not self.screen_stack:
            return
        panes.fill(self)
        state = self.state
        active = _covering(self.overlay) if self.overlay else state.pane
        arrangement = (active, state.zoom, self.overlay, len(state.devices), self.split)
        for name, pane in self.panes.items():
            pane.active = name == active
        explorer = self.screen_stack[0]
        self.show_lines(explorer.size.width)
        if arrangement != getattr(self, "_arrangement", None):
            self._arrangement = arrangement
            self.bars["head"].refresh(layout=True)  # a child: that is what makes its parent place anew
        seen = self.boxes(*explorer.size)
        for name, pane in self.panes.items():
            if name in seen:
                pane.redraw_if(panes.stamp(self, pane))

    def show_lines(self, width: int) -> None:
        panes.lines_around(self, width)

    def say(self, text: str, role: str = "text") -> None:
        """A line in the foot, until the next key or a few seconds have passed."""
        self.said = (text, role)
        if self._saying is not None:
            self._saying.stop()
        if self.is_running:
            self._saying = self.set_timer(MESSAGE_SECONDS, self.hush)
            self.show_lines(self.size.width)

    def hush(self) -> None:
        self.said = None
        self.show_lines(self.size.width)

    def dress(self, look: str | None = None) -> None:
        """Colours anew: another theme, or dimmed while numbers are old."""
        if look is not None:
            self.look = look
            self.theme = f"hw-{look}"
        self.colours = Palette(self.look, self.ascii)
        old = Palette(self.look, self.ascii, dimmed=True) if self.capture is not None else self.colours
        for name, pane in self.panes.items():
            pane.palette = self.colours if name in ("models", "help", "picker") else old
            pane.content.forget()
        for bar in self.bars.values():
            bar.palette = self.colours
        self.strip.palette = old
        self.show()

    async def on_event(self, event: events.Event) -> None:
        """Keys that were on their way when the screen was left find none."""
        if not (self._exit and isinstance(event, events.InputEvent | events.Paste)):
            await super().on_event(event)

    # --- keys and mouse -----------------------------------------------------------------------------------

    def press_key(self, key: str, character: str | None) -> bool:
        """True when the key meant something."""
        if self.ahead is not None:
            self.ahead.wake()
        if key.startswith("alt+") and self.keymap.find(key, self.state.pane) is None:
            self.press_key("escape", None)  # typed right after it: two keys that a terminal sends as one
            key = key.removeprefix("alt+")
        if self.prompt is not None:
            prompts.prompt_key(self, key, character)
            return True
        if self.jumps:
            jump.go(self, character)
            return True
        if self.said is not None:
            self.hush()
        if self.overlay:
            return overlays.key(self, key, character)
        action = self.keymap.find(character or key, self.state.pane) or self.keymap.find(key, self.state.pane)
        if action is None:
            return False
        self.perform(action.id)
        return True

    def perform(self, id: str) -> None:
        """Do an action of the registry by its name: from a key, the palette, the mouse or a test."""
        action = self.keymap.by_id[id]
        if action.change is not None:
            self.apply(action.change(self.state))
        else:
            effects.EFFECTS[action.effect](self, action.argument)

    def paste(self, text: str) -> None:
        if self.prompt is not None:
            prompts.prompt_changed(self, typed(self.prompt, text))

    def on_pane_clicked(self, message: Pane.Clicked) -> None:
        if message.pane == "picker":
            if (key := self.picker.at(message.y)) is not None:
                self.picker.go(key)
                overlays.pick(self)
                self.panes["picker"].redraw()
        elif message.pane == "heat":
            if (key := self.heat.at(message.y)) is not None:
                self.move_to(key)
        elif message.pane != "help" and self.prompt is None:
            mouse.click(self, message)

    def on_pane_wheeled(self, message: Pane.Wheeled) -> None:
        if self.overlay or self.prompt is not None or not mouse.turn(self, message):
            self.panes[message.pane].scroll_content(message.by)

    def on_pane_dragged(self, message: Pane.Dragged) -> None:
        mouse.drag(self, message)

    def on_card_strip_clicked(self, message: CardStrip.Clicked) -> None:
        if self.prompt is None and not self.overlay:
            state = replace(self.state, on=message.device)
            self.apply(replace(state, pane="compare") if message.is_double else state)

    def on_line_clicked(self, message: Line.Clicked) -> None:
        if self.prompt is not None or self.overlay:  # what lies over the panes is left by a click on the foot
            self.press_key("enter" if self.prompt is not None else "escape", None)
            return
        places = self.places.get(message.line, [])  # those in sight, before what was said goes
        if self.said is not None:
            self.hush()
        for start, end, name in places:
            if start <= message.x < end:
                self.perform(f"pane_{name}" if message.line == "tabs" else name)
                return

    def action_command_palette(self) -> None:
        from hwexplorer.tui import finder

        if not finder.Finder.is_open(self):  # type: ignore[arg-type]
            self.push_screen(finder.Finder(id=finder.ID))

    def start_capture(self, state: State) -> None:
        work.start_capture(self, state)
