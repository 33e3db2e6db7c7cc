"""All architectures by id, from architectures/known.toml. The module of each is imported at first use."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from hardware import file_access
from hardware.architecture import Architecture
from hardware.errors import unknown
from hardware.hierarchy import Hierarchy

_TABLE = file_access.table(Path(__file__).parent / "architectures" / "known.toml")
BASELINE, HOST, CUDA = (str(_TABLE[name]) for name in ("baseline", "host", "cuda"))
TORCH_HOST = HOST  # torch has the same word for a tensor that is not on an accelerator
_KNOWN: dict[str, dict[str, str]] = _TABLE["architectures"]


def every() -> tuple[Architecture, ...]:
    """Return all architectures, in order."""
    return tuple(map(get, _KNOWN))


def names() -> tuple[str, ...]:
    """Return the ids of all architectures, in order."""
    return tuple(_KNOWN)


def get(name: str) -> Architecture:
    """Return the architecture with an id. Raises RequestError for an unknown one."""
    if name not in _KNOWN:
        raise unknown("architecture", name, _KNOWN)
    architecture: Architecture = import_module(f".{_KNOWN[name]['module']}", __package__).ARCHITECTURE
    return architecture


def find_architecture(name: str, hierarchy: Hierarchy | None) -> Architecture:
    """Return the architecture of a device file. Raises ValueError if its hierarchy is missing, wrong, or not
    allowed."""
    found = get(name)
    if (found.describe is None) != (hierarchy is None):
        raise ValueError("is missing" if hierarchy is None else f"devices of architecture {name} have none")
    return found if hierarchy is None or found.describe is None else found.describe(hierarchy)


def classes() -> dict[str, str]:
    """Return the default device of each architecture: users may write an id wherever a device is expected."""
    return {name: row["default_device"] for name, row in _KNOWN.items()}
