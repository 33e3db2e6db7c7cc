"""All architectures by id, from architectures/known.toml and of plug-ins. Each is imported at first use."""

from importlib import import_module
from pathlib import Path
from typing import Any

from hardware.architecture_facts import ArchitectureFacts
from hardware.base import file_access, plugins
from hardware.base.errors import unknown

_TABLE = file_access.table(Path(__file__).parent / "architectures" / "known.toml")
BASELINE, HOST, CUDA = (str(_TABLE[name]) for name in ("baseline", "host", "cuda"))
TORCH_HOST = HOST  # torch has the same word for a tensor that is not on an accelerator
_KNOWN: dict[str, dict[str, str]] = _TABLE["architectures"]


def _built_in(name: str) -> ArchitectureFacts:
    architecture: ArchitectureFacts = import_module(f".{_KNOWN[name]['module']}", __package__).ARCHITECTURE
    return architecture


def _check(name: str, plugged: Any) -> ArchitectureFacts:
    if not isinstance(plugged, ArchitectureFacts) or plugged.id != name:
        raise TypeError(f"it is no architecture with the id {name!r}")
    return plugged


ALL = plugins.Records("architectures", _KNOWN, _built_in, _check)  # built-in ones, in order, then those of plug-ins


def get(name: str) -> ArchitectureFacts:
    """Return the architecture with an id. Raises RequestError for an unknown one."""
    if name not in ALL:
        raise unknown("architecture", name, ALL)
    return ALL[name]


def classes(built_in: bool = False) -> dict[str, str]:
    """Return the default device of each architecture: users may write an id wherever a device is expected."""
    defaults = {name: row["default_device"] for name, row in _KNOWN.items()}
    plugged = {} if built_in else ALL.plugged()
    return defaults | {name: arch.default_device for name, arch in plugged.items() if arch.default_device}


def device_folders() -> tuple[Path, ...]:
    """Return the folders of the devices that plug-ins bring along."""
    return tuple(arch.devices for arch in ALL.plugged().values() if arch.devices is not None and arch.devices.is_dir())
