"""Sessions that several explorers save at once, and what the copy keys take away from names that are hostile."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from analysis.document import Column
from hwexplorer.state import State
from hwexplorer.tui.copied import copied
from hwexplorer.tui.sessions import Sessions
from hwexplorer.tui.widgets.table import TreeTable
from hwexplorer.views.plain import Row, Table

SAVING = """
import sys
from pathlib import Path
from hwexplorer.state import State
from hwexplorer.tui.sessions import Sessions
keeper = Sessions(Path(sys.argv[1]))
for turn in range(20):
    keeper.save(f"{sys.argv[2]}{turn}", State())
"""


def test_none_is_lost_when_four_explorers_save_at_once(tmp_path: Path) -> None:
    file = tmp_path / "new" / "sessions.json"
    explorers = [subprocess.Popen([sys.executable, "-c", SAVING, str(file), name]) for name in "abcd"]
    assert [explorer.wait(60) for explorer in explorers] == [0] * 4
    assert set(Sessions(file).all()) == {f"{name}{turn}" for name in "abcd" for turn in range(20)}


def test_what_is_copied_steers_no_terminal() -> None:
    hostile = "conv\x1b]0;owned\x07\x9b31m\u202e1"
    columns = (Column("name", "Name", role="text"), Column("latency_s", "Latency", "s"))
    table = TreeTable()
    table.update(Table("tree", "", columns, (Row("x", (hostile, 1e-3)),)))
    for what in ("name", "row"):
        taken = copied(what, State(), table)
        assert taken.startswith("conv")
        assert taken.replace("\t", "").isprintable()
    assert copied("row", State(), table).endswith("\t1.00 ms")
