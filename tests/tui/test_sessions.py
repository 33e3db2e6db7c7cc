"""SavedSessions that several explorers save at once, and what the copy keys take away from names that are hostile."""

import subprocess
import sys
from pathlib import Path

from hwexplorer.state import State, replace
from hwexplorer.tui.session.change_summary import summarize_change
from hwexplorer.tui.session.saved_sessions import SavedSessions
from tests.waiting import LIMIT_S

SAVING = """
import sys
from pathlib import Path
from hwexplorer.state import State
from hwexplorer.tui.session.saved_sessions import SavedSessions
keeper = SavedSessions(Path(sys.argv[1]))
for turn in range(20):
    keeper.save(f"{sys.argv[2]}{turn}", State())
"""


def test_none_is_lost_when_four_explorers_save_at_once(tmp_path: Path) -> None:
    file = tmp_path / "new" / "sessions.json"
    explorers = [subprocess.Popen([sys.executable, "-c", SAVING, str(file), name]) for name in "abcd"]
    assert [explorer.wait(LIMIT_S) for explorer in explorers] == [0] * 4
    assert set(SavedSessions(file).all()) == {f"{name}{turn}" for name in "abcd" for turn in range(20)}


def test_the_foot_says_that_a_pin_follows_to_another_model() -> None:
    before = State("resnet18", pin="tpu_v4@b8")
    assert summarize_change(before, replace(before, model="alexnet"), (), ()) == "pin recomputed for alexnet"
    assert summarize_change(replace(before, pin=""), State("alexnet"), (), ()) == "loaded alexnet"
