"""The report and HTML: complete, self-contained, escaped, and with the numbers of the other formats."""

import csv
import io
import re
from collections.abc import Iterator
from html.parser import HTMLParser

import pytest
from decisions import DEFAULTS, hwexplorer

from analysis.document import Column
from hwexplorer import registry
from hwexplorer.answer import Answer
from hwexplorer.declare import Report
from hwexplorer.export.html import as_html
from hwexplorer.export.render import plain
from hwexplorer.state import State
from hwexplorer.views.plain import Page, Plot, Row, Series, Table, Text, View

VOID = {"wbr", "meta", "br"}
HOSTILE = ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "=1+1", "&amp;", "\x1b[31mred", "a\nb")


class _Page(HTMLParser):
    """Checks that tags balance, and gathers what a browser would fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.fetched += [f"{k}={v}" for k, v in attrs if k in ("src", "href", "action", "data") or k.startswith("on")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _read(page: str) -> _Page:
    reader = _Page()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    return reader


def _check(page: str) -> _Page:
    reader = _read(page)
    assert reader.fetched == []
    assert reader.tags.count("script") == 1
    assert not re.search(r"@import|url\(|https?://(?!www\.w3\.org)[^\s<\"]*\.(js|css|png|woff)", page)
    assert "prefers-color-scheme" in page
    return reader


@pytest.mark.parametrize("on", DEFAULTS)
def test_the_page_opens_offline(on: str) -> None:
    done = hwexplorer("report", "resnet18", "--on", on, "--format", "html")
    assert done.code == 0, done.err
    reader = _check(done.out)
    assert reader.tags.count("svg") >= 2
    assert reader.tags.count("table") >= 10
    assert "aria-sort" in done.out


def test_the_documents_are_those_of_the_verbs() -> None:
    words = ("resnet18", "--on", "gpu", "--format", "json")
    whole = hwexplorer("report", *words).json()
    assert whole["schema"] == "hwexplorer/1"
    for verb in ("tree", "events", "memory", "edp", "kernels", "structure"):
        assert whole[verb] == hwexplorer(*registry.full_name(verb).split(), *words).json(), verb


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
    reader = _check(as_html(built))
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
    reader = _check(page)
    assert "img" not in reader.tags
    assert "\x1b" not in page
    cells = list(csv.reader(io.StringIO(plain(view, "csv"))))
    assert any(cell == "'=1+1" for row in cells for cell in row)
    assert not any(cell.startswith("=") for row in cells for cell in row)
