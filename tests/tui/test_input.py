"""What comes in from a terminal: keys that follow each other in one read, sizes and answers that make no sense."""

import asyncio
import signal

import pytest
from textual import events
from textual.message import Message

from hwexplorer.state import State
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.terminal_driver import SIZE_MAX, TICK_S, Keys, Terminal
from tests.tui.fake import Fake
from tests.tui.opened import on_screen


def read(*parts: bytes) -> list[Message]:
    keys = Keys()
    return [event for part in parts for event in keys.events(part)]


def characters(found: list[Message]) -> str:
    return "".join(event.character or "" for event in found if isinstance(event, events.Key))


@pytest.mark.parametrize("parts", [(b"a\xffb",), (b"a\xe2\x82", b"b"), (b"a\xed\xa0\x80b",), (b"\x80\xbf", b"ab\xf0")])
def test_a_byte_that_is_no_text_is_replaced(parts: tuple[bytes, ...]) -> None:
    assert characters(read(*parts)).replace("\ufffd", "") == "ab"


def test_text_cut_in_the_middle_of_a_letter_is_joined() -> None:
    assert characters(read(b"\xe6\xbc", b"\xa2\xe5", b"\xad\x97")) == "漢字"


async def test_escape_alone_is_a_key_after_a_while() -> None:
    keys = Keys()
    assert list(keys.events(b"\x1b")) == []
    await asyncio.sleep(TICK_S)
    assert [event.key for event in keys.events(b"")] == ["escape"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("size", [(0, 0), (0, 80), (40, 0), (30_000, 30_000), (SIZE_MAX[1] + 1, 80)])
def test_a_size_that_no_screen_has_is_no_size(size: tuple[int, int]) -> None:
    sent = b"\x1b[48;%d;%d;1;1t" % size
    assert [event for event in read(sent, b"a") if isinstance(event, events.Resize)] == []
    assert characters(read(sent, b"\x1b[<0;3;3M", b"a")) == "a"
    assert [event.size for event in read(b"\x1b[48;40;120;1;1t") if isinstance(event, events.Resize)] == [(120, 40)]


def test_what_cannot_be_read_is_left_out_and_the_next_is_read() -> None:
    """A mouse in pixels of a terminal without width divides by nothing."""
    assert characters(read(b"\x1b[48;0;0;9;9t", b"x\x1b[<0;3;3My", b"z")).endswith("z")


async def _type(app: HwExplorer, keys: bytes) -> None:
    """All of it in one read, and time for a lone escape."""
    terminal = Keys()
    for event in (*terminal.events(keys), *(await asyncio.sleep(TICK_S) or terminal.events(b""))):
        app._driver.process_message(event)  # type: ignore[union-attr, arg-type]


@pytest.mark.parametrize("keys", [b"\r\r\r\r\r", b"\x1b[27u\x1b[27u", b"x\x1b[27ume\r", b"\r\x1b[27ux\r"])
async def test_a_palette_closes_once(keys: bytes) -> None:
    """`ScreenStackError`, and the command as often as enter was pressed. Keys behind escape are the screen's."""
    app = HwExplorer(State(), Fake())
    done: list[str] = []
    async with app.run_test(size=(100, 30)) as pilot:
        app.explorer.do_palette()
        await pilot.pause()
        app.explorer.perform = lambda action, argument="": done.append(action)  # type: ignore[method-assign]
        await _type(app, b"zoom" + keys)
        await pilot.pause()
        assert app.explorer.overlay == ""
    assert done.count("zoom") <= 1
    assert "zoom" in done or b"\x1b" in keys
    assert app.session.failures == []


@pytest.mark.parametrize("late", [events.AppBlur(), events.AppFocus()])
async def test_a_window_that_comes_to_the_front_after_the_end(late: events.Event) -> None:
    """`ScreenStackError`."""
    async with on_screen(State(), Fake(), size=(100, 30)) as (app, _):
        app.exit()
    await app.on_event(late)


@pytest.mark.parametrize("keys", [b"qjjj\x1b[<0;3;3M", b"\x10q", b"\x10\x11", b"q\x1b[200~x\x1b[201~"])
async def test_keys_after_the_last_one(keys: bytes) -> None:
    async with on_screen(State(), Fake(), size=(100, 30)) as (app, pilot):
        await _type(app, keys)
        await pilot.pause()
        app.exit()
    assert app._exception is None


def test_many_characters_in_one_read_are_a_paste() -> None:
    raw, marked = b"x" * 4096, [b"\x1b[200~" + b"x" * 4000, b"x" * 4096, b"x\x1b[201~"]
    for found, size in ((read(raw), 4096), (read(*marked), 8097)):
        assert [type(event) for event in found] == [events.Paste]
        assert isinstance(found[0], events.Paste)
        assert len(found[0].text) == size


async def test_the_program_is_suspended_between_two_events() -> None:
    """The handler of a signal interrupts calls that hold the queue of output, and writes to it."""
    app, told = HwExplorer(State(model="resnet18"), Fake()), list[str]()
    before = {number: signal.getsignal(number) for number in (signal.SIGTSTP, signal.SIGCONT)}
    try:
        driver = Terminal(app)
        driver.resume_application_mode = lambda: told.append("resumes")  # type: ignore[method-assign]
        driver._auto_restart = True
        driver._sigcont_application()
        assert not told
        await asyncio.sleep(0)
        assert told == ["resumes"]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
