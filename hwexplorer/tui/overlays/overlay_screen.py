"""Overlays: the base class with one pane and a footer (prompt, message or keys), and a reader of searchable text (help,
a device sheet, the text of a report)."""

from typing import Any, ClassVar, Protocol

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from hwexplorer.text import terms
from hwexplorer.tui.keys import key_table
from hwexplorer.tui.keys.key_table import Keymap, key_sign
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.prompts.prompt import Prompt, footer
from hwexplorer.tui.prompts.prompt_kinds import ExportPrompt
from hwexplorer.tui.session.session import Session
from hwexplorer.tui.widgets.framed_pane import Content, FramedPane, StatusLine
from hwexplorer.tui.widgets.prose import Prose
from hwexplorer.tui.widgets.table_columns import TableHeads
from hwexplorer.views.plain import Text

CLOSE = Binding("escape,q,ctrl+c", "close", "closes")
EXPORT = Binding("e", "export", "exports")


class Host(Protocol):
    """The screen below an overlay. It receives all keys, so that a key reaches what the key before it opened."""

    session: Session
    keymap: Keymap
    colours: Palette

    def press_key(self, key: str, character: str | None) -> bool:
        """Do what a key means in the uppermost layer."""

    def paste(self, text: str) -> None:
        """Insert text into the open prompt."""

    def ask(self, prompt: Prompt | None) -> None:
        """Open a prompt, or close it with None."""

    def click_prompt(self, word: str) -> None:
        """Take an offered word, or press a key of the note."""

    def show(self) -> None:
        """Draw all that changed."""


def _sign(keys: str) -> str:
    first = keys.partition(",")[0]
    return key_sign({"slash": "/", "colon": ":"}.get(first, first))


class OverlayScreen(ModalScreen[None]):
    """`BINDINGS` are its own keys, each with its word in the footer. Cursor keys work as in every pane. `words` of the
    `:` line print what it shows: it can be exported."""

    DEFAULT_CSS = """
    OverlayScreen { layout: vertical; background: $background; overflow: hidden; }
    OverlayScreen FramedPane { height: 1fr; }
    OverlayScreen StatusLine { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [CLOSE]
    content: Any
    words: tuple[str, ...] = ()

    def __init__(self, host: Host, name: str, content: Content) -> None:
        super().__init__(name=name, classes="overlay")
        self.host, self.session = host, host.session
        self.pane = FramedPane(name, 0, content, host.colours)
        self.pane.active = True
        self.prompt: Prompt | None = None
        self.foot = StatusLine("foot", host.colours)

    def compose(self) -> ComposeResult:
        """Yield the pane and the footer."""
        yield self.pane
        yield self.foot

    def on_mount(self) -> None:
        """Draw for the first time."""
        self.show_footer()

    def on_resize(self) -> None:
        """Draw for the new size."""
        self.show_footer()

    @property
    def keys(self) -> list[Binding]:
        """The key bindings that the footer shows."""
        bindings = [binding for binding in self.BINDINGS if isinstance(binding, Binding)]
        return [binding for binding in bindings if binding.action != "export" or self.words]

    def show_footer(self) -> None:
        """Draw the footer."""
        hints = [(b.action, b.key_display or _sign(b.key), b.description) for b in self.keys if b.description]
        self.foot.show(footer(self.session, self.prompt, hints, self.size.width, self.foot.palette))

    def close(self) -> None:
        """Close the overlay if it is on top. Under the palette, `dismiss` would close the palette."""
        if self.is_active:
            self.dismiss()
            self.host.show()

    action_close = close

    def action_export(self) -> None:
        """Ask for a file to write to."""
        self.host.ask(ExportPrompt(self.session, self.words))

    def on_key(self, event: events.Key) -> None:
        """Pass a key to the host, which gives it to the uppermost layer."""
        if self.host.press_key(event.key, event.character):  # it may have opened another screen by now
            event.stop()
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """Paste into the line that is typed."""
        self.host.paste(event.text)

    def press(self, key: str, character: str | None) -> bool:
        """Do what a key means in this overlay, else move in the pane. Return False if it means nothing."""
        action = self.host.keymap.action_of(key, character, "")
        id = action.id if action is not None else ""
        if id in ("back", "quit"):
            id = "close"
        name = next((b.action for b in self.keys if key in b.key.split(",") or id == b.action), "")
        if name:
            getattr(self, f"action_{name}")()
        elif id == "palette":
            self.session.request(id)
        return bool(name) or self.pane.step(id)

    def on_framed_pane_clicked(self, message: FramedPane.Clicked) -> None:
        """Pass a click to the pane."""
        message.stop()
        self.click(message)

    def click(self, at: FramedPane.Clicked) -> None:
        """Handle a click on the pane. Overlays with something to choose override it."""

    def on_framed_pane_wheeled(self, message: FramedPane.Wheeled) -> None:
        """Scroll the pane."""
        self.pane.scroll_content(message.by)

    def on_status_line_pressed(self, message: StatusLine.Pressed) -> None:
        """Do what the clicked word says; a click elsewhere closes the overlay."""
        if self.prompt is not None:
            self.host.click_prompt(message.action)
        else:
            getattr(self, f"action_{message.action or 'close'}")()


class TextReader(OverlayScreen):
    """Shows a text, which can be searched."""

    BINDINGS: ClassVar[list[BindingType]] = [
        CLOSE,
        Binding("slash", "search", "searches"),
        EXPORT,
        Binding("question_mark,f1,i", "close", ""),  # the keys that opened the text close it
        Binding("colon", "command", "command"),
    ]

    def __init__(self, host: Host, name: str, heading: str, text: Text, words: tuple[str, ...] = ()) -> None:
        self.content, self.words = Prose(), words
        super().__init__(host, name, self.content)
        self.pane.heading = heading
        self._all = text  # the whole text; a search shows a part
        self.lines = 0  # how many lines the search shows
        self.search("")

    def search(self, text: str) -> None:
        """Show only the lines with these words, under their headings."""
        words = text.casefold().split()
        sections = (
            (head, tuple(s for s in said if all(w in s.casefold() for w in words))) for head, said in self._all.sections
        )
        kept = tuple((head, said) for head, said in sections if said) if words else self._all.sections
        self.lines = sum(len(said) for _, said in kept)
        kept = kept or ((f"No line contains {' '.join(words)!r}", ("ctrl+p finds models, devices, verbs, terms",)),)
        self.content.update(msgspec.structs.replace(self._all, sections=kept))
        self.pane.redraw()

    def action_search(self) -> None:
        """Open a line that searches the text."""
        self.host.ask(SearchPrompt(self))

    def action_command(self) -> None:
        """Close this and open the `:` line."""
        self.close()
        self.session.request("command")


class SearchPrompt(Prompt):
    """Takes the words to search the text for."""

    label = "search"

    def __init__(self, reader: TextReader) -> None:
        super().__init__(reader.session)
        self._reader = reader

    def note(self) -> str:
        """Return how many lines contain the words."""
        count = self._reader.lines
        return f"{count} line{'s' * (count != 1)} · enter keeps them, esc shows all"

    def follow(self, text: str) -> None:
        """Show only the lines with these words."""
        self._reader.search(text)


def help_text(pane: str, keymap: Keymap, content: Content) -> Text:
    """Return the keys and the columns of the pane in focus, then all keys, then all terms."""
    columns = content.table.columns if isinstance(content, TableHeads) else ()
    meanings = tuple(
        f"{column.title}\t{terms.column_meaning(column)}" for column in columns if terms.column_meaning(column)
    )
    first, *others = ((name, key_table.help_lines(group, pane)) for name, group in keymap.groups(pane))
    own = [(f"Columns of {pane}", meanings)] if meanings else []
    return Text("help", f"help {pane}", (first, *others, *own, *terms.sections()))
