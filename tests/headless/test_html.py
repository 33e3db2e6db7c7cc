"""The HTML of reports: self-contained and escaped, a brief with the rest folded, trees that fold, bars by cause."""

import csv
import html
import io
import re
import shlex
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

from analysis.document import Column
from hwexplorer import __version__, registry
from hwexplorer.answer import Answer
from hwexplorer.declare import Report
from hwexplorer.export.html import as_fragment, as_html
from hwexplorer.export.render import plain
from hwexplorer.state import State, parse
from hwexplorer.views.plain import LOOKS, Page, Plot, Row, Series, Table, Text, View
from tests.headless.conftest import Call

STATE = parse("resnet50@b8,fp16?by=module&sort=share")
VOID = {"meta", "br", "wbr"}
HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "=1+1", "&amp;", "\x1b[31mred", "a\nb")


class Reader(HTMLParser):
    """What stands in which element: tags are balanced, a row of a table knows how deep it is, and what a browser would
    fetch is gathered."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.fetched: list[str] = []
        self.rows: list[tuple[int, list[str]]] = []
        self.headings: list[tuple[bool, str]] = []
        self.feed(page)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [f"{k}={v}" for k, v in attrs if k in ("src", "href", "action", "data") or k.startswith("on")]
        if depth := dict(attrs).get("data-depth"):
            self.rows.append((int(depth), []))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.rows and "tbody" in self.open and data.strip():
            self.rows[-1][1].append(data)
        if {"h1", "h2", "h3"} & set(self.open):
            self.headings.append(("details" in self.open, data))


def check(page: str) -> Reader:
    """Read a page that needs nothing from elsewhere."""
    reader = Reader(page)
    assert reader.fetched == []
    assert reader.tags.count("script") == 1
    assert not re.search(r"@import|url\(|https?://(?!www\.w3\.org)[^\s<\"]*\.(js|css|png|woff)", page)
    assert "prefers-color-scheme" in page
    return reader


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
    assert "not in the sweep" in page
    assert 'data-turns="0 1 2 3"' in first  # device, pixels, batch, precision: before the parts that are folded
    assert "<details" in rest
    compared = Answer("compare", parse("resnet18@b8,int8/l4@60W")).document.rows[0]
    row = next(row for row in first.split("<tr ") if "l4@60W" in row and '"8.0"' in row and '"int8"' in row)
    assert f'data-v="{compared.latency_s!r}"' in row
    assert f'data-v="{compared.energy_j_per_inference!r}"' in row


@pytest.mark.parametrize("on", State().devices)
def test_the_page_opens_offline(on: str, call: Call) -> None:
    done = call("report", "resnet18", "--on", on, "--format", "html")
    assert done.code == 0, done.err
    reader = check(done.out)
    assert reader.tags.count("svg") >= 2
    assert reader.tags.count("table") >= 10
    assert "aria-sort" in done.out


def test_the_documents_are_those_of_the_verbs(document: Callable[..., Any]) -> None:
    words = ("resnet18", "--on", "gpu")
    whole = document("report", *words)
    assert whole["schema"] == "hwexplorer/1"
    for verb in ("tree", "events", "memory", "edp", "kernels", "structure"):
        assert whole[verb] == document(*registry.full_name(verb).split(), *words), verb


def _on_screen(name: str) -> bool:
    verb = registry.load(name)
    return isinstance(verb, Report) and verb.on_screen


# Reports about some units and models only.
_SHOWN = {
    "fallback": State("resnet18", on="jetson_orin_dla", devices=("jetson_orin_dla",)),
    "offload": State("qwen3_0_6b:decode", on="rtx_2080", devices=("rtx_2080",)),
}


@pytest.mark.parametrize("name", filter(_on_screen, registry.names()))
def test_every_view_as_html(name: str) -> None:
    built = Answer(name, _SHOWN.get(name, State("resnet18"))).view()
    reader = check(as_html(built))
    rows = 0
    for part in _parts(built):
        if isinstance(part, Table):
            rows += len(part.rows) + 1
        elif isinstance(part, Text):
            rows += len(part.steps)
    assert reader.tags.count("tr") == rows


def _parts(view: View | Page) -> Iterator[View]:
    if isinstance(view, Page):
        for part in view.parts:
            yield from _parts(part)
    else:
        yield view


def test_hostile_names_are_text() -> None:
    columns = (Column("name", HOSTILE[0], role="text"), Column("bar", "Share", "%", role="bar"), Column("n", "N", "s"))
    rows = tuple(Row(name, (name, 0.5, float("inf"))) for name in HOSTILE)
    values = tuple(float(i + 1) for i in range(len(HOSTILE)))
    view = Page(
        "x",
        HOSTILE[0],
        (
            Table("t", HOSTILE[1], columns, rows, footer=HOSTILE, notes=HOSTILE),
            Text("p", HOSTILE[0], ((HOSTILE[1], HOSTILE),)),
            Plot(
                name="q",
                title=HOSTILE[0],
                x_title=HOSTILE[1],
                y_title="y",
                x_unit="s",
                y_unit="J",
                series=(Series(HOSTILE[0], values, values, keys=HOSTILE, labels=HOSTILE),),
            ),
        ),
        main=0,
    )
    page = as_html(view)
    reader = check(page)
    assert "img" not in reader.tags
    assert "\x1b" not in page
    cells = list(csv.reader(io.StringIO(plain(view, "csv"))))
    assert any(cell == "'=1+1" for row in cells for cell in row)
    assert not any(cell.startswith("=") for row in cells for cell in row)
