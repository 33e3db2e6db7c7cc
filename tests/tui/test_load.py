"""The screen on a language model under load."""

import re

from tests.tui.opened import on_screen
from tests.tui.test_app import screen_text

STATE = "llama3_8b:serve,in=256,out=32,rate=5/h100_sxm,l4*2"


async def test_the_batch_keys_turn_the_load() -> None:
    async with on_screen(STATE) as (app, pilot):
        text = screen_text(app)
        assert "5 requests/s" in text
        assert "batch 1" not in text
        assert "tokens/s" in text
        assert "EDP mJ·s/token" in text
        await pilot.press("]")
        assert (app.state.model, app.state.load) == ("llama3_8b:request,in=256,out=32", "rate=10")
        assert app.state.batch == 1
        await pilot.press("[", "[")
        assert app.state.load == "rate=2"
        assert "2 requests/s" in screen_text(app)


async def test_a_load_follows_the_phases_of_a_model() -> None:
    async with on_screen("llama3_8b:request@b8,fp8/l4") as (app, pilot):
        assert "1,024 prompt and 256 output tokens" in screen_text(app)
        await pilot.press("r")
        assert (app.state.model, app.state.load) == ("llama3_8b:request", "rate=1")
        assert (app.state.batch, app.state.precision) == (1, "fp8")
        assert "1 request/s" in screen_text(app)
        await pilot.press("r", "r")  # a step of training comes last
        assert (app.state.model, app.state.load) == ("llama3_8b", "")


async def test_devices_stand_in_the_order_of_the_load_with_the_verdict() -> None:
    async with on_screen(STATE + "?pane=compare&metric=energy") as (app, pilot):
        await pilot.pause()
        text = screen_text(app)
        assert re.search(r"TTFT p50.*TPOT p99.*J/tok", text)
        assert re.search(r"L4 x 2 (is|leads).*joules per token", text)
        assert "To be sure: measure this load of llama3_8b on " in text
        assert text.index("l4*2  ") < text.index("h100_sxm  ", text.index("TTFT p50"))


async def test_on_a_small_screen_the_verdicts_of_a_load_are_whole_and_its_keys_are_named() -> None:
    load = "llama3_8b:serve,in=1024,out=256,rate=5"
    async with on_screen(f"{load}/h100_sxm,tpu_v4,xeon_8490h", size=(80, 24)) as (app, pilot):
        await pilot.pause()
        strip, foot = app.explorer.strip, screen_text(app).splitlines()[-1]
        text = [line.text for line in strip.drawn()]
    assert text[0].startswith((" Too close to call: ", " H100 SXM5 80GB is "))
    assert not any("\u2026" in line for line in text), text
    assert "[ ] load" in foot


async def test_why_says_what_the_slow_requests_wait_for() -> None:
    async with on_screen(STATE + "?pane=why&zoom=1") as (app, pilot):
        await pilot.press("space")
        text = screen_text(app)
        assert "What the slowest 1 % of requests wait for" in text
        assert "its own decode steps" in text
