"""The HTML of reports: a brief with the rest folded, trees that fold, bars by cause in both lights."""

import html
import re
import shlex
from html.parser import HTMLParser

import pytest

from hwexplorer import __version__
from hwexplorer.answer import Answer
from hwexplorer.export.html import as_fragment, as_html
from hwexplorer.state import parse
from hwexplorer.views.plain import LOOKS, Page, Table

STATE = parse("resnet50@b8,fp16?by=module&sort=share")
VOID = {"meta", "line", "polyline", "polygon", "circle"}


class Reader(HTMLParser):
    """What stands in which element: tags are balanced, and each row of a table knows how deep it is."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[tuple[int, list[str]]] = []
        self.headings: list[tuple[bool, str]] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if depth := named.get("data-depth"):
            self.rows.append((int(depth), []))
        if tag not in VOID or not self.get_starttag_text().endswith("/>"):  # type: ignore[union-attr]
            self.open.append((tag, named))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        return

    def handle_endtag(self, tag: str) -> None:
        while self.open[-1][0] == "meta":
            self.open.pop()
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        tags = [name for name, _ in self.open]
        if self.rows and "tbody" in tags and data.strip():
            self.rows[-1][1].append(data)
        if {"h1", "h2", "h3"} & set(tags):
            self.headings.append(("details" in tags, data))


def test_a_tree_folds_as_it_is_deep_and_shows_every_row() -> None:
    view = Answer("tree", STATE).view()
    assert isinstance(view, Table)
    page = as_html(view)
    read = Reader(page)
    assert [depth for depth, _ in read.rows] == [row.depth for row in view.rows]
    assert [cells[0] for _, cells in read.rows] == [str(row.cells[0]) for row in view.rows]
    assert page.count('class="shut"') == sum(row.has_children for row in view.rows) - 1  # the model is open
    assert "<script" not in as_fragment(view)  # where nothing may run, all rows show


def test_the_report_is_a_brief_with_the_rest_folded() -> None:
    view = Answer("report", STATE).view()
    assert isinstance(view, Page)
    read = Reader(as_html(view))
    brief = [heading for folded, heading in read.headings if not folded]
    assert brief[:1] == [view.title.partition(": ")[0]]
    assert {"Summary", "Where it goes", "Architectural events"} <= set(brief)
    assert any(heading.startswith("Roofline") for heading in brief)
    assert "What could run at once" not in brief
    assert as_html(view).count('<details class="part">') == len(view.parts) - 4
    above = html.unescape(as_html(view).partition("Summary")[0])
    assert all(str(figure) in above for figure in view.cards[0].figures)


def test_architectures_are_compared_by_bars_in_the_colours_of_causes() -> None:
    page = Answer("why", STATE, sides=STATE.devices).to_text("html")
    families = page.count("<tr data-depth")
    assert families >= 7
    assert page.count('<td class="text bars"') == families * len(STATE.devices)
    assert len(set(re.findall(r"background:var\(--c(\d)\)\" title", page))) >= 4


@pytest.mark.parametrize("verb", ["tree", "compare", "report"])
def test_bars_have_the_causes_of_the_screen_in_light_and_dark(verb: str) -> None:
    page = as_html(Answer(verb, STATE).view())
    light, dark = page.split("@media(prefers-color-scheme:dark)")
    for place, look in enumerate(LOOKS):
        assert f"--c{place}:{look.light}" in light
        assert f"--c{place}:{look.dark}" in dark
    assert "background:var(--c0)" in page


def test_a_page_says_the_version_and_the_command_that_made_it() -> None:
    page = Answer("tree", STATE).to_text("html")
    assert f"hwexplorer {__version__}: <code>hwexplorer tree " in page
    again = shlex.split(html.unescape(page.partition("<code>")[2].partition("</code>")[0]))
    assert parse(again[2]) == STATE


def test_a_notebook_shows_the_brief_answer_and_names_what_all_adds() -> None:
    answer = Answer("compare", STATE)
    shown = answer._repr_html_()
    assert 5 < shown.count("<th ") < as_html(answer.view()).count("<th ")
    assert "--all</span> (memory, " in shown


def test_a_comparison_begins_with_its_answer_and_cards() -> None:
    page = as_html(Answer("compare", parse("resnet18")).view())
    names = re.findall(r'<b class="name">([^<]*)</b>', page)
    assert page.index(">Answer<") < page.index('class="cards"') < page.index("<table>")
    assert names[0] == "TPU v4"
    assert names[-1].startswith("KPU")


def test_a_grid_has_controls_and_the_figures_of_compare() -> None:
    grid = Answer("sweep", parse("resnet18/l4,l4@60W"), batches=(1, 8), precisions=("fp16", "int8"))
    page = as_html(grid.view())
    assert len(page) < 900_000
    assert "http" not in page.partition("<body>")[2]
    first, _, rest = page.partition("</table>")
    assert 'data-turns="0 1 2 3"' in first  # device, pixels, batch, precision: before the parts that are folded
    assert "<details" in rest
    compared = Answer("compare", parse("resnet18@b8,int8/l4@60W")).document.rows[0]
    row = next(row for row in first.split("<tr ") if "l4@60W" in row and '"8.0"' in row and '"int8"' in row)
    assert f'data-v="{compared.latency_s!r}"' in row
    assert f'data-v="{compared.energy_j_per_inference!r}"' in row
