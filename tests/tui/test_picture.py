"""The models' drawer: a picture of what the one under the cursor is."""

from __future__ import annotations

import pytest

from hwexplorer.provider import EngineProvider
from hwexplorer.state import State, parse
from hwexplorer.tui.app import HwExplorer
from tests.tui.test_app import screen_text


@pytest.mark.parametrize("model", ["resnet50", "vit_b_16", "llama3_8b", "gemm", "transformers:t5_base"])
def test_the_parts_of_a_model_make_its_arithmetic(model: str) -> None:
    table = EngineProvider().picture(State(model=model))
    assert table is not None
    shares = [row.cells[1] for row in table.rows]
    assert sum(shares) == pytest.approx(1.0)  # type: ignore[arg-type]


async def test_the_drawer_draws_the_model_under_the_cursor() -> None:
    app = HwExplorer(parse("llama3_8b:decode"), EngineProvider())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("1", "/", *"vgg11", "escape", "/", *"resnet50")
        await pilot.pause(0.5)
        assert "25.6 M Param · 4.09 G MAC" in screen_text(app)
        assert "layer3 ×6" in screen_text(app)
        await pilot.press("down")
        assert "layer3 ×6" not in screen_text(app)  # what is of another is gone at once
    assert app.session.failures == []


async def test_it_is_drawn_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = HwExplorer(parse("resnet50"), EngineProvider())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("1")
        await pilot.pause(0.5)
        assert "layer3 ×6" in screen_text(app)
    assert app.session.failures == []
