"""Numbers as people read them."""

import math

from hypothesis import given
from hypothesis import strategies as st

from hardware.base.text import quantity, safe
from hwexplorer.text.number_format import delta, scale_for, to_ascii
from tests.sampling import for_each


def column(values: list[float] | list[float | None], unit: str) -> tuple[list[str], str]:
    """All cells of a column in one scale, and the unit for its header."""
    scale = scale_for(values, unit)
    return [scale.cell(value) for value in values], scale.label


@for_each(
    ("value", "unit", "text"),
    [
        (1.25e-3, "s", "1.25 ms"),
        (0.0, "s", "0 s"),
        (999.7e-6, "s", "1.00 ms"),
        (4000.0, "s", "4000 s"),
        (1.5e6, "byte", "1.50 MB"),
        (12, "byte", "12 B"),
        (2048, "byte", "2.05 KB"),
        (3.35e12, "byte/s", "3.35 TB/s"),
        (4e12, "FLOP/s", "4.00 TFLOP/s"),
        (1.814e9, "MAC", "1.81 GMAC"),
        (2.3e-5, "Js", "23.0 µJ·s"),
        (0.1234, "%", "12.3 %"),
        (1.29, "x", "1.29x"),
        (401408, "count", "401,408"),
        (12345, "1/s", "12.3 k/s"),
        (295.2, "FLOP/byte", "295 FLOP/B"),
        (math.inf, "s", "∞"),
        (math.nan, "s", ""),
        (None, "s", ""),
    ],
)
def test_quantity(value: float | None, unit: str, text: str) -> None:
    assert quantity(value, unit) == text


def test_one_prefix_per_column_and_nothing_small_becomes_zero() -> None:
    assert column([4.56e-3, 2e-6, 1e-7, None, 0], "s") == (["4.56   ", "0.00200", "0.00010", "", "0      "], "ms")
    assert column([45.6e-3, 2e-6], "s") == (["45.6   ", "0.0020"], "ms")
    assert column([152e-3, 4.39e-3, 1.8e-5], "Js") == (["152    ", "4.39 ", "0.018"], "mJ·s")
    assert column([0.5, 0.01, 0.0001], "%") == (["50.0", "1.0", "<.1"], "%")
    assert column([401408, 12], "count") == (["401,408", "12"], "")
    assert column([2350.0, 0.788], "Js") == (["2350   ", "0.79"], "J·s")  # in kilojoules one would read 0.00079
    assert (column([], "J"), column([None, math.nan], "s")) == (([], "J"), (["", ""], "s"))


def test_delta_always_carries_its_sign() -> None:
    texts = [delta(value) for value in (0.29, -0.29, 0.004, -0.004, 0.0, 11.0, -0.97, -1.0, None)]
    assert texts == ["+29 %", "-29 %", "+0.4 %", "-0.4 %", "0 %", "x12", "÷33", "-100 %", ""]


def test_text_cannot_steer_the_terminal() -> None:
    assert safe("a\x1b[31mb\u202ec\td") == "a␛[31mb\ufffdc d"
    assert safe("[bold]x[/]") == "[bold]x[/]"
    assert len(safe("x" * 10_000)) == 2000
    assert to_ascii("1 µs · 2×") == "1 us * 2x"


@given(st.lists(st.floats(min_value=1e-15, max_value=1e9), min_size=1, max_size=20))
def test_columns_line_up(values: list[float]) -> None:
    cells, label = column(values, "s")
    assert label.endswith("s")
    points = {len(cell) - cell.index(".") for cell in cells if "." in cell and not cell.startswith("<")}
    assert len(points) <= 1
    assert all(cell not in ("0", "0.0") for cell in cells)


@given(st.floats(1e-9, 1e6), st.lists(st.floats(1.01e-5, 1.0), max_size=8))
def test_each_number_keeps_two_digits_over_five_decades(most: float, fractions: list[float]) -> None:
    cells, _ = column([most, *(most * fraction for fraction in fractions)], "Js")
    digits = [cell.strip().replace(".", "").replace(",", "").lstrip("0") for cell in cells]
    assert all(len(each) >= 2 and "<" not in each for each in digits), cells


@given(st.text())
def test_safe_is_printable(text: str) -> None:
    assert all(character.isprintable() for character in safe(text))
