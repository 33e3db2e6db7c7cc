"""Files of the checkout that are made of what is declared elsewhere: `python -m hwexplorer.generated` writes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from hwexplorer import reference
from hwexplorer.tui import key_reference as keys

FILES: dict[str, Callable[[], str]] = {
    "KEYS.md": keys.markdown,
    "VERBS.md": reference.markdown,
    reference.README: reference.readme,
    "docs/hwexplorer.1": reference.man_page,
}

if __name__ == "__main__":
    for name, make in FILES.items():
        Path(name).write_text(make(), encoding="utf-8")
