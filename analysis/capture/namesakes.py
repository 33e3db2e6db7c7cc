"""A project of the user's with a package called `analysis` or `hardware`, as ours are called in a checkout.

While its code runs, these names are the user's in `sys.modules`, and ours are set aside; an import statement in one
of our files (those inside functions run late) sees ours. In a wheel our names do not collide and nothing is done.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

_FOLDER = Path(__file__).resolve().parents[2]
_NAMES = ("analysis", "hardware")
_OURS = tuple(f"{_FOLDER / name}/" for name in (*_NAMES, "hwexplorer"))


@contextmanager
def beside(folder: Path) -> Iterator[None]:
    """Inside, code of this folder, the current one and the Python path finds its own packages of our names."""
    places = [folder, Path.cwd(), *map(Path, sys.path)]
    names = {name for name in _NAMES if any(_has(place, name) for place in places)}
    if not names or __name__.partition(".")[0] not in _NAMES:
        yield
        return
    ours = _taken(names)
    path, usual = list(sys.path), builtins.__import__
    sys.path[:] = [entry for entry in path if Path(entry) != _FOLDER] + [str(_FOLDER)]

    def routed(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Any = (),
        level: int = 0,
    ) -> ModuleType:
        if not str((globals or {}).get("__file__", "")).startswith(_OURS):
            return usual(name, globals, locals, fromlist, level)
        aside = _taken(names)
        sys.modules.update(ours)
        try:
            return usual(name, globals, locals, fromlist, level)
        finally:
            ours.update(_taken(names))
            sys.modules.update(aside)

    builtins.__import__ = routed
    try:
        yield
    finally:
        builtins.__import__ = usual
        _taken(names)
        sys.modules.update(ours)


def _has(place: Path, name: str) -> bool:
    package = place / name
    return (package.is_dir() or package.with_suffix(".py").is_file()) and package.resolve() != _FOLDER / name


def _taken(names: set[str]) -> dict[str, ModuleType]:
    """The modules of these packages, out of `sys.modules`."""
    keys = [key for key in sys.modules if key.partition(".")[0] in names]
    return {key: sys.modules.pop(key) for key in keys}
