"""The user's settings: a TOML file in the platform's folder. A bad setting is one line of warning, not an error.

theme = "light"          # one of the themes
ascii = false            # plain characters only
mouse = true
heaviest = true          # open the heaviest path at the start
[keys]
heaviest = "."           # action = "keys, separated by spaces"; KEYS.md lists the actions
"""

from pathlib import Path
from typing import Any

import msgspec

from hardware.base import file_access
from hardware.base.errors import unknown
from hardware.base.file_access import user_folder
from hwexplorer.tui import palette
from hwexplorer.tui.keys import DEFAULT, Keymap, remap


class UserSettings(msgspec.Struct, frozen=True):
    """The settings of the user, by default those without a file."""

    theme: str = "dark"
    ascii: bool = False
    mouse: bool = True
    heaviest: bool = True
    keymap: Keymap = DEFAULT


def settings_file() -> Path:
    """Return the path of the user's settings."""
    return user_folder("config") / "settings.toml"


_FLAGS = ("ascii", "mouse", "heaviest")
_KNOWN = ("theme", *_FLAGS, "keys")


def read(path: Path) -> tuple[UserSettings, str]:
    """Return the settings, and one line about what is wrong with the file ('' if nothing is)."""
    try:
        document = file_access.table(path)
    except (FileNotFoundError, NotADirectoryError):
        return UserSettings(), ""
    except OSError as error:
        return UserSettings(), f"settings ignored, {path}: {error.strerror}"
    settings, wrong = _check(document)
    return settings, f"settings, {path}: {'; '.join(wrong)[:160]}" if wrong else ""


def _check(document: dict[str, Any]) -> tuple[UserSettings, list[str]]:
    wrong = [str(unknown("setting", name, _KNOWN)) for name in document if name not in _KNOWN]
    values = {name: document[name] for name in _FLAGS if isinstance(document.get(name), bool)}
    theme = document.get("theme", UserSettings().theme)
    if theme in palette.THEMES:
        values["theme"] = theme
    else:
        wrong.append(str(unknown("theme", theme, palette.THEMES)))
    wrong += [f"{name} is true or false" for name in _FLAGS if name in document and name not in values]
    keys = document.get("keys", {})
    if not isinstance(keys, dict) or not all(isinstance(text, str) for text in keys.values()):
        wrong.append('expected keys as action = "key key"')
    elif keys:
        values["keymap"], more = remap({name: text.split() for name, text in keys.items()})
        wrong += more
    return UserSettings(**values), wrong
