"""The verdict strip: what it says of a device, at any size, and that nothing but silicon that fits wins."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.wording import describe_change, distinct_names, ratio
from hwexplorer import engine
from hwexplorer.state import parse, replace
from hwexplorer.tui.palette import TRACE, Palette, stacked
from hwexplorer.tui.widgets.tree_table import PERCENT
from hwexplorer.views.device_rows import cards, device_table
from hwexplorer.views.plain import LOOKS, cells
from tests.tui.opened import on_screen
from tests.waiting import settle_until

PARTS = st.lists(st.floats(0, 1), min_size=6, max_size=6)


def test_a_card_says_what_it_costs_and_what_it_goes_into() -> None:
    shown = {card.key: card for card in cards(parse("resnet50@b8,fp16"))}
    assert list(shown) == ["tpu_v4", "h100_sxm", "xeon_8490h", "kpu_t256"]  # by rank, designs on paper last
    for card in shown.values():
        assert [figure.label for figure in card.figures] == ["latency", "rate", "energy", "EDP"]
        assert sum(card.bar.parts) == pytest.approx(1.0)
        assert card.band[0] < card.value < card.band[1]
    assert shown["kpu_t256"].evidence == "on paper"
    assert shown["kpu_t256"].phrase.startswith("design: ")
    assert "waiting for kernel launches" in shown["h100_sxm"].phrase


def test_what_does_not_fit_wins_nothing() -> None:
    large = {card.key: card for card in cards(parse("llama3_70b@fp16"))}
    for name in ("h100_sxm", "tpu_v4", "kpu_t256"):
        assert not large[name].fits
        assert large[name].phrase.startswith("needs 141 GB, has ")
    assert large["xeon_8490h"].fits
    assert "fastest" not in large["xeon_8490h"].phrase  # of one there is no best
    unfit = cards(parse("gemma2_2b:serve,in=64,out=16,rate=1/h100_sxm,coral_edge_tpu"))[1]
    assert [figure.text for figure in unfit.figures][:2] == ["-", "-"]  # it gives no tokens


@pytest.mark.parametrize(
    ("model", "heads"),
    [
        ("llama3_8b:in=128,out=16", "TTFT ms|TPOT ms|tokens/s|J/request|EDP J·s"),
        ("llama3_8b:decode", "TPOT ms|tokens/s|J/token|EDP mJ·s"),
        ("llama3_8b:prefill", "TTFT ms|prompts/s|J/prompt|EDP mJ·s"),
    ],
)
def test_a_language_model_is_shown_in_its_own_words(model: str, heads: str) -> None:
    figures = cards(parse(f"{model}@fp16/h100_sxm,a100_sxm4_80gb"))[0].figures
    assert "|".join(f"{figure.label} {figure.unit}".strip() for figure in figures) == heads


def test_figures_of_all_devices_have_one_unit_and_three_digits() -> None:
    shown = cards(parse("resnet50@b8,fp16"))
    for column in zip(*(card.figures for card in shown), strict=True):
        assert len({figure.unit for figure in column}) == 1
        assert all(len(figure.text.replace(".", "").lstrip("0")) >= 3 for figure in column)
    assert sorted(card.rank for card in shown) == [0, 1, 2, 3]
    assert [card.key for card in shown if card.rank == 0 and card.on_paper] == ["kpu_t256"]


def test_a_name_is_short_unless_another_device_has_it() -> None:
    names = ("h100_sxm", "tpu_v4", "xeon_8490h", "a100_sxm4_40gb", "a100_sxm4_80gb", "h100_sxm{memory_bandwidth*2}")
    assert distinct_names([engine.device(name) for name in names]) == [
        "H100", "TPU v4", "Xeon 8490H", "A100 SXM4 40GB", "A100 SXM4 80GB", "H100, memory bandwidth x2",
    ]  # fmt: skip


async def test_devices_stand_by_rank_and_two_changes_of_a_chip_keep_their_amounts() -> None:
    changed = "h100_sxm{memory_bandwidth*2},h100_sxm{memory_bandwidth*1.6}"
    async with on_screen(f"resnet50@b32,fp16/xeon_8490h,h100_sxm,tpu_v4,{changed}", size=(80, 24)) as (app, _):
        strip = app.explorer.strip
        drawn = [line.text for line in strip.drawn()]
    assert [card.rank for card in strip.cards] == [1, 0, 0, 2, 3]
    assert [sum(f"H100, memory bandwidth x{times} " in line for line in drawn) for times in (2, 1.6)] == [1, 1], drawn


@pytest.mark.parametrize("metric", ["edp", "energy", "latency"])
def test_the_verdict_begins_with_the_figure_that_ranks(metric: str) -> None:
    words = {"edp": "EDP", "energy": "energy", "latency": "er"}  # faster, slower
    state = replace(parse("resnet50@b8,fp16/h100_sxm,tpu_v4,xeon_8490h"), metric=metric)
    first = {card.key: card.phrase.partition(" · ")[2].partition(" · ")[0] for card in cards(state)}
    assert words[metric] in first["tpu_v4"], first
    assert words[metric] in first["xeon_8490h"], first


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


@pytest.mark.parametrize("model", ["resnet50@b8,fp16", "llama3_70b@fp8", "vit_b_16@b1"])
async def test_the_bars_of_the_tree_say_something_at_120_columns(model: str) -> None:
    async with on_screen(model, opens_heaviest=True) as (app, pilot):
        await settle_until(pilot, lambda: bool(app.explorer.outline._widths))
        widths = dict(
            zip((c.key for c in app.explorer.outline.table.columns), app.explorer.outline._widths, strict=True)
        )
        assert widths["bar"] - PERCENT - 1 >= 9  # beside names, time and energy
        assert widths["latency"]
        assert widths["energy_per_inference"]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (160, 48)])
@pytest.mark.parametrize(
    "model", ["resnet50@b8,fp16", "llama3_8b:request@fp16/h100_sxm,a100_sxm4_80gb,tpu_v4,kpu_t100"]
)
async def test_every_device_has_its_name_and_edp_at_any_size(model: str, size: tuple[int, int]) -> None:
    async with on_screen(model, size=size) as (app, pilot):
        strip = app.explorer.strip
        await settle_until(pilot, lambda: bool(strip.answer))
        drawn = [line.text for line in strip.drawn()]
    assert drawn[0].strip()  # the answer
    for card, line in zip(strip.cards, drawn[-len(strip.cards) :], strict=True):
        assert next(word for word in card.name.split() if any(map(str.isdigit, word))) in line
        assert f" {card.figures[0].text}" in line
        assert f" {card.figures[-1].text}" in line
    assert "EDP" in drawn[-len(strip.cards) - 1]
    assert strip.cards[-1].on_paper


def test_a_limit_that_is_exceeded_is_told_with_the_figure() -> None:
    devices = cards(parse("resnet50@b8,fp16/xeon_8490h,h100_sxm?limits=L%3C1ms"))
    table = device_table(devices, "edp")
    notes = [row.cells[[column.key for column in table.columns].index("note")] for row in table.rows]
    assert [str(note).endswith("> 1 ms)") for note in notes] == [bool(card.over) for card in devices]
    assert any(notes)


def test_a_limit_does_not_hide_that_a_service_falls_behind() -> None:
    (card,) = cards(parse("llama3_8b:serve,in=256,out=32,rate=500@bf16/l4?limits=ttft%3C1s"))
    assert card.note.startswith("falls behind · TTFT (")
    assert card.note.endswith("> 1 s)")


async def test_on_a_small_screen_the_device_under_the_cursor_is_in_sight() -> None:
    devices = "xeon_8490h,h100_sxm,tpu_v4,jetson_agx_orin,a100_sxm4_80gb,l40s,t4,l4"
    async with on_screen(f"resnet50@b1,fp16/{devices}", size=(80, 24)) as (app, _):
        strip = app.explorer.strip
        drawn = [line.text for line in strip.drawn()]
    assert len(drawn) - 3 < len(strip.cards)
    assert sum("▌" in line for line in drawn) == 1
    assert " of 8" in drawn[2]


@pytest.mark.parametrize(
    ("change", "text"),
    [(0.96, "4 % less EDP"), (1.04, "4 % more EDP"), (0.7, "1.4x less EDP"), (2.7, "2.7x the EDP"), (1.001, "")],
)
def test_a_small_difference_is_in_percent_and_never_a_ratio_of_one(change: float, text: str) -> None:
    assert describe_change(change, "less EDP", "more EDP", "the EDP") == text
    assert ratio(max(change, 1 / change)) != "1.0x"
