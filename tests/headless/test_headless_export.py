"""Exports: one file or none, formats by suffix, cells that run nothing, columns that line up."""

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.document import Column
from analysis.explore import catalogue_sweep
from hardware.base.errors import RequestError
from hwexplorer.export import files
from hwexplorer.export.delimited import as_csv, as_markdown, inert
from hwexplorer.export.render import encode
from hwexplorer.export.text import render as as_text
from hwexplorer.views.plain import Plot, Row, Series, Table, Text
from tests.headless.conftest import Call
from tests.sampling import for_each

VERBS = [("compare", "resnet18"), ("tree", "vit_b_16", "--on", "tpu", "--batch", "64"), ("models",)]


@for_each("words", VERBS)
@for_each("suffix", [".txt", ".csv", ".md", ".JSON"])
def test_a_file_holds_what_the_screen_shows(call: Call, tmp_path: Path, words: tuple[str, ...], suffix: str) -> None:
    target = tmp_path / f"out{suffix}"
    done = call(*words, "-o", str(target))
    assert (done.code, done.out, done.err) == (0, "", f"{target} is written\n")
    form = files.SUFFIXES[suffix.lower()]
    assert target.read_bytes().decode() == call(*words, "--format", form).out
    target.unlink()
    assert list(tmp_path.iterdir()) == []


def test_the_format_may_differ_from_the_suffix(call: Call, tmp_path: Path) -> None:
    target = tmp_path / "figures.dat"
    assert call("compare", "resnet18", "-o", str(target), "--format", "json").code == 0
    assert json.loads(target.read_text())["model"] == "resnet18"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("missing/out.json", "does not exist"),
        ("file/out.json", "does not exist"),
        ("folder", "is a folder"),
        ("folder.json", "is a folder"),
        ("out.xslx", "allowed: .txt, .json, .csv, .md"),
        ("out.jsn", "did you mean .json"),
        ("out", "no suffix"),
        ("n" * 300 + ".json", "cannot write"),
    ],
)
def test_a_place_where_no_file_can_be(refused: Callable[..., str], tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "file").write_text("mine")
    before = sorted(tmp_path.rglob("*"))
    assert says in refused("compare", "resnet18", "-o", str(tmp_path / name))
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "file").read_text() == "mine"


def test_a_wrong_place_is_said_before_the_work(refused: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise AssertionError("rendered for nothing")

    monkeypatch.setattr("hwexplorer.answer.Answer.to_text", fail)
    for target in ("", "/nowhere/out.json", "/tmp", "a\0b.json"):
        refused("tree", "resnet18", "-o", target)


def test_a_failing_render_leaves_the_old_file(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")

    def fail(*_: object) -> str:
        raise ZeroDivisionError

    monkeypatch.setattr("hwexplorer.answer.Answer.to_text", fail)
    assert call("tree", "resnet18", "-o", str(target)).code == 1
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.json", "old")]


@pytest.mark.parametrize("step", ["os.replace", "os.chmod", "_bytes"])
def test_a_failing_write_leaves_the_old_file(
    refused: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    target = tmp_path / "out.json"
    target.write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"hardware.base.file_access.{step}", fail)
    assert "No space left on device" in refused("tree", "resnet18", "-o", str(target))
    monkeypatch.undo()
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("out.json", "old")]


def test_the_screen_does_not_overwrite_by_accident(tmp_path: Path) -> None:
    target = tmp_path / "out.md"
    target.write_text("old")
    with pytest.raises(RequestError, match="exists"):
        files.write(target, "new", overwrite=False)
    assert target.read_text() == "old"


# --- cells ------------------------------------------------------------------------------------------------


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=cmd|' /C calc'!A0"]
FORMULAS += [" =1+1", "\t  =1", "\uff1d1+1", "\uff0b1", "\uff0d1", "\uff20SUM(A1)", "\ufe66 1", " \uff1d1"]


@for_each("text", FORMULAS)
def test_a_cell_that_a_spreadsheet_would_run_is_quoted(text: str) -> None:
    cell = inert(text)
    assert isinstance(cell, str)
    assert cell[0] == "'"
    table = Table("t", "t", (Column("a", text, role="text"),), (Row(text, (text,)),))
    prose = Text("t", "t", ((text, (text,)),))
    plot = Plot(
        name="t",
        title="t",
        x_title="x",
        y_title="y",
        x_unit="",
        y_unit="",
        series=(Series(text, (1.0,), (2.0,), labels=(text,)),),
    )
    for view in (table, prose, plot):
        for line in list(csv.reader(io.StringIO(as_csv(view))))[1:]:
            assert not [cell for cell in line if cell[:1] in tuple("=+-@\t\r\n")], line
    assert inert(-1.5) == -1.5


@for_each("words", VERBS)
def test_csv_is_rectangular_and_inert(call: Call, words: tuple[str, ...]) -> None:
    rows = list(csv.reader(io.StringIO(call(*words, "--format", "csv").out)))
    assert len({len(row) for row in rows}) == 1
    assert len(rows) > 1
    assert len(set(rows[0])) == len(rows[0])
    for row in rows[1:]:
        for cell in row:
            if cell[:1] in ("=", "+", "-", "@"):
                float(cell)  # a number may begin with a sign, text may not


HOSTILE = "a|b\\c <img> `x` ![a](http://b/c) [d]: http://e \x1b[31m\u202e\n# new"


def test_markdown_of_hostile_names() -> None:
    table = Table(
        "t",
        HOSTILE,
        (Column("a", "A", role="text"), Column("b", "B", "s")),
        (Row("k", (HOSTILE, 1.0)),),
        footer=(HOSTILE,),
    )
    text = as_markdown(table)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "<img" not in text
    assert [line for line in text.splitlines() if line.startswith("#")] == text.splitlines()[:1]
    assert r"a\|b" in text
    assert r"!\[a\](http://b/c)" in text
    assert not re.search(r"(?<!\\)[\[\]]", text)


def test_json_steers_no_terminal_and_reads_back() -> None:
    name = "\x9b31m\u202e\u200b\x7f\x1b]0;x\x07\U000e0041 漢字 é 🙂 \ud7ff"
    text = encode({"name": name, "list": [name]})
    assert all(line.isprintable() for line in text.splitlines())
    assert json.loads(text) == {"schema": "hwexplorer/1", "name": name, "list": [name]}
    assert "漢字 é 🙂" in text


def test_a_sweep_of_everything_writes_json_without_infinity() -> None:
    columns = catalogue_sweep.COLUMNS
    values = {"latency_s": float("inf"), "energy_j": float("nan"), "energy_j_per_inference": 1e-9}
    row = tuple(values.get(name, "x") for name in columns)
    found = json.loads("{" + catalogue_sweep._writer("jsonl", columns)(row) + "}", parse_constant=pytest.fail)
    assert (found["latency_s"], found["energy_j"], found["energy_j_per_inference"]) == (None, None, 1e-9)
    for text in FORMULAS:
        assert catalogue_sweep._quote_cell(text).lstrip('"')[0] == "'"
    assert catalogue_sweep._quote_cell('a,"b\x1b[31m') == '"a,""b\u241b[31m"'


# --- text -----------------------------------------------------------------------------------------------


def test_wide_and_combining_characters_line_up(parsed: Callable[..., Any]) -> None:
    names = ("plain", "漢字 conv", "e\u0301t\u00e9", "\x1b[31mred", "")
    columns = (Column("a", "Name", role="text"), Column("b", "Time", "s"), Column("c", "Kind", role="text"))
    rows = tuple(Row(name, (name, 0.001 * (i + 1), "x")) for i, name in enumerate(names))
    found = parsed(as_text(Table("t", "t", columns, rows)).replace("\u0301", ""))
    assert [row["Kind"] for row in found] == ["x"] * 5
    assert [row["Time ms"] for row in found] == ["1.00", "2.00", "3.00", "4.00", "5.00"]


@for_each("width", [40, 80, 120, 200])
@for_each("words", VERBS)
def test_text_fits_the_terminal(
    call: Call, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], width: int
) -> None:
    monkeypatch.setattr("hwexplorer.process.output.width", lambda: width)
    too_long = [line for line in call(*words).out.splitlines() if len(line) > width]
    # What is never dropped of a device list (id, peak, bandwidth) is wider than the narrowest terminal.
    assert not too_long or (words[0], width) in (("compare", 40), ("tree", 40)), too_long[:2]


@pytest.mark.parametrize("setting", ["abc", "-5", "", "9" * 400])
def test_a_width_that_is_no_number_is_no_limit(call: Call, monkeypatch: pytest.MonkeyPatch, setting: str) -> None:
    whole = call("compare", "resnet18").out
    monkeypatch.setenv("HWEXPLORER_WIDTH", setting)
    assert call("compare", "resnet18").out == whole


def test_a_narrow_table_drops_columns_not_rows(
    call: Call, parsed: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = parsed(call("tree", "vit_b_16", "--on", "gpu").out)
    monkeypatch.setattr("hwexplorer.process.output.width", lambda: 80)
    text = call("tree", "vit_b_16", "--on", "gpu").out
    narrow = parsed(text.replace("\n  batch", " batch"))
    assert len(narrow) == len(wide)
    assert list(narrow[0]) == [header for header in wide[0] if header in narrow[0]]
    assert {"Node", "EDP share", "%"} <= set(narrow[0])
    for short, full in zip(narrow, wide, strict=True):
        start, dots, end = short["Node"].partition("…")
        assert full["Node"].startswith(start)
        assert full["Node"].endswith(end) if dots else short["Node"] == full["Node"]
