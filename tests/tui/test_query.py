"""Finding rows by words and conditions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware.base.errors import RequestError, matching_places
from hwexplorer.state import parse
from hwexplorer.tui.session import state_changes
from tests.tui.fake import Fake
from tests.waiting import CallCount

TREE = Fake().tree(parse("resnet50@b8"))


def found(text: str) -> list[str]:
    return [TREE.rows[place].key for place in state_changes.matching_rows(TREE, text)]


def test_words_are_all_looked_for_in_names_and_keys() -> None:
    assert found("layer3.0.conv2") == ["layer3.0.conv2", *(f"layer3.0.conv2/{op}" for op in ("conv", "bn", "relu"))]
    assert found("layer3 relu") == [f"layer3.{i}.conv{k}/relu" for i in (0, 1) for k in (1, 2)]


def test_letters_in_order_find_what_no_row_holds() -> None:
    assert found("l3c2bn") == ["layer3.0.conv2/bn", "layer3.1.conv2/bn"]
    assert found("layer3") == [key for key in found("layer3") if "layer3" in key]


def test_conditions() -> None:
    shares = {row.key: row.cells[1] for row in TREE.rows}
    assert found("kind:subgraph share>5") == [
        row.key
        for row in TREE.rows
        if row.kind == "subgraph" and shares[row.key] > 0.05  # type: ignore[operator]
    ]
    assert found("bound:DRAM kind:subgraph") == [row.key for row in TREE.rows if row.kind == "subgraph"]
    latency = {row.key: row.cells[2] for row in TREE.rows}
    assert found("latency>100us") == [row.key for row in TREE.rows[1:] if latency[row.key] > 1e-4]  # type: ignore[operator]
    assert found("latency>0.1ms latency<0.1ms") == []
    assert found("conv kind!=subgraph bound:c")[0] == "conv1/conv"


@pytest.mark.parametrize(
    ("text", "says"),
    [("shar>5", "share"), ("share>x", "start with a number"), ("kind>3", "ask kind:3"), ("bound>3", "words")],
)
def test_a_condition_that_cannot_be_says_so(text: str, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        state_changes.matching_rows(TREE, text)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("5", "%", 0.05),
        ("1ms", "s", 1e-3),
        ("2uJ", "J", 2e-6),
        ("3s", "s", 3.0),
        ("1.5G", "MAC", 1.5e9),
        ("4mJ", "J", 4e-3),
    ],
)
def test_numbers(text: str, unit: str, value: float) -> None:
    assert state_changes.parse_value(text, unit) == pytest.approx(value)


@given(st.text(max_size=30))
def test_any_text_finds_rows_or_says_why_not(text: str) -> None:
    says = ""
    try:
        places = state_changes.matching_rows(TREE, text)
    except RequestError as error:
        places, says = (), str(error)
    assert "\n" not in says
    assert list(places) == sorted(places)


@pytest.mark.parametrize(
    ("typed", "places"),
    [("MobileNetV2", (0,)), ("mobv2", (0,)), ("mobilenet_v3_", (1,)), ("net 18", (2,)), ("", (0, 1, 2)), ("^[", ())],
)
def test_what_is_typed_finds_names_as_they_sound_and_letter_by_letter(typed: str, places: tuple[int, ...]) -> None:
    assert matching_places(typed, ["mobilenet_v2", "mobilenet_v3_small", "resnet18"]) == places


def test_letters_far_apart_are_no_name() -> None:
    assert (
        matching_places("smolvla", ["lraspp_mobilenet_v3_large\nsegmentation", "ssdlite320_mobilenet_v3_large"]) == ()
    )


def test_a_word_longer_than_every_name_is_not_compiled() -> None:
    with CallCount() as count:
        assert all(matching_places("a" * 2000 + letter, ["resnet18"]) == () for letter in "abcdefghijklmnopqrst")
    assert count.calls < 20_000  # a pattern of 2,000 letters takes more than that alone
