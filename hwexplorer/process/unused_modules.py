"""Libraries without modules that the explorer never uses: importing those takes a tenth of the time to its first
frame."""

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

# Of NumPy: docstrings of functions in C, types for annotations. Of Textual: what the screen draws itself, or never.
_UNUSED = {
    "numpy": ("numpy._core._add_newdocs", "numpy._core._add_newdocs_scalars", "numpy._typing"),
    "textual.app": ("ssl", "rich.table", "textual.command", "textual.markup", "textual.widgets._toast"),
}
_OPTIONAL = "ssl"  # importers do without it
_THREADS = "OPENBLAS_NUM_THREADS"  # NumPy starts so many when it is imported, which takes a tenth of the start
_WHOLE = "HWEXPLORER_WHOLE"  # set in a process that imports all


class _LeftOut(ModuleType):
    """Stands for a module: each of its names is some class."""

    def __getattr__(self, name: str) -> type[Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        return list


def import_without_unused(library: str) -> None:
    """Import a library without the modules that are not used, which can be imported later. If this version of it cannot
    be imported so, the program starts again with all modules."""
    if library in sys.modules or _WHOLE in os.environ:
        return
    new = [name for name in _UNUSED[library] if name not in sys.modules]
    modules: dict[str, Any] = {name: None if name == _OPTIONAL else _LeftOut(name) for name in new}
    sys.modules.update(modules)
    is_told = _THREADS in os.environ
    os.environ.setdefault(_THREADS, "1")
    try:
        import_module(library)
    except Exception:
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, _WHOLE: "1"})
    finally:
        if not is_told:
            del os.environ[_THREADS]
    for name in new:
        del sys.modules[name]
