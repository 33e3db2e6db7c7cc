"""The same facts on screen, in text, JSON, CSV, Markdown and HTML: those of one view are looked for in each."""

import csv
import io
import json
from collections.abc import Iterator
from html.parser import HTMLParser
from itertools import accumulate

import pytest

import hwexplorer
from hardware.device_catalog import load_device
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import State, parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.widgets.tree_table import TreeTable
from tests.headless.conftest import Call, factor, parse_table, shows

ASKED = ("resnet18", "--batch", "8", "--precision", "fp16")
STATE = "resnet18@b8,fp16?pane=compare&zoom=1"
# What is told of each device: the title of its column, its name in CSV, its key in JSON.
TOLD = (
    ("Latency", "latency_s", "latency_s"),
    ("Energy", "energy_j_per_inference", "energy_j_per_inference"),
    ("Rate", "throughput_per_s", "throughput_per_s"),
    ("Power", "power_w", "average_power_w"),
    ("Util", "utilization", "utilization"),
    ("Memory", "memory_bytes", "peak_memory_bytes"),
)
FORMATS = ("screen", "text", "json", "csv", "md", "html")
Facts = dict[tuple[str, str], float]  # (device, title)
Rows = list[dict[str, str]]


def facts() -> Facts:
    """Of the document, before any of them is written."""
    rows = hwexplorer.compare(ASKED[0], batch=8, precision="fp16").to_dict()["rows"]
    return {(str(row["device"]), title): float(row[in_json]) for row in rows for title, _, in_json in TOLD}


class Cells(HTMLParser):
    """The rows of the tables of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            self.rows[-1].append("")
            self._inside = True

    def handle_endtag(self, tag: str) -> None:
        self._inside = self._inside and tag not in ("th", "td")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] += data


async def written(call: Call, name: str) -> Rows:
    """The rows of the view in one format, by their heads."""
    if name == "screen":
        app = HwExplorer(parse(STATE), ScreenQueries())
        async with app.run_test(size=(240, 60)):
            content: TreeTable = app.explorer.panes["compare"].content
            lines = ["".join(part.text for part in content.line(y, Palette("dark"), True)) for y in range(5)]
        widths = [width + content._gap for width in content._widths if width]
        rows = [
            [line[end - width : end].strip() for width, end in zip(widths, accumulate(widths), strict=True)]
            for line in lines
        ]
        return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]
    text = call("compare", *ASKED, "--all", "--format", name).out
    if name == "text":
        return parse_table(text)
    if name == "csv":
        return list(csv.DictReader(io.StringIO(text)))
    if name == "json":
        return [{key: str(value) for key, value in row.items()} for row in json.loads(text)["rows"]]
    if name == "md":
        rows = [[cell.strip() for cell in line.strip("| ").split("|")] for line in text.splitlines() if "|" in line]
    else:
        page = Cells()
        page.feed(text)
        rows = page.rows
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]


def missing(known: Facts, rows: Rows, name: str) -> Iterator[tuple[str, str]]:
    """The facts that are not there: in JSON and CSV to the last bit, elsewhere to the last digit printed."""
    first = {"json": "device", "csv": "key"}.get(name, "Device")
    ids = {load_device(device).name.removesuffix(" (paper)"): device for device, _ in known}
    by_device = {ids.get(row[first].removesuffix(" (paper)"), row[first]): row for row in rows if first in row}
    for title, in_csv, in_json in TOLD:
        for device in {device for device, _ in known}:
            value, row = known[device, title], by_device.get(device, {})
            if name in ("json", "csv"):
                found = float(row.get(in_json if name == "json" else in_csv, "nan")) == value
            else:
                head = next((h for h in row if h == title or h.rpartition(" ")[0] == title), "")
                found = bool(head) and shows(row[head].split(" ")[0], value, factor(head.removesuffix("/inf")))
            if not found:
                yield device, title


@pytest.mark.parametrize("name", FORMATS)
async def test_the_facts_of_a_view_are_in_every_format(call: Call, name: str) -> None:
    known, rows = facts(), await written(call, name)
    assert len(known) == len(State().devices) * len(TOLD)
    assert list(missing(known, rows, name)) == []
    for fact in known:  # and one that is another is found out
        assert list(missing({**known, fact: known[fact] * 1.07}, rows, name)) == [fact]
