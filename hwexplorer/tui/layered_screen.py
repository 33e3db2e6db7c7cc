"""The layers over the panes of a screen: overlays, of which the uppermost has the keys, and prompts."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from textual.screen import Screen

from hwexplorer.state import open_configuration
from hwexplorer.tui.keys.key_table import Keymap
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.panes.view_panes import ViewPane
from hwexplorer.tui.prompts.prompt import Prompt
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.session.session_events import SheetOpened
from hwexplorer.tui.widgets.line_editor import EditedLine, insert_text
from hwexplorer.views.plain import Text

if TYPE_CHECKING:
    from hwexplorer.tui.overlays.overlay_screen import OverlayScreen


class LayeredScreen(Screen[None]):
    """Opens overlays and prompts, and passes keys to the uppermost. Overlay modules are imported on first use."""

    colours: Palette

    def __init__(self, session: Session, keymap: Keymap, panes: dict[str, ViewPane]) -> None:
        super().__init__()
        self.session, self.keymap, self.panes = session, keymap, panes
        self.prompt: Prompt | None = None

    def press_key(self, key: str, character: str | None) -> bool:
        """Do what a key means in the uppermost layer. Return True if it means something there."""
        raise NotImplementedError

    def show(self) -> None:
        """Hand the views to the panes and repaint."""
        raise NotImplementedError

    def show_lines(self) -> None:
        """Draw the lines around the panes."""
        raise NotImplementedError

    @property
    def overlay_screen(self) -> OverlayScreen | None:
        """The uppermost overlay, None without one."""
        found = next((screen for screen in reversed(self.app.screen_stack) if screen.has_class("overlay")), None)
        return cast("OverlayScreen | None", found)

    @property
    def overlay(self) -> str:
        """The name of the uppermost overlay, such as help, sheet, report, picker or results; '' without one."""
        return (self.overlay_screen.name or "") if self.overlay_screen is not None else ""

    # --- prompts ------------------------------------------------------------------------------------------

    @property
    def _top(self) -> LayeredScreen | OverlayScreen:
        return self.overlay_screen or self

    def ask(self, prompt: Prompt | None) -> None:
        """Open a prompt in the footer of the uppermost layer, or close it with None."""
        self._top.prompt = prompt
        self.show_lines()

    def _press_prompt(self, prompt: Prompt, key: str, character: str | None) -> None:
        if prompt.ends_prompt(key, character):
            self.ask(None)  # closed first, so that an exported picture does not show it
            prompt.end(key, character)
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
            prompt.change(EditedLine(text, len(text)))
            self.show_lines()
        else:
            key = prompt.keys.get(word, "enter")
            self._press_prompt(prompt, key, key if len(key) == 1 else None)

    def paste(self, text: str) -> None:
        """Insert text into the open prompt, if there is one."""
        if (prompt := self._top.prompt) is not None:
            prompt.change(insert_text(prompt.line, text))
            self.show_lines()

    def do_prompt(self, kind: str) -> None:
        """Open the prompt of a kind: find, filter, command or export."""
        from hwexplorer.tui.panes.models_pane import ModelsPane
        from hwexplorer.tui.prompts.prompt_kinds import CommandPrompt, ExportPrompt, FilterPrompt, FindPrompt

        if kind == "filter":
            self.ask(FilterPrompt(self.session, cast("ModelsPane", self.panes["models"])))
        elif kind == "find" and (pane := self.panes[self.session.state.pane]).finds_rows:
            self.ask(FindPrompt(self.session, pane, f"find in {pane.pane}"))
        else:
            self.ask({"find": FindPrompt, "command": CommandPrompt, "export": ExportPrompt}[kind](self.session))

    # --- overlays -----------------------------------------------------------------------------------------

    def _show_text(self, name: str, heading: str, text: Text, words: tuple[str, ...] = ()) -> None:
        from hwexplorer.tui.overlays.overlay_screen import TextReader  # not needed to start, as other imports below

        self.app.push_screen(TextReader(self, name, heading, text, words))

    def _show_sheet(self, event: SheetOpened) -> None:
        sheet = event.sheet
        if sheet.table is None:
            text = Text(name="report", title=sheet.title, sections=(("", tuple(sheet.text.rstrip().split("\n"))),))
            self._show_text("report", event.name.title(), text, event.words)
        else:
            from hwexplorer.tui.overlays.result_table import ResultTable

            state_of = event.state_of or (lambda configuration: open_configuration(self.session.state, configuration))
            self.app.push_screen(ResultTable(self, event.name, sheet, sheet.table, state_of, event.words))

    def do_palette(self) -> None:
        """Open the command palette."""
        from hwexplorer.tui.overlays.command_palette import CommandPalette

        self.app.push_screen(CommandPalette(self))

    def do_devices(self) -> None:
        """Open the catalogue of devices."""
        from hwexplorer.tui.overlays.device_picker import DevicePicker

        self.app.push_screen(DevicePicker(self))

    def do_wavefront(self) -> None:
        """Play the operator under the cursor on every device. Raises RequestError if it has no schedule."""
        from hwexplorer.tui.overlays.wavefront_player import WavefrontPlayer

        found = self.session.provider.wavefront(self.session.state)
        self.app.push_screen(WavefrontPlayer(self, found.node, found.machines))

    def do_sessions(self) -> None:
        """Open the saved sessions."""
        from hwexplorer.tui.commands.command_line import submit

        submit(self.session, "sessions")

    def do_help(self) -> None:
        """Open the keys, those of the pane in focus first, and the terms."""
        from hwexplorer.tui.overlays.overlay_screen import help_text

        pane = self.session.state.pane
        self._show_text("help", "Help", help_text(pane, self.keymap, self.panes[pane].content))
