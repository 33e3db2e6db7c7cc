"""What is typed and what is said of it: prompts of any width, keys in a hurry, terminals of old."""

import asyncio
import re
import sys
from pathlib import Path

import pytest
from textual.events import Paste

from hardware.base.text import quantity
from hwexplorer.reports import why
from hwexplorer.reports.show import events
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import PANES, PLOTS, State, parse
from hwexplorer.text.number_format import to_ascii
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.commands import submit
from hwexplorer.tui.terminal_driver import TICK_S, Keys
from tests.terminal import ESCAPE, Program
from tests.tui.fake import Fake
from tests.tui.opened import on_screen
from tests.tui.test_app import over, screen_text
from tests.waiting import settle_until

GRID = (120, 40)
ROOT = Path(__file__).parents[2]


def foot(app: HwExplorer) -> str:
    return screen_text(app).splitlines()[-1]


async def test_what_is_typed_is_seen_before_what_is_said_of_it() -> None:
    async with on_screen(State(), Fake()) as (app, pilot):
        await pilot.press("/", *"foo:bar")
        assert foot(app).startswith(" find foo:bar")
        await pilot.press("escape", ":")
        app.post_message(Paste("export /a/folder/" + "long/" * 15 + "x.svg"))
        await settle_until(pilot, lambda: "long/x.svg" in foot(app))
        assert "export /a/folder/" in foot(app)


async def test_what_is_said_can_be_read_to_its_end() -> None:
    async with on_screen(State(), Fake(), size=(80, 24)) as (app, pilot):
        for by_mouse in (False, True):
            submit(app.session, "model " + "long_name_" * 9 + "the_end")
            assert foot(app).endswith("? all of it ")
            await (pilot.click("#foot", offset=(75, 0)) if by_mouse else pilot.press("?"))
            assert app.explorer.overlay == "report"
            assert "unknown model" in screen_text(app)
            assert "alexnet" in screen_text(app)
            await pilot.press("escape", "?")
            assert app.explorer.overlay == "help"
            await pilot.press("escape")


@pytest.mark.parametrize("sent", [b"\x1bj", b"\x1b\r", b"\x1b:", b"\x1b "])
async def test_a_key_right_after_escape_is_a_key_of_its_own(sent: bytes) -> None:
    async with on_screen(State(), Fake()) as (app, pilot):
        await pilot.press("/", *"fc")
        keys = Keys()
        early = list(keys.events(sent))
        await asyncio.sleep(TICK_S)  # after which a terminal has no more to say
        for event in (*early, *keys.events(b"")):
            app.screen.post_message(event)
        await pilot.pause()
        assert app.state.find == ""  # escape took back what was typed
        assert (app.explorer.prompt is not None) == (sent == b"\x1b:")
        assert (app.state.pane, app.state.at != "") == ("why" if sent == b"\x1b\r" else "tree", True)


@pytest.mark.parametrize("size", [GRID, (80, 24), (44, 12)])
async def test_ascii_is_all_there_is_where_nothing_else_may_be(size: tuple[int, int]) -> None:
    async with on_screen("resnet50@b8?pin=tpu_v4@b8&find=conv", size=size, ascii=True) as (app, pilot):
        for keys in (*"123456", *("v" for _ in PLOTS), "?", "escape", "a", "escape", ":"):
            await pilot.press(keys)
            assert screen_text(app).isascii(), (keys, [c for c in screen_text(app) if not c.isascii()])
        await pilot.press("escape")
        for pane in PANES:
            app.session.say(f"µJ·s … of {pane}")
            assert foot(app).isascii()
    assert to_ascii("µJ·s") == "uJs"


def started(words: list[str], tmp_path: Path, **environment: str) -> Program:
    home = {f"XDG_{kind}_HOME": str(tmp_path) for kind in ("STATE", "CONFIG", "CACHE")}
    paths = {"PYTHONPATH": str(ROOT), "HWEXPLORER_CACHE_DIR": str(tmp_path / "cache")}
    return Program([sys.executable, "-m", "hwexplorer", *words], environment=home | paths | environment)


def test_a_terminal_of_old_gets_ascii_and_is_told_how_to_go_on(tmp_path: Path) -> None:
    program = started(["open", "resnet18"], tmp_path, PYTHONIOENCODING="latin-1")
    program.until(re.compile(rb"similar chips"))
    program.settle()
    program.type(b"q")
    assert program.ended() == 0
    shown = ESCAPE.sub(b"", bytes(program.written))
    assert b"\\u" not in shown
    assert all(byte < 128 for byte in shown)
    assert b"hwexplorer --last continues from here" in shown


def test_a_dumb_terminal_gets_the_comparison(tmp_path: Path) -> None:
    program = started(["resnet18"], tmp_path, TERM="dumb")
    assert program.ended() == 0
    assert b"less EDP" in program.written
    assert b"\x1b[?1049h" not in program.written


# --- what reports say on the screen -----------------------------------------------------------------------


def test_why_of_an_operator_inside_a_kernel_agrees_with_the_tree() -> None:
    """relu costs nothing beside its convolution: Why gave it all of the kernel."""
    table = ScreenQueries().tree(parse("resnet18@b8,fp16"))
    latency = [column.key for column in table.columns].index("latency")
    for row in (row for row in table.rows if row.key.startswith("layer1.0.conv1/")):
        sections = dict(why.why(parse(f"resnet18@b8,fp16?at={row.key}")).sections)
        told = "\n".join(sections["Time"])
        assert told.startswith(f"{quantity(float(row.cells[latency] or 0), 's')} of the ")
        assert "that its kernel takes" in told


def test_events_against_another_machine_share_a_unit_and_invent_no_change() -> None:
    state = parse("resnet18@b8?pin=tpu_v4@b8")
    table = events.view(state)
    keys = [column.key for column in table.columns]
    energy, there, delta = keys.index("energy"), keys.index("there"), keys.index("delta")
    assert [row.cells[delta] for row in table.rows if not row.cells[energy]] != []
    assert all(row.cells[delta] is None for row in table.rows if not row.cells[energy] or row.cells[there] is None)
    text = ScreenQueries().exported(state, "events", "text")
    units = re.findall(r"(?:Energy|pin) (.?J)(?!/batch)", text)
    assert len(units) == 2
    assert len(set(units)) == 1


async def test_what_was_there_before_gives_way_to_what_is_typed() -> None:
    async with on_screen("resnet50") as (app, pilot):
        await pilot.press("1", *"vit_b_16", "enter")
        assert (app.state.model, app.state.pane) == ("vit_b_16", "tree")
        await pilot.press("1", *"llama3_8b", "enter")
        assert app.state.model == "llama3_8b"
        await pilot.press("1", *"nonesuch", "enter")
        assert "unknown model 'nonesuch'" in foot(app)
        await pilot.press("3", "e", *"a.txt")
        assert app.explorer.prompt is not None
        assert app.explorer.prompt.text == "a.txt"
        await pilot.press("escape", "e", "left", "x")
        assert app.explorer.prompt.text.endswith(".txxt")  # who moves in it edits it


async def test_space_after_a_name_in_the_picker_adds_no_device_nobody_pointed_at() -> None:
    async with on_screen("resnet50/h100_sxm,kpu_t256") as (app, pilot):
        await pilot.press("a", *"kpu", "space")
        assert app.state.devices == ("h100_sxm", "kpu_t256")
        await pilot.press("backspace", "down", "space")
        assert len(app.state.devices) != 2


@pytest.mark.usefixtures("few_devices")
async def test_devices_within_limits_come_best_first_and_the_cursor_stays_on_the_best() -> None:
    async with on_screen("mlp/h100_sxm") as (app, pilot):
        await pilot.press("a", *"L<5ms")
        await settle_until(
            pilot, lambda: all(row.cells[4] is not None or row.dim for row in over(app).content.table.rows)
        )
        table = over(app).content.table
        ranked = [
            row.cells for row in table.rows if not row.dim and row.cells[2] != "on paper" and row.cells[4] is not None
        ]
        products = [cells[4] * cells[5] for cells in ranked]
        assert products == sorted(products)
        assert (over(app).content.cursor, over(app).content.top) == (0, 0)
        assert "batch 1 · bf16" in over(app).pane.heading
