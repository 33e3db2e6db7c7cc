"""Where the user's settings and sessions are kept: the platform's own places."""

from __future__ import annotations

from pathlib import Path


def settings_file() -> Path:
    from platformdirs import user_config_path

    return user_config_path("hwexplorer", appauthor=False) / "settings.toml"


def sessions_file() -> Path:
    from platformdirs import user_state_path

    return user_state_path("hwexplorer", appauthor=False) / "sessions.json"
