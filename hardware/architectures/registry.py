"""The architectures there are, in order from stored program to domain flow.

A new one is a module beside these (or anywhere: a test registers a toy), its data file, and one line here."""

from __future__ import annotations

from hardware.architectures.architecture import Architecture
from hardware.architectures.cpu import CPU
from hardware.architectures.gpu import GPU
from hardware.architectures.kpu import KPU
from hardware.architectures.npu import NPU
from hardware.architectures.spatial import SPATIAL
from hardware.architectures.tpu import TPU
from hardware.errors import unknown
from hardware.hierarchy import Hierarchy

# Others are compared with it unless the user says otherwise; this machine's own processor; what CUDA runs on.
BASELINE = GPU
HOST = CPU
TORCH_HOST = HOST.id  # where torch puts a tensor that is on no accelerator, by the same word
CUDA = GPU

_known: dict[str, Architecture] = {one.id: one for one in (CPU, GPU, TPU, SPATIAL, NPU, KPU)}


def every() -> tuple[Architecture, ...]:
    """All architectures, in order."""
    return tuple(_known.values())


def names() -> tuple[str, ...]:
    """Their ids, in order."""
    return tuple(_known)


def get(name: str) -> Architecture:
    """The architecture with an id. Raises RequestError for an unknown one."""
    if name not in _known:
        raise unknown("architecture", name, _known)
    return _known[name]


def of(name: str, hierarchy: Hierarchy | None) -> Architecture:
    """That of a device file: its id, and how memories and arrays nest where it says so. Raises ValueError where this is
    missing, not for it to say, or wrong."""
    found = get(name)
    if (found.describe is None) != (hierarchy is None):
        raise ValueError("is missing" if hierarchy is None else f"devices of architecture {name} have none")
    return found if hierarchy is None or found.describe is None else found.describe(hierarchy)


def order(name: str) -> int:
    """Its place among all."""
    return names().index(name)


def classes() -> dict[str, str]:
    """The default device of each architecture: an id is usable wherever a device is."""
    return {one.id: one.default_device for one in _known.values()}


def register(architecture: Architecture) -> None:
    """Add an architecture, after the others."""
    _known[architecture.id] = architecture


def unregister(name: str) -> None:
    """Take one back out."""
    del _known[name]
