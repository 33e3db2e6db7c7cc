"""Time of the screen's own, in tests."""

import pytest


@pytest.fixture(autouse=True)
def messages_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message goes after six seconds, in which a busy machine may not even have drawn it."""
    monkeypatch.setattr("hwexplorer.tui.screen.MESSAGE_SECONDS", 3600.0)
