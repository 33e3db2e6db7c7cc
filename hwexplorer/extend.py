"""The face of the house: all that annexes and plug-ins of others import. docs/extending.md shows how.

extend.pyi lists the names, at most 60, and where each is defined. It serves type checkers, and this module, which
imports what is asked for at first use: a reader of files does without estimates, and an architecture without verbs."""

import re
from pathlib import Path
from typing import Any

_STUB = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")
_MODULES = {
    name: module
    for module, names in re.findall(r"^from (\S+) import (.+)$", _STUB, re.MULTILINE)
    for name in re.findall(r"(\w+) as \1", names)
}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a name of the face."""
    if name not in _MODULES:
        raise AttributeError(f"hwexplorer.extend has no name {name!r}")
    return getattr(__import__(_MODULES[name], fromlist=(name,)), name)
