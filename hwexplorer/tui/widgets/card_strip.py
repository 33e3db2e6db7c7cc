"""The strip above the panes: the answer in words, then a line per device with its figures, bar and phrase."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import inf, log

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from analysis.wording import FORM, MEMORY_SIZE
from hardware.base.text import percent, quantity
from hwexplorer.text.number_format import safe, to_ascii
from hwexplorer.tui.palette import Palette, stacked
from hwexplorer.tui.session.state_changes import answer_lines
from hwexplorer.tui.widgets.framed_pane import Hovered
from hwexplorer.views import layout, plain
from hwexplorer.views.captions import metric_word

LEFT = 4  # cells: the cursor's sign and the rank
NAME_LEAST, NAME_MIN, NAME_MAX, TITLE_SHARE = 16, 22, 34, 23  # cells of name and runtime; percent of the width
PARTS_MIN = 4  # cells at least of a bar by cause
BAR_MIN, BAR_MAX, PHRASE_LEAST, PHRASE_MIN, PHRASE_GOOD = 7, 24, 12, 22, 28
SIGNS = {"measured": "✓", "similar chip": "≈", "data sheet": "○"}  # signs of evidence; a paper device says it
_SHORTER = {"predicted ": "pred. ", "on paper: ": "paper: ", "hypothetical: ": "", "keeps up: ": "",
            "falls behind by ": "behind by ", " requests/s": "/s"}  # fmt: skip


@lru_cache(maxsize=256)
def shorter_names(name: str) -> tuple[str, ...]:
    """Return a name in shorter and shorter forms: without form factor, memory size and product line, then with short
    names of changed facts. The model number and the changed amounts always stay."""
    name, brace, changes = name.partition(" {")
    model = [name, *(re.sub(rf" (?:{words})(?= |$)", "", name) for words in (FORM, rf"{FORM}|{MEMORY_SIZE}"))]
    first, *rest = re.sub(rf" (?:{FORM}|{MEMORY_SIZE})(?= |$)|(?<=\d) (?=W|MHz)|[()]", "", name).split()
    shortest = " ".join((first, *([word for word in rest if re.search(r"\d", word)] or rest))) + brace
    shorter = [
        re.sub(rf"([a-z]{{{letters}}})\w{{2,}}(?=[*=])", r"\1…", changes) if changes else "" for letters in (6, 3)
    ]
    return (*(form + brace + changes for form in model), *(shortest + text for text in (changes, *shorter)))


class CardStrip(Widget, can_focus=False):
    """Draws the answer and the cards; a click on a card posts `Chosen`."""

    class Chosen(Message):
        """A card was clicked, twice if `is_double`."""

        def __init__(self, device: str, is_double: bool) -> None:
            super().__init__()
            self.device, self.is_double = device, is_double

    def __init__(self, palette: Palette) -> None:
        super().__init__(id="cards")
        self.palette = palette
        self.cards: tuple[plain.Card, ...] = ()
        self.answer: tuple[str, ...] = ()
        self.on = self.metric = self._hovered = ""
        self._shown: object = None

    def show(self, cards: tuple[plain.Card, ...], on: str, metric: str, answer: Sequence[str]) -> None:
        """Take what to draw, and redraw if it changed."""
        shown = (cards, on, metric, answer, self.palette)
        if shown != self._shown:
            self._shown, self.cards, self.on, self.metric, self.answer = shown, cards, on, metric, tuple(answer)
            self.refresh()

    def _rows(self) -> list[plain.Card | str]:
        """Return what each line shows: `answer`, `heads`, a card, a `gap` before cards on paper, or `more`."""
        height = self.size.height
        if not self.cards:
            return []
        if height == 1:
            return [next((card for card in self.cards if card.key == self.on), self.cards[0])]
        above = ["answer"] * self._answer_height + ["heads"]
        below: list[plain.Card | str] = list(self.cards)
        if height < len(above) + len(below):
            return [*above, *self._most_wanted(height - len(above) - 1), "more"]
        first_on_paper = next((place for place, card in enumerate(self.cards) if card.on_paper), 0)
        if first_on_paper and height > len(above) + len(below):
            below.insert(first_on_paper, "gap")
        return [*above, *below]

    def _most_wanted(self, count: int) -> list[plain.Card]:
        """Choose the device under the cursor, the best, the reference, then by rank. The order of cards stays."""

        def order_of(card: plain.Card) -> tuple[bool, bool, bool, bool, int]:
            """Return the sort key by which cards are chosen."""
            is_reference = "1x" in card.phrase.split(" · ")
            return card.key != self.on, card.rank != 1, not is_reference, not card.rank, card.rank

        chosen = {card.key for card in sorted(self.cards, key=order_of)[:count]}
        return [card for card in self.cards if card.key in chosen]

    def _count_hidden(self, rows: Sequence[plain.Card | str]) -> str:
        """Return `+1 more (2 L4)`: rank and name of the devices without a line of their own."""
        hidden = sorted((card for card in self.cards if card not in rows), key=lambda card: (not card.rank, card.rank))
        names = ", ".join(f"{card.rank or ''} {safe(card.name)}".strip() for card in hidden)
        return f"+{len(hidden)} more ({names})"

    @property
    def _answer_height(self) -> int:
        """The height of the answer: at least two lines, more if the devices leave room."""
        lines = answer_lines(*self.screen.size, len(self.cards)) if self.cards else 0
        return max(min(lines, 2), min(lines, self.size.height - 1 - len(self.cards)))

    def on_click(self, event: events.Click) -> None:
        """Post what was clicked."""
        event.stop()
        rows = self._rows()
        if event.y < len(rows) and isinstance(card := rows[event.y], plain.Card) and not card.is_unchanged:
            self.post_message(self.Chosen(card.key, event.chain > 1))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Post all that is known of the device under the pointer."""
        rows = self._rows()
        row = rows[event.y] if event.y < len(rows) else ""
        text = ""
        if isinstance(row, plain.Card):
            figures = ", ".join(map(str, row.figures))
            text = safe(" · ".join((row.name, row.runtime, row.format, row.evidence, figures, *row.over, row.phrase)))
        if text != self._hovered:
            self._hovered = text
            self.post_message(Hovered(text))

    def render_line(self, y: int) -> Strip:
        """Return a line for Textual."""
        rows, width = self._rows(), self.size.width
        row = rows[y] if y < len(rows) else "gap"
        if isinstance(row, plain.Card):
            segments = self._line(row, width) if len(rows) > 1 else self._single_line(row, width)
        elif row == "heads":
            segments = self._heads(width)
        elif row == "more":
            segments = [Segment(layout.shorten("  " + self._count_hidden(rows), width), self.palette.get("dim"))]
        else:
            segments = self._answer_line(y, width) if row == "answer" else []
        if self.palette.ascii:
            segments = [Segment(to_ascii(text), style) for text, style, _ in segments]
        return Strip(segments).adjust_cell_length(width, self.palette.get("text"))

    def _answer_line(self, y: int, width: int) -> list[Segment]:
        """Return line `y` of the answer: all of the first sentence, then as many others as there is room for."""
        if not self.answer:
            return []
        first, *rest = map(safe, (*self.answer, *self._causes()))
        lines = layout.wrap_evenly(first, width - 2)
        strong = len(lines)
        for sentence in rest:
            sentence = re.sub(r" \((?!\d+ % sure)[^()]*\)", "", sentence)  # the table of devices has the details
            clause = f"{sentence.partition(';')[0].rstrip('.')}."
            for text in (sentence, clause):
                joined = lines[:strong] + layout.wrap(" ".join([*lines[strong:], text]), width - 2)
                if len(joined) <= self._answer_height:
                    break
            if len(joined) > self._answer_height:
                if len(lines) == strong < self._answer_height:  # a cut sentence is better than an empty line
                    lines = joined
                break
            lines = joined
        if y == self._answer_height - 1 and len(lines) > self._answer_height:
            lines[y] = layout.shorten(" ".join(lines[y:]), width - 2)
        text = lines[y] if y < len(lines) else ""
        return [Segment(" " + text, self.palette.get("strong" if y < strong else "text"))]

    def _causes(self) -> Iterator[str]:
        """Yield a sentence on the causes of the metric of the device under the cursor."""
        for card in self.cards:
            if card.key == self.on and card.bar:
                causes = sorted(zip(card.bar.parts, plain.LOOKS, strict=True), key=lambda pair: -pair[0])[:3]
                shares = ", ".join(f"{percent(share)} {look.name}" for share, look in causes)
                yield f"{metric_word(self.metric)} of {shorter_names(card.name)[-1]}: {shares}."

    # --- columns ------------------------------------------------------------------------------------------

    def _title_room(self, width: int) -> int:
        return max(NAME_MIN if width >= 60 else NAME_LEAST, min(NAME_MAX, width * TITLE_SHARE // 100))

    def _columns(self, width: int) -> tuple[list[tuple[int, str]], int, int]:
        """Return width and head of each figure (width 0: left out), and the widths of bar and phrase. Short of room,
        heads become units first, then the bar goes, then figures."""
        figures = self.cards[0].figures
        texts = [max(layout.width_of(card.figures[place].text) for card in self.cards) for place in range(len(figures))]
        room = width - LEFT - self._title_room(width)
        for shortness, bar_min in ((0, BAR_MIN), (1, BAR_MIN), (1, 0), (2, 0)):
            heads = [_head(figure, shortness) for figure in figures]
            wide = [max(text, layout.width_of(head)) + 2 for text, head in zip(texts, heads, strict=True)]
            rest = room - sum(wide) - 1
            if rest >= bar_min + PHRASE_MIN:
                break
        # The rate follows from latency and batch, TPOT from tokens/s and batch; of a load both are left out.
        follows = [place for place, one in enumerate(figures) if one.label == "TPOT" or one.unit.endswith("/s")]
        order = [*((place, PHRASE_MIN) for place in follows[:1]), (1, PHRASE_LEAST)]  # figure, least phrase
        for left_out, phrase in (*order, *((place, 0) for place in range(1, len(figures)))):
            if rest < phrase:
                rest, wide[left_out] = rest + wide[left_out], 0
        bar = min(BAR_MAX, max(BAR_MIN, rest - PHRASE_GOOD)) if rest >= BAR_MIN + PHRASE_MIN else 0
        phrase = rest - bar - (bar > 0)
        return list(zip(wide, heads, strict=True)), bar, phrase if phrase >= PHRASE_LEAST else 0

    def _heads(self, width: int) -> list[Segment]:
        columns, bar, phrase = self._columns(width)
        heads = "".join(layout.pad(head, wide - 1, True) + " " for wide, head in columns if wide)
        room = self._title_room(width)
        known = [f"{sign} {words}" for words, sign in SIGNS.items() if any(c.evidence == words for c in self.cards)]
        evidence = "  ".join(known)
        titles = (
            f"device  evidence: {evidence.replace('chip', 'chip measured')}" if known else "device",
            evidence.replace("chip", "chip measured"),
            evidence.replace("similar", "from similar"),
            evidence.replace(" chip", ""),
            evidence.replace(" chip", "").replace("data ", ""),
            "device",
        )
        title = layout.pad(" " * LEFT + next(text for text in titles if layout.width_of(text) <= room), LEFT + room)
        parts, axis = self._divide_bar(bar)
        metric = metric_word(self.metric)
        made_of = next(text for text in (f"{metric} made of", "made of", "parts", "of", "") if len(text) <= parts)
        least, greatest = (quantity(end, "J", digits=1).rstrip("J").replace(" ", "") for end in self._ends())  # `2µ`
        spanned = f"{least}{'log':^{max(5, axis - len(least) - len(greatest))}}{greatest}"
        scale = next(text for text in (spanned, f"log {metric}", "log", "") if len(text) <= axis)
        by_cause = layout.pad(layout.pad(made_of, parts + 1) * (parts > 0) + scale, bar) + " " * (bar > 0)
        best, hatch = ("<", "-") if self.palette.ascii else ("◂", "─")
        against = f"vs {self.cards[0].reference}" if self.cards[0].reference else "verdict"
        signs = (f"  {best} best  {hatch} band", f" {best} best {hatch} band") if bar else (f"  {best} best",)
        verdict = next((against + each for each in (*signs, "") if layout.width_of(against + each) <= phrase), "")
        return [Segment(layout.pad(f"{title}{heads} {by_cause}{verdict}", width), self.palette.get("header"))]

    def _line(self, card: plain.Card, width: int) -> list[Segment]:
        columns, bar, phrase = self._columns(width)
        is_here, space = card.key == self.on, self.palette.get("text")
        sign = (">" if self.palette.ascii else "▌") if is_here else " "
        segments = [Segment(layout.pad(f"{card.rank or ''}", LEFT - 2, True) + " ", self.palette.get("dim"))]
        segments += self._title(card, self._title_room(width))
        counts = card.fits and not card.over and not card.on_paper and not card.is_unchanged
        for figure, (wide, _) in zip(card.figures, columns, strict=True):
            if wide:
                mark = ("<" if self.palette.ascii else "◂") if figure.is_best else " "
                role = "good" if figure.is_best else "strong" if is_here else "text"
                segments.append(Segment(layout.pad(figure.text, wide - 1, True) + mark, self.palette.get(role)))
        segments.append(Segment(" ", space))
        if bar:
            segments += [*self._bar(card, bar), Segment(" ", space)]
        segments += self._phrase(card, phrase) if phrase else ()
        if not counts:
            dim = self.palette.get("dim")
            segments = [
                Segment(text, dim + Style(strike=style.strike if style else None)) for text, style, _ in segments
            ]
        return [Segment(sign, self.palette.get("accent")), *segments]

    def _single_line(self, card: plain.Card, width: int) -> list[Segment]:
        """Return the device under the cursor and its figures with their units, for a strip of one line."""
        title = self._title(card, NAME_MIN - 1)
        room = width - NAME_MIN - 2
        figures = [f"{figure.text} {figure.unit}" for figure in card.figures]
        figures[-1] = str(card.figures[-1])
        while len(figures) > 2 and layout.width_of("  ".join(figures)) > room:
            figures.pop(1)
        text = "  ".join(figures)
        if layout.width_of(text) > room:  # the unit tells what the figure is
            text = text.replace(card.figures[-1].label + " ", "")
        phrase = layout.whole(" · ".join((*card.over, safe(card.phrase))), room - layout.width_of(text) - 2)
        strong = self.palette.get("strong")
        return [
            Segment(" ", strong),
            *title,
            Segment(f" {layout.shorten(text, room)}  ", strong),
            *self._phrase(card, layout.width_of(phrase)),
        ]

    def _title(self, card: plain.Card, room: int) -> list[Segment]:
        """Return name, evidence sign, runtime. Short of room, shorten the name (kept unique), then drop the runtime."""
        mark, runtime = f" {SIGNS.get(card.evidence, ' ')} ", safe(card.runtime)
        steps = shorter_names(safe(card.name))
        others = [shorter_names(safe(other.name)) for other in self.cards if other.key != card.key]
        names = [name for place, name in enumerate(steps) if all(name != other[place] for other in others)]
        first, form = runtime.partition(" ")[0], f" {card.format}"
        runtimes = (runtime + form, first + form, form[1:], "")
        named = [(name, shown) for shown in runtimes for name in names] or [(steps[0], "")]
        fitting = (pair for pair in named if layout.width_of(pair[0]) + len(mark) + layout.width_of(pair[1]) <= room)
        name, runtime = next(fitting, named[-1])
        name = layout.shorten(name, room - len(mark))
        style = self.palette.get("title" if card.key == self.on else "strong")
        rest = room - layout.width_of(name) - len(mark)
        return [
            Segment(name, style if card.fits else style + Style(strike=True)),
            Segment(mark, self.palette.get("good" if card.evidence == "measured" else "dim")),
            Segment(layout.pad(runtime, rest), self.palette.get("dim")),
        ]

    @staticmethod
    def _divide_bar(width: int) -> tuple[int, int]:
        """Return the cells of the bar by cause, 0 if there is no room for it, and of the scale to the right of it."""
        parts = (width - 1) * 2 // 5
        return (parts, width - 1 - parts) if parts >= PARTS_MIN else (0, width)

    def _bar(self, card: plain.Card, width: int) -> list[Segment]:
        """Return a bar by cause, as long for each device, and the metric with its band on a logarithmic scale that all
        devices share. The bar of a design on paper is not divided by cause."""
        parts, axis = self._divide_bar(width)
        space, dim = Segment(" ", self.palette.get("text")), self.palette.get("dim")
        if not parts:
            return self._scale(card, axis)
        if card.on_paper:
            bar = [Segment(("=" if self.palette.ascii else "▒") * parts, dim)]
        else:
            bar = stacked(card.bar.parts, parts, self.palette)
        return [*bar, space, *self._scale(card, axis)]

    def _ends(self) -> tuple[float, float]:
        """Return the ends of the scale of the metric, in its SI unit."""
        values = [value for one in self.cards for value in (*one.band, one.value) if 0.0 < value < inf] or [1.0]
        return min(values), max(values)

    def _scale(self, card: plain.Card, width: int) -> list[Segment]:
        """Return the metric of a device as a dot between the ends of its band."""
        least, greatest = self._ends()

        def cell(value: float) -> int:
            """Return the cell of a value."""
            place = log(min(max(value, least), greatest) / least) / (log(greatest / least) or 1.0)
            return round(place * (width - 1))

        start, dot, end = cell(card.band[0]), cell(card.value), cell(card.band[1])
        line, sign = ("-", "O") if self.palette.ascii else ("─", "○" if card.on_paper else "●")
        is_here = card.key == self.on
        return [
            Segment(" " * start + line * (dot - start), self.palette.get("guide")),
            Segment(sign, self.palette.get("good" if card.rank == 1 else "accent" if is_here else "text")),
            Segment(line * (end - dot) + " " * (width - 1 - max(end, dot)), self.palette.get("guide")),
        ]

    def _phrase(self, card: plain.Card, width: int) -> list[Segment]:
        phrase = re.sub(r"\b\d+(st|nd|rd|th)( · |$)", "", safe(card.phrase))  # the rank has a column
        phrase = " · ".join((*card.over, phrase))
        phrase = layout.whole(phrase, width) or phrase.partition(" · ")[0]
        if card.over and layout.width_of(phrase) > width:  # the figure and the limit say which way it fails
            phrase = re.sub(r".*\((.*)\)", r"\1", phrase)
        if layout.width_of(phrase) > width:
            phrase = re.sub("|".join(_SHORTER), lambda match: _SHORTER[match[0]], phrase)
        phrase = "1x, the baseline" if phrase == "1x" and width >= len("1x, the baseline") else phrase
        role = "warn" if card.over or not card.fits else "good" if card.rank == 1 else "text"
        return [Segment(layout.pad(layout.shorten(phrase, width), width), self.palette.get(role))]


def _head(figure: plain.CardFigure, shortness: int) -> str:
    """Return `latency ms`; from shortness 1 on `ms`, which tells the figure; from 2 on also `tok/s` for `tokens/s`."""
    label = "" if shortness and figure.label in ("latency", "rate", "energy") else figure.label
    unit = re.sub("tokens?", "tok", figure.unit) if shortness > 1 else figure.unit
    return f"{label} {unit}".strip()
