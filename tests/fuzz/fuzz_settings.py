"""The files of settings and of sessions, written by hand or by a broken disk: one line about it, no more."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

from hardware.errors import RequestError
from hwexplorer.state import State
from hwexplorer.tui import user_settings
from hwexplorer.tui.keys.key_table import ACTIONS
from hwexplorer.tui.palette import THEMES
from hwexplorer.tui.session.saved_sessions import SavedSessions
from tests.fuzz import fuzz_states, mutate
from tests.fuzz.running import refused

SEEDS = (
    b'theme = "light"\nascii = true\nmouse = false\nheaviest = false\n[keys]\nheaviest = "."\nquit = "q ctrl+c"\n',
    b'theme = "nord"\n[keys]\nzoom = ", semicolon f5"\nundo = ""\n',
    b'{"last": "resnet50@b8,fp16/h100_sxm,t4?at=layer3&pin=t4@b8", "mine": "mlp@b2", "a b": "vit_b_16"}',
    b'{"last": "%2Ftmp%2Fnet.py:make@b4", "x": ""}',
)
WORDS = (
    *(action.id for action in ACTIONS),
    *THEMES,
    *("theme", "ascii", "keys", "[keys]", "true", "ctrl+c", "f5", "last", '"', "'''", "{", "}", "[", "]", ",", ":"),
    *fuzz_states.SEEDS,
)


def mutations(random: Random) -> Iterator[tuple[bool, bytes]]:
    """(whether it stands where sessions are kept, the file)."""
    for data in mutate.files(random, SEEDS, WORDS):
        yield random.random() < 0.5, data


def survive(case: tuple[bool, bytes]) -> bool:
    is_session, data = case
    path = Path("mine")
    path.write_bytes(data)
    return _sessions(path, data) if is_session else _settings(path)


def _settings(path: Path) -> bool:
    read, warning = user_settings.read(path)
    assert warning.isprintable()
    assert len(warning) < 500
    assert read.theme in THEMES
    assert all(isinstance(flag, bool) for flag in (read.ascii, read.mouse, read.heaviest))
    assert read.keymap.by_id["quit"].keys, "no key to leave with"
    return not warning


def _sessions(path: Path, data: bytes) -> bool:
    kept = SavedSessions(path)
    try:
        names = list(kept.all())
    except RequestError as error:
        try:
            kept.save("new", State())
        except RequestError:
            assert path.read_bytes() == data, "written over what could not be read"
            return refused(error)
        raise AssertionError("written over what could not be read") from None
    for name in names:
        try:
            kept.state(name)
        except RequestError as error:
            refused(error)
    kept.save("new", State(model="mlp"))
    assert kept.state_string("new") == "mlp"
    assert set(kept.all()) == {*names, "new"}
    return True
