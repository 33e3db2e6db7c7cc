"""Files of the checkout that are made of what verbs and keys declare: `python -m hwexplorer.reference` writes them."""

from __future__ import annotations

from collections.abc import Callable

from hwexplorer.reference import verbs
from hwexplorer.tui import key_reference as keys

FILES: dict[str, Callable[[], str]] = {
    "KEYS.md": keys.markdown,
    "VERBS.md": verbs.markdown,
    verbs.README: verbs.readme,
    "docs/terms.md": verbs.terms_page,
    "docs/hwexplorer.1": verbs.man_page,
}
