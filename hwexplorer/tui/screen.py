"""The explorer's screen: the panes that show the session, the lines around them, and what keys and clicks do.

A key becomes an action and an action changes the session. The session emits events; the screen listens and draws.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from rich.segment import Segment
from textual import events
from textual.layout import Layout
from textual.timer import Timer

from analysis import wording
from hardware.base.errors import RequestError
from hardware.base.records import Slices
from hwexplorer import state as states
from hwexplorer.tui import keys, palette
from hwexplorer.tui.panes import load_panes
from hwexplorer.tui.prefetch import PAUSE_S, Prefetch
from hwexplorer.tui.session import session as sessions
from hwexplorer.tui.session.view_cache import Views
from hwexplorer.tui.sized_screen import SizedScreen
from hwexplorer.tui.widgets import framed_pane, status_lines
from hwexplorer.tui.widgets.card_strip import CardStrip
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views import plain
from hwexplorer.views.layout import whole

if TYPE_CHECKING:
    from hwexplorer.tui.overlays.overlay_screen import OverlayScreen

MESSAGE_SECONDS = 6.0
POLL_SECONDS = 0.1  # between two polls of the jobs
_PASTE = "paste"  # in place of a key: a text that is pasted
_LINES = ("prompt", "palette", "devices")  # effects that open a line, in which q is a letter


class ExplorerScreen(SizedScreen):
    """The screen of a session. Keys are looked up in the table of actions, not in Textual's bindings: users can remap
    them, an action knows its panes, and help, footer and KEYS.md are written from the table."""

    _layout = framed_pane.PaneLayout()

    def __init__(self, session: sessions.Session, keymap: keys.Keymap, theme: str, ascii: bool, remark: str) -> None:
        """`remark` is shown as a message when the screen opens."""
        colours = palette.Palette(theme, ascii)
        super().__init__()
        self.session, self.keymap, self.panes = session, keymap, load_panes(session, colours)
        self.prompt: status_lines.Prompt | None = None
        self.theme_name, self.ascii, self._remark = theme, ascii, remark
        self.colours = colours
        self.strip = CardStrip(colours)
        self.bars = {name: framed_pane.StatusLine(name, colours) for name in ("head", "tabs", "foot")}
        self.prefetch: Prefetch | None = None
        self._typed = list[tuple[str, str | None]]()  # keys and pastes that wait until an action is done
        self._message_timer: Timer | None = None
        self._poll_timer: Timer | None = None
        self._is_dimmed = False
        self._hovered = ""
        self._arrangement: object = None
        self.take_ground(theme)
        session.subscribe(self._hear)

    def _hear(self, event: sessions.SessionEvent) -> None:
        match event:
            case sessions.Changed(what):
                getattr(self, f"_show_{what}")()
            case sessions.TextOpened(name, heading, text):
                self._show_text(name, heading, text)
            case sessions.SheetOpened():
                self._show_sheet(event)
            case sessions.ActionRequested(action, argument):
                self.perform(action, argument)

    @property
    def layout(self) -> Layout:
        """The layout that places panes and lines."""
        return self._layout

    @property
    def state(self) -> states.State:
        """The present state."""
        return self.session.state

    @property
    def outline(self) -> TreeTable:
        """The rows of the tree as they are drawn."""
        return cast("TreeTable", self.panes["tree"].content)

    def on_mount(self) -> None:
        """Draw for the first time."""
        self.session.fit_to_screen((self.app.size.width, self.app.size.height))
        self.mount(*self.bars.values(), self.strip, *self.panes.values())
        if self.session.views is None:
            self.session.capture(self.state)
        self.show()
        if self._remark:
            self.session.say(self._remark, "warn")

    def resized(self, width: int, height: int) -> None:
        """Take the size of the terminal, unless it is the first one, which `on_mount` asks for."""
        if self.session.size not in ((0, 0), (width, height)):
            self.session.size = (width, height)
            self.show_lines()
            self.call_after_refresh(self.session.attempt, self.show)  # panes that become visible need their views

    def _compositor_refresh(self) -> None:
        # While an overlay covers all of it, Textual would send this screen to the terminal with every key. If all of
        # it is to be painted again, as at the start and after a new size, nothing is painted before.
        if self.overlay_screen is None and not self._repaint_required:
            super()._compositor_refresh()

    # --- drawing ------------------------------------------------------------------------------------------

    def _show_state(self) -> None:
        self.show()
        self._wake_prefetch()

    def _wake_prefetch(self) -> None:
        if self.prefetch is not None:
            self.prefetch.wake()

    def show(self) -> None:
        """Draw the state of the session: the panes in sight, and the lines around them."""
        if not self.is_running:
            return
        session, state = self.session, self.state
        if session.views is not None:
            try:
                self._fill_panes(session.views)
            except RequestError as error:  # of a pane that a new size shows
                session.say(str(error), "bad")
            except Exception as error:
                session.report_failure(error)
        for name, pane in self.panes.items():
            pane.active = name == state.pane
        self.show_lines()
        if self.overlay_screen is not None:
            return  # drawn when it is visible again
        arrangement = (state.pane, state.zoom, state.heat, state.devices, session.sizes)
        if self._arrangement not in (None, arrangement):
            self.bars["head"].refresh(layout=True)  # refreshing a child makes Textual lay out the parent again
        self._arrangement = arrangement
        boxes = session.visible_boxes(state, self.size)
        for name, pane in self.panes.items():
            if name == "tree" or (name == state.pane and name in ("compare", "events")):
                pane.caption = status_lines.legend(self.colours, boxes[name][2] - 6 if name in boxes else 0)
            if name in boxes:
                pane.redraw()

    def _fill_panes(self, views: Views) -> None:
        session, state = self.session, self.state
        for name in session.visible_views(state):
            if (pane := self.panes.get("why" if name == "plot" else name)) is not None:
                pane.fill(views)
        # What needs no large result is drawn at once, but for the first frame.
        if self.prefetch is None or not self._fill_later(views, Slices(0.0)):
            self.panes["why"].caption, self.strip.advice = [], ""
            self.strip.show(views.cards, state.on, state.metric, self.strip.answer)
            self.call_after_refresh(self._show_later, views, Slices())

    def _fill_later(self, views: Views, slices: Slices) -> bool:
        """Compute and take what is shown after the first drawing of a state. Return False if the slice is over."""
        later, answer = self.session.later_views(self.state), tuple[str, ...]()
        with slices:
            views.make(later)
        if slices.is_paused:
            return False
        if "answer" in later:
            is_passed = not self.state.limits or any(card.fits and not card.over for card in views.cards)
            limits = "" if is_passed else f"No device shown passes; {self.session.limits.summary(self.state)}."
            verdict = (line for line in views.answer if not line.startswith(wording.ASIDES))
            answer = tuple(filter(None, (limits, views.pin_sentence, *verdict)))
        if "next_step" in later:
            pane = self.panes["why"]
            text, room = str(views.next_step or ""), pane.size.width - 6
            self.strip.advice = text and f"try {text.partition(':')[0]}"
            text = text and (whole(text, room, ", ") or whole(f"try {text}", room, ":"))  # with its price, or neither
            pane.caption = [Segment(text, self.colours.get("text"))] if text else []
        self.strip.show(views.cards, self.state.on, self.state.metric, answer)
        return True

    def _show_limits(self) -> None:
        """Draw how many devices of the catalogue pass the limits, as far as they are counted."""
        if self.session.views is not None:
            self._fill_later(self.session.views, Slices(0.0))
        self.show_lines()

    def _show_later(self, views: Views, slices: Slices) -> None:
        """Compute, in slices, what is shown after the first drawing of a state, and draw it unless there is another."""
        if views is not self.session.views or not self.is_running:
            return
        try:
            if not self._fill_later(views, slices):
                self.set_timer(PAUSE_S, partial(self._show_later, views, slices))
                return
        except Exception as error:  # our own bug: the rest of the screen is still right
            self.session.report_failure(error)
            return
        self.show_lines()
        self.panes["why"].redraw()

    def _go_on(self) -> None:
        """Go on with the action that waits; once it is done, press the keys of meanwhile, one at a time."""
        if self.session.waiting is not None:
            self.session.attempt(self.session.waiting)
        elif self._typed:
            key, text = self._typed.pop(0)
            self.paste(text or "") if key == _PASTE else self._press(key, text)
        if self._typed and self.session.waiting is None:
            self.set_timer(PAUSE_S, self._go_on)

    def show_lines(self) -> None:
        """Draw the lines around the panes."""
        session, state, colours = self.session, self.state, self.colours
        width = session.size[0]
        status = ""
        if session.views is not None:
            verdict = session.views.verdict.partition(": ")[2].replace(", ", "; ")  # the line names the devices already
            # If there is no room for sentences about all devices, the head line shows the verdict.
            is_hidden = self.strip.size.height < 2 and "compare" not in session.visible_boxes(state)
            status = verdict if verdict and is_hidden else session.views.status
        self.bars["head"].show(status_lines.head_line(state, status, width, colours))
        self.bars["tabs"].show(status_lines.tab_line(state.pane, width, colours))
        hints = status_lines.name_load(state, self.keymap.hints(state.pane, status_lines.idle_actions(session)))
        self.bars["foot"].show(status_lines.footer(session, self.prompt, hints, width, colours, shows_limits=True))
        if self.overlay_screen is not None:
            self.overlay_screen.show_footer()

    def _show_message(self) -> None:
        if self._message_timer is not None:
            self._message_timer.stop()
        if self.is_running:
            if self.session.waiting is not None:
                self.set_timer(PAUSE_S, self._go_on)
            elif self.session.message is not None:
                self._message_timer = self.set_timer(MESSAGE_SECONDS, self.session.clear_message)
            self.show_lines()

    def _show_jobs(self) -> None:
        """Draw the progress, dim the views while a model is captured, and poll while there are jobs."""
        if self._is_dimmed != any(job.replaces_model for job in self.session.jobs):
            self._apply_colours()
        else:
            self.show_lines()
        if not self.session.jobs:
            return
        if self._poll_timer is None:
            self._poll_timer = self.set_interval(POLL_SECONDS, self._poll)
        else:
            self._poll_timer.resume()

    def _poll(self) -> None:
        if not self.session.poll_jobs() and self._poll_timer is not None:
            self._poll_timer.pause()

    def _apply_colours(self, theme: str = "") -> None:
        theme = theme or self.theme_name
        self.colours = palette.Palette(theme, self.ascii)
        for screen in self.app.screen_stack:
            cast("SizedScreen", screen).take_ground(theme)
        self._is_dimmed = any(job.replaces_model for job in self.session.jobs)
        dimmed = palette.Palette(theme, self.ascii, dimmed=True) if self._is_dimmed else self.colours
        for pane in self.panes.values():
            pane.palette = dimmed
            pane.content.forget()
        for bar in self.bars.values():
            bar.palette = self.colours
        self.strip.palette = dimmed
        self.show()

    # --- keys ---------------------------------------------------------------------------------------------

    def on_key(self, event: events.Key) -> None:
        """Pass a key to the uppermost layer."""
        if self.press_key(event.key, event.character):
            event.stop()
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """Paste into the line that is typed."""
        self.paste(event.text)

    def press_key(self, key: str, character: str | None) -> bool:
        """Pass a key to what has the keys. Return True if it did something."""
        self._wake_prefetch()
        if self._typed or self.session.waiting is not None:
            action, *typed = (self.keymap.action_of(*one, self.state.pane) for one in ((key, character), *self._typed))
            opens_line = self._top.prompt is not None or any(one is not None and one.effect in _LINES for one in typed)
            is_letter = opens_line and key == character
            if action is None or action.id not in ("back", "quit") or is_letter:
                self._typed.append((key, character))
                return True
            self._typed.clear()
            if action.id == "back" and self.session.waiting is not None:
                return self.session.stop_job()
        return self._press(key, character)

    def _press(self, key: str, character: str | None) -> bool:
        if key.startswith("alt+") and self.keymap.find(key, self.state.pane) is None:
            self._press("escape", None)  # a terminal sends escape and a letter right after it as one key
            key = key.removeprefix("alt+")
        if (prompt := self._top.prompt) is not None:
            self._press_prompt(prompt, key, character)
            return True
        message = self.session.clear_message()
        if self.overlay_screen is not None:
            return self.overlay_screen.press(key, character)
        action = self.keymap.action_of(key, character, self.state.pane)
        if action is None:
            if character is not None and character.isprintable():
                self.session.say(f"{character} does nothing in {self.state.pane}: ? lists its keys", "dim")
            return False
        self._perform_after(action.id, message)
        return True

    def _perform_after(self, id: str, message: tuple[str, str] | None) -> None:
        """Do an action. Help shows the whole message that was there, if the footer cut it."""
        if id == "help" and message is not None and status_lines.is_cut(message[0], self.size.width):
            self._show_text("report", "Said", plain.Text(name="report", title="", sections=(("", (message[0],)),)))
        else:
            self.perform(id)

    def perform(self, id: str, argument: str = "") -> None:
        """Do the action `id`: change the state, or call the first method `do_EFFECT` of the focused pane, the action's
        panes, the session, this screen and the app. With an `argument`, call this screen's `do_ID`."""
        if argument:
            getattr(self, f"do_{id}")(argument)
            return
        self.session.attempt(partial(self._do, self.keymap.by_id[id]))

    def _do(self, action: keys.Action) -> None:
        if action.change is not None:
            state = action.change(self.state)
            if state == self.state and action.group != "Panes":
                is_batch = action.id in ("batch_down", "batch_up") and not state.load
                says = f"the batch is {state.batch} already" if is_batch else f"no change: {action.help.lower()}"
                self.session.say(says, "dim")
            self.session.apply(state)
            return
        panes = [self.panes[name] for name in (self.state.pane, *action.panes)]
        owners = (*panes, self.session, self, self.app)
        effect = next(method for owner in owners if (method := getattr(owner, f"do_{action.effect}", None)) is not None)
        try:
            effect(*(() if action.argument is None else (action.argument,)))
        except RequestError as error:
            self.session.say(str(error), "warn")

    # --- the mouse ----------------------------------------------------------------------------------------

    def on_framed_pane_clicked(self, message: framed_pane.FramedPane.Clicked) -> None:
        """Pass a click to the pane. A prompt blocks the click, unless the screen follows its text: then it closes."""
        if self.prompt is not None and self.prompt.is_live:
            self.ask(None)
        if self.prompt is None:
            self.panes[message.pane].click(message)

    def on_framed_pane_wheeled(self, message: framed_pane.FramedPane.Wheeled) -> None:
        """Pass the wheel to the pane; scroll if the pane does not use it."""
        pane = self.panes[message.pane]
        if self.prompt is not None or not pane.wheel(message):
            pane.scroll_content(message.by)

    def on_framed_pane_dragged(self, message: framed_pane.FramedPane.Dragged) -> None:
        """Move a border between panes."""
        self.do_split(message.by, message.border)

    def on_hovered(self, message: framed_pane.Hovered) -> None:
        """Explain what is under the pointer, unless there is another message."""
        before, self._hovered = self._hovered, message.text
        if self.prompt is None and (self.session.message or ("",))[0] in ("", before):
            self.session.say(message.text, "dim") if message.text else self.session.clear_message()

    def on_card_strip_chosen(self, message: CardStrip.Chosen) -> None:
        """Go to the device of the card; a double click also opens the table of devices."""
        if self.prompt is None:
            state = states.replace(self.state, on=message.device)
            self.session.apply(states.replace(state, pane="compare") if message.is_double else state)

    def on_card_strip_sorted(self, message: CardStrip.Sorted) -> None:
        """Sort the devices by a column, as its head in their pane does."""
        if self.prompt is None:
            self.panes["compare"].sort_by(message.column)

    def on_status_line_pressed(self, message: framed_pane.StatusLine.Pressed) -> None:
        """Do what the text under the pointer says."""
        if self.prompt is not None:
            self.click_prompt(message.action if message.line == "foot" else "")
            return
        said = self.session.clear_message()
        if message.action:
            self._perform_after(message.action, said)

    # --- actions of the screen ----------------------------------------------------------------------------

    def do_back(self) -> None:
        """Cancel a job, leave a search or the zoom, else go to the tree."""
        state = self.state
        if self.session.stop_job():
            return
        if state.find and state.pane == "tree":
            state = states.replace(state, find="")
        else:
            state = states.replace(state, zoom=False) if state.zoom else states.replace(state, pane="tree")
        self.session.apply(state)

    def do_split(self, by: int, border: str = "tree") -> None:
        """Change one of the sizes of panes by some cells, by default the width of the tree."""
        sizes = self.session.sizes
        self.session.sizes = states.replace(sizes, **{border: getattr(sizes, border) + by})
        self.show()

    def do_export(self, path: str) -> None:
        """Write the focused view to a file, or the screen to an .svg."""
        from hwexplorer.tui.view_export import export

        export(self.app, self.session, path, self.ask)

    def do_theme(self, name: str) -> None:
        """Switch to the named theme."""
        if self.app.no_color:
            self.session.say("NO_COLOR is set: only the terminal's own colours are used", "bad")
        else:
            self.theme_name = name
            self._apply_colours()

    def do_preview_theme(self, name: str) -> None:
        """Show a theme while it is chosen; a name that is no theme shows the present one."""
        theme = name if name in palette.THEMES and not self.app.no_color else self.theme_name
        if theme != self.colours.theme:
            self._apply_colours(theme)

    # --- overlays and prompts: overlay modules are imported on first use -------------------------------------

    @property
    def overlay_screen(self) -> OverlayScreen | None:
        """The uppermost overlay, None without one."""
        found = next((screen for screen in reversed(self.app.screen_stack) if screen.has_class("overlay")), None)
        return cast("OverlayScreen | None", found)

    @property
    def overlay(self) -> str:
        """The name of the uppermost overlay, such as help, sheet, report, picker or results; '' without one."""
        return (self.overlay_screen.name or "") if self.overlay_screen is not None else ""

    @property
    def _top(self) -> ExplorerScreen | OverlayScreen:
        return self.overlay_screen or self

    def ask(self, prompt: status_lines.Prompt | None) -> None:
        """Open a prompt in the footer of the uppermost layer, or close it with None."""
        self._top.prompt = prompt
        self.show_lines()

    def _press_prompt(self, prompt: status_lines.Prompt, key: str, character: str | None) -> None:
        if prompt.ends_prompt(key, character):
            self.ask(None)  # closed first, so that an exported picture does not show it
            self.session.attempt(partial(prompt.end, key, character))
            self.show()
        else:
            prompt.edit(key, character)
            self.show_lines()

    def click_prompt(self, word: str) -> None:
        """Handle a click on a prompt: take an offered word, press a key of the note, else press enter."""
        prompt = self._top.prompt
        if prompt is None:
            return
        if text := prompt.offers().get(word, ""):
            prompt.change(keys.EditedLine(text, len(text)))
            self.show_lines()
        else:
            key = prompt.keys.get(word, "enter")
            self._press_prompt(prompt, key, key if len(key) == 1 else None)

    def paste(self, text: str) -> None:
        """Insert text into the open prompt, if there is one."""
        if self._typed or self.session.waiting is not None:
            self._typed.append((_PASTE, text))
        elif (prompt := self._top.prompt) is not None:
            prompt.change(keys.insert_text(prompt.line, text))
            self.show_lines()

    def do_prompt(self, kind: str) -> None:
        """Open the prompt of a kind: find, command or export."""
        from hwexplorer.tui.prompts import make_prompt

        self.ask(make_prompt(kind, self.session, self.panes))

    def _show_text(self, name: str, heading: str, text: plain.Text, words: tuple[str, ...] = ()) -> None:
        from hwexplorer.tui.overlays.overlay_screen import TextReader  # not needed to start, as other imports below

        self.app.push_screen(TextReader(self, name, heading, text, words))

    def _show_sheet(self, event: sessions.SheetOpened) -> None:
        sheet = event.sheet
        if sheet.table is None:
            text = plain.Text(
                name="report", title=sheet.title, sections=(("", tuple(sheet.text.rstrip().split("\n"))),)
            )
            self._show_text("report", event.name.title(), text, event.words)
        else:
            from hwexplorer.tui.overlays.overlay_screen import ResultTable

            state_of = event.state_of or (
                lambda configuration: states.open_configuration(self.session.state, configuration)
            )
            self.app.push_screen(ResultTable(self, event.name, sheet, sheet.table, state_of, event.words))

    def do_palette(self, has_models_only: bool = False) -> None:
        """Open the command palette, of all commands or of the models."""
        from hwexplorer.tui.overlays.command_palette import CommandPalette

        self.app.push_screen(CommandPalette(self, has_models_only))

    def do_devices(self) -> None:
        """Open the catalogue of devices."""
        from hwexplorer.tui.overlays.overlay_screen import DevicePicker

        self.app.push_screen(DevicePicker(self))

    def do_wavefront(self) -> None:
        """Play the operator under the cursor on every device. Raises RequestError if it has no schedule."""
        from hwexplorer.tui.overlays.wavefront_player import WavefrontPlayer

        found = self.session.provider.wavefront(self.session.state)
        self.app.push_screen(WavefrontPlayer(self, found.node, found.machines))

    def do_report(self, name: str) -> None:
        """Open a report of the present state, or the saved sessions."""
        from hwexplorer.tui.commands import submit

        submit(self.session, name)

    def do_help(self) -> None:
        """Open the keys, those of the pane in focus first, and the terms."""
        from hwexplorer.tui.overlays.overlay_screen import help_text

        pane = self.session.state.pane
        self._show_text("help", "Help", help_text(pane, self.keymap, self.panes[pane].content))
