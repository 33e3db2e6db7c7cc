"""The verdict strip: what it says of a device, at any size, and that nothing but silicon that fits wins."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwexplorer.provider import EngineProvider
from hwexplorer.state import State, parse
from hwexplorer.tui.app import HwExplorer
from hwexplorer.tui.palette import Palette
from hwexplorer.tui.session.screen_layout import TALL, lines_of
from hwexplorer.tui.widgets.cell_drawing import TRACE, stacked
from hwexplorer.tui.widgets.column_widths import PERCENT
from hwexplorer.views.cause_looks import LOOKS, cells
from hwexplorer.views.device_cards import cards

PARTS = st.lists(st.floats(0, 1), min_size=6, max_size=6)


def test_a_card_says_what_it_costs_and_what_it_goes_into() -> None:
    shown = {card.key: card for card in cards(parse("resnet50@b8,fp16"))}
    assert list(shown) == ["xeon_8490h", "h100_sxm", "tpu_v4", "kpu_t256"]
    for card in shown.values():
        assert re.fullmatch(r"[0-9.]+ [mµ]?s", card.figures[0])
        assert all(len(re.sub(r"[^0-9]", "", figure)) == 3 for figure in card.figures)
        assert sum(card.bar.parts) == pytest.approx(card.bar)
        assert card.most > card.bar
    assert shown["kpu_t256"].mark == "◌"
    assert not shown["kpu_t256"].phrase.startswith(("fastest", "least"))
    assert "waits on launches" in shown["h100_sxm"].phrase
    assert shown["xeon_8490h"].bar > 1  # off the common scale


def test_what_does_not_fit_wins_nothing() -> None:
    large = {card.key: card for card in cards(parse("llama3_70b@fp16"))}
    for name in ("h100_sxm", "tpu_v4", "kpu_t256"):
        assert not large[name].fits
        assert large[name].phrase.startswith("needs 141 GB, has ")
    assert large["xeon_8490h"].fits
    assert "fastest" not in large["xeon_8490h"].phrase  # of one there is no best


def test_a_request_is_told_as_its_users_judge_it() -> None:
    told = cards(parse("llama3_8b:in=128,out=16@fp16/h100_sxm"))[0].figures
    assert told[0].startswith("first ")
    assert told[1].endswith("s/tok")
    assert told[2].endswith("tok/s")


@given(PARTS, st.integers(1, 200))
def test_the_cells_of_a_bar_are_the_rounded_sum(parts: list[float], width: int) -> None:
    counts = cells(parts, width)
    assert all(count >= 0 for count in counts)
    assert sum(counts) == (max(1, round(min(sum(parts), 1.0) * width)) if sum(parts) > 0 else 0)


@given(PARTS, st.integers(1, 60), st.sampled_from(["dark", "light", "ansi"]), st.booleans())
def test_a_bar_is_as_wide_as_asked(parts: list[float], width: int, theme: str, ascii: bool) -> None:
    palette = Palette(theme, ascii)
    shares = [part / 6 for part in parts]
    text = "".join(segment.text for segment in stacked(shares, width, palette))
    assert len(text) == width
    if palette.textured and sum(shares) * width < TRACE:  # no cause makes a cell: a trace of them all
        assert text.rstrip() == ("." if ascii else "▏") * (sum(shares) > 0)
    elif palette.textured:
        signs = {look.letter if ascii else look.texture for look in LOOKS}
        assert set(text) <= signs | {" "}


@given(st.integers(60, 320), st.integers(16, 110), st.integers(1, 40))
def test_the_strip_leaves_room_for_what_explains_it(width: int, height: int, devices: int) -> None:
    assert 1 <= lines_of(width, height, devices) <= max(TALL, height // 4)


def test_causes_differ_by_sign_everywhere() -> None:
    for signs in ([x.letter for x in LOOKS], [x.texture for x in LOOKS], [x.ansi for x in LOOKS],
                  [x.dark for x in LOOKS], [x.light for x in LOOKS]):  # fmt: skip
        assert len(set(signs)) == len(LOOKS)
    assert not {"red", "bright_red"} & {look.ansi for look in LOOKS}  # red means worse, and nothing else


def test_every_device_of_the_default_has_a_card() -> None:
    assert len(cards(State())) == 4


@pytest.mark.parametrize("model", ["resnet50@b8,fp16", "llama3_70b@fp8", "vit_b_16@b1"])
async def test_the_bars_of_the_tree_say_something_at_120_columns(model: str) -> None:
    app = HwExplorer(parse(model), EngineProvider(), opens_heaviest=True)
    async with app.run_test(size=(120, 40)):
        widths = dict(
            zip((c.key for c in app.explorer.outline.table.columns), app.explorer.outline._widths, strict=True)
        )
        assert widths["bar"] - PERCENT - 1 >= 14
        assert widths["latency"]
        assert widths["energy_per_inference"]


async def test_a_line_tells_the_figures_of_a_request_to_their_end() -> None:
    app = HwExplorer(parse("llama3_8b:request@fp16/h100_sxm,a100_sxm4_80gb,tpu_v4,l4,l40s"), EngineProvider())
    async with app.run_test(size=(120, 40)):
        drawn = [app.explorer.strip.render_line(y).text for y in range(app.explorer.strip.size.height)]
    for card, line in zip(app.explorer.strip.cards, drawn, strict=False):
        assert card.figures[0].startswith("first ")
        assert all(figure in line for figure in card.figures), line
