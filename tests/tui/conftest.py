"""Time of the screen's own, in tests."""

import pytest


@pytest.fixture(autouse=True)
def messages_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message goes after six seconds, in which a busy machine may not even have drawn it."""
    monkeypatch.setattr("hwexplorer.tui.screen.MESSAGE_SECONDS", 3600.0)


@pytest.fixture(autouse=True)
def work_never_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is answered before the next one, on a busy machine too."""
    monkeypatch.setattr("hardware.base.records.Slices.SLICE_S", float("inf"))
