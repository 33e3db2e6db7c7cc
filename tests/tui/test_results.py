"""ResultTable act: rows are applied and pinned, actions answer, columns explain themselves."""

import json
import re
from html import unescape
from pathlib import Path

import pytest
from textual.pilot import Pilot

from analysis.document import Column
from hardware.base.errors import RequestError
from hardware.device_catalog import catalogue_devices
from hwexplorer.answer import Answer
from hwexplorer.export.sheet import Sheet, decode, encode, sheet
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import State, configuration_name, format, open_configuration, parse
from hwexplorer.text import terms
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.overlays.overlay_screen import ResultTable
from hwexplorer.tui.session.session import SheetOpened
from hwexplorer.tui.widgets.framed_pane import FramedPane
from hwexplorer.views.plain import Row, Table
from tests.sampling import first, slow
from tests.tui.fake import Fake
from tests.tui.opened import on_screen
from tests.tui.test_app import over, screen_text
from tests.waiting import settle_until

GRID = (120, 40)


async def opened(app: HwExplorer, pilot: Pilot[None], line: str) -> ResultTable:
    """The rows that a line of `:` gives."""
    await pilot.press(":", *line, "enter")
    await settle_until(pilot, lambda: not app.session.jobs)
    assert isinstance(app.screen, ResultTable), app.session.message
    return app.screen


async def test_advice_has_a_key_and_is_applied_and_undone() -> None:
    async with on_screen("resnet18") as (app, pilot):
        await pilot.press("A")
        await pilot.pause()
        assert isinstance(app.screen, ResultTable)
        row = over(app).content.row
        assert row is not None
        wanted = open_configuration(app.state, row.leads)
        await pilot.press("enter")
        await pilot.pause()
        assert not isinstance(app.screen, ResultTable)
        assert (app.state.batch, app.state.precision, app.state.on) == (wanted.batch, wanted.precision, wanted.on)
        assert app.state != State(model="resnet18")
        assert app.session.message is not None
        assert app.session.message[0].endswith("u undoes")
        await pilot.press("u")
        assert (app.state.batch, app.state.precision) == (1, "bf16")


@pytest.mark.parametrize(
    "line",
    first(["search --max-latency 5ms --on h100_sxm,tpu_v4", "sweep --batches 1,4", "sweep", "search --front"], 2),
)
async def test_results_are_tables_whose_rows_are_pinned(line: str) -> None:
    async with on_screen("resnet18@fp16") as (app, pilot):
        results = await opened(app, pilot, line)
        rows = len(results.content.table.rows)
        assert rows > 1
        shown = screen_text(app).splitlines()
        assert "enter applies" in shown[-1]
        assert "esc closes" in shown[-1]
        await pilot.press("/", *"nothing:1", "enter", "n")  # no column has this name
        await pilot.press("G", "space")
        row = results.content.row
        assert row is not None
        there = open_configuration(app.state, row.leads)
        for _ in range(2):  # again: it is said again
            assert app.state.pin.startswith(there.on)
            assert "deltas are against it" in screen_text(app).splitlines()[-1]
            await pilot.press("space")
        await pilot.press("enter")
        await pilot.pause()
        assert not isinstance(app.screen, ResultTable)
        assert (app.state.on, app.state.batch, app.state.precision) == (there.on, there.batch, there.precision)
        assert app.session.message is not None
        assert app.session.message[0].startswith("applied ")
        assert app.session.message[0].endswith("; u undoes")
        await pilot.press("u")
        assert (app.state.batch, app.state.precision) == (1, "fp16")


async def test_results_are_sorted_by_the_column_that_is_explained() -> None:
    async with on_screen("resnet18") as (app, pilot):
        results = await opened(app, pilot, "sweep")
        await pilot.press("right", "right", "right", "right")
        key = results.content.table.columns[results.content.column].key
        told = results.content.column_help()
        assert told in screen_text(app)
        await pilot.press("s")
        place = results.content.column
        cells = [row.cells[place] for row in results.content.table.rows]
        assert cells == sorted(cells), key  # type: ignore[type-var]
        await pilot.press("s")
        assert [row.cells[place] for row in results.content.table.rows] == sorted(cells, reverse=True)  # type: ignore[type-var]
        await pilot.press("t")
        assert app.explorer.overlay == "report"


@pytest.mark.parametrize("verb", ["sweep", "advise", "compare"])
def test_a_sheet_comes_through_a_pipe_as_it_is(verb: str) -> None:
    view = Answer(verb, parse("resnet18")).view()
    there, here = decode(encode(view, 0).encode()), sheet(view, 0)
    assert (there.title, there.text, there.table is None) == (here.title, here.text, here.table is None)
    if here.table is not None and there.table is not None:
        assert [(row.key, row.cells, row.leads) for row in there.table.rows] == [
            (row.key, row.cells, row.leads) for row in here.table.rows
        ]
        assert [column.key for column in there.table.columns] == [column.key for column in here.table.columns]


def test_where_a_row_leads() -> None:
    state = parse("resnet18@b8,fused?at=fc")
    there = open_configuration(state, configuration_name("resnet18", "l4", "b2", "int8"))
    assert (there.on, there.batch, there.precision, there.execution, there.at) == ("l4", 2, "int8", "fused", "fc")
    other = open_configuration(state, configuration_name("vit_b_16", "tpu_v4", "b2"))
    assert (other.model, other.at) == ("vit_b_16", "")


async def test_every_action_answers() -> None:
    async with on_screen("resnet18") as (app, pilot):
        for keys, says in (
            ("]", "batch 2 vs batch 1: "),
            ("x", "eager vs usual software: "),
            ("p", "pinned h100_sxm"),
            ("u", 'undid "pin h100_sxm'),
        ):
            await pilot.press(keys)
            assert app.session.message is not None
            assert app.session.message[0].startswith(says)
        await pilot.press(":", *"add l4", "enter")
        assert app.session.message is not None
        assert app.session.message[0] == "added l4"
        await pilot.press("u")
        assert app.session.message[0] == 'undid "add l4"'
        await pilot.press("U")
        await pilot.press(":", *"batch 64", "enter")
        assert "higher rate" in app.session.message[0]
        assert "less energy" in app.session.message[0]
        for line in ("batch 64", "on h100_sxm", "model resnet18", "metric edp", "baseline h100_sxm"):
            await pilot.press(":", *line, "enter")
            assert app.session.message[0] == f"{line}: no change"
        await pilot.press(":", *"batch 1", "enter", "[")
        assert app.session.message[0].startswith("the batch is 1 already")


# --- terms --------------------------------------------------------------------------------------------------


async def test_help_begins_with_the_keys_of_the_pane_and_can_be_searched() -> None:
    async with on_screen("resnet18") as (app, pilot):
        await pilot.press("?")
        headings = [heading for heading, _ in over(app).content.text.sections]
        assert headings[:3] == ["In tree", "Tree", "Panes"]
        assert headings.index("Program") < headings.index("Columns of tree") < headings.index("Figures")
        await pilot.press("/", *"ridge")
        assert [line for _, lines in over(app).content.text.sections for line in lines if "ridge" not in line] == []
        assert "FLOP per byte of DRAM" in screen_text(app)
        await pilot.press("escape")
        assert len(over(app).content.text.sections) == len(headings)
        await pilot.press("/", *"qwertz")
        assert "0 lines" in screen_text(app)
        assert "No line contains 'qwertz'" in screen_text(app)


def test_terms_explain_columns() -> None:
    assert len(terms.meanings()) == sum(map(len, terms.groups().values()))
    assert "of a batch" in terms.term_of_key("latency")
    assert "per inference" in terms.term_of_key("energy_per_inference")


# --- limits -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("few_devices")
async def test_limits_grey_out_what_fails_over_all_devices() -> None:
    async with on_screen("mlp") as (app, pilot):
        await pilot.press("a", *"L<1ms,E<1mJ")

        def is_known() -> bool:
            rows = over(app).content.table.rows
            are_filled = all(row.dim or row.cells[2] is not None for row in rows)
            return are_filled and not app.session.limits.compute_some(app.session.state, [row.key for row in rows])

        await settle_until(pilot, is_known)
        await pilot.press("space", "space")  # on and off: the table is filled anew
        table = over(app).content.table
        passing = [row for row in table.rows if not row.dim]
        assert 0 < len(passing) < len(table.rows)
        keys = [column.key for column in table.columns]
        latency, energy = keys.index("latency"), keys.index("energy_per_inference")
        for row in table.rows:
            t, e = row.cells[latency], row.cells[energy]
            within = isinstance(t, float) and isinstance(e, float) and t < 1e-3 and e < 1e-3
            assert row.dim != within
        designs = [row for row in passing if row.cells[2] == "on paper"]
        counted = f" {len(passing) - len(designs)} of {len(catalogue_devices(on_paper=False))} pass"
        assert counted in screen_text(app).splitlines()[-1]
        assert f"also {len(designs)} design{'s' * (len(designs) != 1)} on paper" in table.title


@pytest.mark.usefixtures("few_devices")
async def test_limits_are_part_of_the_state_and_stand_in_the_foot() -> None:
    async with on_screen("resnet18@b8,fp16") as (app, pilot):
        await pilot.press("a", *"l<1ms E<50mJ", "enter")
        assert app.state.limits == "L<1ms E<50mJ"
        assert app.state.devices == State().devices  # enter keeps the limits and adds nothing
        assert parse(format(app.state)) == app.state
        assert "limits=L<1ms,E<50mJ" in format(app.state)
        within = [card.key for card in app.explorer.strip.cards if not card.over]
        over = next(card.over for card in app.explorer.strip.cards if card.key == "xeon_8490h")
        assert " mJ > 50 mJ" in over[-1]
        app.session.clear_message()
        await settle_until(pilot, lambda: "pass" in screen_text(app).splitlines()[-1])
        said = re.search(r"limits L<1ms E<50mJ: (\d+) of (\d+) pass", screen_text(app).splitlines()[-1])
        assert said is not None
        assert len(within) < int(said[1]) < int(said[2])
        await pilot.press("u")
        assert app.state.limits == ""
        await pilot.press("U")
        assert app.state.limits == "L<1ms E<50mJ"
    document = json.loads(ScreenQueries().exported(app.state, "compare", "json"))
    passing = [key for key in app.state.devices if key in within]  # in the order of the state; cards are sorted by EDP
    assert document["limits"]["passing"] == passing
    assert len(passing) == len(within)
    assert document["limits"]["failing"]["xeon_8490h"] == ["L<1ms", "E<50mJ"]
    for form in ("text", "md", "html"):
        told = unescape(ScreenQueries().exported(app.state, "tree", form))
        assert f"limits L<1ms E<50mJ: {len(passing)} of 4 devices pass: {', '.join(passing)}" in told
    assert app.session.failures == []


@pytest.mark.parametrize("wrong", ["L<5parsec", "X<5ms", "L=5ms", "L<"])
def test_wrong_limits_are_refused(wrong: str) -> None:
    with pytest.raises(RequestError, match=r"accepted|expected"):
        State(limits=wrong)


async def test_the_wheel_scrolls_a_table_of_results() -> None:
    """`KeyError: 'results'`, and the screen was gone."""
    app = HwExplorer(parse("resnet18"), Fake())
    rows = tuple(Row(str(place), (str(place),)) for place in range(60))
    columns = (Column("name", "Name", role="text", keep=0),)
    table = Table(name="many", title="Many", columns=columns, rows=rows)
    async with app.run_test(size=GRID) as pilot:
        app.session.emit(SheetOpened("many", Sheet("Many", "", table)))
        await pilot.pause()
        pane = app.screen.query_one(FramedPane)
        pane.post_message(FramedPane.Wheeled("results", 3, 3))
        await pilot.pause()
        assert pane.content.extent()[0] == 3
        assert isinstance(app.screen, ResultTable)


@pytest.mark.parametrize("size", [(80, 24), pytest.param((120, 40), marks=slow)])
async def test_a_mission_is_shown_and_exported(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tasks and power stand in the overlay; e writes the whole answer."""
    monkeypatch.chdir(tmp_path)
    example = Path(__file__).parents[2] / "examples" / "missions" / "robot.toml"
    Path("robot.toml").write_text(example.read_text())
    async with on_screen("resnet18", size=size) as (app, pilot):
        await pilot.press(":", *"mission ro", "tab", "enter")
        await settle_until(pilot, lambda: not app.session.jobs)
        await pilot.press("pagedown" if size[1] < 40 else "g")
        shown = screen_text(app)
        assert "7.71 W = 5 W at rest" in shown
        await pilot.press("e", "ctrl+u", *"answer.json", "enter")
        await settle_until(pilot, lambda: not app.session.jobs)
        assert json.loads(Path("answer.json").read_text())["best"]["is_possible"]
        assert app.session.message == ("mission robot.toml -o answer.json: done", "good")
