"""Time of the screen's own, in tests."""

import pytest

from hwexplorer.tui.prefetch import Prefetch


@pytest.fixture(autouse=True)
def messages_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message goes after six seconds, in which a busy machine may not even have drawn it."""
    monkeypatch.setattr("hwexplorer.tui.screen.MESSAGE_SECONDS", 3600.0)


@pytest.fixture
def ahead() -> None:
    """What the next key may ask for is computed while idle, as in the program."""


@pytest.fixture(autouse=True)
def nothing_is_computed_ahead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A test takes a few of the states around each: the others would take as long as all of its keys."""
    if "ahead" not in request.fixturenames:
        monkeypatch.setattr(Prefetch, "_compute", lambda self, states: iter(()))


@pytest.fixture(autouse=True)
def work_never_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is answered before the next one, on a busy machine too."""
    monkeypatch.setattr("hardware.base.records.Slices.SLICE_S", float("inf"))
