"""Ten things one comes for, done by keys alone and by the mouse alone, at what is seen on the screen.

What counts is each key and each click; a wheel turned however far is one, and so is a path that is pasted. The counts
are held, so that nothing becomes longer unnoticed.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual import events
from textual.pilot import Pilot

from hwexplorer.state import State, parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.session.saved_sessions import LAST, SavedSessions
from tests.capture.onnx_files import node, save, weight
from tests.tui.opened import on_screen
from tests.tui.test_app import over, screen_text
from tests.waiting import settle_until

START = "resnet50@b8,fp16"
KEPT = "vit_b_16@b4,fp16/tpu_v4"
WHEEL_MOST = 100  # notches


class Hand:
    """What a person does, and how often."""

    def __init__(self, app: HwExplorer, pilot: Pilot[None]) -> None:
        self.app, self.pilot, self.count = app, pilot, 0

    async def press(self, *keys: str) -> None:
        self.count += len(keys)
        await self.pilot.press(*keys)

    async def paste(self, text: str) -> None:
        self.count += 1
        self.app.explorer.paste(text)
        await self.pilot.pause()

    def place(self, text: str, right: int = 0) -> tuple[int, int] | None:
        """Where a text is seen; the cells from its start are `right`."""
        lines = screen_text(self.app).split("\n")
        return next(((line.index(text) + right, y) for y, line in enumerate(lines) if text in line), None)

    async def wait_for(self, text: str, right: int = 0) -> tuple[int, int]:
        await self.until(lambda: self.place(text, right))
        return self.place(text, right) or (0, 0)

    async def click(self, text: str, right: int = 0, times: int = 1) -> None:
        self.count += 1
        place = await self.wait_for(text, right)
        self.app._click_chain_last_time = None  # no double click with the one before
        await self.pilot.click(offset=place, times=times)

    async def wheel(self, over: str, to: str, turn: type[events.MouseEvent] = events.MouseScrollDown) -> None:
        """Turn the wheel over a text until another is seen."""
        self.count += 1
        place = await self.wait_for(over)
        for _ in range(WHEEL_MOST):
            if self.place(to):
                return
            await self.pilot._post_mouse_events([turn], offset=place)
        raise AssertionError(f"{to!r} is not found:\n{screen_text(self.app)}")

    async def until(self, is_so: Callable[[], object]) -> None:
        await settle_until(self.pilot, is_so)


Way = Callable[[Hand, Path], Awaitable[None]]
Check = Callable[[HwExplorer, Path], None]


async def model_by_keys(hand: Hand, _: Path) -> None:
    await hand.press("1", *"vit_b_16", "enter")


async def model_by_mouse(hand: Hand, _: Path) -> None:
    await hand.click("resnet50")
    await hand.wheel("Models", "Open vit_b_16 ")
    await hand.click("Open vit_b_16 ")


def is_vit(app: HwExplorer, _: Path) -> None:
    assert app.state.model == "vit_b_16"
    assert app.state.at  # it opens where most of it goes
    assert app.state.pane == "tree"


async def device_by_keys(hand: Hand, _: Path) -> None:
    await hand.press("a", *"4090", "enter")


async def device_by_mouse(hand: Hand, _: Path) -> None:
    await hand.click("on h100_sxm", right=4)
    await hand.click("rtx_4090")
    await hand.click("enter done")


def has_device(app: HwExplorer, _: Path) -> None:
    assert app.state.devices[-1] == "rtx_4090"
    assert (app.explorer.overlay, app.explorer.prompt) == ("", None)
    assert "RTX 4090" in screen_text(app)


async def nothing(hand: Hand, _: Path) -> None:
    """It is on the first screen."""


def is_costliest(app: HwExplorer, _: Path) -> None:
    leaves = [row for row in app.session.views.tree.rows if not row.has_children] if app.session.views else []
    heaviest = max(leaves, key=lambda row: app.session.index.share(row.key))
    assert heaviest.key.startswith(app.state.at)
    assert "roofline" in screen_text(app)


async def events_by_keys(hand: Hand, _: Path) -> None:
    await hand.press("p", "2", "k")


async def events_by_mouse(hand: Hand, _: Path) -> None:
    await hand.click("p pin")
    await hand.click("TPU v4  ")


def has_events_of_two(app: HwExplorer, _: Path) -> None:
    assert (app.state.on, app.state.pin) == ("tpu_v4", "h100_sxm@b8,fp16")
    assert app.session.views is not None
    assert "delta" in [column.key for column in app.session.views.events.columns]
    assert "Events" in screen_text(app)


async def batches_by_keys(hand: Hand, _: Path) -> None:
    await hand.press("[", "[", "[", "p", *"]]]]]")


async def batches_by_mouse(hand: Hand, _: Path) -> None:
    for _ in range(3):
        await hand.click("batch ", right=1)  # the left half of the setting halves it
    hand.app.session.clear_message()  # it goes by itself, and the keys are seen again
    await hand.click("p pin")
    for batch in (1, 2, 4, 8, 16):
        await hand.click(f"batch {batch}", right=6)


def is_batch_32_against_1(app: HwExplorer, _: Path) -> None:
    assert (app.state.batch, app.state.pin) == (32, "h100_sxm@b1,fp16".replace("b1,", ""))
    assert app.session.views is not None
    assert app.session.views.verdict


async def limits_by_keys(hand: Hand, _: Path) -> None:
    await hand.press("a", *"L<5ms E<1J ", "space", "enter")


async def limits_by_mouse(hand: Hand, _: Path) -> None:
    await hand.click("on h100_sxm", right=4)
    await hand.click("L<5ms")
    await hand.click(" E<1J", right=1)
    await hand.until(lambda: over(hand.app).content.table.rows[0].cells[2] is not None)
    await hand.click("rtx_4090")
    await hand.click("enter keeps")


def is_within_limits(app: HwExplorer, _: Path) -> None:
    assert app.state.limits == "L<5ms E<1J"
    assert len(app.state.devices) == len(State().devices) + 1
    assert app.explorer.overlay == ""


async def export_by_keys(hand: Hand, _: Path) -> None:
    await hand.press("e", "end", *["backspace"] * 3, *"html", "enter")


async def export_by_mouse(hand: Hand, _: Path) -> None:
    await hand.click("e export")
    await hand.click(".html")
    await hand.click("enter saves")


def is_exported(_: HwExplorer, folder: Path) -> None:
    written = (folder / "resnet50_tree.html").read_text()
    assert "layer3" in written


async def own_by_keys(hand: Hand, folder: Path) -> None:
    await hand.press("1")
    await hand.paste(str(folder / "net.onnx"))
    await hand.press("enter")
    await hand.until(lambda: not hand.app.session.jobs)


async def own_by_mouse(hand: Hand, _: Path) -> None:
    await hand.click("^p commands")
    await hand.click("Open a model of your own")
    await hand.click("net.onnx")
    await hand.click("enter runs")
    await hand.until(lambda: not hand.app.session.jobs)


def is_own(app: HwExplorer, folder: Path) -> None:
    assert app.state.model in ("net.onnx", str(folder / "net.onnx"))
    assert app.state.pane == "tree"


async def decode_by_keys(hand: Hand, _: Path) -> None:
    await hand.press("1", *"llama3_8b", "enter", "r")


async def decode_by_mouse(hand: Hand, _: Path) -> None:
    await hand.click("resnet50")
    await hand.wheel("Models", "Open llama3_8b ", events.MouseScrollUp)
    await hand.click("Open llama3_8b ")
    await hand.click("prefill")


def is_decoding(app: HwExplorer, _: Path) -> None:
    assert app.state.model == "llama3_8b:decode"
    assert "llama3_8b decode" in screen_text(app)


async def restore_by_keys(hand: Hand, _: Path) -> None:
    await hand.press("R", "enter")


async def restore_by_mouse(hand: Hand, _: Path) -> None:
    await hand.click("R sessions")
    await hand.until(lambda: hand.place(parse(KEPT).model))
    await hand.click("last", times=2)


def is_restored(app: HwExplorer, _: Path) -> None:
    assert app.state == parse(KEPT)


# What is asked for, how it is seen that it is there; by keys and by mouse, and with how many of them.
TASKS: dict[str, tuple[Check, Way, int, Way, int]] = {
    "pick a model": (is_vit, model_by_keys, 10, model_by_mouse, 3),
    "add a device": (has_device, device_by_keys, 6, device_by_mouse, 3),
    "the costliest block and why": (is_costliest, nothing, 0, nothing, 0),
    "two devices' events": (has_events_of_two, events_by_keys, 3, events_by_mouse, 2),
    "batch 1 against 32": (is_batch_32_against_1, batches_by_keys, 9, batches_by_mouse, 9),
    "a device under 5 ms and 1 J": (is_within_limits, limits_by_keys, 14, limits_by_mouse, 5),
    "export": (is_exported, export_by_keys, 10, export_by_mouse, 3),
    "own model": (is_own, own_by_keys, 3, own_by_mouse, 4),
    "language model decode": (is_decoding, decode_by_keys, 12, decode_by_mouse, 4),
    "restore": (is_restored, restore_by_keys, 2, restore_by_mouse, 2),
}


@pytest.mark.parametrize("by", ["keys", "mouse"])
@pytest.mark.parametrize("task", TASKS)
async def test_it_is_done(
    task: str, by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if "under" in task:
        request.getfixturevalue("few_devices")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HWEXPLORER_CACHE_DIR", str(tmp_path / "cache"))
    save(tmp_path, [node("Conv", "x w", "y")], {"x": ("N", 3, 16, 16)}, ["y"], [weight("w", 4, 3, 3, 3)])
    check, by_keys, keys, by_mouse, clicks = TASKS[task]
    way, most = (by_keys, keys) if by == "keys" else (by_mouse, clicks)
    keeper = SavedSessions(tmp_path / "sessions.json")
    keeper.save(LAST, parse(KEPT))
    async with on_screen(START, saved_sessions=keeper, opens_heaviest=True) as (app, pilot):
        hand = Hand(app, pilot)
        await way(hand, tmp_path)
        check(app, tmp_path)
        assert hand.count == most
