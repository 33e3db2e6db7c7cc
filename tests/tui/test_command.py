"""The `:` line: settings, verbs, completion, history."""

from datetime import datetime
from pathlib import Path

import pytest
from textual.pilot import Pilot

from hwexplorer import state as states
from hwexplorer.screen_queries import ScreenQueries
from hwexplorer.state import State, parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.commands import COMMANDS, completions, names, submit
from hwexplorer.tui.overlays.overlay_screen import ResultTable
from hwexplorer.tui.session.saved_sessions import SavedSessions
from tests.tui.fake import Fake
from tests.tui.opened import on_screen
from tests.tui.test_app import screen_text
from tests.waiting import settle_until

GRID = (120, 40)
START = "resnet50@b8?pane=tree"
# Command -> what the state string is after it, from START.
SETS = {
    "batch 32": "resnet50@b32",
    "precision int8": "resnet50@b8,int8",
    "execution fused": "resnet50@b8,fused",
    "layout channels_last": "resnet50@b8,channels_last",
    "image_size 320": "resnet50@b8,i320",
    "sequence 128": "resnet50@b8,s128",
    "kv 64": "resnet50@b8,kv64",
    "model alexnet@b2,int8": "alexnet@b2,int8",
    "on tpu_v4": "resnet50@b8?on=tpu_v4",
    "devices tpu_v4,kpu_t256": "resnet50@b8/tpu_v4,kpu_t256",
    "remove tpu_v4": "resnet50@b8/xeon_8490h,h100_sxm,kpu_t256",
    "baseline tpu_v4": "resnet50@b8?baseline=tpu_v4",
    "at layer3.0.conv2/bn": "resnet50@b8?at=layer3.0.conv2/bn&open=layer3.0.conv2",
    "sort share": "resnet50@b8?sort=share",
    "rank edp": "resnet50@b8?rank=edp",
    "metric energy": "resnet50@b8?metric=energy",
    "by kind": "resnet50@b8?by=kind",
    "plot batch": "resnet50@b8?pane=why&plot=batch",
    "pin tpu_v4@b8": "resnet50@b8?pin=tpu_v4@b8",
    "state alexnet@fp16": "alexnet@fp16",
}


async def typed(pilot: Pilot[None], text: str) -> HwExplorer:
    app: HwExplorer = pilot.app  # type: ignore[assignment]
    await pilot.press(":")
    app.explorer.paste(text)
    await pilot.press("enter")
    return app


@pytest.mark.parametrize(("text", "after"), SETS.items(), ids=list(SETS))
async def test_settings(text: str, after: str) -> None:
    async with HwExplorer(parse(START), Fake()).run_test(size=GRID) as pilot:
        app = await typed(pilot, text)
        assert states.format(app.state) == after
        assert app.session.failures == []


WRONG = {
    "btach 32": "did you mean batch",
    "batch 0": "allowed: 1 to 4096",
    "batch x": "whole number",
    "batch": "batch 1",
    "precision fp12": "fp16",
    "on h200": "unknown device",
    "add tpu_v4": "there already",
    "at nowhere": "unknown node",
    "theme drak": "did you mean dark",
    "plot pie": "unknown plot",
    "open": "in the shell only",
    "batch 'x": "quotation",
    "load nothing": "no folder for sessions",
    "pin a@b@c": "setting",
}


@pytest.mark.parametrize(("text", "says"), WRONG.items(), ids=list(WRONG))
async def test_wrong_commands_say_what_and_change_nothing(text: str, says: str) -> None:
    async with HwExplorer(parse(START), Fake()).run_test(size=GRID) as pilot:
        app = await typed(pilot, text)
        assert app.session.message is not None
        assert says in app.session.message[0]
        assert app.state == parse(START)
        assert app.session.failures == []


async def test_tab_completes_and_up_recalls() -> None:
    async with HwExplorer(parse(START), Fake()).run_test(size=GRID) as pilot:
        app: HwExplorer = pilot.app  # type: ignore[assignment]
        await pilot.press(":", *"prec", "tab")
        assert app.explorer.prompt is not None
        assert app.explorer.prompt.text == "precision "
        await pilot.press(*"fp", "tab", "tab", "tab")
        assert app.explorer.prompt.text == "precision fp16"
        await pilot.press("enter", ":", *"batch 4", "enter", ":", "up", "up")
        assert app.explorer.prompt.text == "precision fp16"
        await pilot.press("down", "down", *"at lay", "tab")
        assert app.explorer.prompt.text.startswith("at layer1.0.conv1")
        await pilot.press("escape", ":", *"devices tpu_v4,k", "tab", "enter")
        assert app.state.devices == ("tpu_v4", "kpu_t256")


async def test_every_command_completes_and_has_a_help_line() -> None:
    async with HwExplorer(parse(START), Fake()).run_test(size=GRID) as pilot:
        app: HwExplorer = pilot.app  # type: ignore[assignment]
        for name, command in COMMANDS.items():
            assert command.usage.split()[0] == name
            assert command.help
            assert all(line.startswith(name) for line in completions(app.session, name + " "))
        assert {"compare", "show", "advise"} <= set(names())
        assert "show events" in completions(app.session, "show ")


async def test_a_report_at_once_and_a_verb_beside_the_screen() -> None:
    async with HwExplorer(parse("resnet18@b8,fp16"), ScreenQueries()).run_test(size=GRID) as pilot:
        app = await typed(pilot, "tree edp")
        assert app.explorer.overlay == "report"
        assert "Top consumers" in screen_text(app) or "resnet18" in screen_text(app)
        await pilot.press("escape")
        app = await typed(pilot, "sweep --batches 1,2")
        assert app.session.jobs
        await pilot.press("j")  # the screen stays in use
        await settle_until(pilot, lambda: not app.session.jobs)
        await pilot.pause()
        assert isinstance(app.screen, ResultTable)
        assert "usual software" in screen_text(app)
        await pilot.press("escape")
        app = await typed(pilot, "sweep --batches nonsense")
        await settle_until(pilot, lambda: not app.session.jobs)
        assert app.session.message is not None
        assert "nonsense" in app.session.message[0]
        app = await typed(pilot, "sweep")
        await pilot.press("escape")
        assert not app.session.jobs
        assert app.session.failures == []


async def test_sessions_are_saved_listed_and_loaded(tmp_path: Path) -> None:
    keeper = SavedSessions(tmp_path / "deep" / "sessions.json")
    async with on_screen("resnet50@b8", Fake(), saved_sessions=keeper) as (app, pilot):
        await typed(pilot, "save monday")
        await pilot.press("]", "]")
        await typed(pilot, "sessions")
        row = next(line for line in screen_text(app).splitlines() if "monday" in line)
        for told in ("resnet50", "batch 8", "h100_sxm", datetime.now().strftime("%Y-%m-%d")):
            assert told in row
        await pilot.press("escape")
        await typed(pilot, "load monday")
        assert app.state.batch == 8
        await typed(pilot, "load tuesday")
        assert app.session.message is not None
        assert "unknown session" in app.session.message[0]
    keeper.path.write_text("{nonsense")
    async with HwExplorer(State(), Fake(), saved_sessions=keeper).run_test(size=GRID) as pilot:
        app = await typed(pilot, "save x")
        assert app.session.message is not None
        assert "cannot be read" in app.session.message[0]
        assert keeper.path.read_text() == "{nonsense"


async def test_hostile_text_after_the_colon() -> None:
    async with HwExplorer(State(), Fake()).run_test(size=GRID) as pilot:
        app: HwExplorer = pilot.app  # type: ignore[assignment]
        for text in (
            "\x1b[31m",
            "batch \x00",
            "'" * 400,
            "at [bold]x",
            "🙂 🙂",
            "-",
            "--",
            "state ?",
            "export /no/x.txt",
        ):
            submit(app.session, text)
            assert app.session.message is not None
            assert "\x1b" not in screen_text(app)
        assert app.session.failures == []


async def test_a_line_of_the_shell_runs_on_the_model_that_it_names() -> None:
    async with HwExplorer(parse("resnet18"), ScreenQueries()).run_test(size=GRID) as pilot:
        app = await typed(pilot, "hwexplorer show fallback vit_b_16 --on jetson_orin_dla")
        await settle_until(pilot, lambda: not app.session.jobs)
        assert "vit_b_16, batch 1" in screen_text(app)
        assert app.state.model == "resnet18"
