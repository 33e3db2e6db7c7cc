"""Record the user's files that a capture imports (a fingerprint of each) and the version of each package.

The fingerprint is of the bytes that are executed: Python's cached bytecode may be older and is not loaded.
Data files and environment variables are not tracked.
"""

import importlib.metadata
import sys
import sysconfig
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
from typing import Any

from analysis.model import store
from analysis.model.names import targets

_FILES_MAX = 2000  # more are too many to read at each check whether a capture is current
_OURS = tuple(Path(__file__).resolve().parents[2] / name for name in ("analysis", "hardware", "hwexplorer"))
_PYTHON = tuple(Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")

_marks: dict[Path, str] = {}
_known: set[str] = set()
_get_code = SourceFileLoader.get_code


def start() -> None:
    """Record every import from now on."""
    _known.update(_tops())
    SourceFileLoader.get_code = _tracked_code  # type: ignore[method-assign]


def versions() -> dict[str, str]:
    """Return entries of `Workload.versions`: `file /home/me/net.py` -> fingerprint, `package timm` -> version."""
    for module in list(sys.modules.values()):
        name = getattr(module, "__file__", None)
        if isinstance(name, str) and _is_own(path := Path(name).absolute()) and path not in _marks:
            _marks[path] = targets.fingerprint(path)  # extensions, which _tracked_code does not load
    recorded = {store.FILE + str(path): mark for path, mark in sorted(_marks.items())}
    if len(recorded) > _FILES_MAX:
        recorded = {store.FILE: "too many to check each time"}  # no file has this name: never current
    owners = importlib.metadata.packages_distributions()
    for top in sorted(_tops() - _known):
        recorded |= {store.PACKAGE + name: store.version(name) for name in owners.get(top, ())}
    return recorded


def _tops() -> set[str]:
    return {name.partition(".")[0] for name in sys.modules}


def _tracked_code(self: Any, fullname: str) -> CodeType | None:
    path = Path(self.path).absolute()
    if not _is_own(path):
        return _get_code(self, fullname)
    data = self.get_data(self.path)
    _marks[path] = targets.mark(data)
    return self.source_to_code(data, self.path)  # type: ignore[no-any-return]


def _is_own(path: Path) -> bool:
    """Return True for a file of the user: not part of Python, of an installed package or of this product."""
    if any(part in path.parts for part in _INSTALLED) or path.suffix not in (".py", ".so", ".pyd"):
        return False
    return path.is_file() and not any(folder in path.parents for folder in (*_OURS, *_PYTHON))
