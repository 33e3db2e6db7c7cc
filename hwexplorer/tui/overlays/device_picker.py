"""The catalogue of devices, which typing narrows; space adds or removes a device."""

from hardware.base.errors import RequestError, matching_places
from hardware.operating_point import split_operating_point
from hwexplorer.state import replace
from hwexplorer.tui.overlays.overlay_screen import Host, OverlayScreen
from hwexplorer.tui.prompts.prompt import Prompt
from hwexplorer.tui.session import row_query
from hwexplorer.tui.widgets.framed_pane import FramedPane
from hwexplorer.tui.widgets.status_lines import settings_text
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views.layout import whole

EXAMPLES = ("L<5ms", "E<1J", "P<30W", "M<8GB")


class DevicePicker(OverlayScreen):
    """Shows the catalogue over the whole screen. Its keys are the keys of its prompt."""

    def __init__(self, host: Host) -> None:
        self.content = TreeTable(tree=False)
        super().__init__(host, "picker", self.content)
        session = self.session
        self._typed = ""
        self._is_picked = False  # True once space added or removed a device
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
        texts = ["\n".join([row.key, *map(str, row.cells)]) for row in table.rows]
        rows = tuple(table.rows[place] for place in matching_places(" ".join(words), texts))
        before = () if is_limited and not self.is_pointed else (self.content.key,)
        self.content.update(replace(table, rows=rows), only=" ".join(words) * (not rows))
        keys = [row.key for row in rows]
        self.content.go(next((key for key in (*words, *before) if key in keys), keys[0] if keys else ""))
        summary = table.title if is_limited else f"{len(session.state.devices)} chosen"
        heading = f"Devices · {settings_text(session.state)} · {summary}"
        self.pane.heading = whole(heading, self.pane.size.width - 6, "; ") or heading
        self.pane.remark = f"{len(rows)} of {len(table.rows)}"
        self.pane.redraw()
        if is_limited and session.limits.compute_some(session.state, keys):
            self.set_timer(0.01, self._refill)

    def _split_words(self) -> tuple[list[str], str]:
        """Return the typed words, and the power cap and clock lock that follow them, `@400W`."""
        name, settings = split_operating_point(" ".join(row_query.plain_words(self._typed)))
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
        return len(row_query.plain_words(self._typed)) < len(self._typed.split())

    @property
    def enter_adds(self) -> bool:
        """True if enter adds the device under the cursor: it was typed, and space has not been used."""
        is_typed = bool(row_query.plain_words(self._typed)) and not self._is_picked
        return is_typed and self.content.row is not None and self._picked_key not in self.session.state.devices

    @property
    def picks(self) -> bool:
        """True if space adds or removes the row under the cursor instead of beginning a word: no word is typed, one
        device is left, or a key moved the cursor."""
        is_typing = bool(row_query.plain_words(self._typed)) and not self.is_pointed
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
                self.session.apply(replace(state, devices=rest))
            else:
                self.session.apply(replace(state, devices=(*state.devices, key), on=state.on))
        except RequestError as error:  # a cap or a lock that the device cannot take
            self.session.say(str(error), "bad")
            return
        place = self.content.cursor
        self.fill(self._typed)
        self.content.move(place - self.content.cursor)

    def click(self, at: FramedPane.Clicked) -> None:
        """Add or remove the device that was clicked."""
        if (key := self.content.key_at(at.y)) is not None:
            self.content.go(key)
            self.pick()


class DevicesPrompt(Prompt):
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
            passing = sum(not row.dim for row in content.table.rows)
            counted, enter = f"{passing} pass", "keeps the limits"
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
        if key == "space" and (row_query.ends_in_condition(self.text) or not self._picker.picks):
            super().edit(key, " ")  # another word or limit follows
        elif key == "space":
            self._picker.pick()
        else:
            self._picker.is_pointed = self._picker.is_pointed or key in ("up", "down", "pageup", "pagedown")
            super().edit(key, character)

    def enter(self) -> None:
        """Apply the typed limits to the state, add a device that was typed, and close."""
        if self._picker.enter_adds:
            self._picker.pick()
        words, plain = self.search_text.split(), row_query.plain_words(self.search_text)
        try:
            limits = " ".join(word for word in words if word not in plain)
            self.session.apply(replace(self.session.state, limits=limits))
        except RequestError as error:
            self.session.say(str(error), "bad")
        self._picker.close()

    def leave(self) -> None:
        """Close the picker without the typed limits."""
        self._picker.close()
