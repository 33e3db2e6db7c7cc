"""Overlays: the base class with one pane and a footer (prompt, message or keys), a reader of searchable text (help, a
device sheet, the text of a report), the rows of a report, and the catalogue of devices.
"""

from collections.abc import Callable
from functools import partialmethod
from typing import Any, ClassVar, Protocol

import msgspec
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from hardware.base.errors import RequestError, matching_places
from hardware.device import split_operating_point
from hwexplorer import state as states
from hwexplorer.export.sheet import Sheet
from hwexplorer.text import terms
from hwexplorer.tui import palette
from hwexplorer.tui.keys import Hint, Keymap, help_lines, key_sign
from hwexplorer.tui.prompts import ExportPrompt, FindPrompt
from hwexplorer.tui.session import state_changes
from hwexplorer.tui.session.session import Session, SheetOpened
from hwexplorer.tui.sized_screen import SizedScreen
from hwexplorer.tui.widgets import framed_pane, status_lines
from hwexplorer.tui.widgets.prose import Prose
from hwexplorer.tui.widgets.tree_table import TableHeads, TreeTable
from hwexplorer.views import layout, plain
from hwexplorer.views.tables import sort_by_column

# The keys that end an overlay, and the program. With a prompt open, ctrl+c ends that, and ctrl+q the program.
ENDS = (Binding("escape,q", "close", "closes"), Binding("ctrl+c,ctrl+q", "leave", "quits", key_display="^c"))
EXPORT = Binding("e", "export", "exports")


class Host(Protocol):
    """The screen below an overlay. It receives all keys, so that a key reaches what the key before it opened."""

    session: Session
    keymap: Keymap
    colours: palette.Palette

    def on_key(self, event: events.Key) -> None:
        """Pass a key to the uppermost layer."""

    def paste(self, text: str) -> None:
        """Insert text into the open prompt."""

    def ask(self, prompt: status_lines.Prompt | None) -> None:
        """Open a prompt, or close it with None."""

    def click_prompt(self, word: str) -> None:
        """Take an offered word, or press a key of the note."""

    def show(self) -> None:
        """Draw all that changed."""


def _sign(keys: str) -> str:
    first = keys.partition(",")[0]
    return key_sign({"slash": "/", "colon": ":"}.get(first, first))


class OverlayScreen(SizedScreen, ModalScreen[None]):
    """`BINDINGS` are its own keys, each with its word in the footer. Cursor keys work as in every pane. `words` of the
    `:` line print what it shows: it can be exported."""

    DEFAULT_CSS = """
    OverlayScreen { layout: vertical; }
    OverlayScreen FramedPane { height: 1fr; }
    OverlayScreen StatusLine { height: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [*ENDS]
    content: Any
    words: tuple[str, ...] = ()

    def __init__(self, host: Host, name: str, content: framed_pane.Content) -> None:
        super().__init__(name=name, classes="overlay")
        self.host, self.session = host, host.session
        self.pane = framed_pane.FramedPane(name, 0, content, host.colours)
        self.pane.active = True
        self.prompt: status_lines.Prompt | None = None
        self.foot = framed_pane.StatusLine("foot", host.colours)
        self.take_ground(host.colours.theme)

    def compose(self) -> ComposeResult:
        """Yield the pane and the footer."""
        yield self.pane
        yield self.foot

    def on_resize(self) -> None:
        """Draw for the new size, which is first told when the overlay opens."""
        self.show_footer()

    @property
    def keys(self) -> list[Binding]:
        """The key bindings that the footer shows."""
        bindings = [binding for binding in self.BINDINGS if isinstance(binding, Binding)]
        return [binding for binding in bindings if binding.action != "export" or self.words]

    @property
    def hints(self) -> tuple[Hint, ...]:
        """Action, sign and word of each key that the footer shows."""
        return tuple([(b.action, b.key_display or _sign(b.key), b.description) for b in self.keys if b.description])

    def show_footer(self) -> None:
        """Draw the footer."""
        self.foot.show(status_lines.footer(self.session, self.prompt, self.hints, self.size.width, self.foot.palette))

    def close(self) -> None:
        """Close the overlay if it is on top. Under the palette, `dismiss` would close the palette."""
        if self.is_active:
            self.dismiss()
            self.host.show()

    action_close = close

    def action_leave(self) -> None:
        """Leave the program."""
        self.session.request("quit")

    def action_export(self) -> None:
        """Ask for a file to write to."""
        self.host.ask(ExportPrompt(self.session, self.words))

    def on_key(self, event: events.Key) -> None:
        """Pass a key to the host, which gives it to the uppermost layer."""
        self.host.on_key(event)  # it may open another screen

    def on_paste(self, event: events.Paste) -> None:
        """Paste into the line that is typed."""
        self.host.paste(event.text)

    def press(self, key: str, character: str | None) -> bool:
        """Do what a key means in this overlay, else move in the pane. Return False if it means nothing."""
        action = self.host.keymap.action_of(key, character, "")
        id = action.id if action is not None else ""
        if id in ("back", "quit"):
            id = "close"
        of_key = (b.action for b in self.keys if key in b.key.split(","))
        name = next(of_key, "") or next((b.action for b in self.keys if id == b.action), "")
        if name:
            self.session.attempt(getattr(self, f"action_{name}"))
        elif id == "palette":
            self.session.request(id)
        return bool(name) or self.pane.step(id)

    def on_framed_pane_wheeled(self, message: framed_pane.FramedPane.Wheeled) -> None:
        """Scroll the pane."""
        self.pane.scroll_content(message.by)

    def on_status_line_pressed(self, message: framed_pane.StatusLine.Pressed) -> None:
        """Do what the clicked word says; a click elsewhere closes the overlay."""
        if self.prompt is not None:
            self.host.click_prompt(message.action)
        else:
            getattr(self, f"action_{message.action or 'close'}")()


class TextReader(OverlayScreen):
    """Shows a text, which can be searched."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *ENDS,
        Binding("slash", "search", "searches"),
        EXPORT,
        Binding("question_mark,f1,i", "close", ""),  # the keys that opened the text close it
        Binding("colon", "command", "command"),
    ]

    def __init__(self, host: Host, name: str, heading: str, text: plain.Text, words: tuple[str, ...] = ()) -> None:
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


class SearchPrompt(status_lines.Prompt):
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


def help_text(pane: str, keymap: Keymap, content: framed_pane.Content) -> plain.Text:
    """Return the keys and the columns of the pane in focus, then all keys, then all terms."""
    columns = content.table.columns if isinstance(content, TableHeads) else ()
    meanings = tuple(
        f"{column.title}\t{terms.column_meaning(column)}" for column in columns if terms.column_meaning(column)
    )
    first, *others = ((name, help_lines(group, pane)) for name, group in keymap.groups(pane))
    own = [(f"Columns of {pane}", meanings)] if meanings else []
    return plain.Text("help", f"help {pane}", (first, *others, *own, *terms.sections()))


class ResultTable(OverlayScreen):
    """Shows rows with a cursor. Applying or pinning a row is a step of the state that undo takes back."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *ENDS,
        Binding("enter", "apply", "applies"),
        Binding("space", "pin", "pins"),
        Binding("left", "column_before", "column", key_display="← →"),
        Binding("right", "column_after", ""),
        Binding("s", "sort", "sorts"),
        Binding("slash", "find", "finds"),
        Binding("n", "find_next", ""),
        Binding("t", "text", "all of it as text"),
        EXPORT,
    ]

    def __init__(
        self, host: Host, name: str, sheet: Sheet, table: plain.Table, state_of: Callable[[str], states.State],
        words: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self.content, self.words = TreeTable(tree=False), words
        super().__init__(host, "results", self.content)
        self._sheet, self._table, self._state_of = sheet, table, state_of
        self._heading, self._clicked = name, ""
        self.content.column = 0
        self.pane.heading = " · ".join(dict.fromkeys((name.title(), sheet.title)))
        self.content.update(table)
        self.content.go(next((row.key for row in table.rows if row.leads), ""))

    def on_resize(self) -> None:
        """Draw for the new size, and name the columns that it leaves out."""
        super().on_resize()
        self.call_after_refresh(self._say_hidden)

    def _say_hidden(self) -> None:
        if hidden := self.content.hidden_columns():
            self.session.say(f"a wider screen also shows: {', '.join(hidden)}", "dim")

    def action_find(self) -> None:
        """Open a line that finds rows."""
        self.host.ask(FindPrompt(self.session, self))

    def do_find(self, step: int) -> None:
        """Go to the next match of the words that are searched for; with step 0 the row under the cursor counts."""
        if self.content.find and (
            key := state_changes.next_match(self._table, self.content.find, self.content.key, step)
        ):
            self.content.go(key)
        self.pane.redraw()

    action_find_next = partialmethod(do_find, 1)

    def _to_column(self, by: int) -> None:
        self.content.move_column(by)
        self.pane.redraw()
        self.session.say(self.content.column_help(), "text")

    action_column_before, action_column_after = partialmethod(_to_column, -1), partialmethod(_to_column, 1)

    def action_text(self) -> None:
        """Show the report as text."""
        self.close()
        self.session.emit(SheetOpened(self._heading, Sheet(self._sheet.title, self._sheet.text), words=self.words))

    def action_sort(self) -> None:
        """Sort by the column under the cursor, ascending; if it is sorted so, descending."""
        ordered = sort_by_column(self._table, self.content.column)
        if ordered.rows == self._table.rows:
            ordered = sort_by_column(self._table, self.content.column, is_falling=True)
        self._table = ordered
        self.content.update(ordered)
        self._to_column(0)

    def on_framed_pane_clicked(self, at: framed_pane.FramedPane.Clicked) -> None:
        """Choose a row, apply it by another click, or sort by the column whose head was clicked."""
        if (column := self.content.head_at(at.x, at.y)) is not None:
            self.content.column = [each.key for each in self.content.table.columns].index(column)
            self.action_sort()
        elif (key := self.content.key_at(at.y)) is not None:
            self.content.go(key, still=True)
            self.pane.redraw()
            if key == self._clicked:
                self.action_apply()
            else:
                self.session.say("enter or another click applies this row", "text")
            self._clicked = key

    def _target(self) -> tuple[plain.Row, states.State] | None:
        """Return the row of the cursor and the state it leads to. If it leads nowhere, say so and return None."""
        row = self.content.row
        try:
            if row is not None and row.leads:
                return row, self._state_of(row.leads)
            self.session.say("this row is already on screen", "warn")
        except RequestError as error:
            self.session.say(str(error), "bad")
        return None

    def action_apply(self) -> None:
        """Go to the state that the row leads to."""
        session = self.session
        if (chosen := self._target()) is None:
            return
        if chosen[1] == session.state:
            session.say("this row is already on screen", "warn")
            return
        self.close()
        if session.apply(chosen[1]):
            session.say(
                f"applied {chosen[0].cells[0]}: {chosen[1].on} {status_lines.settings_text(chosen[1])}; u undoes",
                "good",
            )

    def action_pin(self) -> None:
        """Pin the state that the row leads to."""
        if (chosen := self._target()) is None:
            return
        pin = states.pin_string(chosen[1])
        if self.session.apply(states.replace(self.session.state, pin=pin)) or self.session.state.pin == pin:
            self.session.say(f"pinned {pin}: deltas are against it", "good")


EXAMPLES = ("L<5ms", "E<1J", "P<30W", "M<8GB")


class DevicePicker(OverlayScreen):
    """Shows the catalogue over the whole screen. Its keys are the keys of its prompt."""

    def __init__(self, host: Host) -> None:
        self.content = TreeTable(tree=False)
        super().__init__(host, "picker", self.content)
        session = self.session
        self._typed = ""
        self._is_picked = False  # True once space added or removed a device
        self._is_falling = False  # the order of the column whose head was clicked
        self.is_pointed = False  # True if a key moved the cursor since the text changed
        self.prompt = prompt = DevicesPrompt(self)
        self.fill(prompt.search_text)
        if not self.has_limits:
            self.content.go(session.state.on)

    def fill(self, typed: str) -> None:
        """Show the devices that match the words of `typed`; its limits grey out the devices that fail them."""
        session, self._typed = self.session, typed
        table = session.cache.view("devices", session.state)
        words = self._split_words()[0]
        is_limited = self.has_limits
        if is_limited:
            try:
                table = session.limits.apply(session.state, table, typed)
            except RequestError:
                is_limited = False  # a limit is half typed
        if self.content.column >= 0:
            table = sort_by_column(table, self.content.column, self._is_falling)
        texts = ["\n".join([row.key, *map(str, row.cells)]) for row in table.rows]
        rows = tuple(table.rows[place] for place in matching_places(" ".join(words), texts))
        before = () if is_limited and not self.is_pointed else (self.content.key,)
        self.content.if_empty = f"nothing here matches {' '.join(words)!r}; esc shows all"
        self.content.update(states.replace(table, rows=rows))
        keys = [row.key for row in rows]
        self.content.go(next((key for key in (*words, *before) if key in keys), keys[0] if keys else ""))
        summary = table.title if is_limited else f"{len(session.state.devices)} chosen"
        heading = f"Devices · {status_lines.settings_text(session.state)} · {summary}"
        self.pane.heading = layout.whole(heading, self.pane.size.width - 6, "; ") or heading
        self.pane.remark = f"{len(rows)} of {len(table.rows)}"
        self.pane.redraw()
        if is_limited and session.limits.compute_some(session.state, keys):
            self.set_timer(0.01, self._refill)

    def _split_words(self) -> tuple[list[str], str]:
        """Return the typed words, and the power cap and clock lock that follow them, `@400W`."""
        name, settings = split_operating_point(" ".join(state_changes.plain_words(self._typed)))
        return name.split(), "".join(f"@{setting}" for setting in settings if setting)

    @property
    def _picked_key(self) -> str:
        """The device under the cursor, with the power cap and clock lock that were typed."""
        key, settings = self.content.key, self._split_words()[1]
        return f"{split_operating_point(key)[0]}{settings}" if settings else key

    def _refill(self) -> None:
        self.fill(self._typed)
        self.show_footer()

    @property
    def has_limits(self) -> bool:
        """True if the text has limits."""
        return len(state_changes.plain_words(self._typed)) < len(self._typed.split())

    @property
    def enter_adds(self) -> bool:
        """True if enter adds the device under the cursor: it was typed, and space has not been used."""
        is_typed = bool(state_changes.plain_words(self._typed)) and not self._is_picked
        return is_typed and self.content.row is not None and self._picked_key not in self.session.state.devices

    @property
    def picks(self) -> bool:
        """True if space adds or removes the row under the cursor instead of beginning a word: no word is typed, one
        device is left, or a key moved the cursor."""
        is_typing = bool(state_changes.plain_words(self._typed)) and not self.is_pointed
        return not is_typing or len(self.content.visible) == 1

    def pick(self) -> None:
        """Add the device under the cursor, or remove it if it is chosen already."""
        state, key = self.session.state, self._picked_key
        self._is_picked = True
        if self.content.row is None:
            return
        rest = tuple(name for name in state.devices if name != key)
        if not rest:
            self.session.say("the last device cannot be removed", "warn")
            return
        try:
            if key in state.devices:
                self.session.apply(states.replace(state, devices=rest))
            else:
                self.session.apply(states.replace(state, devices=(*state.devices, key), on=state.on))
        except RequestError as error:  # a cap or a lock that the device cannot take
            self.session.say(str(error), "bad")
            return
        place = self.content.cursor
        self.fill(self._typed)
        self.content.move(place - self.content.cursor)

    def on_framed_pane_clicked(self, at: framed_pane.FramedPane.Clicked) -> None:
        """Add or remove the device that was clicked, or sort by the column whose head was."""
        if (column := self.content.head_at(at.x, at.y)) is not None:
            place = [each.key for each in self.content.table.columns].index(column)
            self._is_falling, self.content.column = place == self.content.column and not self._is_falling, place
            self.fill(self._typed)
            self.content.move(-framed_pane.FAR)
        elif (key := self.content.key_at(at.y)) is not None:
            self.content.go(key, still=True)
            self.session.attempt(self.pick)


class DevicesPrompt(status_lines.Prompt):
    """Takes words and limits that narrow the catalogue."""

    label = "devices"

    def __init__(self, picker: DevicePicker) -> None:
        asked = picker.session.state.limits
        super().__init__(picker.session, f"{asked} " if asked else "")
        self._picker, self.rows = picker, picker.pane

    @property
    def search_text(self) -> str:
        """The text without the `/` that begins a search elsewhere, and with spaces for commas: space adds a device."""
        return self.text.removeprefix("/").replace(",", " ")

    def note(self) -> str:
        """Return how many devices are left, then what the keys do. A narrow footer cuts the end."""
        content = self._picker.content
        count = len(content.visible)
        if not count:
            return f"no device is like {self.text.strip()!r} · esc cancels"
        counted, enter = f"{count} device{'s' * (count != 1)}", "adds it" if self._picker.enter_adds else "done"
        if self._picker.has_limits:
            counted, enter = content.table.title.partition(";")[0], "keeps the limits"
        space = " · space adds or removes" * self._picker.picks
        return f"{counted}{space} · enter {enter} · {' '.join(EXAMPLES)}"

    def offers(self) -> dict[str, str]:
        """Return examples of limits."""
        return self._append_words(EXAMPLES)

    def follow(self, text: str) -> None:
        """List the devices that fit the words and limits."""
        self._picker.is_pointed = False
        self._picker.fill(self.search_text)

    def edit(self, key: str, character: str | None) -> None:
        """Add or remove a device by space where it begins no word, else edit the line."""
        if key == "space" and (state_changes.ends_in_condition(self.text) or not self._picker.picks):
            super().edit(key, " ")  # another word or limit follows
        elif key == "space":
            self.session.attempt(self._picker.pick)
        else:
            self._picker.is_pointed = self._picker.is_pointed or key in ("up", "down", "pageup", "pagedown")
            super().edit(key, character)

    def enter(self) -> None:
        """Apply the typed limits to the state, add a device that was typed, and close."""
        if self._picker.enter_adds:
            self._picker.pick()
        words, plain = self.search_text.split(), state_changes.plain_words(self.search_text)
        try:
            limits = " ".join(word for word in words if word not in plain)
            self.session.apply(states.replace(self.session.state, limits=limits))
        except RequestError as error:
            self.session.say(str(error), "bad")
        self._picker.close()

    def leave(self) -> None:
        """Close the picker without the typed limits."""
        self._picker.close()
