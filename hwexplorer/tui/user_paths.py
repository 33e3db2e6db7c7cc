"""Where the user's settings and sessions are kept: the platform's own places."""

from __future__ import annotations

from pathlib import Path

from hardware.places import user_folder


def settings_file() -> Path:
    """Return the path of the user's settings."""
    return user_folder("config") / "settings.toml"


def sessions_file() -> Path:
    """Return the path of the saved sessions."""
    return user_folder("state") / "sessions.json"
