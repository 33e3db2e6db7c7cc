"""Text is brief; `--all` gives every row, other formats always do."""

from analysis.document import Column
from hwexplorer.answer import Answer
from hwexplorer.export.render import plain
from hwexplorer.state import parse
from hwexplorer.views.plain import Row, Table

TABLE = Table("t", "Ten", (Column("a", "A", role="text"),), tuple(Row(f"r{i}", (f"r{i}",)) for i in range(10)), first=3)


def test_text_shows_first_rows_and_counts_the_others() -> None:
    text = plain(TABLE, "text", is_whole=False)
    assert "r2" in text
    assert "r3" not in text
    assert "7 rows more: --all" in text


def test_whole_text_and_other_formats_have_all_rows() -> None:
    assert all("r9" in plain(TABLE, form) and "more" not in plain(TABLE, form) for form in ("text", "csv", "md"))


def brief(verb: str, state: str) -> str:
    return Answer(verb, parse(state)).to_text("text", 100)


def test_a_request_has_the_figures_of_its_users_as_columns() -> None:
    heads = brief("compare", "llama3_8b:request@bf16/h100_sxm,a100_sxm4_80gb").partition("Device ")[2].splitlines()[0]
    assert [title for title in ("TTFT ms", "TPOT ms", "Tokens/s", "Energy/request J") if title not in heads] == []
    assert "TPOT ms" in brief("compare", "llama3_8b:decode,kv=1024@bf16/h100_sxm,a100_sxm4_80gb")


def test_merged_rows_say_whose_figures_they_have() -> None:
    assert "×2 and more: figures are of one kernel, but Time % is of all of them" in brief(
        "roofline", "resnet50/h100_sxm"
    )


def test_a_sweep_answers_before_it_lists() -> None:
    text = brief("sweep", "resnet18/h100_sxm,xeon_8490h")
    assert text.index("Best batch of each device") < text.index("Each device and batch")
    assert "h100_sxm at every batch, xeon_8490h never" in text
