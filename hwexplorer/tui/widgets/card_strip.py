"""The strip above the panes: the answer in words, then the table of devices."""

from rich.segment import Segment
from textual import events
from textual.message import Message
from textual.strip import Strip

from analysis.wording import BASELINE, DIFFER
from hardware.base.text import safe
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.session.state_changes import ANSWER_LINES
from hwexplorer.tui.widgets import framed_pane
from hwexplorer.tui.widgets.tree_table import TreeTable
from hwexplorer.views import device_rows, layout, plain


class DeviceTable(TreeTable):
    """The table of devices. Its first head counts the devices if not all are in sight."""

    gap = 3

    def head(self, measure: layout.Measure, width: int) -> str:
        first, count, total = self.extent()
        if measure.column.key != "device" or count >= total:
            return super().head(measure, width)
        return f"  {first + 1}-{first + count} of {total}"


class CardStrip(framed_pane.Drawn):
    """Draws the answer and the devices; a click on a device posts `Chosen`, on the head of a column `Sorted`."""

    class Chosen(Message):
        """A device was clicked, twice if `is_double`."""

        def __init__(self, device: str, is_double: bool) -> None:
            super().__init__()
            self.device, self.is_double = device, is_double

    class Sorted(Message):
        """The head of a column was clicked."""

        def __init__(self, column: str) -> None:
            super().__init__()
            self.column = column

    def __init__(self, palette: Palette) -> None:
        super().__init__(id="cards")
        self.palette = palette
        self.cards: tuple[plain.Card, ...] = ()
        self.answer: tuple[str, ...] = ()
        self.content = DeviceTable(tree=False)
        self.on = self.advice = ""
        self._shown: object = None

    def show(self, cards: tuple[plain.Card, ...], on: str, metric: str, answer: tuple[str, ...]) -> None:
        """Take what to draw, and redraw if it changed."""
        shown = (cards, on, metric, answer, self.palette, self.advice)
        if shown != self._shown:
            if self._shown is None or (cards, metric) != (self.cards, self.content.table.name):
                self.content.update(device_rows.device_table(cards, metric))
            self._shown, self.cards, self.on, self.answer = shown, cards, on, answer
            self.content.mark = on
            self.content.forget()
            self.on_resize()
            self.content.go(on)
            self._drawn = ()
            self.refresh()

    def on_resize(self) -> None:
        """Hand the size below the answer to the table."""
        width, height = self.outer_size
        self.content.resize(max(0, width - 1), max(0, height - self._answer_height))

    @property
    def _answer_height(self) -> int:
        """The height of the answer: at least two lines, more if the devices leave room."""
        lines = ANSWER_LINES * (len(self.cards) > 1 and self.outer_size.height > 1)
        return max(min(lines, 2), min(lines, self.outer_size.height - 1 - len(self.cards)))

    def _card_at(self, y: int) -> plain.Card | None:
        key = self.content.key_at(y - self._answer_height)
        return next((card for card in self.cards if card.key == key), None)

    def on_click(self, event: events.Click) -> None:
        """Post what was clicked."""
        event.stop()
        card, column = self._card_at(event.y), self.content.head_at(event.x - 1, event.y - self._answer_height)
        if column is not None:
            self.post_message(self.Sorted(column))
        elif card is not None and not card.is_unchanged:
            self.post_message(self.Chosen(card.key, event.chain > 1))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Post all that is known of the device under the pointer, or what the column means."""
        card = self._card_at(event.y)
        text = self.content.help_at(event.x - 1, event.y - self._answer_height)
        if card is not None:
            text = safe(" · ".join((card.name, _in_words(card), card.evidence, card.phrase)))
        self.explain(text)

    def draw(self, width: int, height: int) -> list[Strip]:
        """Return the lines of the answer and of the devices."""
        self.on_resize()
        above = self._answer_height
        devices = [self._line(y, width) for y in range(height - above)]
        lines = [*self._answer_lines(width), *[[]] * above][:above] + devices
        return [Strip(framed_pane.fit(line, width, self.palette), width) for line in lines[:height]]

    def _line(self, y: int, width: int) -> list[Segment]:
        if not self.cards:
            return []
        if self.content.height == 1:
            card = next((card for card in self.cards if card.key == self.on), self.cards[0])
            text = layout.whole(f" {safe(card.short)} {safe(_in_words(card))}", width)
            if self._answer_height:  # the figures are in the tree below: say why they are so, and what to try
                parts = (card.phrase.rpartition(f"{BASELINE} · ")[2], self.advice)
                text = f" {layout.whole('; '.join(filter(None, map(safe, parts))), width - 1, '; ')}"
            return [Segment(text, self.palette.get("strong"))]
        sign = Segment("▌" if self.content.key_at(y) == self.on else " ", self.palette.get("accent"))
        return [sign, *self.content.line(y, self.palette, False)]

    def _answer_lines(self, width: int) -> list[list[Segment]]:
        """Return the answer: the first sentence, then the beginning of each other one."""
        lines = layout.wrap(safe(self.answer[0]), width - 2) if self.answer else []
        first = len(lines)
        for sentence in map(safe, self.answer[1:]):  # without the command, which stands behind a semicolon
            lines.append(layout.shorten(f"{sentence.partition(';')[0].rstrip('.')}.", width - 2))
        strong = [y < first or text.startswith(DIFFER) for y, text in enumerate(lines)]
        styles = [self.palette.get("strong" if is_strong else "text") for is_strong in strong]
        return [[Segment(f" {text}", style)] for text, style in zip(lines, styles, strict=True)]


def _in_words(card: plain.Card) -> str:
    """Return the software and the figures of a device with their units: `TensorRT tf32 · latency 393 µs · ..`."""
    figures = (str(figure) for figure in card.figures if figure.label != "rate")
    return " · ".join(filter(None, (card.runs, *figures, card.note)))
