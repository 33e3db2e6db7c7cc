"""Text is brief; `--all` gives every row, other formats always do."""

from __future__ import annotations

from analysis.document import Column
from hwexplorer.export.render import plain
from hwexplorer.views.plain import Row, Table

TABLE = Table("t", "Ten", (Column("a", "A", role="text"),), tuple(Row(f"r{i}", (f"r{i}",)) for i in range(10)), first=3)


def test_text_shows_first_rows_and_counts_the_others() -> None:
    text = plain(TABLE, "text", is_whole=False)
    assert "r2" in text
    assert "r3" not in text
    assert "7 rows more: --all" in text


def test_whole_text_and_other_formats_have_all_rows() -> None:
    assert all("r9" in plain(TABLE, form) and "more" not in plain(TABLE, form) for form in ("text", "csv", "md"))
