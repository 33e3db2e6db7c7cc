"""All architectures, from stored program to domain flow; those of an annex are imported at first use."""

from __future__ import annotations

from importlib import import_module

from hardware.architectures.architecture import Architecture
from hardware.architectures.cpu import CPU
from hardware.architectures.gpu import GPU
from hardware.architectures.kpu import KPU
from hardware.architectures.npu import NPU
from hardware.architectures.tpu import TPU
from hardware.errors import unknown
from hardware.hierarchy import Hierarchy

# What others are compared with by default; the kind of this machine's processor; what CUDA runs on.
BASELINE = GPU
HOST = CPU
TORCH_HOST = HOST.id  # torch has the same word for a tensor that is not on an accelerator
CUDA = GPU

# Modules of architectures in an annex, by id; each defines `ARCHITECTURE`.
_ANNEXES = {"spatial": "hardware.spatial.accelerator"}
_DEFAULT_DEVICES = {"spatial": "eyeriss"}  # of architectures in an annex

_known: dict[str, Architecture | None] = {CPU.id: CPU, GPU.id: GPU, TPU.id: TPU}
_known |= {**dict.fromkeys(_ANNEXES), NPU.id: NPU, KPU.id: KPU}


def every() -> tuple[Architecture, ...]:
    """Return all architectures, in order."""
    return tuple(map(get, _known))


def names() -> tuple[str, ...]:
    """Return the ids of all architectures, in order."""
    return tuple(_known)


def get(name: str) -> Architecture:
    """Return the architecture with an id. Raises RequestError for an unknown one."""
    if name not in _known:
        raise unknown("architecture", name, _known)
    architecture: Architecture = _known[name] or import_module(_ANNEXES[name]).ARCHITECTURE
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
    return {name: one.default_device if one else _DEFAULT_DEVICES[name] for name, one in _known.items()}


def register(architecture: Architecture) -> None:
    """Add an architecture, after the others."""
    _known[architecture.id] = architecture


def unregister(name: str) -> None:
    """Remove an architecture that was added."""
    del _known[name]
