"""The verdict strip: a card per device above the panes, or a line per device where there is little room."""

from __future__ import annotations

from itertools import pairwise

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from hwexplorer.text.number_format import safe, to_ascii
from hwexplorer.tui.palette import CURSOR, PLAIN, Palette
from hwexplorer.tui.session.screen_layout import NARROWEST, TALL
from hwexplorer.tui.widgets.cell_drawing import stacked
from hwexplorer.tui.widgets.cell_text import pad, shorten, whole, width_of
from hwexplorer.views.plain import Card

NAME, FIGURE = 25, 10  # cells in a line
SPACIOUS = 100  # cells: a line that has room for words


def _short(figure: str) -> str:
    return figure.replace("/inf", "/i")


def _shortest(figure: str) -> str:
    """Shorten the figures of a request: `18.3 ms 8.54 ms/t 116 t/s`."""
    return _short(figure).removeprefix("first ").replace("/tok", "/t").replace(" tok/", " t/")


def _without_line(name: str, room: int) -> str:
    """`Xeon 8490H` for `Xeon Platinum 8490H`, where there is no room for what maker and number tell."""
    words = name.split()
    if width_of(name) > room and len(words) > 2:
        words.remove(max(words[:-1], key=len))
    return " ".join(words)


class CardStrip(Widget, can_focus=False):
    """Draws the cards; a click says which."""

    class Chosen(Message):
        """A card was clicked; twice, where `is_double`."""

        def __init__(self, device: str, is_double: bool) -> None:
            super().__init__()
            self.device, self.is_double = device, is_double

    def __init__(self, palette: Palette) -> None:
        super().__init__(id="cards")
        self.palette = palette
        self.cards: tuple[Card, ...] = ()
        self.on = ""
        self._shown: object = None

    def show(self, cards: tuple[Card, ...], on: str) -> None:
        """Take what is to be drawn, and draw it where it is new."""
        shown = (cards, on, self.palette)
        if shown != self._shown:
            self._shown, self.cards, self.on = shown, cards, on
            self.refresh()

    def _boxes(self) -> list[tuple[int, int]]:
        count, width = len(self.cards), self.size.width
        return [(a, b - a) for a, b in pairwise(width * place // count for place in range(count + 1))]

    @property
    def _are_tall(self) -> bool:
        return self.size.height >= TALL and bool(self.cards) and self.size.width // len(self.cards) >= NARROWEST

    def _first_place(self) -> int:
        place = next((i for i, card in enumerate(self.cards) if card.key == self.on), 0)
        return max(0, min(place - self.size.height + 1, len(self.cards) - self.size.height))

    def on_click(self, event: events.Click) -> None:
        """Post what was clicked."""
        event.stop()
        if self._are_tall:
            place = next(i for i, (start, width) in enumerate(self._boxes()) if event.x < start + width)
        else:
            place = self._first_place() + event.y
        if place < len(self.cards):
            self.post_message(self.Chosen(self.cards[place].key, event.chain > 1))

    def render_line(self, y: int) -> Strip:
        """Return a line for Textual."""
        if self._are_tall:
            parts = [self._tall(card, y, width) for card, (_, width) in zip(self.cards, self._boxes(), strict=True)]
            segments = [segment for part in parts for segment in part]
        else:
            place = self._first_place() + y
            segments = self._line(self.cards[place], self.size.width) if place < len(self.cards) else []
        if self.palette.ascii:
            segments = [Segment(to_ascii(text), style) for text, style, _ in segments]
        return Strip(segments).adjust_cell_length(self.size.width, self.palette.get("text"))

    def _tall(self, card: Card, y: int, width: int) -> list[Segment]:
        here = card.key == self.on
        side = self.palette.get("accent" if here else "guide")
        corners, flat = ("++++", "=" if here else "-") if self.palette.ascii else ("╭╮╰╯", "━" if here else "─")
        bar = "|" if self.palette.ascii else "┃" if here else "│"
        if here and not self.palette.ascii:
            corners = "┏┓┗┛"
        if y == 0:
            title = self._title(card, width - 4)
            used = sum(width_of(segment.text) for segment in title)
            return [
                Segment(corners[0], side),
                Segment(" ", side),
                *title,
                Segment(" " + flat * (width - used - 4) + corners[1], side),
            ]
        if y == TALL - 1:
            return [Segment(corners[2] + flat * (width - 2) + corners[3], side)]
        inner = width - 4
        blank = Segment(" ", self.palette.get("text"))
        inside = {1: self._figures, 2: self._bar, 3: self._phrase}[y](card, inner)
        return [Segment(bar, side), blank, *inside, blank, Segment(bar, side)]

    def _title(self, card: Card, room: int) -> list[Segment]:
        """Name, trust mark, runtime; first the line of products gives way, then the runtime."""
        mark = f" {card.mark} "
        runtime = safe(card.runtime)
        name = _without_line(safe(card.name), room - len(mark) - width_of(runtime))
        runtime = runtime if width_of(name) + len(mark) + width_of(runtime) <= room else ""
        name = shorten(name, room - len(mark) - 1)
        style = self.palette.get("title" if card.key == self.on else "strong")
        return [
            Segment(name, style if card.fits else style + Style(strike=True)),
            Segment(mark, self.palette.get("good" if card.mark == "✓" else "dim")),
            Segment(runtime, self.palette.get("dim")),
        ]

    def _figures(self, card: Card, width: int) -> list[Segment]:
        """Spread over the width; the last is left out where there is no room for all."""
        told = list(card.figures)
        for shorter in (_short, _shortest):
            if sum(map(width_of, told)) + len(told) - 1 > width:
                told = list(map(shorter, told))
        while len(told) > 1 and sum(map(width_of, told)) + len(told) - 1 > width:
            told.pop(1 if len(told) > 2 else -1)
        gaps = len(told) - 1
        spare = width - sum(map(width_of, told))
        counts = card.fits and not card.over
        role = "strong" if counts else "dim"
        segments = [Segment(told[0], self.palette.get(role))]
        for place, text in enumerate(told[1:], 1):
            space = spare * place // gaps - spare * (place - 1) // gaps
            segments.append(Segment(" " * space + text, self.palette.get("text" if counts else "dim")))
        return segments

    def _bar(self, card: Card, width: int) -> list[Segment]:
        """The stack, the rest of its band hatched; a sign where it runs out of the scale."""
        if card.bar > 1.0 + 1e-9:
            cut = [part / card.bar for part in card.bar.parts]
            return [*stacked(cut, width - 2, self.palette), Segment(" >", self.palette.get("dim"))]
        room = max(1, width * 3 // 4)  # the least of what is left for bands
        full = round(card.bar * room)
        parts = [part * room / width for part in card.bar.parts]
        end = min(round(card.most * room), width)
        drawn = [segment for segment in stacked(parts, width, self.palette) if segment.text.strip()]
        used = sum(len(segment.text) for segment in drawn)
        hatch = ("-" if self.palette.ascii else "╌") * max(0, end - max(used, full))
        rest = " " * (width - used - len(hatch))
        bar = [*drawn, Segment(hatch, self.palette.get("guide")), Segment(rest, self.palette.get("text"))]
        return self._over_ghost(bar, used, min(round(card.ghost * room), width)) if card.ghost else bar

    def _over_ghost(self, bar: list[Segment], used: int, end: int) -> list[Segment]:
        """The bar of a what-if device, and that of the device unchanged: a ghost where it is longer, else its end."""
        signs = ".:" if self.palette.ascii else "░┊"
        start = used if end > used else max(0, end - 1)
        ghost = signs[0] * (end - used) if end > used else signs[1]
        strip, after = Strip(bar), start + len(ghost)
        return [*strip.crop(0, start), Segment(ghost, self.palette.get("dim")), *strip.crop(after)]

    def _phrase(self, card: Card, width: int) -> list[Segment]:
        phrase = " · ".join([f"not {' '.join(card.over)}", card.phrase]) if card.over else card.phrase
        phrase = whole(phrase, width) or phrase.partition(" · ")[0].removeprefix("waits on ")
        role = "warn" if card.over or not card.fits else "good" if phrase.startswith(("fastest", "least")) else "text"
        return [Segment(pad(shorten(safe(phrase), width), width), self.palette.get(role))]

    def _line(self, card: Card, width: int) -> list[Segment]:
        ground = CURSOR if card.key == self.on else PLAIN
        sign = ("> " if self.palette.ascii else "▌ ") if card.key == self.on else "  "
        title = self._title(card, NAME)
        used = sum(width_of(segment.text) for segment in title)
        space = self.palette.get("text")
        first = Segment(sign[0], self.palette.get("accent"))
        segments = [first, Segment(" ", space), *title, Segment(" " * (NAME - used), space)]
        role = "strong" if ground == CURSOR else "text"
        room, shorter = width - NAME - 2, _short if width >= SPACIOUS else _shortest
        for place, figure in enumerate(card.figures):
            wide = max(FIGURE, *(width_of(shorter(other.figures[place])) + 1 for other in self.cards))
            if room >= wide + 14:
                told_role = role if card.fits and not card.over else "dim"
                segments.append(Segment(pad(shorter(figure), wide, True), self.palette.get(told_role)))
                room -= wide
        bar = min(24, max(7, (room - 24) // 2))
        segments += [Segment(" ", space), *self._bar(card, bar), Segment(" ", space)]
        return [*segments, *self._phrase(card, room - bar - 2)]
