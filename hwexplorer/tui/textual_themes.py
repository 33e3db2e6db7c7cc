"""The looks as Textual themes, for what Textual itself draws (the palette)."""

from __future__ import annotations

from typing import Any

from textual.theme import BUILTIN_THEMES, Theme

from hwexplorer.tui.palette import COLOURS, THEMES


def themes() -> list[Theme]:
    """Return the themes for Textual."""
    return [_theme(name) for name in THEMES]


def _theme(name: str) -> Theme:
    c = COLOURS[name]
    ansi = c.ground == "default"
    values: dict[str, Any] = {
        "primary": c.accent,
        "secondary": c.bar,
        "warning": c.warn,
        "error": c.bad,
        "success": c.good,
        "accent": c.accent,
        "foreground": c.text,
        "background": c.ground,
        "surface": c.ground,
        "panel": c.ground,
    }
    if ansi:
        values = {key: "ansi_" + value for key, value in values.items()}
    # Textual's own style sheets name a few more colours when they leave the terminal's alone.
    variables = dict(BUILTIN_THEMES["ansi-dark"].variables) if ansi else {}
    primary = values.pop("primary")
    return Theme(f"hw-{name}", primary, **values, dark=c.dark, ansi=ansi, variables=variables)
