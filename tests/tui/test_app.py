"""Every action, driven through its keys."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from hardware.base.errors import RequestError
from hardware.precision import KEYS
from hwexplorer.state import PANES, PLOTS, State
from hwexplorer.tui import view_export
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.keys import ACTIONS, BY_ID, DEFAULT, PANE_KEYS
from hwexplorer.tui.overlays.overlay_screen import OverlayScreen
from tests.tui.fake import Fake
from tests.tui.opened import on_screen
from tests.waiting import settle_until

Run = Callable[[HwExplorer, Pilot[None]], Awaitable[None]]
CASES: dict[str, tuple[str, Run]] = {}
GRID = (120, 40)


def case(id: str, start: str = "resnet50") -> Callable[[Run], Run]:
    def keep(run: Run) -> Run:
        CASES[id] = (start, run)
        return run

    return keep


def screen_text(app: HwExplorer) -> str:
    """What is on screen, as text."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    return "\n".join(line.text.ljust(width) for line in lines[:height])


def over(app: HwExplorer) -> OverlayScreen:
    """What lies over the panes."""
    assert app.explorer.overlay_screen is not None
    return app.explorer.overlay_screen


@pytest.fixture(autouse=True)
def no_clipboard_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_export, "program", lambda: None)


def test_every_action_has_a_case_a_help_line_and_something_to_do() -> None:
    assert sorted(CASES) == sorted(a.id for a in ACTIONS)
    app = HwExplorer(State(), Fake())
    owners = (app, app.session, app.explorer)
    for action in ACTIONS:
        assert action.help
        assert action.title
        assert (action.change is None) != (action.effect == "")
        there = (*(app.explorer.panes[name] for name in action.panes or ["tree"]), *owners)
        assert not action.effect or any(hasattr(owner, f"do_{action.effect}") for owner in there)
        assert set(action.panes) <= set(PANES)


def test_no_two_actions_share_a_key_in_a_pane() -> None:
    for pane in PANES:
        for action in ACTIONS:
            if not action.panes or pane in action.panes:
                rivals = [a for a in ACTIONS if a is not action and set(a.keys) & set(action.keys)]
                assert not [
                    a
                    for a in rivals
                    if (pane in a.panes) == (pane in action.panes) and (not a.panes or pane in a.panes)
                ]


@pytest.mark.parametrize("id", [a.id for a in ACTIONS])
async def test_action(id: str) -> None:
    start, run = CASES[id]
    async with on_screen(start, Fake()) as (app, pilot):
        await run(app, pilot)


# Actions that change the state alone: the state at the start, then keys, what they make of its fields, what is said.
STATES: dict[str, tuple[str, tuple[tuple[object, ...], ...]]] = {
    "next_pane": ("resnet50", (("tab", {"pane": "events"}),)),
    "previous_pane": ("resnet50", (("shift+tab", {"pane": "compare"}),)),
    "up": ("resnet50?at=layer1.0.conv1", (("k up k", {"at": ""}),)),
    "first": ("resnet50?at=fc", (("g", {"at": ""}),)),
    "last": ("resnet50", (("G", {"at": "fc"}),)),
    "open": ("resnet50?at=conv1", (("l", {"open": ("conv1",)}), ("right", {"at": "conv1/conv"}))),
    "close": ("resnet50?at=conv1/bn", (("h", {"at": "conv1"}), ("l h left", {"at": "", "open": ()}))),
    "close_all": ("resnet50?open=conv1,fc", (("-", {"open": ()}),)),
    "find_next": ("resnet50?find=layer3&at=layer3.0.conv1", (("n", {"at": "layer3.0.conv1/conv"}),)),
    "batch_down": ("resnet50@b8", (("[", {"batch": 4}), ("[ [ [", {"batch": 1}))),
    "precision_up": (
        "resnet50@int8",
        (("}", {"precision": "int4"}), ("} " * (len(KEYS) - KEYS.index("int4")), {"precision": KEYS[0]})),
    ),
    "precision_down": ("resnet50@fp16", (("{", {"precision": "tf32"}),)),
    "execution": ("resnet50", (("x", {"execution": "eager"}),)),
    "baseline": ("resnet50?pane=compare&on=tpu_v4", (("b", {"baseline": "tpu_v4"}),)),
    "to_tree": ("resnet50?pane=compare", (("enter", {"pane": "tree"}),)),
    "why": ("resnet50", (("w", {"pane": "why"}),)),
    "explain": ("resnet50", (("enter", {"pane": "why"}),)),
    "phase": ("resnet50", (("r", {"model": "resnet50:train"}, "train"), ("r", {"model": "resnet50"}))),
    "sessions": ("resnet50", (("R", {}, "no session is saved yet"),)),
    "undo": ("resnet50", (("] x u", {"batch": 2, "execution": "auto"}), ("u u", {"batch": 1}, "nothing to undo"))),
    "redo": ("resnet50", (("] u U", {"batch": 2}), ("U", {}, "nothing to redo"))),
}


def _state_case(id: str) -> None:
    start, steps = STATES[id]

    async def run(app: HwExplorer, pilot: Pilot[None]) -> None:
        for keys, fields, *said in steps:
            await pilot.press(*str(keys).split())
            assert {name: getattr(app.state, name) for name in fields} == fields  # type: ignore[attr-defined]
            assert all(str(words) in screen_text(app) for words in said)

    CASES[id] = (start, run)


for _id in STATES:
    _state_case(_id)


# --- panes ------------------------------------------------------------------------------------------------


def _pane_case(key: str, name: str) -> None:
    async def run(app: HwExplorer, pilot: Pilot[None]) -> None:
        await pilot.press("2" if key != "2" else "3", key)
        assert app.state.pane == name
        assert [n for n, p in app.explorer.panes.items() if p.active] == [name]

    CASES[f"pane_{name}"] = ("resnet50", run)


for _name, _key in PANE_KEYS.items():
    _pane_case(_key, _name)


@case("models")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("1")
    table, row = over(app).content.table, over(app).content.row
    assert (table.columns[0].title, row.cells[0]) == ("Model", "Open resnet50")  # the model on screen
    await pilot.press(*"res")
    assert len(over(app).content.visible) == 2
    await pilot.press("down", "up", "enter")
    assert (app.state.model, app.state.pane, app.explorer.overlay) == ("resnet18", "tree", "")
    await pilot.press("1", *"resnet18@b8", "enter")  # in no list: what the `:` line takes
    assert app.state.batch == 8


@case("try_it", "resnet50?pane=why")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    before = app.state
    await pilot.press("enter")
    assert (app.state.batch, app.state.precision) == (before.batch * 4, before.precision)
    assert "u undoes" in screen_text(app)
    await pilot.press("u")
    assert app.state == before


@case("turn_down", "resnet50?pane=knobs")
@case("turn_up", "resnet50?pane=knobs")
@case("turn_back", "resnet50?pane=knobs")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    """Check that keys of knobs change nothing on a device without knobs."""
    for key in ("right", "h", "backspace"):
        before = app.state
        await pilot.press(key)
        assert "a chip of the fake has no knobs" in screen_text(app)
        assert app.state == before
    await pilot.press("down")
    assert app.state.fact == "fact1"


@case("zoom")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    assert "5 Why" in screen_text(app)
    await pilot.press("z")
    assert app.explorer.panes["tree"].size.width == 120
    await pilot.press("z")
    assert app.explorer.panes["tree"].size.width < 120


@case("back", "resnet50?zoom=1&find=conv&pane=tree")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("escape")
    assert (app.state.find, app.state.zoom) == ("", True)
    await pilot.press("escape")
    assert not app.state.zoom
    await pilot.press("5", "escape")
    assert app.state.pane == "tree"


# --- moving -----------------------------------------------------------------------------------------------


@case("down")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("j", "down")
    assert app.state.at == "layer1.0.conv1"
    await pilot.press("2", "j")
    assert app.state.on == "tpu_v4"
    assert "TPU v4" in app.explorer.panes["tree"].heading
    await pilot.press("4", "j", "5", "j")
    assert app.explorer.panes["events"].content.cursor == 1
    await pilot.press("v", "j")
    assert app.state.at == "layer1.0.conv1/conv"


@case("page_down", "big100")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("pagedown")
    assert app.explorer.outline.cursor == app.explorer.outline.page()


@case("page_up", "big100?at=block99")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("pageup")
    assert app.explorer.outline.cursor == 100 - app.explorer.outline.page()


# --- tree -------------------------------------------------------------------------------------------------


@case("toggle", "resnet50?at=conv1")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    before = len(app.explorer.outline.visible)
    await pilot.press("space")
    assert len(app.explorer.outline.visible) == before + 3
    await pilot.press("space")
    assert len(app.explorer.outline.visible) == before
    await pilot.press("space", "j", "space")
    assert (app.state.at, app.state.open) == ("conv1", ())


@case("open_all")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("+")
    assert len(app.explorer.outline.visible) == len(app.explorer.outline.table.rows)


@case("heaviest")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press(".")
    shares = {r.key: r.cells[1] for r in app.explorer.outline.table.rows if r.depth == 1}
    heaviest = max(shares, key=lambda k: float(shares[k]))  # type: ignore[arg-type]
    assert app.state.at == f"{heaviest}/conv"
    assert app.explorer.outline.key == app.state.at
    await pilot.press("v")
    assert app.explorer.panes["why"].content.cursor == app.state.at


@case("sort")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("s")
    assert (app.state.sort, app.state.descending) == ("graph", False)
    assert "graph" in app.explorer.panes["tree"].remark
    await pilot.press("s")
    assert (app.state.sort, app.state.descending) == ("share", True)
    assert not app.explorer.panes["tree"].remark
    await pilot.press("2", "s")
    assert app.explorer.panes["compare"].content.table.rows[0].key == "kpu_t256"
    await pilot.press("s")
    assert (app.state.rank, app.state.rank_reverse) == ("latency", False)
    assert "by latency" in screen_text(app)
    assert app.explorer.panes["compare"].content.key == app.state.on


@case("heat")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("z", "H")
    assert app.state.heat
    assert "tpu_v4" in screen_text(app)
    assert "◂" in screen_text(app)
    await pilot.press("H")
    assert "tpu_v4" not in screen_text(app).splitlines()[3]


# --- finding ----------------------------------------------------------------------------------------------


@case("find")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("/", *"layer3", "enter")
    assert app.state.at == "layer3.0.conv1"
    assert app.explorer.prompt is None
    await pilot.press("/", "ctrl+u", *"xyz")
    assert "no row here has it" in screen_text(app)
    await pilot.press("escape")
    assert app.state.find == "layer3"
    await pilot.press("/", "ctrl+u", *"xyz", "enter")
    assert (app.state.find, "find xyz: no row here has it" in screen_text(app)) == ("", True)  # all rows again


# --- what is estimated ------------------------------------------------------------------------------------


@case("batch_up")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    before = screen_text(app)
    await pilot.press("]")
    assert app.state.batch == 2
    assert screen_text(app) != before
    await pilot.press(*"]" * 14)
    assert app.state.batch == 4096


@case("one_format", "resnet50@int8")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("f")
    await settle_until(pilot, lambda: app.state.precision == "bf16")  # what this model has by default
    await pilot.press("f")
    assert app.state.precision == "int8"


@case("column_after")
@case("column_before")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press(">", ">", "<")
    content = app.explorer.outline
    assert content.column == 0
    assert app.session.message == (content.column_help(), "text")


@case("wider")
@case("narrower")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("ctrl+right", "ctrl+left", "ctrl+left")
    assert app.session.sizes.tree == -4
    assert app.explorer.panes["tree"].size.width == app.session.visible_boxes(app.state)["tree"][2]


# --- comparing --------------------------------------------------------------------------------------------


@case("pin")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    assert "Δ EDP" not in screen_text(app)
    await pilot.press("p", "]")
    assert app.state.pin == "h100_sxm"
    assert "Δ EDP" in screen_text(app)
    await pilot.press("[", "p")
    assert app.state.pin == ""


@case("devices")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("a", *"tpu")
    assert over(app).content.key == "tpu_v4"
    assert len(over(app).content.visible) == 1
    await pilot.press("space")
    assert app.state.devices == ("xeon_8490h", "h100_sxm", "kpu_t256")
    await pilot.press("space", "enter")
    assert app.state.devices == ("xeon_8490h", "h100_sxm", "kpu_t256", "tpu_v4")
    assert (app.explorer.overlay, app.explorer.prompt) == ("", None)
    await pilot.press("d", "a", *"tpu", "enter")  # typed and entered: that is the one wanted
    assert "tpu_v4" in app.state.devices
    before = app.state.devices
    await pilot.press("a", *"tpu", "enter")  # it is there already
    await pilot.press("a", "enter")  # nothing was typed
    assert app.state.devices == before


@case("remove", "resnet50?pane=compare&on=tpu_v4")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("d")
    assert app.state.devices == ("xeon_8490h", "h100_sxm", "kpu_t256")
    assert app.state.on == "kpu_t256"
    await pilot.press("d", "d", "d")
    assert app.state.devices == ("xeon_8490h",)
    await pilot.press("u")
    assert len(app.state.devices) == 2


@case("sheet")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("i")
    assert "data sheet: made up" in screen_text(app)
    await pilot.press("i")
    assert app.explorer.overlay == ""


# --- views ------------------------------------------------------------------------------------------------


@case("advise")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("A")
    assert app.explorer.overlay == "report"
    assert "advise of resnet50" in screen_text(app)


@case("plot")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    for kind in (*PLOTS, ""):
        await pilot.press("v")
        assert (app.state.pane, app.state.plot) == ("why", kind)


# --- taking away ------------------------------------------------------------------------------------------


async def _copied(app: HwExplorer, pilot: Pilot[None], key: str) -> str:
    await pilot.press(key)
    await app.workers.wait_for_complete()
    await pilot.pause()
    assert app.session.message is not None
    assert "OSC 52" in app.session.message[0]
    return app.clipboard


@case("copy_name", "resnet50?at=layer1.0.conv1")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    assert await _copied(app, pilot, "y") == "layer1.0.conv1"


@case("copy_command", "resnet50@b8,fp16?at=conv1&pane=events")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    told = await _copied(app, pilot, "c")
    assert told == "hwexplorer show events 'resnet50@b8,fp16?at=conv1'"


@case("export")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("e")
    assert app.explorer.prompt is not None
    assert app.explorer.prompt.text == "resnet50_tree.txt"
    await pilot.press("escape")
    assert app.explorer.prompt is None


@case("help")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("?")
    lines = screen_text(app).splitlines()
    assert "In tree" in lines[1]  # the keys of the pane come first
    assert "Close the branch" in lines[2]
    await pilot.press("/", *"Leave")
    assert "q ctrl+c" in screen_text(app)
    await pilot.press("escape", "G")
    assert "energy-delay product" in screen_text(app) or "Quit" not in screen_text(app)
    await pilot.press("g", "j", "pagedown", "k", "pageup", "escape")
    assert not app.explorer.overlay
    assert app.state.pane == "tree"


@case("command")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press(":", *"batch 32", "enter")
    assert app.state.batch == 32
    assert app.session.command_history == ["batch 32"]
    for key, look in (("escape", "dark"), ("enter", "light")):
        await pilot.press(*":theme light")
        assert app.explorer.colours.theme == "light"
        await pilot.press(key)
        assert app.explorer.colours.theme == look


@case("palette")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("ctrl+p")
    await pilot.pause()
    await pilot.press(*"double batch")
    await pilot.pause()
    await pilot.press("enter")
    await pilot.pause()
    assert app.state.batch == 2


@case("wavefront")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("W")
    assert app.explorer.overlay == "wavefront"


@case("quit")
async def _(app: HwExplorer, pilot: Pilot[None]) -> None:
    await pilot.press("?", "q")
    assert app.is_running
    assert not app.explorer.overlay
    await pilot.press("?", "ctrl+c")
    assert not app.is_running or app._exit


# --- beyond single actions --------------------------------------------------------------------------------


async def test_export_writes_asks_and_refuses(tmp_path: Path) -> None:
    app = HwExplorer(State(), Fake())
    target = tmp_path / "out.json"
    async with app.run_test(size=GRID) as pilot:
        await pilot.press("e", "ctrl+u")
        await pilot.pause()
        app.explorer.paste(str(target))
        await pilot.press("enter")
        assert target.read_text() == '{"view": "tree", "model": "resnet50"}'
        target.write_text("mine")
        for answer, left in (("n", "mine"), ("y", '{"view": "tree", "model": "resnet50"}')):
            await pilot.press("e", "ctrl+u")
            app.explorer.paste(str(target))
            await pilot.press("enter")
            assert "overwrite?" in screen_text(app)
            await pilot.press(answer)
            assert target.read_text() == left
        for wrong, said in (("x.pdf", "unknown file suffix"), (str(tmp_path / "no" / "x.txt"), "that folder does")):
            await pilot.press("e", "ctrl+u")
            app.explorer.paste(wrong)
            await pilot.press("enter")
            assert said in screen_text(app).splitlines()[-1]
            assert app.explorer.prompt is not None  # the text stays, to be mended
            assert app.explorer.prompt.text == wrong
            await pilot.press("escape")
    assert app.session.failures == []


async def test_find_is_in_the_pane_that_has_the_keys() -> None:
    async with on_screen(State(), Fake()) as (app, pilot):
        await pilot.press("2", "/", "x", "escape")
        assert app.explorer.prompt is None
        await pilot.press("/", *"tpu")
        assert "find in compare" in screen_text(app)
        assert (app.state.pane, app.state.on, app.state.find) == ("compare", "tpu_v4", "")
        await pilot.press("enter", "/", *"nonesuch", "enter")
        assert ("find nonesuch: no row here has it" in screen_text(app), app.explorer.prompt) == (True, None)


async def test_delete_removes_the_device_under_the_cursor_in_compare() -> None:
    async with on_screen(State(), Fake()) as (app, pilot):
        await pilot.press("2")
        assert "d remove" in screen_text(app).splitlines()[-1]
        before = app.state.devices
        await pilot.press("delete")
        assert app.state.devices == tuple(name for name in before if name != "h100_sxm")


async def test_a_capture_shows_progress_and_old_numbers_until_it_is_done() -> None:
    provider = Fake(holds=True)
    async with on_screen(State(), provider) as (app, pilot):
        await pilot.press("1", *"slow", "enter")
        assert app.session.jobs
        assert app.state.model == "resnet50"
        await pilot.press("]")  # the screen stays in use meanwhile
        assert app.state.batch == 2
        assert provider.job is not None
        provider.job.is_held = False
        await settle_until(pilot, lambda: not app.session.jobs)
        assert (app.state.model, app.state.batch) == ("slow_net", 2)


async def test_a_capture_can_be_cancelled_or_fail() -> None:
    provider = Fake(holds=True)
    async with on_screen(State(), provider) as (app, pilot):
        await pilot.press("1", *"slow", "enter", "escape")
        assert not app.session.jobs
        job = provider.job
        assert job is not None
        await settle_until(pilot, lambda: job.is_cancelled)  # by a thread
        await pilot.press("1", *"slow", "enter")
        assert provider.job is not None
        provider.job.failure, provider.job.is_held = "torch is not installed\nat all", False
        await settle_until(pilot, lambda: not app.session.jobs)
        assert app.session.message is not None
        assert "torch is not installed at all" in app.session.message[0]
        assert app.state.model == "resnet50"


async def test_a_model_that_needs_capture_opens_empty_and_fills() -> None:
    async with on_screen(State(model="slow_net"), Fake()) as (app, pilot):
        for key in ("j", "2", "j", ".", "]", "e", "escape", "?", "escape", "y", "n", "escape"):
            await pilot.press(key)
        assert app.session.failures == []
    async with on_screen(State(model="slow_net"), Fake()) as (app, pilot):
        await settle_until(pilot, lambda: not app.session.jobs)
        assert "layer1.0.conv1" in screen_text(app)


async def test_a_wrong_request_leaves_the_screen_as_it_was() -> None:
    async with on_screen("resnet50@int8?on=xeon_8490h", Fake()) as (app, pilot):
        await pilot.press("}")
        assert app.state.precision == "int8"
        assert "int4 is not something" in screen_text(app)
    with pytest.raises(RequestError, match="did you mean resnet50"):
        HwExplorer(State(model="resnet5o"), Fake())


async def test_hostile_names_are_shown_and_not_obeyed() -> None:
    async with on_screen(State(), Fake(hostile=True)) as (app, pilot):
        await pilot.press("z")
        text = screen_text(app)
        assert "\x1b" not in text
        assert "[bold]conv1␛[31m 漢字" in text
        await pilot.press("j")
        assert (await _copied(app, pilot, "y")).isprintable()


async def test_the_cursor_survives_every_size() -> None:
    async with on_screen("resnet50?at=layer3.1.conv2", Fake()) as (app, pilot):
        for size in ((80, 24), (59, 15), (20, 5), (300, 100), (61, 17), (120, 40)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert app.state.at == app.explorer.outline.key == "layer3.1.conv2"
            if size[0] > 60:
                assert "layer3.1.conv2" in screen_text(app)


async def test_only_what_is_in_sight_is_made_and_a_wide_screen_shows_all() -> None:
    provider = Fake()
    async with on_screen(State(), provider) as (app, pilot):
        assert "compare" not in provider.calls
        await pilot.press("2")
        assert "compare" in provider.calls
    async with on_screen(State(), Fake(), size=(200, 60)) as (app, pilot):
        await pilot.pause()
        shown = screen_text(app)
        for title in (" to ", "3 Tree", "4 Events", "5 Why"):
            assert title in shown


def test_the_help_and_the_hints_come_from_the_registry() -> None:
    listed = [a for _, found in DEFAULT.groups("tree") for a in found]
    assert sorted(a.id for a in listed) == sorted(BY_ID)
    for pane in PANES:
        assert {"help", "quit"} <= {id for id, _, _ in DEFAULT.hints(pane)}
